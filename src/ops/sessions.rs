//! Reports about sessions on git: their list, their turns, a difference, what a merge or an `apply` would do.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::renames::{Renamed, renames};
use crate::app::{Doubt, OwnChanges, RepositoryTool, Tested, ToolAsked, ToolCall, session_failure};
use crate::base::text::{age, counted, one_line};
use crate::config::{Env, state_directory};
use crate::git::{Changed, Mode, Oid, Program, short};
use crate::host;
use crate::proto::Failure;
use crate::proto::tool::Outcome;
use crate::render::diff::unified;
use crate::render::text::escape_visible;
use crate::sessions::wire::{CallFile, Meta, TurnFile};
use crate::sessions::{
    Half, How, Listed, LogEntry, MergePlan, MergeWish, Session, SessionError, Sessions, ToApply, View, plan_merge,
    short_id,
};

/// Files that a list names.
const NAMED_MAX: usize = 30;
/// Characters of a title that are shown beside an id.
const TITLE_CHARS_MAX: usize = 60;
/// Lines of a call's result that are shown with a turn.
const RESULT_LINES_MAX: usize = 10;

/// A session in a line: its digits, its title if it has one, and its turns.
#[must_use]
pub fn session_line(meta: &Meta) -> String {
    let turns = counted(usize::try_from(meta.turns).unwrap_or(usize::MAX), "turn");
    let title = if meta.title.is_empty() { String::new() } else { format!("{}, ", escape_visible(&meta.title)) };
    format!("session {}: {title}{turns}", short_id(&meta.id))
}

/// The notice that a person gets once in a repository with a remote: the branch of its first session holds the
/// conversation. A person with many sessions knows that, and doesn't get it.
#[must_use]
pub fn first_branch_notice(session: &Session) -> Option<&'static str> {
    let sessions = session.sessions();
    let is_first = sessions.list().is_ok_and(|all| all.len() <= 1) && sessions.repo().has_remote();
    (is_first && session.reference().starts_with("refs/heads/")).then_some(
        "the branch holds the conversation too, and git push --all would send it; sessions.refs = \"hidden\" and \
         sessions.record = \"talk\" change that",
    )
}

/// The sessions as rows of a table: id, title, turns, files, age, state.
#[must_use]
pub fn session_rows(sessions: &Sessions, all: &[Listed], here: Option<&str>) -> Vec<Vec<String>> {
    let now_s = host::now_unix_ms() / 1000;
    let row = |it: &Listed| {
        let state = match it.state() {
            _ if here == Some(&it.meta.id) => "here".to_owned(),
            "damaged" => "damaged record".to_owned(),
            "foreign" => {
                format!("fetched from {}; a fork continues from it", it.fetched_from.as_deref().unwrap_or_default())
            }
            "asking" => format!("waits for an answer{}: {}", held_by(it), it.asks.as_deref().unwrap_or_default()),
            "running" => format!("a turn runs in another shell{}", held_by(it)),
            "open" => format!("open in another shell{}", held_by(it)),
            "cut" => "a turn was cut off".to_owned(),
            "conflicted" => "conflicts to solve".to_owned(),
            "left" => "abandoned; open takes it up again".to_owned(),
            "merged" => format!("merged into {}", it.meta.merged.as_ref().map_or("", |it| &it.into)),
            _ => String::new(),
        };
        let (files, moved) = sessions.progress(it).unwrap_or_default();
        let branch = it.meta.base_branch.as_deref().unwrap_or_default().trim_start_matches("refs/heads/");
        let moved =
            moved.filter(|count| *count > 0).map(|count| format!("{branch} has {} more", counted(count, "commit")));
        let state: Vec<String> = [state].into_iter().chain(moved).filter(|it| !it.is_empty()).collect();
        vec![
            short_id(&it.meta.id).to_owned(),
            if it.meta.title.is_empty() { "untitled".to_owned() } else { escape_visible(&it.meta.title) },
            counted(usize::try_from(it.meta.turns).unwrap_or(usize::MAX), "turn"),
            counted(files, "file"),
            age((now_s - it.time_s) * 1000),
            escape_visible(&state.join(" · ")),
        ]
    };
    all.iter().map(row).collect()
}

/// The sessions of a repository; with `is_whole` also those that were abandoned.
///
/// # Errors
/// The repository can't be read.
pub fn list(sessions: &Sessions, is_whole: bool) -> Result<Vec<Listed>, Failure> {
    let mut all = sessions.list().map_err(session_failure)?;
    all.extend(sessions.list_foreign().map_err(session_failure)?);
    if is_whole {
        all.extend(sessions.list_left().map_err(session_failure)?);
    }
    Ok(all)
}

/// The turns of a session as rows of a table, then the stored tips that they don't lead to; the second part tells
/// whether there are such tips.
///
/// # Errors
/// The session can't be read.
pub fn whole_log(sessions: &Sessions, id: &str, view: &View) -> Result<(Vec<Vec<String>>, bool), Failure> {
    let log = view.log().map_err(session_failure)?;
    let mut rows = log_rows(view, &log).map_err(session_failure)?;
    let left = kept_rows(&sessions.former_tips(id).map_err(session_failure)?, &log);
    let has_left = !left.is_empty();
    rows.extend(left);
    Ok((rows, has_left))
}

/// The turns that are dropped if a session goes back to turn `to`, the oldest first, each with its number and the first
/// line of its commit.
///
/// # Errors
/// The session can't be read.
pub fn leaving(view: &View, to: u64) -> Result<Vec<(u64, String)>, SessionError> {
    let newer = |it: LogEntry| Some((it.turn.filter(|turn| it.act == "turn" && *turn > to)?, it.subject));
    Ok(view.log()?.into_iter().rev().filter_map(newer).collect())
}

/// A turn of a session.
#[derive(Debug)]
pub struct Turn {
    /// Its number.
    pub number: u64,
    /// Its question, answer and calls.
    pub record: TurnFile,
    /// The changes of its files, in the unified form.
    pub difference: String,
}

/// Reads a turn, or the newest one.
///
/// # Errors
/// There is no such turn, or it can't be read.
pub fn turn(view: &View, number: Option<u64>) -> Result<Turn, Failure> {
    let number = number.map_or_else(|| view.meta().map(|it| it.turns), Ok).map_err(session_failure)?;
    let record = view.record(number).map_err(session_failure)?;
    let changes = view.changes_of(number).map_err(session_failure)?;
    Ok(Turn { number, record, difference: difference(&changes, &|side| view.text(side)) })
}

/// A row about a turn: its number, its age, the model, tokens and cost as far as they are known, and its end if it isn't whole.
#[must_use]
pub fn turn_row(record: &TurnFile) -> String {
    let passed = match age(host::now_unix_ms() - record.time_ms) {
        now if now == "now" => "just now".to_owned(),
        passed => format!("{passed} ago"),
    };
    let tokens = match record.tokens {
        [0, 0] => None,
        [sent, received] => Some(format!("{sent} tokens sent, {received} received")),
    };
    let state = Some(record.state.clone()).filter(|state| !state.is_empty() && state != "whole");
    let model = record.model.as_deref().map(escape_visible);
    let cost = record.cost.as_deref().map(escape_visible);
    let facts = [Some(format!("turn {}", record.turn)), Some(passed), model, tokens, cost, state];
    facts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The open files of a session as rows of a table: name, size in tokens.
#[must_use]
pub fn open_rows(open: &[(String, usize)]) -> Vec<Vec<String>> {
    let row =
        |(name, tokens): &(String, usize)| vec![escape_visible(name), format!("about {}", counted(*tokens, "token"))];
    open.iter().map(row).collect()
}

/// The user's git.
///
/// # Errors
/// It isn't installed.
pub fn git_program(env: &Env) -> Result<Program, Failure> {
    Program::find(env).ok_or_else(|| Failure::unavailable("git isn't installed").hint("install git"))
}

/// Returns whether a word of `:session` takes the id of a session.
#[must_use]
pub fn takes_session(word: &str) -> bool {
    matches!(word, "open" | "abandon" | "drop")
}

/// The sessions of the repository around a directory as they are typed, with their titles; the one used last comes first.
#[must_use]
pub fn titles(env: &Env, directory: &Path) -> Vec<(String, String)> {
    let top = directory.ancestors().find(|it| it.join(".git").exists()).unwrap_or(directory);
    let sessions = state_directory(env).and_then(|state| Sessions::at(top, &state, None, "").ok());
    let all = sessions.and_then(|sessions| sessions.list().ok()).unwrap_or_default();
    let title = |it: &Listed| escape_visible(&it.meta.title.chars().take(TITLE_CHARS_MAX).collect::<String>());
    all.iter().map(|it| (short_id(&it.meta.id).to_owned(), title(it))).collect()
}

/// The process that has a session open.
fn held_by(it: &Listed) -> String {
    it.holder.as_ref().map(|holder| format!(" (process {holder})")).unwrap_or_default()
}

/// The stored tips of a session that `log`, its commits, don't lead to, as rows like those of [`log_rows`].
fn kept_rows(tips: &[(u64, LogEntry)], log: &[LogEntry]) -> Vec<Vec<String>> {
    let now_s = host::now_unix_ms() / 1000;
    let is_left = |(_, it): &&(u64, LogEntry)| log.iter().all(|other| other.id != it.id);
    let row = |(number, it): &(u64, LogEntry)| {
        let turn = it.turn.map(|turn| format!("turn {turn}")).unwrap_or_default();
        let age = age((now_s - it.time_s) * 1000);
        let blank = String::new;
        let what = [turn, blank(), blank(), blank(), "left".to_owned(), escape_visible(&it.subject)];
        [vec![format!("kept {number}"), short(it.id), age], what.to_vec()].concat()
    };
    tips.iter().filter(is_left).map(row).collect()
}

/// A call of a turn: the tool with its arguments and its receipt, then the beginning of its result.
#[must_use]
pub fn call_lines(call: &CallFile) -> Vec<String> {
    let sign = if call.success { "·" } else { "✗" };
    let receipt = call.receipt.as_ref().map(|receipt| format!("  {receipt}")).unwrap_or_default();
    let mut lines = vec![format!("{sign} {} {}{receipt}", call.tool, one_line(&call.arguments))];
    let result: Vec<&str> = call.result.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.extend(result.iter().take(RESULT_LINES_MAX).map(|line| format!("  {line}")));
    let more = result.len().saturating_sub(RESULT_LINES_MAX);
    lines.extend((more > 0).then(|| format!("  … and {}", counted(more, "more line"))));
    lines
}

/// Numbers of lines that were added and removed.
#[must_use]
pub fn lines_words(lines: Option<[u64; 2]>) -> String {
    match lines {
        None | Some([0, 0]) => String::new(),
        Some([more, less]) => format!("+{more} -{less}"),
    }
}

/// The turns of a session as rows of a table, the oldest first: number, commit, age, files, lines, model, cost, state,
/// question.
///
/// # Errors
/// A tree can't be read.
fn log_rows(view: &View, log: &[LogEntry]) -> Result<Vec<Vec<String>>, SessionError> {
    let now_s = host::now_unix_ms() / 1000;
    let row = |it: &LogEntry| {
        // The commit that begins a fork names the turn from which the fork continues.
        let turn = it.turn.filter(|_| it.act != "fork");
        let number = turn.map_or_else(|| it.act.clone(), |turn| turn.to_string());
        let files = match it.act.as_str() {
            "turn" | "user" => counted(view.files_of(it)?, "file"),
            _ => String::new(),
        };
        let state = if it.state == "whole" { String::new() } else { it.state.clone() };
        let age = age((now_s - it.time_s) * 1000);
        let [model, cost, subject] = [&it.model, &it.cost, &it.subject].map(|it| escape_visible(it));
        Ok(vec![number, short(it.id), age, files, lines_words(it.lines), model, cost, state, subject])
    };
    log.iter().rev().map(row).collect()
}

/// Splits `[N|A..B] [PATH]` into the range and the path; either may be empty.
#[must_use]
pub fn range_and_path(argument: &str) -> (&str, &str) {
    let argument = argument.trim();
    let (first, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = match first.split_once("..") {
        Some((from, to)) => !from.is_empty() && is_number(from) && is_number(to),
        None => !first.is_empty() && is_number(first),
    };
    if is_range { (first, rest.trim()) } else { ("", argument) }
}

/// Tries out a merge of a session into a branch; nothing changes.
///
/// # Errors
/// A range is named, both sides changed the same lines, or there is nothing to merge.
pub fn against(
    sessions: &Sessions,
    id: &str,
    range: &str,
    branch: &str,
    program: &Program,
) -> Result<MergePlan, SessionError> {
    if !range.is_empty() {
        return Err(SessionError::Refused("a merge brings all turns; leave the turn out, or --against".to_owned()));
    }
    plan_merge(sessions, id, MergeWish { into: Some(branch.to_owned()), ..How::Squash.into() }, program)
}

/// Returns the changes at a path, or below it.
///
/// # Errors
/// Nothing has changed there.
pub fn changes_at(changes: Vec<Changed>, path: &str) -> Result<Vec<Changed>, SessionError> {
    if path.is_empty() {
        return Ok(changes);
    }
    let wanted = std::path::Path::new(path.trim_start_matches("./").trim_end_matches('/'));
    let found: Vec<Changed> = changes.into_iter().filter(|it| it.path.starts_with(wanted)).collect();
    if found.is_empty() {
        return Err(SessionError::NoChange(path.to_owned()));
    }
    Ok(found)
}

/// The wish of a `:session start`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartWish<'a> {
    /// The commit to begin at.
    pub from: Option<&'a str>,
    /// The person's branch to work on.
    pub on: Option<&'a str>,
    /// True if the uncommitted files come along.
    pub has_changes: bool,
    /// The title.
    pub title: String,
}

/// Reads `[--from REV | --on BRANCH | --with-changes] [TITLE]`; an option may come after the title, too.
///
/// # Errors
/// An option has no value, isn't known, or doesn't go with another one.
pub fn start_wish(argument: &str) -> Result<StartWish<'_>, String> {
    let (mut wish, mut title) = (StartWish::default(), Vec::new());
    let mut words = argument.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--with-changes" => wish.has_changes = true,
            "--from" => wish.from = Some(words.next().ok_or("--from needs a commit, a branch or a tag")?),
            "--on" => wish.on = Some(words.next().ok_or("--on needs a branch")?),
            other if other.starts_with("--") && title.is_empty() => return Err(format!("{other} isn't known here")),
            other => title.push(other),
        }
    }
    if [wish.has_changes, wish.from.is_some(), wish.on.is_some()].into_iter().filter(|it| *it).count() > 1 {
        return Err("only one of --from, --on and --with-changes can hold".to_owned());
    }
    wish.title = title.join(" ");
    Ok(wish)
}

/// Reads `[--rebase|--with-changes] [BRANCH]`, in any order: whether the commits are made again, whether the
/// uncommitted files come along, and the branch.
///
/// # Errors
/// A word isn't one of these, or doesn't go with another one.
pub fn sync_words(argument: &str) -> Result<(bool, bool, Option<&str>), String> {
    let (mut is_rebase, mut has_changes, mut branch) = (false, false, None);
    for word in argument.split_whitespace() {
        match word {
            "--rebase" => is_rebase = true,
            "--with-changes" => has_changes = true,
            other if other.starts_with('-') || branch.is_some() => return Err(format!("{other} isn't known here")),
            name => branch = Some(name),
        }
    }
    if has_changes && (is_rebase || branch.is_some()) {
        return Err("--with-changes brings the checkout alone, without a branch and --rebase".to_owned());
    }
    Ok((is_rebase, has_changes, branch))
}

/// Reads `N [--code|--talk]`.
#[must_use]
pub fn turn_and_half(argument: &str) -> (&str, Option<Half>) {
    let argument = argument.trim();
    for (option, half) in [("--code", Half::Code), ("--talk", Half::Talk)] {
        if let Some(rest) = argument.strip_suffix(option).or_else(|| argument.strip_prefix(option)) {
            return (rest.trim(), Some(half));
        }
    }
    (argument, None)
}

/// Reads `[N] [--kept K]`: the turn, and the stored tip from which a fork continues.
///
/// # Errors
/// A word isn't one of these.
pub fn fork_words(argument: &str) -> Result<(Option<u64>, Option<u64>), String> {
    let (mut turn, mut tip) = (None, None);
    let mut words = argument.split_whitespace();
    while let Some(word) = words.next() {
        let (place, number) = match word {
            "--kept" => (&mut tip, words.next().ok_or("--kept needs the number of a kept tip")?),
            number => (&mut turn, number),
        };
        *place = Some(number.parse().map_err(|_| format!("{number} is no number"))?);
    }
    Ok((turn, tip))
}

/// Describes the effect of going back with one half.
#[must_use]
pub fn half_words(turn: u64, half: Half) -> String {
    match half {
        Half::Code => format!("the files are those of turn {turn}; the conversation continues"),
        Half::Talk => format!("the conversation is that of turn {turn}; the files stay as they are"),
    }
}

/// Writes changes in the unified form; `text` gets one side of a change. A removed file and a similar new one count as renamed.
#[must_use]
pub fn difference(changes: &[Changed], text: &dyn Fn(Option<(Mode, Oid)>) -> Option<String>) -> String {
    let renamed = renames(changes, text);
    let mut all = String::new();
    for (at, Changed { path, old, new }) in changes.iter().enumerate() {
        if renamed.values().any(|it| it.from == at) {
            continue;
        }
        let former = renamed.get(&at).map(|it| &changes[it.from]);
        let (old, old_path) = former.map_or((old, path), |it| (&it.old, &it.path));
        let (was, is) = (quoted("a/", old_path), quoted("b/", path));
        let (before, after) = (text(*old), text(*new));
        all.push_str(&git_head((&was, &is), (old.map(|it| it.0), new.map(|it| it.0))));
        if let Some(Renamed { likeness, .. }) = renamed.get(&at) {
            let (from, to) = (quoted("", old_path), quoted("", path));
            all.push_str(&format!("similarity index {likeness}%\nrename from {from}\nrename to {to}\n"));
        }
        if old.is_some() && before.is_none() || new.is_some() && after.is_none() {
            all.push_str(&format!("Binary file {} differs\n", quoted("", path)));
            continue;
        }
        let side = |is_there: bool, name: String| if is_there { name } else { "/dev/null".to_owned() };
        let (was, is) = (side(before.is_some(), was), side(after.is_some(), is));
        let diff = unified("", before.as_deref(), &after.unwrap_or_default());
        if let Some(at) = diff.find("@@ ") {
            all.push_str(&format!("--- {was}\n+++ {is}\n{}", &diff[at..]));
        }
    }
    all
}

/// The lines that git writes before a change, which show a mode, and a file that is empty or not text.
fn git_head((was, is): (&str, &str), modes: (Option<Mode>, Option<Mode>)) -> String {
    let kinds = match modes {
        (None, Some(new)) => format!("new file mode {}\n", new.octal()),
        (Some(old), None) => format!("deleted file mode {}\n", old.octal()),
        (Some(old), Some(new)) if old != new => format!("old mode {}\nnew mode {}\n", old.octal(), new.octal()),
        _ => String::new(),
    };
    format!("diff --git {was} {is}\n{kinds}")
}

/// A name as git writes it in a difference: in quotes if it has a character that could end its line, or isn't UTF-8.
fn quoted(side: &str, path: &Path) -> String {
    let is_plain = |name: &str| !name.chars().any(|it| it.is_control() || it == '"' || it == '\\');
    if let Some(name) = path.to_str().filter(|name| is_plain(name)) {
        return format!("{side}{name}");
    }
    let shown = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    format!("\"{side}{}\"", path.as_os_str().as_bytes().iter().map(shown).collect::<String>())
}

/// The former names of the renamed files in a list, by the new path.
#[must_use]
pub fn former_names(
    changes: &[Changed],
    text: &dyn Fn(Option<(Mode, Oid)>) -> Option<String>,
) -> BTreeMap<PathBuf, PathBuf> {
    let name = |at: usize| changes[at].path.clone();
    renames(changes, text).into_iter().map(|(to, it)| (name(to), name(it.from))).collect()
}

fn shown(path: &Path) -> String {
    escape_visible(&path.display().to_string())
}

/// A merge that was planned, in lines.
#[must_use]
pub fn plan_lines(plan: &MergePlan) -> Vec<String> {
    let mut lines = vec![format!("into {}: {}", plan.target_name(), counted(plan.files.len(), "file"))];
    for path in plan.that_run() {
        lines.push(format!("  runs on people's machines: {}", shown(path)));
    }
    lines.extend(plan.twins.iter().map(|(path, twin)| twin_line(path, twin)));
    let former = former_names(&plan.files, &|side| plan.text(side));
    let is_former = |path: &PathBuf| former.values().any(|it| it == path);
    let all: Vec<&Changed> = plan.files.iter().filter(|it| !is_former(&it.path)).collect();
    for change in all.iter().take(NAMED_MAX) {
        let path = shown(&change.path);
        lines.push(match (&change.old, &change.new, former.get(&change.path)) {
            (_, _, Some(was)) => format!("  ~ {path} (was {})", shown(was)),
            (None, ..) => format!("  + {path}"),
            (_, None, _) => format!("  - {path}"),
            _ => format!("  ~ {path}"),
        });
    }
    if all.len() > NAMED_MAX {
        lines.push(format!("  and {} more", all.len() - NAMED_MAX));
    }
    lines
}

/// Two names of one directory that not every file system can hold.
fn twin_line(path: &Path, twin: &Path) -> String {
    format!("  differs from {} only in case or in the Unicode form of a letter: {}", shown(twin), shown(path))
}

/// The places that look like secrets, in lines.
#[must_use]
pub fn doubt_lines(doubts: &[Doubt]) -> Vec<String> {
    let line = |Doubt { path, line, why }: &Doubt| match line {
        0 => format!("  {}: {why}", shown(path)),
        line => format!("  looks like a secret: {}, line {line} ({})", shown(path), escape_visible(why)),
    };
    let mut lines: Vec<String> = doubts.iter().take(NAMED_MAX).map(line).collect();
    lines.extend((doubts.len() > NAMED_MAX).then(|| format!("  and {} more", doubts.len() - NAMED_MAX)));
    lines
}

/// The questions that precede taking over changes: about places that look like secrets, and about a name for the commit
/// if git knows none.
#[must_use]
pub fn first_questions(sessions: &Sessions, doubts: &[Doubt], has_commit: bool) -> Vec<String> {
    let who = sessions.identity();
    let nameless = has_commit && sessions.is_nameless();
    let nameless = nameless.then(|| {
        let who = escape_visible(&format!("{} <{}>", who.name, who.email));
        format!("Git knows no name and address of yours (user.name, user.email). Commit as {who}?")
    });
    let secrets = (!doubts.is_empty()).then(|| "Take over what looks like secrets all the same?".to_owned());
    secrets.into_iter().chain(nameless).collect()
}

/// Describes the effect of an `apply`, in lines.
#[must_use]
pub fn applied_lines(plan: &[ToApply]) -> Vec<String> {
    let line = |it: &ToApply| {
        let sign = match (it.expected, &it.now) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        let both = if it.is_merged { " (with your own changes)" } else { "" };
        format!("  {sign} {}{both}", shown(&it.path))
    };
    let twins = plan.iter().filter_map(|it| Some(twin_line(&it.path, it.twin.as_ref()?)));
    let mut lines: Vec<String> = twins.chain(plan.iter().take(NAMED_MAX).map(line)).collect();
    match plan.len() {
        0 => lines.push("the checkout has all that the session changed".to_owned()),
        count if count > NAMED_MAX => lines.push(format!("  and {} more", count - NAMED_MAX)),
        _ => {}
    }
    lines
}

/// The call of the tool that runs a person's own command, with the longest possible time limit.
#[must_use]
pub fn own_command(command: &str) -> ToolCall {
    let arguments = serde_json::json!({"command": command, "timeout_ms": 600_000}).to_string();
    ToolCall { id: "hand".into(), name: "shell".into(), arguments }
}

/// Returns the output of a command and its errors, without the notes that a model gets.
#[must_use]
pub fn output_of(outcome: &Outcome) -> [String; 2] {
    ["stdout", "stderr"].map(|name| {
        let text = outcome.metadata.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        text.trim_end_matches('\n').to_owned()
    })
}

/// The changes of a person's own command, in lines.
#[must_use]
pub fn own_change_lines(changes: &OwnChanges) -> Vec<String> {
    let line =
        |(path, sign): &(std::path::PathBuf, char)| format!("  {sign} {}", escape_visible(&path.display().to_string()));
    let mut lines: Vec<String> = changes.files.iter().take(NAMED_MAX).map(line).collect();
    if changes.files.len() > NAMED_MAX {
        lines.push(format!("  and {} more", changes.files.len() - NAMED_MAX));
    }
    lines.extend(changes.left_out.iter().map(|it| format!("  in no commit: {}", escape_visible(it))));
    lines
}

/// The tools of a repository as rows of a table: name, state.
#[must_use]
pub fn tool_rows(all: &[RepositoryTool]) -> Vec<Vec<String>> {
    let state = |it: &RepositoryTool| match (it.state, &it.why) {
        (_, Some(why)) => format!("can't be used: {}", escape_visible(why)),
        ("allowed", _) => "allowed".to_owned(),
        ("changed", _) => "changed since you allowed it".to_owned(),
        ("refused", _) => "refused".to_owned(),
        _ => "not allowed yet".to_owned(),
    };
    all.iter().map(|it| vec![escape_visible(&it.name), state(it)]).collect()
}

/// Describes a tool before it is allowed, in lines.
#[must_use]
pub fn tool_lines(name: &str, asked: &ToolAsked) -> Vec<String> {
    let writes = match &asked.writes[..] {
        [] => "it changes no files".to_owned(),
        patterns => format!("it may change {}", escape_visible(&patterns.join(", "))),
    };
    vec![
        format!("{name}: {}", escape_visible(&asked.description)),
        format!("  {writes}; it has no processes and no network"),
    ]
}

/// The results of a tool's tests, in lines.
#[must_use]
pub fn test_lines(tests: &[Tested]) -> Vec<String> {
    let line = |it: &Tested| match &it.failure {
        None => format!("ok      {}", escape_visible(&it.name)),
        Some(why) => format!("FAILED  {}: {}", escape_visible(&it.name), escape_visible(why)),
    };
    tests.iter().map(line).collect()
}

/// The kind of merge that a word of the config means.
#[must_use]
pub fn merge_words(word: &str) -> How {
    match word {
        "merge" => How::Merge,
        "rebase" => How::Rebase,
        _ => How::Squash,
    }
}

/// Reads `[--squash|--merge|--rebase|--pick N,N] [--into BRANCH] [--keep-record]`; `usual` applies without one of the first.
///
/// # Errors
/// A word isn't one of these.
pub fn merge_wish(argument: &str, usual: How) -> Result<MergeWish, String> {
    let mut wish = MergeWish::from(usual);
    let mut words = argument.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--squash" => wish.how = How::Squash,
            "--merge" => wish.how = How::Merge,
            "--rebase" => wish.how = How::Rebase,
            "--keep-record" => wish.keeps_record = true,
            "--into" => wish.into = Some(words.next().ok_or("--into needs a branch")?.to_owned()),
            "--pick" => {
                let list = words.next().ok_or("--pick needs the numbers of turns, as 2,5")?;
                let numbers: Result<Vec<u64>, _> = list.split(',').map(str::parse).collect();
                wish.how = How::Pick(numbers.map_err(|_| format!("{list} is no list of turns, as 2,5"))?);
            }
            other => return Err(format!("{other} isn't known here")),
        }
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::empty_tree;
    use crate::render::patch::parse;

    /// A changed mode, whose head has no hunks after it, was drawn as part of the file after it.
    #[test]
    fn each_file_of_a_difference_is_drawn_by_itself() {
        let side = |mode| Some((mode, empty_tree()));
        let change = |path: &str, old, new| Changed { path: path.into(), old, new };
        let other = crate::git::oid_of(&"1".repeat(40)).expect("an id");
        let changes = [
            change("a.rs", side(Mode::File), side(Mode::Executable)),
            change("d/y", None, side(Mode::File)),
            change("empty", None, side(Mode::Executable)),
            change("gone", Some((Mode::File, other)), None),
            change("link", None, side(Mode::Link)),
        ];
        let text = |side: Option<(Mode, Oid)>| {
            side.map(|(mode, id)| match mode {
                Mode::Executable => String::new(),
                _ if id == other => "gone\n".to_owned(),
                _ => "x\n".to_owned(),
            })
        };
        let files = parse(&difference(&changes, &text));
        let shown: Vec<(&str, String)> = files.iter().map(|it| (it.path.as_str(), it.notes.join("; "))).collect();
        let notes = |path: &str| shown.iter().find(|it| it.0 == path).map(|it| it.1.as_str());
        assert_eq!(shown.len(), changes.len(), "{shown:?}");
        assert_eq!(notes("a.rs"), Some("mode 100644, then 100755"));
        assert_eq!((notes("d/y"), notes("empty")), (Some("new file"), Some("new file, executable")));
        assert_eq!((notes("gone"), notes("link")), (Some("deleted"), Some("new link")));
    }

    #[test]
    fn ranges_paths_and_halves_are_read() {
        for (text, read) in [
            ("", ("", "")),
            ("3", ("3", "")),
            ("2..4", ("2..4", "")),
            ("2..", ("2..", "")),
            ("3 src/a b.rs", ("3", "src/a b.rs")),
            ("src/3", ("", "src/3")),
            ("../x", ("", "../x")),
            ("a..b", ("", "a..b")),
        ] {
            assert_eq!(range_and_path(text), read, "{text}");
        }
        assert_eq!(fork_words("2 --kept 1"), Ok((Some(2), Some(1))));
        assert_eq!((fork_words(""), fork_words("--kept 3")), (Ok((None, None)), Ok((None, Some(3)))));
        assert!(fork_words("--kept").is_err() && fork_words("x").is_err());
        assert_eq!(turn_and_half("4 --code"), ("4", Some(Half::Code)));
        assert_eq!(turn_and_half("--talk 4"), ("4", Some(Half::Talk)));
        assert_eq!(turn_and_half(" 4"), ("4", None));
    }

    /// `--from HEAD` after the title, and one without a commit, became the title.
    #[test]
    fn words_of_a_start_and_of_a_sync_are_read_in_any_order() {
        let wish = |from, on, has_changes, title: &str| StartWish { from, on, has_changes, title: title.to_owned() };
        assert_eq!(start_wish(""), Ok(StartWish::default()));
        assert_eq!(start_wish("login  form"), Ok(wish(None, None, false, "login form")));
        assert_eq!(start_wish("--from HEAD~1 a title"), Ok(wish(Some("HEAD~1"), None, false, "a title")));
        assert_eq!(start_wish("a title --from HEAD~1"), Ok(wish(Some("HEAD~1"), None, false, "a title")));
        assert_eq!(start_wish("--on dev"), Ok(wish(None, Some("dev"), false, "")));
        assert_eq!(start_wish("fix --verbose --with-changes"), Ok(wish(None, None, true, "fix --verbose")));
        for wrong in ["--from", "title --on", "--form x", "--from a --on b", "--with-changes --from a"] {
            assert!(start_wish(wrong).is_err(), "{wrong}");
        }
        assert_eq!(sync_words(""), Ok((false, false, None)));
        assert_eq!(sync_words("main --rebase"), Ok((true, false, Some("main"))));
        assert_eq!(sync_words("--rebase main"), Ok((true, false, Some("main"))));
        assert_eq!(sync_words("--with-changes"), Ok((false, true, None)));
        for wrong in ["--with-changes --rebase", "main --with-changes", "main dev", "--merge"] {
            assert!(sync_words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_session_without_a_title_is_shown_without_one() {
        let meta = |title: &str| Meta { id: "0123-71f4bb9b".into(), title: title.into(), turns: 1, ..Meta::default() };
        assert_eq!(session_line(&meta("")), "session 71f4bb9b: 1 turn");
        assert_eq!(session_line(&meta("a title")), "session 71f4bb9b: a title, 1 turn");
    }

    #[test]
    fn a_wish_to_merge_is_read() {
        let read = |text: &str| merge_wish(text, How::Squash);
        assert_eq!(read(""), Ok(How::Squash.into()));
        assert_eq!(merge_wish("", How::Rebase), Ok(How::Rebase.into()));
        let into_dev = MergeWish { into: Some("dev".into()), keeps_record: true, how: How::Rebase };
        assert_eq!(read("--rebase --into dev --keep-record"), Ok(into_dev));
        assert_eq!(read("--pick 2,5"), Ok(How::Pick(vec![2, 5]).into()));
        for wrong in ["--into", "--pick x", "main"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_call_is_shown_with_its_receipt_and_the_beginning_of_its_result() {
        let result: String = (1..=13).map(|line| format!("line {line}\n\n")).collect();
        let call = CallFile {
            arguments: "{\"command\":\n\"seq 13\"}".into(),
            receipt: Some("receipt-1-2".into()),
            result,
            success: true,
            tool: "shell".into(),
            ..CallFile::default()
        };
        let lines = call_lines(&call);
        assert_eq!(lines[0], "· shell {\"command\": \"seq 13\"}  receipt-1-2");
        assert_eq!((lines.len(), &*lines[1], &*lines[11]), (12, "  line 1", "  … and 3 more lines"));
        assert_eq!(call_lines(&CallFile { tool: "time".into(), ..CallFile::default() }), ["✗ time "]);
    }
}
