//! `:session`: sessions on git at the prompt. It must not know how they are stored.

pub(in crate::repl) mod begin;
mod sync;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::app::{Approvals, OwnCommand, Ruling, doubts, left_behind, session_failure};
use crate::ask::{Asking, ask_yes_or_no};
use crate::base::text::{counted, one_line};
use crate::git::short;
use crate::host::PrivateCopy;
use crate::ops::sessions::{
    Turn, against, applied_lines, call_lines, changes_at, difference, first_branch_notice, fork_words, git_program,
    half_words, list, merge_wish, merge_words, open_rows, output_of, own_change_lines, own_command, plan_lines,
    range_and_path, session_line, session_rows, start_wish, turn, turn_row, whole_log,
};
use crate::proto::Failure;
use crate::render::patch::parse;
use crate::render::text::{escape_visible, table};
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::records::changes;
use crate::repl::records::conversations::{ask_again, draw_answer, rows_of};
use crate::repl::records::memory;
use crate::repl::records::repository;
use crate::repl::rules::tooling;
use crate::sessions::{
    Half, Session, SessionError, Sessions, View, amend, label, merge, note_merged, plan_merge, rewind_half, short_id,
};
use crate::store::StoredTurn;

/// Time in which files that aren't committed are counted; the session has begun then.
const COUNTING_TIME: Duration = Duration::from_millis(150);

impl Repl {
    /// Carries out `:session`.
    pub(in crate::repl) fn session(&mut self, argument: &str) -> Flow {
        let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let rest = rest.trim();
        let done = match word {
            "leave" | "log" | "apply" | "undo" | "redo" | "tools" if !rest.is_empty() => Err(Failure::user(format!(
                ":session {word} takes nothing more, and was given {}; nothing was done",
                escape_visible(rest)
            ))
            .hint(":help session shows the words of each")),
            "" | "list" => self.session_list(rest),
            "start" => match self.offer_repository() {
                Err(flow) => return flow,
                Ok(()) => self.session_start(rest),
            },
            "open" => return self.session_open(rest),
            "leave" => self.session_leave(),
            "log" => self.session_log(),
            "show" => return self.session_show(rest),
            "diff" => return self.session_diff(rest),
            "cat" => self.session_cat(rest),
            "context" => self.session_context(rest),
            "edit" => return self.session_edit(rest),
            "files" => self.session_files(rest),
            "dir" => self.session_dir(rest),
            "message" => self.session_message(rest),
            "amend" => self.session_amend(rest),
            "run" => return self.session_run(rest),
            "sync" => git_program(self.runtime.env()).and_then(|program| sync::sync_session(self, rest, &program)),
            "apply" => return self.session_apply(),
            "undo" => self.session_undo(Session::undo),
            "redo" => self.session_undo(Session::redo),
            "merge" => return self.session_merge(rest),
            "tools" => repository::list(self),
            "summaries" => return repository::summaries(self, rest),
            "approve" => return repository::approve(self, rest),
            "reject" => repository::rule(self, rest, Ruling::Reject),
            "revoke" => repository::rule(self, rest, Ruling::Revoke),
            "test" => repository::test(self, rest),
            "abandon" => self.session_abandon(rest),
            "drop" => return self.session_drop(rest),
            other => Err(Failure::user(format!(":session doesn't know {}", escape_visible(other)))
                .hint(":help session lists its words")),
        };
        if let Err(failure) = done {
            self.console.failure(&failure);
        }
        Flow::Continue
    }

    pub(in crate::repl) fn git_sessions(&self) -> Result<Sessions, Failure> {
        match self.runtime.on_git() {
            Some(on_git) => Ok(on_git.session.sessions().clone()),
            None => {
                let sessions = self.runtime.sessions(&tooling::workspace(self))?;
                sessions.mended().iter().for_each(|notice| self.console.notice(&escape_visible(notice)));
                Ok(sessions)
            }
        }
    }

    /// The session that is on and its newest turn, for the prompt.
    pub(in crate::repl) fn session_mark(&self, unicode: bool) -> Option<String> {
        let session = &self.runtime.on_git()?.session;
        let meta = session.meta();
        let (name, turns) = (label(&meta.title).unwrap_or_else(|| short_id(&meta.id).to_owned()), meta.turns);
        // Another session of the repository waits for an answer.
        let asks = match (session.sessions().others_ask(&meta.id), unicode) {
            (false, _) => "",
            (true, true) => " …",
            (true, false) => " ...",
        };
        Some(if unicode { format!("⎇ {name}·{turns}{asks}") } else { format!("session {name}:{turns}{asks}") })
    }

    /// The session that is on, to look at.
    fn session_view(&self) -> Result<View, Failure> {
        let none = || Failure::user("no session is active").hint(":session start begins one, :session lists them");
        Ok(self.runtime.on_git().ok_or_else(none)?.session.view())
    }

    fn session_list(&self, argument: &str) -> Result<(), Failure> {
        if !matches!(argument, "" | "--all") {
            let message = format!("list doesn't know {}", escape_visible(argument));
            return Err(Failure::user(message).hint(":session list [--all]"));
        }
        let sessions = self.git_sessions()?;
        let all = list(&sessions, argument == "--all")?;
        if all.is_empty() {
            self.console.notice("no session yet; :session start begins one");
            return Ok(());
        }
        let here = self.runtime.on_git().map(|it| it.session.id());
        self.console.write(&table(&session_rows(&sessions, &all, here), self.console.width_columns()));
        self.console.notice(":session open ID continues one");
        Ok(())
    }

    /// Offers to make a repository of the directory that the shell is in, if it lies in none.
    fn offer_repository(&mut self) -> Result<(), Flow> {
        let workspace = tooling::workspace(self);
        let sessions = self.runtime.sessions(&workspace);
        // In a home, and in `/`, tools work elsewhere: neither is a project.
        let is_here = workspace == state::read(&self.state).cwd && workspace.parent().is_some();
        let program = git_program(self.runtime.env()).ok();
        let (Err(_), true, Some(program)) = (sessions, is_here && !is_in_repository(&workspace), program) else {
            return Ok(());
        };
        let place = escape_visible(&workspace.display().to_string());
        let question = format!("{place} lies in no git repository. Make one there, with git init?");
        if ask_yes_or_no(&mut self.terminal, &question)? == Some(true)
            && let Err(error) = program.init(&workspace)
        {
            self.console.failure(&session_failure(error.into()));
        }
        Ok(())
    }

    pub(in crate::repl) fn session_start(&mut self, rest: &str) -> Result<(), Failure> {
        let wish = start_wish(rest).map_err(|message| {
            Failure::user(message).hint(":session start [--from REV | --on BRANCH | --with-changes] [TITLE]")
        })?;
        let workspace = tooling::workspace(self);
        memory::note_ended(self);
        match (wish.has_changes, wish.on) {
            (true, _) => self.runtime.start_session_with_changes(&workspace, &wish.title)?,
            (_, Some(branch)) => self.runtime.start_session_on(&workspace, branch, &wish.title)?,
            (false, None) => self.runtime.start_session(&workspace, wish.from, &wish.title)?,
        }
        let notices = self.runtime.on_git_mut().map(|it| it.session.take_notices()).unwrap_or_default();
        notices.iter().for_each(|notice| self.console.notice(&escape_visible(notice)));
        if let Some(on_git) = self.runtime.on_git() {
            let (id, name) = (on_git.session.id(), on_git.session.reference());
            let sessions = on_git.session.sessions();
            let name = name.trim_start_matches("refs/heads/");
            let base = on_git.session.meta().base.clone().unwrap_or_default();
            let base = if base.is_empty() { "no commit".to_owned() } else { base[..8.min(base.len())].to_owned() };
            self.console.notice(&format!(
                "session {} begins at {base}; your files stay as they are, each turn becomes a commit on {name}",
                short_id(id)
            ));
            if !wish.has_changes
                && let Some(notice) = left_behind(&self.runtime.git_options(), sessions, COUNTING_TIME)
            {
                self.console.notice(&notice);
            }
            first_branch_notice(&on_git.session).into_iter().for_each(|notice| self.console.notice(notice));
        }
        Ok(())
    }

    pub(in crate::repl) fn session_open(&mut self, wanted: &str) -> Flow {
        if wanted.is_empty() {
            self.console.failure(&Failure::user("which session?").hint(":session lists them"));
            return Flow::Continue;
        }
        let workspace = self.runtime.on_git().map_or_else(|| tooling::workspace(self), |it| it.workspace().to_owned());
        memory::note_ended(self);
        // The changes of a command whose process was killed may need an answer.
        let opened = match self.runtime.may_ask_on_opening(&workspace, wanted) {
            false => self.runtime.open_session(&workspace, wanted),
            true => {
                let runtime = &mut self.runtime;
                let opened = self.terminal.attended(&Arc::default(), &mut Approvals::none(), |_, person| {
                    runtime.open_session_asking(&workspace, wanted, person)
                });
                match opened {
                    Ok(opened) => opened,
                    Err(flow) => return flow,
                }
            }
        };
        if let Err(failure) = opened.and_then(|()| self.show_opened()) {
            self.console.failure(&failure);
        }
        Flow::Continue
    }

    /// Shows the place of a session that was opened, and its newest turn.
    fn show_opened(&mut self) -> Result<(), Failure> {
        self.tell_session();
        let view = self.session_view()?;
        let turns = view.meta().map_err(session_failure)?.turns;
        if let Some(last) = (turns > 0).then(|| view.record(turns).ok()).flatten() {
            self.console.outside(&format!("? {}\n", last.question));
            draw_answer(&self.console, &last.answer);
        }
        Ok(())
    }

    /// Shows the place of the session, and what a turn that was cut off has left.
    fn tell_session(&mut self) {
        let Some(on_git) = self.runtime.on_git_mut() else { return };
        let notices = on_git.session.take_notices();
        let meta = on_git.session.meta();
        self.console.notice(&session_line(meta));
        notices.iter().for_each(|notice| self.console.notice(&escape_visible(notice)));
        if let Ok(Some(count @ 1..)) = on_git.session.sessions().moved(meta) {
            let branch = meta.base_branch.as_deref().unwrap_or_default().trim_start_matches("refs/heads/");
            let (branch, commits) = (escape_visible(branch), counted(count, "commit"));
            self.console.notice(&format!("{branch} has {commits} more since; :session sync brings them in"));
        }
        if let Some(left) = on_git.session.left() {
            let files = counted(left.files, "file");
            self.console.notice(&format!(
                "turn {} was cut off ({}; {files} changed): the next question makes it a commit, :session undo drops it",
                meta.turns + 1,
                escape_visible(&one_line(&left.question))
            ));
        }
    }

    fn session_leave(&mut self) -> Result<(), Failure> {
        memory::note_ended(self);
        match self.runtime.leave_session() {
            Some(id) => self.console.notice(&format!(
                "left session {id}, and a new conversation begins; :session open {id} continues the session"
            )),
            None => self.console.notice("no session is active"),
        }
        Ok(())
    }

    fn session_log(&self) -> Result<(), Failure> {
        let view = self.session_view()?;
        let id = view.meta().map_err(session_failure)?.id;
        let (rows, has_left) = whole_log(&self.git_sessions()?, &id, &view)?;
        let kept_words = if has_left { "; :fork --kept K continues from what was left" } else { "" };
        self.console.write(&table(&rows, self.console.width_columns()));
        self.console.notice(&format!(":session show N, :rewind N, :fork N{kept_words}"));
        Ok(())
    }

    fn session_show(&mut self, argument: &str) -> Flow {
        let shown = self.session_view().and_then(|view| {
            let number = match argument {
                "" => None,
                number => Some(
                    number
                        .parse()
                        .map_err(|_| Failure::user(format!("{number} is no turn")).hint(":session log lists them"))?,
                ),
            };
            turn(&view, number)
        });
        match shown {
            Err(failure) => self.console.failure(&failure),
            Ok(Turn { record, .. }) if record.kind == "base" => {
                self.console.notice("turn 0 begins the session: nothing was asked");
            }
            Ok(Turn { record, difference, .. }) => {
                self.console.notice(&turn_row(&record));
                self.console.outside(&format!("? {}\n", record.question));
                let calls = record.calls.iter().flat_map(call_lines);
                calls.for_each(|line| self.console.outside(&format!("{line}\n")));
                draw_answer(&self.console, &record.answer);
                record
                    .left_out
                    .iter()
                    .for_each(|it| self.console.notice(&format!("in no commit: {}", escape_visible(it))));
                let doubts = record.doubts.iter();
                doubts.for_each(|it| self.console.notice(&format!("looks like a secret: {}", escape_visible(it))));
                return changes::browse(self, parse(&difference), Vec::new());
            }
        }
        Flow::Continue
    }

    /// Returns the text for `[N|A..B] [PATH] [--against BRANCH]`.
    fn session_difference(&self, argument: &str) -> Result<String, Failure> {
        let view = self.session_view()?;
        let (what, branch) = match argument.split_once("--against ") {
            Some((what, branch)) => (what, Some(branch.trim())),
            None => (argument, None),
        };
        let (range, path) = range_and_path(what);
        let Some(branch) = branch else {
            let changes = view.changes_in(range).and_then(|all| changes_at(all, path)).map_err(session_failure)?;
            return Ok(difference(&changes, &|side| view.text(side)));
        };
        let (sessions, id) = (self.git_sessions()?, &view.meta().map_err(session_failure)?.id);
        let mut plan =
            against(&sessions, id, range, branch, &git_program(self.runtime.env())?).map_err(session_failure)?;
        let files = changes_at(std::mem::take(&mut plan.files), path).map_err(session_failure)?;
        Ok(difference(&files, &|side| plan.text(side)))
    }

    fn session_diff(&mut self, argument: &str) -> Flow {
        let shown = self.session_difference(argument);
        match shown {
            Err(failure) => self.console.failure(&failure),
            Ok(text) if text.is_empty() => self.console.notice("nothing differs"),
            Ok(text) => return changes::browse(self, parse(&text), Vec::new()),
        }
        Flow::Continue
    }

    fn session_cat(&self, argument: &str) -> Result<(), Failure> {
        let view = self.session_view()?;
        let (path, turn) = path_and_turn(argument);
        if path.is_empty() {
            return Err(Failure::user("which file?").hint(":session cat PATH [@N]; :session files lists what there is"));
        }
        let files = view.files(turn).map_err(session_failure)?;
        let content = files.read(path, crate::sessions::FILE_BYTES_MAX);
        let content = content.map_err(|error| {
            Failure::user(format!("{path}: {error}"))
                .hint(":session files lists what there is, and @N after the path is turn N")
        })?;
        self.console.outside(&String::from_utf8_lossy(&content.bytes));
        Ok(())
    }

    /// Goes back to a turn on the session's branch. If that drops several turns, it lists them and asks the person.
    pub(in crate::repl) fn session_rewind(&mut self, turn: usize, later: &[StoredTurn]) -> Flow {
        if later.len() > 1 {
            self.console.line("These turns leave the session, with their files:");
            self.console.write(&table(&rows_of(later, turn + 1), self.console.width_columns()));
            match ask_yes_or_no(&mut self.terminal, &format!("Go back to turn {turn}?")) {
                Err(flow) => return flow,
                Ok(Some(true)) => {}
                Ok(_) => {
                    self.console.notice("nothing was changed");
                    return Flow::Continue;
                }
            }
        }
        let Some(mut on_git) = self.runtime.take_on_git() else { return Flow::Continue };
        let done = on_git.session.rewind(u64::try_from(turn).unwrap_or(u64::MAX));
        let reopened = self.runtime.take_session(on_git.session);
        match (done, reopened) {
            (Ok(reference), Ok(())) => {
                self.console.notice(&format!(
                    "Back at turn {turn}, files and conversation; {} kept as {reference}; :session undo returns there.",
                    match later.len() {
                        1 => "the later turn is".to_owned(),
                        count => format!("{count} later turns are"),
                    }
                ));
                ask_again(self, later);
            }
            (Err(error), _) => self.console.failure(&session_failure(error)),
            (_, Err(failure)) => self.console.failure(&failure),
        }
        Flow::Continue
    }

    /// Goes back to the files of a turn, or to the conversation up to it, on the session's branch.
    pub(in crate::repl) fn session_rewind_half(&mut self, turn: usize, half: Half) {
        let Some(mut on_git) = self.runtime.take_on_git() else {
            let hint = ":session start begins one; :rewind N goes back in a conversation without files";
            return self
                .console
                .failure(&Failure::user("no session is active, so turns have no files of their own").hint(hint));
        };
        let turn = u64::try_from(turn).unwrap_or(u64::MAX);
        let done = rewind_half(&mut on_git.session, turn, half);
        let reopened = self.runtime.take_session(on_git.session);
        match (done, reopened) {
            (Ok(_), Ok(())) => self.console.notice(&format!("{}; :session undo returns", half_words(turn, half))),
            (Err(error), _) => self.console.failure(&session_failure(error)),
            (_, Err(failure)) => self.console.failure(&failure),
        }
    }

    /// Goes on in a fork of the session; `false` if no session is on.
    pub(in crate::repl) fn session_fork(&mut self, argument: &str) -> bool {
        let Some(on_git) = self.runtime.on_git() else { return false };
        let (old, sessions) = (on_git.session.id().to_owned(), on_git.session.sessions().clone());
        let words = fork_words(argument)
            .map_err(|message| Failure::user(message).hint(":fork [N] [--kept K]; :session log lists both"));
        let forked = words.and_then(|(turn, tip)| {
            let forked = match tip {
                Some(tip) => sessions.fork_former(&old, tip, turn),
                None => sessions.fork(&old, turn),
            };
            forked.map_err(session_failure)
        });
        match forked.and_then(|fork| self.runtime.take_session(fork)) {
            Ok(()) => {
                self.console.notice(&format!("forked from session {}, which stays as it is", short_id(&old)));
                self.tell_session();
            }
            Err(failure) => self.console.failure(&failure),
        }
        true
    }

    fn session_files(&self, argument: &str) -> Result<(), Failure> {
        let view = self.session_view()?;
        let (path, turn) = path_and_turn(argument);
        let names = view.names(path, turn).map_err(session_failure)?;
        self.console.write(&names.iter().map(|it| escape_visible(it) + "\n").collect::<String>());
        Ok(())
    }

    /// Writes the files of the session into a new directory.
    fn session_dir(&self, argument: &str) -> Result<(), Failure> {
        let (place, turn) = path_and_turn(argument);
        if place.is_empty() {
            return Err(Failure::user("which directory?").hint(":session dir DIR [@N]; it must not exist yet"));
        }
        let place = {
            let state = state::read(&self.state);
            match (place.strip_prefix("~/"), &state.home) {
                (Some(below), Some(home)) => home.join(below),
                _ => state.cwd.join(place),
            }
        };
        let files = self.session_view()?.write_to(turn, &place).map_err(session_failure)?;
        let place = escape_visible(&place.display().to_string());
        self.console.notice(&format!("{} written to {place}; changes there aren't taken over", counted(files, "file")));
        Ok(())
    }

    /// Sets the first line of a turn's commit.
    fn session_message(&mut self, argument: &str) -> Result<(), Failure> {
        let (number, text) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let (turn, text) = match number.parse::<u64>() {
            Ok(turn) if !text.trim().is_empty() => (Some(turn), text.trim()),
            Ok(turn) => {
                let message = format!("turn {turn} needs a first line");
                return Err(Failure::user(message).hint(":session message [N] TEXT"));
            }
            Err(_) => (None, argument),
        };
        let text = self.runtime.agent().redacted(text);
        let none = || Failure::user("no session is active").hint(":session lists them");
        let on_git = self.runtime.on_git_mut().ok_or_else(none)?;
        let reference = on_git.session.reword(turn, &text).map_err(session_failure)?;
        self.console.notice(&format!("the commit has its new message; :session undo returns to {reference}"));
        Ok(())
    }

    /// Adds the person's own commits since the newest turn to that turn's commit.
    fn session_amend(&mut self, text: &str) -> Result<(), Failure> {
        let text = self.runtime.agent().redacted(text);
        let none = || Failure::user("no session is active").hint(":session lists them");
        let on_git = self.runtime.on_git_mut().ok_or_else(none)?;
        let reference = amend(&mut on_git.session, Some(&text).filter(|it| !it.is_empty()).map(String::as_str));
        let reference = reference.map_err(session_failure)?;
        self.console.notice(&format!("the newest turn's commit was rewritten; :session undo returns to {reference}"));
        Ok(())
    }

    /// Runs a command of the person's own on the bench; its changes become a commit after a yes.
    fn session_run(&mut self, command: &str) -> Flow {
        if command.is_empty() {
            self.console.failure(&Failure::user("which command?").hint(":session run COMMAND"));
            return Flow::Continue;
        }
        let mut runner = match self.runtime.runner_on_bench() {
            Ok(built) => built.runner,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        let wish = own_command(command);
        let called = self.terminal.attended(&Arc::default(), &mut Approvals::none(), |cancel, person| {
            runner.call(&wish, None, cancel, &mut OwnCommand::of(person), &mut |_| {})
        });
        drop(runner);
        let outcome = match called {
            Ok(outcome) => outcome,
            Err(flow) => return flow,
        };
        let [out, err] = output_of(&outcome);
        [out, err].iter().filter(|it| !it.is_empty()).for_each(|it| self.console.outside(&format!("{it}\n")));
        outcome.error.iter().for_each(|error| self.console.notice(&escape_visible(&error.message)));
        let changes = match self.runtime.own_changes() {
            Ok(changes) => changes,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        own_change_lines(&changes).iter().for_each(|line| self.console.line(line));
        if changes.files.is_empty() {
            return Flow::Continue;
        }
        let is_wanted = match ask_yes_or_no(&mut self.terminal, "Commit these changes to the session?") {
            Err(flow) => return flow,
            Ok(reply) => reply == Some(true),
        };
        match self.runtime.end_own_command(command, is_wanted) {
            Ok(notice) => self.console.notice(&notice),
            Err(failure) => self.console.failure(&failure),
        }
        Flow::Continue
    }

    /// Opens a file of the session in the person's editor; what they save becomes a commit of their own.
    fn session_edit(&mut self, path: &str) -> Flow {
        if path.is_empty() {
            self.console.failure(&Failure::user("which file?").hint(":session edit PATH"));
            return Flow::Continue;
        }
        let opened = self.runtime.session_file(path).and_then(|old| {
            let copy = PrivateCopy::new(path, old.as_deref().unwrap_or_default(), self.runtime.env());
            Ok((copy.map_err(|error| Failure::user(format!("no file can be made for the editor: {error}")))?, old))
        });
        let (copy, old) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        let status = match self.terminal.open_in_editor(copy.path()) {
            Ok(Some(status)) => status,
            Ok(None) => return Flow::Continue,
            Err(flow) => return flow,
        };
        match copy.read() {
            _ if status != 0 => self.console.notice(&format!("the editor ended with status {status}: nothing changed")),
            Ok(new) if new == old.as_deref().unwrap_or_default() => self.console.notice("nothing changed"),
            Ok(new) => match self.runtime.edit_session_file(path, old.as_deref(), &new) {
                Ok(notice) => self.console.notice(&escape_visible(&notice)),
                Err(failure) => self.console.failure(&failure),
            },
            Err(error) => self.console.notice(&format!("the editor's file can't be read: {error}")),
        }
        Flow::Continue
    }

    /// Lists the open files of the session, or opens and closes some: `PATH… -PATH…`.
    fn session_context(&self, argument: &str) -> Result<(), Failure> {
        // A name with a space is in quotes, as in a command.
        let words = shlex::split(argument)
            .ok_or_else(|| Failure::user("a quote isn't closed").hint(":session context 'a name' -'another'"))?;
        let (closed, opened): (Vec<&str>, Vec<&str>) =
            words.iter().map(String::as_str).partition(|it| it.starts_with('-'));
        let closed: Vec<&str> = closed.into_iter().map(|it| &it[1..]).collect();
        let open = self.runtime.update_open_files(&opened, &closed)?;
        if open.is_empty() {
            self.console.notice("no file is open; :session context PATH lets one go with every question");
            return Ok(());
        }
        self.console.write(&table(&open_rows(&open), self.console.width_columns()));
        self.console.notice(":session context -PATH closes one");
        Ok(())
    }

    /// Sets the title of the session that is on; returns whether one is on.
    pub(in crate::repl) fn session_title(&mut self, title: &str) -> bool {
        let title = self.runtime.agent().redacted(title);
        let Some(on_git) = self.runtime.on_git_mut() else { return false };
        match on_git.session.set_title(&title).map_err(session_failure) {
            Ok(commit) => {
                let id = short_id(on_git.session.id());
                self.console.notice(&format!("session {id} has the title, in commit {}", short(commit)));
            }
            Err(failure) => self.console.failure(&failure),
        }
        true
    }

    /// The session of the repository here that a conversation belongs to, by its number of turns and the last of them.
    pub(in crate::repl) fn session_of(&self, turns: usize, last: &StoredTurn) -> Option<String> {
        let sessions = self.runtime.sessions(&tooling::workspace(self)).ok()?;
        let turns = u64::try_from(turns).ok()?;
        let is_last = |id: &str| {
            let record = sessions.look(id).and_then(|view| view.record(turns));
            record.is_ok_and(|it| it.question == last.question && it.answer == last.answer)
        };
        let mut all = sessions.list().ok()?.into_iter().filter(|it| it.meta.turns == turns);
        all.find(|it| is_last(&it.meta.id)).map(|it| short_id(&it.meta.id).to_owned())
    }

    fn session_apply(&mut self) -> Flow {
        let planned = self.session_view().and_then(|view| {
            let id = view.meta().map_err(session_failure)?.id;
            let sessions = self.git_sessions()?;
            let plan = self.runtime.plan_apply(&sessions, &id).map_err(session_failure)?;
            Ok((sessions, id, plan))
        });
        let (sessions, id, plan) = match planned {
            Ok(planned) => planned,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        applied_lines(&plan).iter().for_each(|line| self.console.line(line));
        if plan.is_empty() {
            return Flow::Continue;
        }
        let doubts = sessions.look(&id).and_then(|view| {
            let changes = view.changes()?;
            Ok(doubts(self.runtime.agent(), &changes, &|side| view.text(side)))
        });
        match repository::agrees_first(self, &sessions, &doubts.unwrap_or_default(), false) {
            Err(flow) => return flow,
            Ok(false) => return Flow::Continue,
            Ok(true) => {}
        }
        match ask_yes_or_no(&mut self.terminal, "Change these files of your checkout?") {
            Err(flow) => return flow,
            Ok(Some(true)) => match self.runtime.apply(&sessions, &id, plan) {
                Ok(applied) => self.console.notice(&escape_visible(&applied.to_string())),
                Err(failure) => self.console.failure(&failure),
            },
            Ok(_) => self.console.notice("nothing was changed"),
        }
        Flow::Continue
    }

    /// Undoes the last operation on the session, or does it again.
    fn session_undo(&mut self, act: fn(&mut Session) -> Result<String, SessionError>) -> Result<(), Failure> {
        let none = || Failure::user("no session is active").hint(":session lists them");
        let mut on_git = self.runtime.take_on_git().ok_or_else(none)?;
        let done = act(&mut on_git.session);
        self.runtime.take_session(on_git.session)?;
        self.console.notice(&done.map_err(session_failure)?);
        Ok(())
    }

    fn session_merge(&mut self, argument: &str) -> Flow {
        let usual = merge_words(&self.runtime.settings().sessions.merge);
        let planned = merge_wish(argument, usual)
            .map_err(|message| {
                Failure::user(message).hint("[--squash|--merge|--rebase|--pick N,N] [--into BRANCH] [--keep-record]")
            })
            .and_then(|wish| {
                let program = git_program(self.runtime.env())?;
                let view = self.session_view()?;
                let id = view.meta().map_err(session_failure)?.id;
                let sessions = self.git_sessions()?;
                let plan = plan_merge(&sessions, &id, wish, &program).map_err(session_failure)?;
                Ok((sessions, plan, program))
            });
        let (sessions, plan, program) = match planned {
            Ok(planned) => planned,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        // Files that run on people's machines come first.
        for path in plan.that_run() {
            let path = escape_visible(&path.display().to_string());
            self.console.line(&format!("runs on people's machines: {path}"));
        }
        let text = difference(&plan.files, &|side| plan.text(side));
        if let flow @ Flow::End(_) = changes::browse(self, parse(&text), Vec::new()) {
            return flow;
        }
        plan_lines(&plan).iter().for_each(|line| self.console.line(line));
        let doubts = doubts(self.runtime.agent(), &plan.files, &|side| plan.text(side));
        match repository::agrees_first(self, &sessions, &doubts, true) {
            Err(flow) => return flow,
            Ok(false) => return Flow::Continue,
            Ok(true) => {}
        }
        match ask_yes_or_no(&mut self.terminal, &format!("Move {} to this result?", plan.target_name())) {
            Err(flow) => return flow,
            Ok(Some(true)) => match merge(&sessions, &plan, self.runtime.settings().sessions.hooks, &program) {
                Ok(commit) => {
                    self.console.notice(&format!("{} is at {} now", plan.target_name(), short(commit)));
                    let noted = self.runtime.on_git_mut().map(|it| note_merged(&mut it.session, &plan, commit));
                    if let Some(Err(error)) = noted {
                        self.console.failure(&session_failure(error));
                    }
                }
                Err(error) => self.console.failure(&session_failure(error)),
            },
            Ok(_) => self.console.notice("nothing was changed"),
        }
        Flow::Continue
    }

    fn session_abandon(&mut self, wanted: &str) -> Result<(), Failure> {
        let sessions = self.git_sessions()?;
        let id = match (wanted, self.runtime.on_git()) {
            ("", Some(on_git)) => on_git.session.id().to_owned(),
            _ => sessions.find(wanted).map_err(session_failure)?,
        };
        if self.runtime.on_git().is_some_and(|it| it.session.id() == id) {
            self.session_leave()?;
        }
        let reference = sessions.abandon(&id).map_err(session_failure)?;
        self.console.notice(&format!("session {} is off the list; its commits stay as {reference}", short_id(&id)));
        Ok(())
    }

    fn session_drop(&mut self, wanted: &str) -> Flow {
        let found = self.git_sessions().and_then(|sessions| {
            let id = sessions.find(wanted).map_err(session_failure)?;
            Ok((sessions, id))
        });
        let (sessions, id) = match found {
            Ok(found) => found,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        match ask_yes_or_no(&mut self.terminal, &format!("Remove session {} with all its turns?", short_id(&id))) {
            Err(flow) => return flow,
            Ok(Some(true)) => {
                if self.runtime.on_git().is_some_and(|it| it.session.id() == id) {
                    self.runtime.leave_session();
                }
                match sessions.drop_for_good(&id) {
                    Ok(()) => self.console.notice(&format!("session {} is removed", short_id(&id))),
                    Err(error) => self.console.failure(&session_failure(error)),
                }
            }
            Ok(_) => self.console.notice("nothing was changed"),
        }
        Flow::Continue
    }
}

/// Returns whether a directory lies in what looks like a repository, be it one that can't be used.
fn is_in_repository(directory: &Path) -> bool {
    directory.ancestors().any(|it| it.join(".git").symlink_metadata().is_ok() || it.join("HEAD").exists())
}

/// Reads `PATH [@N]`.
fn path_and_turn(argument: &str) -> (&str, Option<u64>) {
    let split = argument.rsplit_once('@').and_then(|(path, turn)| Some((path.trim(), turn.trim().parse().ok()?)));
    split.map_or((argument.trim(), None), |(path, turn)| (path, Some(turn)))
}
