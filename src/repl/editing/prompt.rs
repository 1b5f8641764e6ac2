//! The prompt: directory, git branch, last status and model, or the shell's own; then the glyph that says where the
//! line will go while it is typed.

use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nu_ansi_term::{Color, Style};
use reedline::{PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, PromptViMode};

use crate::config::{Env, WhoChoice};
use crate::proto::{Route, RouteVerdict};
use crate::route::steady;
use crate::shell::ShellPrompt;

/// Place to which the line that is being typed would go; the highlighter writes it before the prompt is drawn.
#[derive(Clone, Debug)]
pub struct Heading {
    shown: Arc<Mutex<Shown>>,
}

/// The text of the prompt, and the line that it was made for.
#[derive(Clone, Debug)]
struct Shown {
    line: String,
    route: Route,
    /// `true` if the verdict differs, but a word was still being typed.
    held: bool,
    /// The route that the rules would choose, if a mode decides instead.
    shadow: Option<Route>,
    /// `true` if the route is shown in words.
    words: bool,
    /// The sign at the end of the prompt, as it was drawn last.
    sign: String,
}

impl Heading {
    /// Makes a heading that shows the route in glyphs or in words.
    #[must_use]
    pub fn new(words: bool) -> Self {
        let shown =
            Shown { line: String::new(), route: Route::Empty, held: false, shadow: None, words, sign: String::new() };
        Self { shown: Arc::new(Mutex::new(shown)) }
    }

    /// Sets whether the route is shown in words or in glyphs.
    pub fn set_words(&self, words: bool) {
        self.lock().words = words;
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock()
    }

    /// Sets the route of the line, and the route without the mode if it differs.
    pub fn set(&self, line: &str, verdict: &RouteVerdict, shadow: Option<Route>) {
        let mut shown = self.lock();
        let route = if shown.line == line && shown.held && verdict.rule != "forced-by-key" {
            // The same line is drawn again.
            shown.route
        } else {
            steady(Some((&shown.line, shown.route)), line, verdict)
        };
        (shown.line, shown.held) = (line.to_owned(), route != verdict.route);
        (shown.route, shown.shadow) = (route, shadow);
    }

    /// Returns whether the prompt showed a route other than that of `verdict` for `line` when Enter was pressed.
    #[must_use]
    pub fn differs(&self, line: &str, verdict: &RouteVerdict) -> bool {
        let shown = self.lock();
        shown.held && shown.line == line && shown.route != verdict.route
    }

    /// The sign at the end of the prompt, with its colours, as it was drawn last.
    #[must_use]
    pub fn sign(&self) -> String {
        self.lock().sign.clone()
    }

    fn get(&self) -> (Route, Option<Route>) {
        let shown = self.lock();
        (shown.route, shown.shadow)
    }
}

/// The user and the machine of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    user: String,
    host: String,
    root: bool,
    /// The session came over ssh.
    remote: bool,
}

impl Who {
    /// Reads it from the environment of the start.
    #[must_use]
    pub fn of(env: &Env) -> Self {
        let variable = |name: &str| {
            let value = env.get(std::ffi::OsStr::new(name)).map(|value| value.to_string_lossy().into_owned());
            value.filter(|value| !value.is_empty())
        };
        let root = nix::unistd::geteuid().is_root();
        let user = if root { Some("root".to_owned()) } else { variable("USER").or_else(|| variable("LOGNAME")) };
        let host = crate::host::host_name().unwrap_or_default();
        let clean = |text: &str| crate::render::sanitise(text).replace(['\n', '\t'], "?");
        Self {
            user: clean(&user.unwrap_or_default()),
            // The first label of a name that has a domain.
            host: clean(host.split('.').next().unwrap_or_default()),
            root,
            remote: ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"].iter().any(|name| variable(name).is_some()),
        }
    }

    /// Returns whether the prompt shows user and machine.
    #[must_use]
    pub fn is_shown(&self, choice: WhoChoice) -> bool {
        match choice {
            WhoChoice::Auto => self.root || self.remote,
            WhoChoice::Always => true,
            WhoChoice::Never => false,
        }
    }

    fn text(&self) -> String {
        format!("{}@{}{}", self.user, self.host, if self.root { "#" } else { "" })
    }
}

/// The facts that the default prompt shows.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The user and the machine, if the prompt shows them.
    pub who: Option<Who>,
    /// The virtual environment that is active, or nothing.
    pub environment: String,
    /// The directory, `~` for home.
    pub directory: String,
    /// The branch, or a short hash.
    pub branch: Option<String>,
    /// The last status.
    pub status: i32,
    /// Duration of the last command, if the prompt shows it.
    pub took: Option<Duration>,
    /// The model that answers.
    pub model: Option<String>,
}

/// reedline's prompt.
pub struct ReedPrompt {
    left: String,
    right: String,
    /// The sign at the end of the shell's own prompt, with its colours and blanks; ours takes its place.
    own: Option<String>,
    /// The shell's own prompt for further rows, if it has one.
    more: Option<String>,
    heading: Heading,
    color: bool,
    unicode: bool,
}

/// Longest directory shown whole.
const DIRECTORY_COLUMNS_MAX: usize = 48;

impl ReedPrompt {
    /// Makes the default prompt from its facts.
    #[must_use]
    pub fn from_facts(facts: &Facts, heading: Heading, color: bool, unicode: bool) -> Self {
        let paint = |style: Style, text: &str| if color { style.paint(text).to_string() } else { text.to_owned() };
        let mut parts = Vec::new();
        if let Some(who) = &facts.who {
            let style = if who.root { Color::Red.bold() } else { Color::Yellow.normal() };
            parts.push(paint(style, &who.text()));
        }
        if !facts.environment.is_empty() {
            parts.push(paint(Color::Cyan.normal(), &format!("({})", facts.environment)));
        }
        parts.push(paint(Color::Blue.bold(), &shorten(&facts.directory)));
        if let Some(branch) = &facts.branch {
            parts.push(paint(Color::Purple.normal(), branch));
        }
        if facts.status != 0 {
            parts.push(paint(Color::Red.normal(), &facts.status.to_string()));
        }
        if let Some(took) = facts.took {
            parts.push(paint(Color::Yellow.normal(), &short_duration(took)));
        }
        if let Some(model) = &facts.model {
            parts.push(paint(Color::DarkGray.normal(), model));
        }
        let left = format!("{} ", parts.join(" "));
        Self { left, right: String::new(), own: None, more: None, heading, color, unicode }
    }

    /// Makes the prompt that the shell itself would show.
    #[must_use]
    pub fn from_shell(rendered: &ShellPrompt, heading: Heading, color: bool, unicode: bool) -> Self {
        let (left, own) = split_sign(&rendered.left);
        let right = rendered.right.replace('\n', " ");
        let more = (!rendered.more.is_empty()).then(|| rendered.more.clone());
        Self { left, right, own, more, heading, color, unicode }
    }

    /// Makes the prompt of a question: its label, and no glyph, because the line goes nowhere else.
    #[must_use]
    pub fn from_label(label: &str, color: bool, unicode: bool) -> Self {
        let own = Some(String::new());
        let heading = Heading::new(false);
        Self { left: label.to_owned(), right: String::new(), own, more: None, heading, color, unicode }
    }

    /// Puts a hook's texts in the place of the left prompt and at the right edge.
    #[must_use]
    pub fn with_texts(mut self, left: Option<String>, right: Option<String>) -> Self {
        if let Some(left) = left {
            self.own = None;
            self.left = crate::repl::hooks::prompt_text(&left, self.color);
        }
        if let Some(right) = right {
            self.right = crate::repl::hooks::prompt_text(&right, self.color).replace('\n', " ");
        }
        self
    }

    /// Number of rows of the drawn line below the cursor; `None` if the whole line is one row.
    #[must_use]
    pub fn rows_below_cursor(&self, buffer: &str, cursor_bytes: usize, columns: usize) -> Option<usize> {
        let all = self.rows(buffer, columns);
        let to_cursor = self.rows(buffer.get(..cursor_bytes).unwrap_or(buffer), columns);
        (all > 1).then(|| all.saturating_sub(to_cursor))
    }

    /// Returns the prompt as drawn before an empty line.
    #[must_use]
    pub fn drawn(&self) -> String {
        use reedline::Prompt;
        format!("{}{}", self.left, self.render_prompt_indicator(PromptEditMode::Default))
    }

    /// Number of rows that the prompt and a line take, with the cursor's place after the line.
    #[must_use]
    pub fn rows(&self, buffer: &str, columns: usize) -> usize {
        use reedline::Prompt;
        let prompt = crate::render::strip_controls(self.left.as_bytes());
        let next = format!("\n{}", self.render_prompt_multiline_indicator());
        let sign = self.render_prompt_indicator(PromptEditMode::Default);
        let sign = crate::render::strip_controls(sign.as_bytes());
        let whole = format!("{prompt}{sign}{}", buffer.replace('\n', &next));
        whole.split('\n').map(|line| crate::render::text::width(line) / columns.max(1) + 1).sum()
    }

    /// The glyph and its colour.
    fn glyph(&self) -> (&'static str, Color) {
        let route = self.heading.get().0;
        if self.heading.lock().words {
            return match route {
                Route::Ask => ("model>", Color::Purple),
                Route::Meta => ("meta>", Color::Yellow),
                Route::Confirm => ("ask first>", Color::Yellow),
                Route::Shell | Route::Empty => ("shell>", Color::Green),
            };
        }
        match (route, self.unicode) {
            (Route::Ask, _) => ("?", Color::Purple),
            (Route::Meta, _) => (":", Color::Yellow),
            (Route::Confirm, _) => ("~", Color::Yellow),
            (_, true) => ("❯", Color::Green),
            (_, false) => (">", Color::Green),
        }
    }

    /// The sign that ends the prompt, with its colours.
    fn sign(&self, mode: &PromptEditMode) -> Cow<'_, str> {
        let (glyph, color) = self.glyph();
        let glyph = match mode {
            PromptEditMode::Vi(PromptViMode::Normal) if glyph == "❯" => "❮",
            PromptEditMode::Vi(PromptViMode::Normal) if glyph == ">" => "<",
            _ => glyph,
        };
        let is_shells = matches!(self.heading.get().0, Route::Shell | Route::Empty);
        if let Some(own) = &self.own {
            let blanks = &own[own.trim_end_matches(' ').len()..];
            return match () {
                () if !is_shells && self.color => format!("\x1b[0m{}{blanks}", color.bold().paint(glyph)).into(),
                () if !is_shells => format!("{glyph}{blanks}").into(),
                () if glyph == "❮" => own.replace('❯', glyph).into(),
                () => Cow::Borrowed(own),
            };
        }
        if self.color { format!("{} ", color.bold().paint(glyph)).into() } else { format!("{glyph} ").into() }
    }
}

impl reedline::Prompt for ReedPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.left)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        let text = match self.heading.get().1 {
            Some(Route::Ask) => "auto: the model",
            Some(Route::Confirm) => "auto: would ask you",
            Some(Route::Shell) => "auto: the shell",
            _ => return Cow::Borrowed(&self.right),
        };
        if self.color { Color::DarkGray.paint(text).to_string().into() } else { text.into() }
    }

    fn render_prompt_indicator(&self, mode: PromptEditMode) -> Cow<'_, str> {
        let sign = self.sign(&mode);
        sign.as_ref().clone_into(&mut self.heading.lock().sign);
        sign
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        match &self.more {
            Some(more) => Cow::Borrowed(more),
            None => Cow::Borrowed(if self.unicode { "∙ " } else { "> " }),
        }
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = matches!(search.status, PromptHistorySearchStatus::Failing);
        let state = if failing { "nothing found for" } else { "history" };
        format!("({state}: {}) ", search.term).into()
    }

    // Like zsh and fish.
    fn right_prompt_on_last_line(&self) -> bool {
        true
    }

    // The colours are in the text already.
    fn get_prompt_color(&self) -> reedline::Color {
        reedline::Color::Default
    }

    fn get_prompt_right_color(&self) -> reedline::Color {
        reedline::Color::Default
    }

    fn get_indicator_color(&self) -> reedline::Color {
        reedline::Color::Default
    }

    fn get_prompt_multiline_color(&self) -> reedline::Color {
        reedline::Color::DarkGray
    }
}

/// Writes a duration in as few characters as it needs.
fn short_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0..10) => format!("{:.1}s", duration.as_secs_f64()),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

/// Splits a shell's prompt before the sign that ends it (`$`, `%`, `#`, `❯`), which keeps its colours and the blanks after
/// it; no sign if the prompt ends otherwise.
fn split_sign(prompt: &str) -> (String, Option<String>) {
    let mut sign = None;
    // The sequences of colour since the last that ended all.
    let mut styles = String::new();
    let mut rest = prompt;
    while let Some(next) = rest.chars().next() {
        let at = prompt.len() - rest.len();
        if next == '\x1b' {
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
            if ["\x1b[0m", "\x1b[m"].contains(&&rest[..end]) {
                styles.clear();
            }
            if rest[..end].ends_with('m') {
                styles.push_str(&rest[..end]);
            }
            rest = &rest[end..];
            continue;
        }
        if next != ' ' {
            let is_sign = next == 'λ' || !(next.is_alphanumeric() || next.is_control() || ")]}\"'".contains(next));
            sign = is_sign.then(|| (at, styles.clone()));
        }
        rest = &rest[next.len_utf8()..];
    }
    match sign {
        Some((at, styles)) => (prompt[..at].to_owned(), Some(format!("{styles}{}", &prompt[at..]))),
        None => (prompt.to_owned(), None),
    }
}

/// Writes a path with `~` for home.
#[must_use]
pub fn with_tilde(path: &Path, home: Option<&Path>) -> String {
    let text = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    crate::render::sanitise(&text).replace(['\n', '\t'], "?")
}

/// Shortens all but the last two parts of a long path to their first character.
fn shorten(directory: &str) -> String {
    if crate::render::text::width(directory) <= DIRECTORY_COLUMNS_MAX {
        return directory.to_owned();
    }
    let parts: Vec<&str> = directory.split('/').collect();
    let shortened = parts.len().saturating_sub(2);
    let short = parts.iter().enumerate().map(|(index, part)| {
        if index < shortened { part.chars().next().map(String::from).unwrap_or_default() } else { (*part).to_owned() }
    });
    short.collect::<Vec<_>>().join("/")
}

/// Splits a shell's rendered prompt into the text that a line editor's prompt can have, and the sequences (window
/// titles) that must be written once, on their own. Readline's width marks are dropped.
#[must_use]
pub fn split_titles(rendered: &str) -> (String, String) {
    let (mut text, mut titles) = (String::new(), String::new());
    let mut rest = rendered;
    while let Some(at) = rest.find("\x1b]") {
        text.push_str(&rest[..at]);
        let body = &rest[at..];
        let end = [body.find('\x07').map(|end| end + 1), body.find("\x1b\\").map(|end| end + 2)];
        let Some(end) = end.into_iter().flatten().min() else {
            rest = "";
            break;
        };
        titles.push_str(&body[..end]);
        rest = &body[end..];
    }
    text.push_str(rest);
    (text.replace(['\x01', '\x02'], ""), titles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_a_tilde_and_long_paths_are_short() {
        let home = Path::new("/home/u");
        assert_eq!(with_tilde(Path::new("/home/u"), Some(home)), "~");
        assert_eq!(with_tilde(Path::new("/home/u/a"), Some(home)), "~/a");
        assert_eq!(with_tilde(Path::new("/home/us"), Some(home)), "/home/us");
        assert_eq!(with_tilde(Path::new("/a\x1b]0;x\x07b"), None), "/ab");
        assert_eq!(shorten("~/a/b"), "~/a/b");
        let long = "/usr/local/share/something/quite/deep/inside/another/folder";
        assert_eq!(shorten(long), "/u/l/s/s/q/d/i/another/folder");
    }

    #[test]
    fn the_sign_of_a_shells_prompt_makes_room_for_ours() {
        for (prompt, left, own) in [
            ("u@h:~$ ", "u@h:~", Some("$ ")),
            ("\x1b[32m~ ❯ \x1b[0m", "\x1b[32m~ ", Some("\x1b[32m❯ \x1b[0m")),
            ("\x1b[1ma\x1b[0m\n\x1b[31m➜\x1b[0m  ", "\x1b[1ma\x1b[0m\n\x1b[31m", Some("\x1b[0m\x1b[31m➜\x1b[0m  ")),
            ("[u ~]", "[u ~]", None),
            ("plain", "plain", None),
            ("", "", None),
        ] {
            assert_eq!(split_sign(prompt), (left.to_owned(), own.map(str::to_owned)), "{prompt:?}");
        }
        use reedline::Prompt;
        let rendered = ShellPrompt { left: "~ $ ".into(), right: "a\nb".into(), more: "_> ".into() };
        let heading = Heading::new(false);
        let prompt = ReedPrompt::from_shell(&rendered, heading.clone(), false, true);
        let shown =
            || format!("{}{}", prompt.render_prompt_left(), prompt.render_prompt_indicator(PromptEditMode::Emacs));
        assert_eq!((shown().as_str(), &*prompt.render_prompt_right()), ("~ $ ", "a b"));
        let verdict = RouteVerdict {
            route: Route::Ask,
            rule: "forced-by-key",
            text: "why".into(),
            reason: String::new(),
            score: 0.0,
        };
        heading.set("why", &verdict, None);
        assert_eq!((shown().as_str(), &*prompt.render_prompt_multiline_indicator()), ("~ ? ", "_> "));
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [(2.34, "2.3s"), (45.9, "45s"), (125.0, "2m5s"), (7384.0, "2h3m")] {
            assert_eq!(short_duration(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn titles_are_taken_out_of_a_shells_prompt() {
        let rendered = "\x01\x1b]0;u@h: ~\x07\x02\x1b[1mu@h\x1b[0m$ ";
        assert_eq!(split_titles(rendered), ("\x1b[1mu@h\x1b[0m$ ".into(), "\x1b]0;u@h: ~\x07".into()));
        assert_eq!(split_titles("plain> "), ("plain> ".into(), String::new()));
        assert_eq!(split_titles("x\x1b]0;endless"), ("x".into(), String::new()));
    }
}
