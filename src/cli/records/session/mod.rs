//! `reedclaw session`: sessions on git without the shell. Lists go to standard output, one JSON object a line with `--json`.

mod lines;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::{Value, json};

use crate::agent::Cancel;
use crate::app::{
    Doubt, OwnCommand, RepositoryTool, Request, Ruling, Runtime, Tested, doubts, left_behind, open_asking,
    restore_conversations, session_failure, session_on,
};
use crate::base::text::counted;
use crate::cli::answers::agent;
use crate::cli::answers::agent::watch_interrupts;
use crate::cli::answers::person::AtTty;
use crate::cli::exit;
use crate::cli::out::{columns, errln, is_yes, out, outln, print_lines, report, settle, shown_json};
use crate::config::state_directory;
use crate::git::{Changed, Conflict, Mode, Oid, Program, short};
use crate::host;
use crate::ops::sessions::{
    Turn, against, applied_lines, call_lines, changes_at, difference, doubt_lines, first_branch_notice,
    first_questions, former_names, git_program, half_words, leaving, list, merge_words, open_rows, output_of,
    own_change_lines, own_command, plan_lines, range_and_path, session_rows, test_lines, tool_lines, tool_rows, turn,
    turn_row, whole_log,
};
use crate::proto::Failure;
use crate::render::text::{escape_visible, table};
use crate::render::{sanitise, strip_controls};
use crate::sessions::{
    FILE_BYTES_MAX, FilesBack, Finding, Half, How, LogEntry, MergeWish, Session, SessionError, Sessions, View, amend,
    clear_up, examine, merge, note_merged, plan_merge, replay, rewind_half, short_id, start_with_changes, sync,
    sync_changes,
};

use lines::VERSION;
pub(in crate::cli) use words::definition;

/// Time in which files that aren't committed are counted, while a session begins.
const COUNTING_TIME: Duration = Duration::from_millis(35);

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let (name, inner) = matches.subcommand().map_or(("list", None), |(name, inner)| (name, Some(inner)));
    if let Some(inner) = inner.filter(|_| name == "ask") {
        return ask(inner, config);
    }
    let asked = match Asked::new(matches, config) {
        Ok(Ok(asked)) => asked,
        Ok(Err(failure)) => {
            report(&failure);
            return ExitCode::from(exit::NO_REPOSITORY);
        }
        Err(failure) => return exit::failed(&failure),
    };
    asked.carry_out(name, inner.unwrap_or(matches)).unwrap_or_else(|failure| exit::failed(&failure))
}

/// Asks in a session, as `reedclaw agent` does.
fn ask(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let session = format!("--session={}", word("id"));
    let message = format!("--message={}", word("message"));
    let json = matches.get_flag("json").then(|| "--json".to_owned());
    let words = ["agent".to_owned(), session, message].into_iter().chain(json);
    let asked = agent::definition().get_matches_from(words);
    agent::run(&asked, config, matches.get_one::<PathBuf>("workspace").cloned(), None)
}

/// The inputs of the commands.
struct Asked {
    runtime: Runtime,
    workspace: PathBuf,
    sessions: Sessions,
}

impl Asked {
    /// Reads them; the inner failure is a repository that can't be used.
    fn new(matches: &ArgMatches, config: Option<PathBuf>) -> Result<Result<Self, Failure>, Failure> {
        let runtime = Runtime::start(&Request { config, ..Request::default() })?;
        runtime.problems().iter().for_each(report);
        let named = matches.subcommand().and_then(|(_, inner)| inner.get_one::<PathBuf>("workspace"));
        let workspace = match named.or_else(|| matches.get_one::<PathBuf>("workspace")) {
            Some(named) => named.clone(),
            None => runtime.workspace_around(&host::working_directory()),
        };
        let sessions = runtime.sessions(&workspace);
        // Without a home the repository isn't at fault.
        let sessions = if state_directory(runtime.env()).is_none() { Ok(sessions?) } else { sessions };
        sessions.iter().flat_map(Sessions::mended).for_each(|notice| errln!("reedclaw: {}", sanitise(notice)));
        Ok(sessions.map(|sessions| Self { runtime, workspace, sessions }))
    }

    fn carry_out(mut self, name: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        match name {
            "run" => return self.run(matches),
            "tools" => return self.tools(matches),
            "context" => return self.context(matches),
            _ => {}
        }
        let sessions = &self.sessions;
        if name == "list" {
            let flag = |name: &str| matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false);
            return self.list(flag("all"), flag("json"));
        }
        if name == "start" {
            return self.start(matches);
        }
        if name == "doctor" {
            return self.doctor(matches.get_flag("repair"), matches.get_flag("json"));
        }
        if name == "gc" {
            return self.clear_up(matches.get_flag("dry-run"), matches.get_flag("json"));
        }
        let wanted = matches.get_one::<String>("id").map(String::as_str).unwrap_or_default();
        let id = sessions.find(wanted).map_err(session_failure)?;
        let turn = || matches.try_get_one::<u64>("turn").ok().flatten().copied();
        match name {
            "log" => self.log(&id, matches.get_flag("json"))?,
            "show" => self.show(&id, turn(), matches.get_flag("json"))?,
            "diff" => return self.diff(&id, matches),
            "cat" => self.cat(&id, matches.get_one::<String>("path").map_or("", String::as_str), turn())?,
            "files" => {
                let path = matches.get_one::<String>("path").map_or("", String::as_str);
                let names = self.view(&id)?.names(path, turn()).map_err(session_failure)?;
                let is_json = matches.get_flag("json");
                print_lines(names.iter().map(|it| match is_json {
                    true => lines::file(&id, it).to_string(),
                    false => escape_visible(it),
                }));
            }
            "fork" => {
                let forked = match matches.get_one::<u64>("kept") {
                    Some(tip) => sessions.fork_former(&id, *tip, turn()),
                    None => sessions.fork(&id, turn()),
                };
                outln!("{}", forked.map_err(session_failure)?.id());
            }
            "rewind" => self.rewind(&id, turn().unwrap_or_default(), matches)?,
            "message" | "amend" | "dir" => self.change_or_write(name, &id, turn(), matches)?,
            "undo" | "redo" => self.undo_or_redo(&id, name == "undo", matches.get_flag("files"))?,
            "sync" => return self.sync(&id, matches),
            "merge" => return self.merge(&id, matches),
            "apply" => return self.apply(&id, matches),
            "abandon" => {
                let reference = sessions.abandon(&id).map_err(session_failure)?;
                errln!("reedclaw: session {} is off the list; its commits are saved as {reference}", short_id(&id));
            }
            _ => {
                if !agreed(matches.get_flag("yes"), &format!("Remove session {} with all its turns?", short_id(&id))) {
                    return Err(without_yes());
                }
                sessions.drop_for_good(&id).map_err(session_failure)?;
                errln!("reedclaw: session {} is removed", short_id(&id));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn start(&self, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let title: Vec<&str> = matches.get_many("title").into_iter().flatten().map(String::as_str).collect();
        let title = self.runtime.agent().redacted(&title.join(" "));
        let sessions = &self.sessions;
        let (options, is_counted) = (self.runtime.git_options(), !matches.get_flag("with-changes"));
        let count = || is_counted.then(|| left_behind(&options, sessions, COUNTING_TIME)).flatten();
        // The start waits for the disk, and the count for the processor.
        let (begun, left) = std::thread::scope(|scope| {
            let counting = scope.spawn(count);
            (self.begin(matches, &title), counting.join().unwrap_or_default())
        });
        let mut begun = begun?;
        outln!("{}", begun.id());
        let shared = first_branch_notice(&begun).map(str::to_owned);
        let notices = begun.take_notices().into_iter().chain(left).chain(shared);
        notices.for_each(|notice| errln!("reedclaw: {}", sanitise(&notice)));
        Ok(ExitCode::SUCCESS)
    }

    /// Begins the session that the options describe.
    fn begin(&self, matches: &ArgMatches, title: &str) -> Result<Session, Failure> {
        let sessions = &self.sessions;
        let begun = match matches.get_one::<String>("on") {
            _ if matches.get_flag("with-changes") => {
                start_with_changes(sessions, title, &self.program()?, &self.runtime.key_guard())
            }
            Some(branch) => sessions.start_on(branch, title),
            None => sessions.start(matches.get_one::<String>("from").map(String::as_str), title),
        };
        begun.map_err(session_failure)
    }

    fn clear_up(&self, only_names: bool, is_json: bool) -> Result<ExitCode, Failure> {
        let cleared = clear_up(&self.sessions, only_names).map_err(session_failure)?;
        print_lines(cleared.into_iter().map(|it| match is_json {
            true => lines::cleared(&it, only_names).to_string(),
            false => it,
        }));
        Ok(ExitCode::SUCCESS)
    }

    fn rewind(&self, id: &str, turn: u64, matches: &ArgMatches) -> Result<(), Failure> {
        let mut session = self.open_to_write(id)?;
        let half = match (matches.get_flag("code"), matches.get_flag("talk")) {
            (true, _) => Some(Half::Code),
            (_, true) => Some(Half::Talk),
            _ => None,
        };
        let (id, turns) = (short_id(id), session.meta().turns);
        let Some(half) = half else {
            let leave = turns.saturating_sub(turn);
            let question = format!("{leave} turns leave session {id}. Go back to turn {turn}?");
            if leave > 1 {
                for (number, subject) in leaving(&session.view(), turn).map_err(session_failure)? {
                    errln!("  {number}  {}", escape_visible(&subject));
                }
                if !agreed(matches.get_flag("yes"), &question) {
                    return Err(without_yes());
                }
            }
            let reference = session.rewind(turn).map_err(session_failure)?;
            errln!("reedclaw: session {id} is at turn {turn}; the newest commit is saved as {reference}");
            return Ok(());
        };
        let reference = rewind_half(&mut session, turn, half).map_err(session_failure)?;
        errln!("reedclaw: session {id}: {}; the newest commit is saved as {reference}", half_words(turn, half));
        Ok(())
    }

    fn list(&self, is_whole: bool, is_json: bool) -> Result<ExitCode, Failure> {
        let all = list(&self.sessions, is_whole)?;
        if is_json {
            print_lines(all.iter().map(|it| lines::listed(&self.sessions, it).to_string()));
        } else {
            print_table(&session_rows(&self.sessions, &all, None));
            if all.is_empty() {
                errln!("reedclaw: no session yet; reedclaw session start begins one");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn doctor(&self, repairs: bool, is_json: bool) -> Result<ExitCode, Failure> {
        let found = examine(&self.sessions, repairs).map_err(session_failure)?;
        let restored = if repairs { restore_conversations(&self.runtime, &self.sessions)? } else { Vec::new() };
        for id in restored {
            errln!("reedclaw: the conversation of session {id} is in the history of this machine again");
        }
        let line = |it: &Finding| {
            if is_json {
                return lines::problem(it).to_string();
            }
            let mended = if it.is_mended { " (made again from older commits)" } else { "" };
            format!("session {}: {}{mended}", short_id(&it.session), escape_visible(&it.what))
        };
        print_lines(found.iter().map(line));
        if found.iter().all(|it| it.is_mended) {
            return Ok(ExitCode::SUCCESS);
        }
        if found.iter().any(|it| it.is_record && !it.is_mended) {
            errln!("reedclaw: session doctor --repair makes these records again; git log shows the commits");
        }
        Ok(ExitCode::from(exit::FAILED))
    }

    /// Undoes the last operation on a session, or the newest turn's changes of files; or does it again.
    fn undo_or_redo(&self, id: &str, is_undo: bool, is_of_files: bool) -> Result<(), Failure> {
        let mut session = self.open_to_write(id)?;
        let words = |verb: &str, it: FilesBack| format!("{verb}: {} ({})", it.what, counted(it.files, "file"));
        let done = match (is_undo, is_of_files) {
            (true, false) => session.undo(),
            (false, false) => session.redo(),
            (true, true) => session.undo_files(None).map(|it| words("took back", it)),
            (false, true) => session.redo_files().map(|it| words("made again", it)),
        };
        errln!("reedclaw: {}", sanitise(&done.map_err(session_failure)?));
        Ok(())
    }

    fn change_or_write(&self, name: &str, id: &str, turn: Option<u64>, matches: &ArgMatches) -> Result<(), Failure> {
        if name == "dir" {
            let to = matches.get_one::<PathBuf>("to").cloned().unwrap_or_default();
            let files = self.view(id)?.write_to(turn, &to).map_err(session_failure)?;
            errln!("reedclaw: {} written", counted(files, "file"));
            return Ok(());
        }
        let text = matches.get_one::<String>("text").map(String::as_str).unwrap_or_default();
        let text = self.runtime.agent().redacted(text);
        let mut session = self.open_to_write(id)?;
        if name == "amend" {
            let reference =
                amend(&mut session, Some(text.as_str()).filter(|it| !it.is_empty())).map_err(session_failure)?;
            let turn = session.meta().turns;
            errln!(
                "reedclaw: turn {turn} of session {} has the changes now; {reference} has it as it was",
                short_id(id)
            );
            return Ok(());
        }
        let reference = session.reword(turn, &text).map_err(session_failure)?;
        errln!("reedclaw: session {} has the new message; the newest commit is saved as {reference}", short_id(id));
        Ok(())
    }

    fn view(&self, id: &str) -> Result<View, Failure> {
        self.sessions.look(id).map_err(session_failure)
    }

    fn log(&self, id: &str, is_json: bool) -> Result<(), Failure> {
        let view = self.view(id)?;
        if !is_json {
            print_table(&whole_log(&self.sessions, id, &view)?.0);
            return Ok(());
        }
        let log = view.log().map_err(session_failure)?;
        let line = |it: &LogEntry| {
            let files = view.files_of(it).map_err(session_failure)?;
            Ok(lines::entry(id, it, files))
        };
        let lines = log.iter().rev().map(line).collect::<Result<Vec<Value>, Failure>>()?;
        print_lines(lines.iter().map(Value::to_string));
        Ok(())
    }

    fn show(&self, id: &str, wanted: Option<u64>, is_json: bool) -> Result<(), Failure> {
        let Turn { number, record, difference } = turn(&self.view(id)?, wanted)?;
        if is_json {
            let record = serde_json::to_value(&record).unwrap_or_default();
            let record = json!({"v": VERSION, "kind": "record", "session": id, "turn": number, "record": record});
            outln!("{}", shown_json(record.to_string()));
            return Ok(());
        }
        if record.kind == "base" {
            outln!("Turn 0 begins the session: nothing was asked.");
            return Ok(());
        }
        outln!("{}", turn_row(&record));
        outln!("? {}", strip_controls(record.question.as_bytes()));
        for line in record.calls.iter().flat_map(call_lines) {
            outln!("{}", escape_visible(&line));
        }
        outln!("{}", strip_controls(record.answer.trim_end().as_bytes()));
        for left_out in &record.left_out {
            outln!("In no commit: {}", escape_visible(left_out));
        }
        for doubt in &record.doubts {
            outln!("Looks like a secret: {}", escape_visible(doubt));
        }
        out!("{}", sanitise(&difference));
        Ok(())
    }

    fn diff(&self, id: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let words: Vec<&str> = matches.get_many("what").into_iter().flatten().map(String::as_str).collect();
        let what = words.join(" ");
        let ((range, path), is_json) = (range_and_path(&what), matches.get_flag("json"));
        let Some(branch) = matches.get_one::<String>("against") else {
            let view = self.view(id)?;
            let changes = view.changes_in(range).and_then(|all| changes_at(all, path)).map_err(session_failure)?;
            if is_json {
                self.print_changes(id, &changes, &[], &|side| view.text(side));
                return Ok(ExitCode::SUCCESS);
            }
            out!("{}", sanitise(&difference(&changes, &|side| view.text(side))));
            return Ok(ExitCode::SUCCESS);
        };
        let mut plan = match against(&self.sessions, id, range, branch, &self.program()?) {
            Ok(plan) => plan,
            Err(error) => return not_so(id, is_json, error),
        };
        let files = changes_at(std::mem::take(&mut plan.files), path).map_err(session_failure)?;
        if is_json {
            self.print_changes(id, &files, &plan.twins, &|side| plan.text(side));
            return Ok(ExitCode::SUCCESS);
        }
        out!("{}", sanitise(&difference(&files, &|side| plan.text(side))));
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a line of JSON for each change.
    fn print_changes(
        &self,
        id: &str,
        changes: &[Changed],
        twins: &[(PathBuf, PathBuf)],
        text: &dyn Fn(Option<(Mode, Oid)>) -> Option<String>,
    ) {
        let doubts = doubts(self.runtime.agent(), changes, text);
        let about = lines::About { former: former_names(changes, text), doubts: &doubts, twins };
        print_lines(changes.iter().map(|it| lines::change(id, it, &about).to_string()));
    }

    /// Asks the questions that precede taking over changes. Returns whether each was answered with yes.
    fn agreed_first(&self, by_option: bool, doubts: &[Doubt], has_commit: bool) -> bool {
        let questions = first_questions(&self.sessions, doubts, has_commit);
        doubt_lines(doubts).iter().for_each(|line| errln!("{line}"));
        questions.iter().all(|question| agreed(by_option, question))
    }

    fn cat(&self, id: &str, path: &str, turn: Option<u64>) -> Result<(), Failure> {
        use std::io::{IsTerminal, Write};
        let files = self.view(id)?.files(turn).map_err(session_failure)?;
        let content = files.read(path, FILE_BYTES_MAX).map_err(|error| {
            Failure::user(format!("{path}: {error}")).hint("reedclaw session files ID [DIR] lists what there is")
        })?;
        if std::io::stdout().is_terminal() {
            out!("{}", strip_controls(&content.bytes));
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        settle(stdout.write_all(&content.bytes).and_then(|()| stdout.flush()));
        Ok(())
    }

    fn program(&self) -> Result<Program, Failure> {
        git_program(self.runtime.env())
    }

    fn sync(&self, id: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let branch = matches.get_one::<String>("branch").map(String::as_str);
        let is_json = matches.get_flag("json");
        let conflicts = |all: &[Conflict]| {
            print_lines(all.iter().map(|it| match is_json {
                true => lines::conflict(id, it).to_string(),
                false => escape_visible(&it.path.display().to_string()),
            }));
        };
        let mut session = self.open_to_write(id)?;
        let program = self.program()?;
        let synced = match (matches.get_flag("rebase"), matches.get_flag("with-changes")) {
            (true, _) => replay(&mut session, branch, &program),
            (_, true) => sync_changes(&mut session, &program, &self.runtime.key_guard()).map(|(synced, left_out)| {
                left_out.iter().for_each(|notice| errln!("reedclaw: {}", sanitise(notice)));
                synced
            }),
            _ => sync(&mut session, branch, &program),
        };
        let synced = match synced {
            Ok(synced) => synced,
            Err(error) => return not_so(id, is_json, error),
        };
        let from = short(synced.from);
        if is_json {
            outln!("{}", lines::synced(id, &synced.from.to_string(), &session.tip().to_string()));
        }
        if synced.conflicts.is_empty() {
            let what = if matches.get_flag("with-changes") { " and your uncommitted files" } else { "" };
            errln!("reedclaw: session {} has all of {from}{what} now", short_id(id));
            return Ok(ExitCode::SUCCESS);
        }
        conflicts(&synced.conflicts);
        errln!("reedclaw: session {} has {from} now, with conflicts to solve there", short_id(id));
        Ok(ExitCode::from(exit::CONFLICTS))
    }

    /// Opens a session for writing, and prints what an earlier process or a power cut has left of it.
    fn open_to_write(&self, id: &str) -> Result<Session, Failure> {
        let mut person = AtTty::new(&self.runtime, false, Cancel::new());
        let opened = open_asking(&self.runtime, &self.sessions, id, &mut person);
        let mut session = opened.map_err(session_failure)?;
        session.take_notices().iter().for_each(|notice| errln!("reedclaw: {}", sanitise(notice)));
        Ok(session)
    }

    /// Opens a session, and prints what an earlier process or a power cut has left of it.
    fn open(&mut self, workspace: &Path, wanted: &str) -> Result<(), Failure> {
        let mut person = AtTty::new(&self.runtime, false, Cancel::new());
        self.runtime.open_session_asking(workspace, wanted, &mut person)?;
        let notices = self.runtime.on_git_mut().map(|it| it.session.take_notices()).unwrap_or_default();
        notices.iter().for_each(|notice| errln!("reedclaw: {}", sanitise(notice)));
        Ok(())
    }

    /// Runs a command of the caller's own on the session's files.
    fn run(&mut self, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let words: Vec<&str> = matches.get_many("command").into_iter().flatten().map(String::as_str).collect();
        let command = match &words[..] {
            [line] => (*line).to_owned(),
            words => shlex::try_join(words.iter().copied()).map_err(|_| Failure::user("a command can't hold a NUL"))?,
        };
        let wanted = matches.get_one::<String>("id").map(String::as_str).unwrap_or_default();
        let workspace = self.workspace.clone();
        self.open(&workspace, wanted)?;
        self.runtime.allow_output_bytes(crate::cli::rules::tool::OUTPUT_BYTES_MAX);
        let crate::app::BuiltRunner { mut runner, problems } = self.runtime.runner_on_bench()?;
        problems.iter().for_each(report);
        let cancel = Cancel::new();
        let mut tty = AtTty::new(&self.runtime, false, cancel.clone());
        watch_interrupts(&cancel, tty.modes());
        let mut person = OwnCommand::of(&mut tty).with_yes(matches.get_flag("yes"));
        let outcome = runner.call(&own_command(&command), None, &cancel, &mut person, &mut |_| {});
        let lacks_yes = person.lacks_yes;
        drop((runner, tty));
        let [out, err] = output_of(&outcome);
        print_lines(Some(out).filter(|it| !it.is_empty()).into_iter());
        if !err.is_empty() {
            errln!("{}", sanitise(&err));
        }
        if let Some(error) = &outcome.error {
            errln!("reedclaw: {}", sanitise(&error.message));
        }
        let changes = self.runtime.own_changes()?;
        for line in own_change_lines(&changes) {
            errln!("{line}");
        }
        if !changes.files.is_empty() {
            let is_wanted = agreed(matches.get_flag("yes"), "Commit these changes to the session?");
            let notice = self.runtime.end_own_command(&command, is_wanted)?;
            errln!("reedclaw: {}", sanitise(&notice));
            if !is_wanted {
                return Err(without_yes());
            }
        }
        if lacks_yes {
            return Err(without_yes());
        }
        Ok(ExitCode::from(crate::cli::rules::tool::status(&outcome)))
    }

    /// Lists the open files of a session, after some were opened or closed.
    fn context(&mut self, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let words = |name: &str| matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect();
        let (opened, closed): (Vec<&str>, Vec<&str>) = (words("add"), words("remove"));
        let wanted = matches.get_one::<String>("id").map(String::as_str).unwrap_or_default();
        let workspace = self.workspace.clone();
        self.open(&workspace, wanted)?;
        let open = self.runtime.update_open_files(&opened, &closed)?;
        if matches.get_flag("json") {
            let id = session_on(self.runtime.on_git_mut())?.session.id().to_owned();
            print_lines(open.iter().map(|(name, tokens)| lines::open_file(&id, name, *tokens).to_string()));
            return Ok(ExitCode::SUCCESS);
        }
        print_table(&open_rows(&open));
        Ok(ExitCode::SUCCESS)
    }

    /// Lists the tools of the repository, or decides about one.
    fn tools(&mut self, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let workspace = self.workspace.clone();
        self.open(&workspace, word("id").unwrap_or_default())?;
        let (settings, env) = (self.runtime.settings().clone(), self.runtime.env().clone());
        let on_git = session_on(self.runtime.on_git_mut())?;
        let (Some(ruling), Some(name)) = (word("ruling"), word("name")) else {
            let all = on_git.repository_tools();
            if matches.get_flag("json") {
                let id = on_git.session.id();
                let line = |it: &RepositoryTool| json!({"v": VERSION, "kind": "tool", "session": id, "name": it.name, "state": it.state, "why": it.why});
                print_lines(all.iter().map(|it| line(it).to_string()));
            } else {
                print_table(&tool_rows(&all));
            }
            return Ok(ExitCode::SUCCESS);
        };
        let ruling = match ruling {
            "test" => {
                let tests = on_git.test_tool(name, &settings, &env)?;
                if matches.get_flag("json") {
                    let id = on_git.session.id();
                    let line = |it: &Tested| json!({"v": VERSION, "kind": "tool_test", "session": id, "tool": name, "name": it.name, "why": it.failure});
                    print_lines(tests.iter().map(|it| line(it).to_string()));
                } else {
                    print_lines(test_lines(&tests).into_iter());
                }
                let is_good = tests.iter().all(|it| it.failure.is_none());
                return Ok(ExitCode::from(if is_good { exit::DONE } else { exit::FAILED }));
            }
            "approve" => {
                let asked = on_git.tool_asked(name, &settings, &env)?;
                out!("{}", sanitise(&asked.text));
                print_lines(tool_lines(name, &asked).into_iter());
                if !agreed(matches.get_flag("yes"), "May the model run this tool from now on without being asked?") {
                    return Err(without_yes());
                }
                Ruling::Approve
            }
            "reject" => Ruling::Reject,
            _ => Ruling::Revoke,
        };
        errln!("reedclaw: {}", sanitise(&on_git.rule_tool(name, ruling)?));
        Ok(ExitCode::SUCCESS)
    }

    fn merge(&self, id: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let is_json = matches.get_flag("json");
        let how = match () {
            () if matches.get_flag("merge") => Some(How::Merge),
            () if matches.get_flag("rebase") => Some(How::Rebase),
            () if matches.get_flag("squash") => Some(How::Squash),
            () => matches.get_many::<u64>("pick").map(|turns| How::Pick(turns.copied().collect())),
        };
        let program = self.program()?;
        let wish = MergeWish {
            how: how.unwrap_or_else(|| merge_words(&self.runtime.settings().sessions.merge)),
            into: matches.get_one::<String>("into").cloned(),
            keeps_record: matches.get_flag("keep-record"),
        };
        let plan = match plan_merge(&self.sessions, id, wish, &program) {
            Ok(plan) => plan,
            Err(error) => return not_so(id, is_json, error),
        };
        if is_json {
            self.print_changes(id, &plan.files, &plan.twins, &|side| plan.text(side));
        } else {
            print_lines(plan_lines(&plan).into_iter());
        }
        if matches.get_flag("dry-run") {
            return Ok(ExitCode::SUCCESS);
        }
        let (doubts, has_yes) =
            (doubts(self.runtime.agent(), &plan.files, &|side| plan.text(side)), matches.get_flag("yes"));
        let question = format!("Move {} to this result?", plan.target_name());
        if !self.agreed_first(has_yes, &doubts, true) || !agreed(has_yes, &question) {
            return Err(without_yes());
        }
        let hooks = self.runtime.settings().sessions.hooks;
        let commit = merge(&self.sessions, &plan, hooks, &program).map_err(session_failure)?;
        // A session that another shell has open continues from the merge when it is synced there.
        if let Ok(mut session) = self.open_to_write(id) {
            note_merged(&mut session, &plan, commit).map_err(session_failure)?;
        }
        if is_json {
            outln!("{}", lines::merged(id, plan.target_name(), &commit.to_string()));
        }
        errln!("reedclaw: {} is at {} now", sanitise(plan.target_name()), short(commit));
        Ok(ExitCode::SUCCESS)
    }

    fn apply(&self, id: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
        let (is_json, has_yes) = (matches.get_flag("json"), matches.get_flag("yes"));
        let plan = match self.runtime.plan_apply(&self.sessions, id) {
            Ok(plan) => plan,
            Err(error) => return not_so(id, is_json, error),
        };
        let view = self.view(id)?;
        let mut changes = view.changes().map_err(session_failure)?;
        changes.retain(|it| plan.iter().any(|one| one.path == it.path));
        if is_json {
            let twins: Vec<_> = plan.iter().filter_map(|it| Some((it.path.clone(), it.twin.clone()?))).collect();
            self.print_changes(id, &changes, &twins, &|side| view.text(side));
        } else {
            print_lines(applied_lines(&plan).into_iter());
        }
        if plan.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let doubts = doubts(self.runtime.agent(), &changes, &|side| view.text(side));
        let question = format!("Change these files in {}?", self.workspace.display());
        if !self.agreed_first(has_yes, &doubts, false) || !agreed(has_yes, &question) {
            return Err(without_yes());
        }
        let applied = self.runtime.apply(&self.sessions, id, plan)?;
        if is_json {
            outln!("{}", lines::applied(id, &applied));
        }
        errln!("reedclaw: {}", sanitise(&applied.to_string()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Reports the files that both sides changed, also as lines of JSON, or that there is nothing to do; returns any other error.
fn not_so(id: &str, is_json: bool, error: SessionError) -> Result<ExitCode, Failure> {
    let conflicts = match error {
        SessionError::Conflicts(conflicts) => conflicts,
        SessionError::Nothing(words) => {
            errln!("reedclaw: {}", sanitise(&words));
            return Ok(ExitCode::SUCCESS);
        }
        error => return Err(session_failure(error)),
    };
    if is_json {
        print_lines(conflicts.iter().map(|it| lines::conflict(id, it).to_string()));
    }
    report(&session_failure(SessionError::Conflicts(conflicts)));
    Ok(ExitCode::from(exit::CONFLICTS))
}

fn print_table(rows: &[Vec<String>]) {
    out!("{}", table(rows, columns()));
}

/// Returns whether the person agrees: by the option, or by an answer at a terminal.
fn agreed(by_option: bool, question: &str) -> bool {
    use std::io::IsTerminal;
    by_option || std::io::stdin().is_terminal() && is_yes(question)
}

fn without_yes() -> Failure {
    Failure::refused("nothing was changed").hint("--yes does it without a question")
}
