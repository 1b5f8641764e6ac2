//! Carries out each meta command.

use nu_ansi_term::Style;

use super::keys::KEYS;
use super::run::{Flow, Repl};
use crate::agent::Agent;
use crate::ops;
use crate::ops::commands::{self, Command, CommandError, Group, Op, of_shell};
use crate::proto::{Failure, FailureKind, HumanLine, RouteVerdict};
use crate::render::text::{described, escape_visible, table};

impl Repl {
    /// Carries out a meta line; a hidden one leaves nothing in the history and, but for a question, nothing for the
    /// model. `before` is the line before it.
    pub(super) fn meta(&mut self, line: &str, hidden: bool, before: Option<&(String, RouteVerdict)>) -> Flow {
        let (meta, argument) = match commands::parse(line) {
            Ok(found) => found,
            Err(error) => return self.no_meta(line, &error),
        };
        match meta.op {
            Op::Quit => return self.run_command(&HumanLine::typed("exit".into()), false),
            Op::Exec => return self.exec(argument, hidden),
            Op::Sop => return self.sop(argument, hidden),
            Op::Ask => {
                let kept = (!hidden).then(|| format!(":ask {argument}"));
                return self.ask(kept.as_deref(), argument);
            }
            Op::Clear => self.console.clear(),
            Op::Reset => {
                self.end_conversation(Agent::reset);
                self.console.notice("a new conversation begins, with the default model");
            }
            Op::Transcript => self.transcript(argument),
            Op::Onboard => return self.onboard(argument),
            Op::Model => self.switch_model(argument),
            Op::Models => self.list_models(),
            Op::History => self.history_command(argument),
            Op::New => self.new_conversation(),
            Op::Sessions => self.list_sessions(),
            Op::Resume => self.resume(argument),
            Op::Fork => self.fork(argument),
            Op::Rewind => return self.rewind(argument),
            Op::Title => self.title(argument),
            Op::Thoughts => self.thoughts(),
            Op::Cost => self.cost(argument),
            Op::Tokens => self.tokens(argument),
            Op::Why => return self.explain_route(before),
            Op::Mode => self.set_mode(argument),
            Op::Route => self.forget_routes(argument),
            Op::Copy => self.copy(argument),
            Op::Run => return self.run_block(argument),
            Op::Save if argument.is_empty() => return self.save_memory(),
            Op::Save => self.save_block(argument),
            Op::Memory => return self.memory(argument),
            Op::Session => return self.session(argument),
            Op::Norris => return self.norris(argument),
            Op::Config => return self.config(argument),
            Op::Context => return self.context(argument),
            // The shell has no word for it but this one.
            Op::Compact => return self.context("compact"),
            Op::Card => self.show_card(),
            Op::Redact => self.show_redacted(),
            Op::Estop => return self.estop(argument),
            Op::Diff if argument.is_empty() => return self.diff_command(),
            Op::Diff => return self.show_step(argument),
            Op::Show => return self.show_output(argument),
            Op::Allow => return self.allow(argument),
            Op::Tools => self.list_tools(),
            Op::Mcp => return self.mcp(argument),
            Op::Call => return self.call_tool(argument),
            Op::Policy => self.policy(argument),
            Op::Undo => self.undo(argument),
            Op::Redo => self.redo(argument),
            Op::Steps => self.list_steps(),
            Op::Approve => return self.approve_call(argument),
            Op::Skills => return self.skills(argument),
            Op::Prompt => return self.prompt_template(argument, hidden),
            Op::Man => return self.man(argument),
            Op::Help => return self.help(argument),
        }
        Flow::Continue
    }

    /// Runs a line in the shell.
    fn exec(&mut self, argument: &str, hidden: bool) -> Flow {
        let kept = (!hidden).then(|| format!(":exec {argument}"));
        self.run_kept(&HumanLine::typed(argument.to_owned()), kept.as_deref())
    }

    /// Runs the subcommand of procedures in the person's own shell.
    fn sop(&mut self, argument: &str, hidden: bool) -> Flow {
        let kept = (!hidden).then(|| format!(":sop {argument}"));
        self.run_kept(&HumanLine::typed(sop_line(argument)), kept.as_deref())
    }

    /// Carries out a meta command of the config's, where the line isn't one of ours.
    fn no_meta(&mut self, line: &str, error: &CommandError) -> Flow {
        let is_unknown = matches!(error, CommandError::Unknown { .. });
        if let Some(flow) = is_unknown.then(|| self.own_meta(line)).flatten() {
            return flow;
        }
        self.console.failure(&explain(error));
        Flow::Continue
    }

    fn switch_model(&mut self, name: &str) {
        if name.is_empty() {
            return self.list_models();
        }
        match ops::models::choose(self.runtime.agent_mut(), name) {
            Ok(name) => self.console.notice(&format!("{name} answers from now on")),
            Err(failure) => self.console.failure(&failure),
        }
    }

    fn list_models(&self) {
        match &ops::models::rows(self.runtime.agent())[..] {
            [] => self.console.notice(super::run::NO_MODEL),
            rows => self.console.write(&table(rows, self.console.width_columns())),
        }
    }

    /// Lists the meta commands by group and the keys, a page at a time; with a word those in whose row or heading it is.
    fn help(&mut self, word: &str) -> Flow {
        let bold = |text: &str| self.console.paint(Style::new().bold(), text);
        let row = |name: &str, meaning: &str| (name.to_owned(), meaning.to_owned());
        let usage = |meta: &Command| {
            let names: Vec<String> = meta.names.iter().map(|name| format!(":{name}")).collect();
            format!("{} {}", names.join(" "), meta.usage).trim().to_owned()
        };
        let prefixes = vec![
            row("!LINE, $ LINE", "to the shell, whatever it looks like"),
            row("?LINE", "to the model, whatever it looks like"),
        ];
        let mut groups =
            vec![("A command runs in the shell, a sentence goes to the model. To say so yourself:", prefixes)];
        for group in Group::ALL {
            let metas = of_shell().filter(|meta| meta.group == group);
            groups.push((group.heading(), metas.map(|meta| row(&usage(meta), meta.help)).collect()));
        }
        groups.push(("Your own", self.hooks.usable_metas().map(|(name, help)| (format!(":{name}"), help)).collect()));
        groups.push(("Keys", KEYS.iter().map(|key| row(key.name, key.help)).collect()));
        let wanted = word.trim_start_matches(':').to_lowercase();
        let is_in = |text: &str| text.to_lowercase().contains(&wanted);
        let mut rows = Vec::new();
        for (heading, mut entries) in groups {
            if !is_in(heading) {
                entries.retain(|(name, meaning)| is_in(name) || is_in(meaning));
            }
            if !entries.is_empty() {
                rows.push(bold(heading));
                rows.extend(described(&entries, self.console.width_columns()).lines().map(str::to_owned));
            }
        }
        if rows.is_empty() {
            let message = format!("nothing in the help has {}", escape_visible(word));
            let hint = ":help lists everything".to_owned();
            self.console.failure(&Failure { kind: FailureKind::User, message, hint });
            return Flow::Continue;
        }
        self.browse(Vec::new(), rows)
    }
}

fn explain(error: &CommandError) -> Failure {
    let (message, hint) = match error {
        CommandError::Unknown { name, nearest: Some(nearest) } => {
            (format!(":{name} is no meta command"), format!("did you mean :{nearest}?"))
        }
        CommandError::Unknown { name, nearest: None } => (
            format!(":{name} is no meta command"),
            ":help lists them; a line that begins with ! goes to the shell as it is".to_owned(),
        ),
        CommandError::Missing(meta) => {
            (format!(":{} needs an argument", meta.names[0]), format!(":{} {}", meta.names[0], meta.usage))
        }
        CommandError::Surplus(meta) => (format!(":{} takes no argument", meta.names[0]), String::new()),
    };
    Failure { kind: FailureKind::User, message, hint }
}

/// The line of a procedure's command: the same words for this very program, in the person's own shell and at its terminal.
fn sop_line(argument: &str) -> String {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_else(|_| "reedclaw".into());
    let own = shlex::try_quote(&own.to_string_lossy()).map_or_else(|_| "reedclaw".to_owned(), |it| it.into_owned());
    format!("{own} sop {}", if argument.is_empty() { "list" } else { argument })
}
