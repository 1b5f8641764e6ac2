//! `:context`: what the next question would carry and what it costs, the summary of the older part, and whether questions
//! carry what is known of the project.

use std::path::PathBuf;

use super::run::{Flow, Repl};
use super::state;
use crate::project::{Options, Surroundings};
use crate::proto::{Event, Failure, FailureKind};
use crate::render::text::table;
use crate::turn::estimate_tokens;

/// What questions carry of the project around them.
#[derive(Debug, Default)]
pub(super) struct ProjectContext {
    /// The user's word in this session; else the setting counts.
    on: Option<bool>,
    surroundings: Surroundings,
    /// The repository for which it was said.
    told: Option<PathBuf>,
}

impl Repl {
    /// Carries out `:context`.
    pub(super) fn context(&mut self, argument: &str) -> Flow {
        match argument {
            "" => self.show_context(),
            "compact" => return self.compact_context(),
            "restore" => match self.agent.restore_context() {
                Some(turns) => self.console.notice(&format!(
                    "the first {turns} turns are sent to the letter again; no summary is made until :context compact or :new"
                )),
                None => self.console.notice("no summary stands for anything here"),
            },
            "project" => self.tell_project(),
            "project on" | "project off" => {
                self.configured.project_context = ProjectContext { on: Some(argument == "project on"), ..ProjectContext::default() };
                self.tell_project();
            }
            _ => self.console.failure(&Failure {
                kind: FailureKind::User,
                message: format!(":context doesn't know {argument}"),
                hint: "compact, restore, project on, project off, or nothing".to_owned(),
            }),
        }
        Flow::Continue
    }

    fn tell_project(&self) {
        let told = if self.carries_project() {
            "a question asked in a git repository carries its files' names, AGENTS.md and git's state"
        } else {
            "questions carry nothing of the project around them"
        };
        self.console.notice(told);
    }

    fn carries_project(&self) -> bool {
        self.configured.project_context.on.unwrap_or(self.settings.context.project)
    }

    /// Lets the next question carry what is remembered, where it begins a conversation, and what is known of the repository
    /// around it, and says so once for each.
    pub(super) fn attach_notes(&mut self, question: &str) {
        if self.agent.current_model().is_none() {
            return;
        }
        let memories = self.memories_for(question);
        let notes = self.carries_project().then(|| {
            let cwd = state::read(&self.state).cwd.clone();
            let env = &self.configured.request.env;
            let options = Options {
                tokens_max: self.settings.context.project_tokens,
                env: env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            };
            self.configured.project_context.surroundings.notes(&cwd, &options)
        });
        let Some(notes) = notes.flatten() else {
            return self.agent.attach(&[("a memory", memories)]);
        };
        if self.configured.project_context.told.as_ref() != Some(&notes.root) {
            let files = match notes.instructions {
                0 => String::new(),
                1 => ", AGENTS.md".to_owned(),
                count => format!(", {count} AGENTS.md"),
            };
            let names = if notes.about.is_empty() { "" } else { "the names of its files" };
            let carried = format!("{names}{files}{}git's state", if names.is_empty() { "" } else { " and " });
            let tokens = estimate_tokens(&notes.about) + estimate_tokens(&notes.state);
            self.console.notice(&format!(
                "[context] of this repository your question carries {carried}, about {tokens} tokens; :context project off \
                 leaves that out"
            ));
            self.configured.project_context.told = Some(notes.root);
        }
        let names = "the project's names and AGENTS.md";
        self.agent.attach(&[("a memory", memories), (names, notes.about), ("git's state", notes.state)]);
    }

    fn show_context(&mut self) {
        self.take_hands();
        let report = self.agent.context();
        let window = report.window_tokens.max(1);
        let total: usize = report.parts.iter().map(|part| part.tokens).sum();
        let row = |name: &str, tokens: usize| {
            vec![tokens.to_string(), format!("{} %", (tokens * 100).div_ceil(window)), name.to_owned()]
        };
        let mut rows: Vec<Vec<String>> = report.parts.iter().map(|part| row(&part.name, part.tokens)).collect();
        rows.push(row("together, estimated", total));
        self.console.write(&table(&rows, self.console.width_columns()));
        let threshold = match report.compact_at_tokens {
            Some(tokens) => format!("from {tokens} on the older turns are summarised"),
            None => "nothing is summarised by itself".to_owned(),
        };
        self.console.notice(&format!("the window has {} tokens; {threshold}", report.window_tokens));
        if let Some((text, turns)) = report.summary {
            self.console.notice(&format!("the summary of the first {turns} turns:"));
            self.console.outside(&format!("{text}\n"));
        }
    }

    fn compact_context(&mut self) -> Flow {
        let done = self.with_model(|agent, cancel, draw, _| {
            if let Err(failure) = agent.compact_now(cancel, draw) {
                draw(Event::Failed { text: String::new(), failure });
            }
        });
        done.err().unwrap_or(Flow::Continue)
    }
}
