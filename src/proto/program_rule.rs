//! A user's rule about a program: its needs beyond those in the policy's own table. Pure; must not know the table.
//!
//! ```
//! use reedclaw::proto::program_rule::{ProgramRule, Wants};
//!
//! let rule: ProgramRule = "terraform apply: deny".parse().expect("a rule");
//! assert_eq!((rule.name(), rule.wants), ("terraform", Wants::Deny));
//! ```

use std::fmt;
use std::str::FromStr;

/// The requirement of a rule. No requirement makes a command less risky.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Asks before it runs, in every autonomy.
    Ask,
    /// Never runs.
    Deny,
    /// Needs the network: the user is asked before it runs.
    Network,
    /// Needs services or devices of this machine: the user is asked before it runs.
    Host,
}

impl Wants {
    const WORDS: [(&'static str, Self); 4] =
        [("ask", Self::Ask), ("deny", Self::Deny), ("network", Self::Network), ("host", Self::Host)];
}

/// A rule about a program's commands that contain all of these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRule {
    /// The program, then words and options, if any.
    words: Vec<String>,
    /// Its requirement.
    pub wants: Wants,
}

impl ProgramRule {
    /// The program, without a directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns whether the rule applies to a command: `words` are those after the program, and an unknown word may be any word.
    #[must_use]
    pub fn holds_for(&self, program: &str, words: &[Option<&str>]) -> bool {
        let is = |word: &str, wanted: &str| {
            let has_letter = || {
                let letter = wanted.strip_prefix('-').filter(|letter| letter.len() == 1);
                letter.is_some_and(|letter| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
            };
            word == wanted || word.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('=')) || has_letter()
        };
        let has = |wanted: &String| words.iter().any(|word| word.is_none_or(|word| is(word, wanted)));
        self.name() == program && self.words.iter().skip(1).all(has)
    }

    /// The strictest rule for the program in a text that isn't a rule; `None` if it names no program.
    #[must_use]
    pub fn strictest(text: &str) -> Option<Self> {
        let first = text.split([' ', ':', '=', ',']).find(|word| !word.is_empty())?;
        let name = first.rsplit('/').next().unwrap_or(first);
        format!("{name}: deny").parse().ok()
    }
}

impl FromStr for ProgramRule {
    type Err = ();

    /// Reads `PROGRAM WORD…: ask`, `deny`, `network` or `host`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (words, wants) = text.rsplit_once(':').ok_or(())?;
        let wants = Wants::WORDS.iter().find(|(word, _)| *word == wants.trim()).ok_or(())?.1;
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let is_name = |word: &String| !word.starts_with('-') && !word.contains(['/', '*', '$', '"', '\'', '`']);
        if words.first().is_some_and(is_name) { Ok(Self { words, wants }) } else { Err(()) }
    }
}

impl fmt::Display for ProgramRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Wants::WORDS.iter().find(|(_, wants)| *wants == self.wants).map_or("", |(word, _)| word);
        write!(f, "{}: {word}", self.words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written_alike() {
        for text in ["deploy: ask", "terraform apply: deny", "curl --upload-file: network", "npm run build:prod: host"]
        {
            let rule: ProgramRule = text.parse().expect("a rule");
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn a_wrong_rule_denies_the_program_that_it_names() {
        for (text, strictest) in [
            ("deploy: maybe", Some("deploy: deny")),
            ("deploy", Some("deploy: deny")),
            ("terraform apply = deny", Some("terraform: deny")),
            ("kubectl: low", Some("kubectl: deny")),
            ("/usr/bin/x: ask", Some("x: deny")),
            ("--force: ask", None),
            ("", None),
            (": ask", Some("ask: deny")),
        ] {
            assert!(text.parse::<ProgramRule>().is_err(), "{text}");
            let found = ProgramRule::strictest(text).map(|rule| rule.to_string());
            assert_eq!(found.as_deref(), strictest, "{text}");
        }
    }
}
