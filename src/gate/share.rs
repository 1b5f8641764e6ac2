//! The permanently allowed commands as a list to share: the lines alone, because programs and their hashes differ
//! between machines.

use serde::{Deserialize, Serialize};

use super::Rule;

/// The list: `{"allowedCommands": […]}`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandList {
    /// The commands.
    #[serde(rename = "allowedCommands")]
    pub commands: Vec<ListedCommand>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a command is a string, or {\"command\": …, \"cwd\": …} below the project")]
pub enum ListedCommand {
    /// In the project's root.
    InRoot(String),
    /// In a directory below it.
    Below(CommandBelow),
}

/// A command in a directory below the project's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandBelow {
    /// The line.
    pub command: String,
    /// The directory, from the root.
    pub cwd: String,
}

impl CommandList {
    /// The list of these rules.
    #[must_use]
    pub fn of(rules: &[Rule]) -> Self {
        let listed = |Rule { command, cwd, .. }: &Rule| match cwd.as_str() {
            "" => ListedCommand::InRoot(command.clone()),
            _ => ListedCommand::Below(CommandBelow { command: command.clone(), cwd: cwd.clone() }),
        };
        // Rules about changes contain the paths of one project, and those about servers the permissions of one person.
        let is_command = |rule: &&Rule| !rule.is_about_changes() && !rule.is_about_server();
        Self { commands: rules.iter().filter(is_command).map(listed).collect() }
    }

    /// Reads a list.
    ///
    /// # Errors
    /// The text is none, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("it isn't a list {{\"allowedCommands\": […]}}: {error}"))
    }

    /// Writes it in a form that people can read, too.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl ListedCommand {
    /// The line, and its directory from the project's root.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        match self {
            Self::InRoot(command) => (command, ""),
            Self::Below(CommandBelow { command, cwd }) => (command, cwd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_export_and_import_and_a_wrong_one_is_refused() {
        let rule = |command: &str, cwd: &str| Rule {
            command: command.into(),
            cwd: cwd.into(),
            program: "/bin/x".into(),
            sha256: "00".into(),
            keeps: Vec::new(),
            removes: Vec::new(),
            pin: String::new(),
        };
        let list = CommandList::of(&[rule("cargo test", ""), rule("make \"x\"", "sub")]);
        let text = list.to_json();
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["allowedCommands"][0], "cargo test");
        assert!(!text.contains("/bin/x"));
        assert_eq!(CommandList::parse(&text), Ok(list));
        for wrong in ["", "[]", "{}", "{\"allowedCommands\": [1]}", "{\"allowedCommands\": [], \"x\": 1}"] {
            assert!(CommandList::parse(wrong).is_err(), "{wrong}");
        }
        let error = CommandList::parse("{\"allowedCommands\": [1]}").expect_err("a number");
        assert!(error.contains("a command is a string"), "{error}");
    }
}
