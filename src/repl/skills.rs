//! `:skills` and `:p`: the skills and prompt templates that there are, trust in those of a project, and a question made of a
//! template.

use super::run::{Flow, Repl};
use crate::app::{Skills, skills_trust};
use crate::proto::{Failure, FailureKind};
use crate::render::text::{escape_visible, table};
use crate::skills::{Found, filled};

impl Repl {
    fn skills_here(&self) -> Skills {
        Skills::around(self.runtime.env(), self.runtime.cwd())
    }

    /// `:skills [trust|untrust]`.
    pub(super) fn skills(&mut self, argument: &str) -> Flow {
        match argument {
            "" => self.list_skills(),
            "trust" => return self.trust_skills(),
            "untrust" => self.untrust_skills(),
            _ => self
                .skills_failure(format!(":skills doesn't know {argument}"), "trust, untrust, or nothing for the list"),
        }
        Flow::Continue
    }

    fn skills_failure(&self, message: String, hint: &str) {
        self.console.failure(&Failure { kind: FailureKind::User, message, hint: hint.to_owned() });
    }

    fn list_skills(&self) {
        let skills = self.skills_here();
        let rows = |found: &Found, from: &str| {
            let row = |kind: &str, it: &crate::skills::Text| {
                vec![kind.to_owned(), escape_visible(&it.name), from.to_owned(), escape_visible(&it.description)]
            };
            let skills = found.skills.iter().map(|it| row("skill", it));
            skills.chain(found.templates.iter().map(|it| row("prompt", it))).collect::<Vec<_>>()
        };
        let mut all = rows(&skills.own, "yours");
        all.extend(rows(&skills.project, if skills.is_trusted { "project" } else { "not trusted" }));
        if all.is_empty() {
            self.console
                .notice("there are no skills or prompt templates; docs/skills.md says where they are looked for");
        } else {
            self.console.write(&table(&all, self.console.width_columns()));
        }
        for problem in skills.own.problems.iter().chain(&skills.project.problems) {
            self.console.notice(&format!("not used: {}", escape_visible(problem)));
        }
        if let Some(told) = skills.notice() {
            self.console.notice(&told);
        }
    }

    fn trust_skills(&mut self) -> Flow {
        let skills = self.skills_here();
        let Some(overlay) = skills.overlay.clone().filter(|_| !skills.is_trusted) else {
            self.console.notice(if skills.is_trusted {
                "this project's skills are trusted already"
            } else {
                "this project brings no skills or prompt templates"
            });
            return Flow::Continue;
        };
        let console = self.console.clone();
        console.line("These texts speak to the model as instructions; any change of them asks again:");
        let show_bodies = |found: &Found| {
            for it in found.skills.iter().chain(&found.templates) {
                console.line(&escape_visible(&format!("── {} ({})", it.name, it.path.display())));
                it.body.lines().for_each(|line| console.line(&format!("  {}", escape_visible(line))));
            }
        };
        for it in skills.project.skills.iter().chain(&skills.project.templates) {
            console.line(&escape_visible(&format!("  {}: {}", it.path.display(), it.description)));
        }
        let choice = |keys: &[u8]| match keys {
            b"t" | b"T" => Some(Choice::Trust),
            b"l" | b"L" => Some(Choice::Look),
            b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(Choice::No),
            _ => None,
        };
        loop {
            match self.put_question("trust [t]  look [l]  no [n, Enter]", choice, Choice::No) {
                Ok(Choice::Look) => {
                    console.line("look");
                    show_bodies(&skills.project);
                }
                Ok(Choice::No) => {
                    console.line("not trusted");
                    return Flow::Continue;
                }
                Ok(Choice::Trust) => break,
                Err(flow) => return flow,
            }
        }
        match skills_trust(self.runtime.env()).trust(overlay).1 {
            Ok(()) => console.line("trusted"),
            Err(error) => self.skills_failure(format!("the trust can't be kept: {error}"), ""),
        }
        Flow::Continue
    }

    fn untrust_skills(&self) {
        let Some(overlay) = self.skills_here().overlay else {
            return self.console.notice("this project brings no skills or prompt templates");
        };
        match skills_trust(self.runtime.env()).forget(&overlay) {
            Ok(true) => self.console.notice("this project's skills are no longer trusted"),
            Ok(false) => self.console.notice("they weren't trusted"),
            Err(error) => self.skills_failure(format!("the record can't be removed: {error}"), ""),
        }
    }

    /// `:p NAME ARGUMENTS`: asks what a template says; alone it lists them.
    pub(super) fn prompt_template(&mut self, argument: &str, hidden: bool) -> Flow {
        let (name, arguments) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        if name.is_empty() {
            self.list_skills();
            return Flow::Continue;
        }
        let skills = self.skills_here();
        let Some(template) = skills.template(name) else {
            let is_untrusted = skills.project.templates.iter().any(|it| it.name == name);
            let (why, hint) = match is_untrusted {
                true => ("is the project's, and you haven't trusted it", ":skills trust shows it and asks"),
                false => ("is no prompt template", ":skills lists them"),
            };
            self.skills_failure(format!("{name} {why}"), hint);
            return Flow::Continue;
        };
        let question = filled(&template.body, arguments.trim());
        let kept = (!hidden).then(|| format!(":p {argument}"));
        self.ask(kept.as_deref(), &question)
    }
}

#[derive(Clone, Copy)]
enum Choice {
    Trust,
    Look,
    No,
}
