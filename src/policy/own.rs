//! ReedClaw called by a model: what would open its own guard, or put away what it wrote down. A person may do all of it.

use super::exec::output;
use super::options::Options;
use super::run::{Run, Value};
use super::text::{has_open, listed};
use crate::proto::action::{Risk, WriteKind};

/// Options in front of a subcommand; each takes a value.
const VALUED: &str = "--config --path --model --log-level";
/// Subcommands that only tell, or only make the guard closer.
const TELLS: &str = "route card cost receipt policy pdf-text steps help";
/// Subcommands of which a word or an option opens the guard.
const OPENS: &str = "allow doctor estop memory plugin tool";

impl Run<'_, '_> {
    /// Runs `reedclaw`; `None` where it is another program.
    pub(super) fn own_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        if name != "reedclaw" {
            return None;
        }
        let (rest, has_config) = behind_own_options(words);
        let has = |wanted: &str| rest.iter().any(|word| listed(wanted, word));
        let verb = rest.first().map(String::as_str).unwrap_or_default();
        let second = rest.get(1).map(String::as_str).unwrap_or_default();
        let sets_autonomy = rest.iter().any(|word| word.split('=').next() == Some("--autonomy"));
        let opens = match verb {
            "allow" => second == "import",
            "estop" => has("--clear"),
            "plugin" => listed("install remove", second),
            "memory" => second == "clear" && has("--yes"),
            "tool" => second == "run" && (has("--yes") || has_config || sets_autonomy),
            "agent" => has_config || sets_autonomy,
            "doctor" => has("--repair"),
            "onboard" => !has("--print"),
            _ => false,
        };
        if has_open(verb) || rest.iter().any(|word| has_open(word)) && listed(OPENS, verb) {
            self.block_unknown("own-files", "what reedclaw is told isn't known: it may change what a model may do");
        } else if opens {
            self.block("own-files", format!("reedclaw {verb} changes what a model may do, or what is kept of it"));
        }
        for path in Options::read(rest, "", "export").values("", "export").filter(|_| verb == "doctor") {
            self.writes(path, WriteKind::Write);
        }
        if second == "export" {
            rest.iter()
                .skip(2)
                .filter(|word| !word.starts_with('-'))
                .for_each(|path| self.writes(path, WriteKind::Write));
        }
        match verb {
            _ if listed(TELLS, verb) => self.note(Risk::Low, "looks", format!("reedclaw {verb} tells")),
            "agent" | "allow" | "config" | "doctor" | "estop" | "history" | "init" | "memory" | "onboard"
            | "plugin" | "provider" | "redo" | "tool" | "undo" => {
                self.note(Risk::High, "own-program", format!("reedclaw {verb} acts for you"));
            }
            // The backing shell, with the same words.
            _ => return Some(self.exec_program([vec!["bash".to_owned()], rest.to_vec()].concat())),
        }
        Some(output())
    }
}

/// The words behind ReedClaw's own options, and whether one of these names another config.
fn behind_own_options(mut words: &[String]) -> (&[String], bool) {
    let mut has_config = false;
    while let Some((word, rest)) = words.split_first() {
        let (name, is_whole) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        if !listed(VALUED, name) {
            break;
        }
        has_config |= name == "--config";
        words = if is_whole { rest } else { rest.get(1..).unwrap_or_default() };
    }
    (words, has_config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_options_stand_in_front() {
        let words = ["--config=/x", "--path", "d", "agent", "--config"].map(str::to_owned);
        assert_eq!(behind_own_options(&words), (&words[3..], true));
        assert_eq!(behind_own_options(&words[3..]), (&words[3..], false));
        assert_eq!(behind_own_options(&words[1..2]), (&[][..], false));
    }

    #[test]
    fn a_model_doesnt_raise_the_autonomy_of_another() {
        let rules = crate::policy::Rules::new("/w", "/h");
        let context = crate::policy::Context {
            rules: &rules,
            cwd: "/w",
            can_ask: true,
            hold: crate::proto::action::Hold::Walls,
            files: &crate::policy::NoFiles,
        };
        let risk = |command: &str| {
            let action = crate::proto::action::Action::Shell { command: command.to_owned() };
            crate::policy::judge(&action, &context).risk
        };
        for raised in ["agent --autonomy full -m x", "agent -m x --autonomy=full", "tool run shell --autonomy full"] {
            assert_eq!(risk(&format!("reedclaw {raised}")), Risk::Blocked, "{raised}");
        }
        assert_eq!(risk("reedclaw agent -m x"), Risk::High);
    }
}
