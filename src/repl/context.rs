//! `:context`: what the next question would carry and what it costs, the summary of the older part, and whether questions
//! carry what is known of the project.

use super::run::{Flow, Repl};
use crate::ops::context::rows;
use crate::proto::{Event, Failure, FailureKind};
use crate::render::text::table;
use crate::turn::estimate_tokens;

impl Repl {
    /// Carries out `:context`.
    pub(super) fn context(&mut self, argument: &str) -> Flow {
        match argument {
            "" => self.show_context(),
            "compact" => return self.compact_context(),
            "restore" => match self.runtime.agent_mut().restore_context() {
                Some(turns) => self.console.notice(&format!(
                    "the first {turns} turns are sent to the letter again; no summary is made until :context compact or :new"
                )),
                None => self.console.notice("no summary stands for anything here"),
            },
            "project" => self.tell_project(),
            "project on" | "project off" => {
                self.runtime.carry_project(argument == "project on");
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
        let told = if self.runtime.carries_project() {
            "a question asked in a git repository carries its card, its files' names, AGENTS.md and git's state"
        } else {
            "questions carry nothing of the project around them"
        };
        self.console.notice(told);
    }

    /// `:card`: what a question asked here carries of the repository, and what that costs.
    pub(super) fn show_card(&mut self) {
        let Some(notes) = self.runtime.project_notes() else {
            return self.console.notice("there is no git repository here, so questions carry no card");
        };
        for part in notes.parts() {
            self.runtime.agent().redacted(part).lines().for_each(|line| self.console.paragraph(line));
            self.console.line("");
        }
        let tokens = notes.parts().iter().map(|part| estimate_tokens(part)).sum::<usize>();
        let most = self.runtime.settings().context.project_tokens;
        let told = if self.runtime.carries_project() {
            "sent with the first question here, and again when it has changed; :context project off leaves it out"
        } else {
            "not sent; :context project on sends it"
        };
        self.console.notice(&format!("about {tokens} tokens of at most {most} (context.project_tokens); {told}"));
    }

    fn show_context(&mut self) {
        self.refresh_tools();
        let report = self.runtime.agent_mut().context();
        let how = if report.is_counted { "total, by the server's count" } else { "total (estimate)" };
        self.console.write(&table(&rows(&report, how), self.console.width_columns()));
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
        let done = self.ask_aside(|agent, cancel, send| {
            if let Err(failure) = agent.compact_now(cancel, send) {
                send(Event::Failed { text: String::new(), failure });
            }
        });
        done.err().unwrap_or(Flow::Continue)
    }
}
