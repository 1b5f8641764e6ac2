//! The settings of the output: colours, the prompt's facts, notices.

use super::reading::values::Values;

/// The appearance of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// Cases in which colours are used.
    pub color: ColorChoice,
    /// `true` if the markdown of answers is drawn.
    pub markdown: bool,
    /// `true` if context and money appear at the right edge of the prompt.
    pub usage: bool,
    /// Cases in which the prompt names user and host.
    pub who: WhoChoice,
    /// Seconds after which a command's duration is shown in the prompt; 0: never.
    pub duration_s: u64,
    /// The way in which the end of a command is announced to a person who is doing something else.
    pub notify: NotifyChoice,
    /// The shortest duration of a command that is announced, in seconds.
    pub notify_s: u64,
    /// `true` if the output is for a screen reader.
    pub accessible: bool,
}

/// Cases in which the prompt names user and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhoChoice {
    /// Over ssh and as root.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Ways to announce the end of a command to a person who is doing something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyChoice {
    /// By a notification if the terminal shows them, else by its bell.
    Auto,
    /// By the bell.
    Bell,
    /// Not at all.
    Off,
}

/// Cases in which colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorChoice {
    /// On a terminal that has them, unless `$NO_COLOR` is set.
    Auto,
    /// Never.
    Never,
}

impl ConsoleSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            color: match values.text(&["console", "color"])?.as_str() {
                "never" => ColorChoice::Never,
                _ => ColorChoice::Auto,
            },
            markdown: values.bool(&["console", "markdown"])?,
            usage: values.bool(&["console", "usage"])?,
            who: match values.text(&["console", "who"])?.as_str() {
                "always" => WhoChoice::Always,
                "never" => WhoChoice::Never,
                _ => WhoChoice::Auto,
            },
            duration_s: values.integer(&["console", "duration_s"])?,
            notify: match values.text(&["console", "notify"])?.as_str() {
                "bell" => NotifyChoice::Bell,
                "off" => NotifyChoice::Off,
                _ => NotifyChoice::Auto,
            },
            notify_s: values.integer(&["console", "notify_s"])?,
            accessible: values.bool(&["console", "accessible"])?,
        })
    }
}
