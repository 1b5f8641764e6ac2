//! The kinds of values that settings have, and their names in messages and in the reference.

use std::fmt;

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any string; may be empty only if `empty` is set.
    Text {
        /// `true` if an empty string is a value.
        empty: bool,
    },
    /// The address of a server.
    Address,
    /// A time of day and a later one, `HH:MM-HH:MM`, or empty.
    Times,
    /// The name of an environment variable, never echoed: a key pasted there by mistake must not be printed.
    VariableName,
    /// An absolute path after `~` and variables are expanded.
    Path,
    /// One of a few strings.
    Choice(&'static [&'static str]),
    /// A whole number in a range, both ends included.
    Integer(u64, u64),
    /// A number in a range, both ends included.
    Number(f64, f64),
    /// `true` or `false`.
    Bool,
    /// `true`; `false` is refused, for this reason.
    AlwaysTrue(&'static str),
    /// One of a few strings, or a whole number in a range, both ends included.
    ChoiceOrInteger(&'static [&'static str], u64, u64),
    /// A list of words.
    Words,
    /// A list of strings of one line each.
    Lines,
    /// A list of absolute paths; a leading `~` is the home.
    Paths,
    /// A list of rules about programs: [`crate::proto::program_rule`].
    Programs,
    /// A table from words to strings.
    WordMap,
    /// A table from words to one of a few strings, the strictest first.
    Rules(&'static [&'static str]),
    /// A table whose values may be secrets: texts, or tables that name a variable or a program that prints the value.
    Sources,
    /// A key itself, never echoed; it applies, with a warning.
    Secret,
    /// A program and its arguments, as a list of strings; never echoed but for the program.
    Argv,
    /// A program and its arguments, or an empty list for none; only the program is shown.
    Program,
    /// A list of ports.
    Ports,
}

impl fmt::Display for Kind {
    /// Writes the allowed values, in words that fit after "is not".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { empty: true } => f.write_str("a string"),
            Self::Text { empty: false } => f.write_str("a string that isn't empty"),
            Self::Times => f.write_str("times of day such as \"22:00-06:00\""),
            Self::Address => f.write_str("an address such as \"http://127.0.0.1:8080\""),
            Self::VariableName => f.write_str("the name of an environment variable, such as \"OPENAI_API_KEY\""),
            Self::Path => f.write_str("an absolute path (`~` and `$VAR` expand)"),
            Self::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                match quoted.split_last() {
                    Some((last, rest)) if !rest.is_empty() => write!(f, "{} or {last}", rest.join(", ")),
                    _ => f.write_str(&quoted.concat()),
                }
            }
            Self::ChoiceOrInteger(words, least, most) => {
                write!(f, "{} or {}", Self::Choice(words), Self::Integer(*least, *most))
            }
            Self::Integer(least, most) => write!(f, "a whole number ({least} to {most})"),
            Self::Number(least, most) => write!(f, "a number ({least} to {most})"),
            Self::Bool => f.write_str("true or false"),
            Self::AlwaysTrue(_) => f.write_str("true"),
            Self::Words => f.write_str("a list of words such as { \"deploy\", \"vpn\" }"),
            Self::Lines | Self::Program => f.write_str("a list of strings such as { \"make test\" }"),
            Self::Programs => f.write_str("a list of rules such as { \"deploy: ask\", \"terraform apply: deny\" }"),
            Self::Paths => f.write_str("a list of absolute paths such as { \"/srv\", \"~/.ssh\" }"),
            Self::Sources => f.write_str(
                "a table of strings, { from = \"VARIABLE\" } or { command = { \"PROGRAM\", \"ARGUMENT\" } }",
            ),
            Self::WordMap => f.write_str("a table of strings such as { gs = \"git status\" }"),
            Self::Rules(words) => write!(f, "a table of names, each with {}", Self::Choice(words)),
            Self::Secret => f.write_str("a key"),
            Self::Argv => f.write_str("a list of strings such as { \"pass\", \"show\", \"openai\" }"),
            Self::Ports => f.write_str("a list of ports such as { 80, 443, 8080 }"),
        }
    }
}
