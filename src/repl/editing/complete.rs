//! reedline's completer: lists candidates for the word at the cursor, first from ReedClaw's own knowledge, then from the live
//! shell. It opens at most one directory a request, runs nothing itself, and must not know how the live shell is asked.

#[allow(clippy::disallowed_methods, reason = "one directory a request")]
mod paths;

use std::path::Path;

use reedline::{Completer, CompletionResult, Span, Suggestion};

use crate::ops::sessions::takes_session;
use crate::project::Repository;
use crate::proto::{NameKind, Route};
use crate::repl::editing::state::{self, EditorState, SharedState};
use crate::route::lex::{Reading, Token, TokenKind, tokens};

/// Limit on the entries that are shown: longer lists aren't read.
const ENTRIES_MAX: usize = 2_000;
/// Characters of an alias that its description shows.
const DESCRIPTION_CHARS_MAX: usize = 60;

/// A candidate for the word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The replacement of the word, quoted as the shell needs it.
    pub value: String,
    /// A description, if one is known.
    pub description: Option<String>,
    /// True if a space follows it.
    pub append_space: bool,
}

/// Asks the live shell's programmable completion, within a time limit of its own.
pub trait LiveCompletion: Send {
    /// Completes the word before `position_bytes` of `line`. An empty answer means that it has none.
    fn complete(&mut self, line: &str, position_bytes: usize) -> Vec<Candidate>;

    /// The value of `$NAME`, `${NAME}` or `~USER`, if it has one.
    fn value(&mut self, text: &str) -> Option<String>;

    /// Lets the shell's own line editor complete the line, with the terminal.
    fn hand_over(&mut self);

    /// The users whose names begin with this.
    fn users(&mut self, typed: &str) -> Vec<String>;
}

/// Fit of a name to the typed text; the later ones are tried if the earlier ones found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Start,
    StartInAnyCase,
    Within,
}

impl Fit {
    const ALL: [Self; 3] = [Self::Start, Self::StartInAnyCase, Self::Within];

    fn fits(self, name: &str, typed: &str) -> bool {
        match self {
            Self::Start => name.starts_with(typed),
            Self::StartInAnyCase => name.to_lowercase().starts_with(&typed.to_lowercase()),
            Self::Within => name.to_lowercase().contains(&typed.to_lowercase()),
        }
    }
}

/// A meta command as completion shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaEntry {
    /// Its name without the colon.
    pub name: String,
    /// Its help, one line.
    pub help: String,
    /// The possible values of its first argument.
    pub values: Vec<String>,
}

/// Completes commands, variables, paths, git references and meta commands; what it can't, it asks the live shell.
pub struct ShellCompleter {
    state: SharedState,
    metas: Vec<MetaEntry>,
    live: Option<Box<dyn LiveCompletion>>,
    conversations: Option<Box<ListConversations>>,
    mentions: Option<Box<ListMentions>>,
    served: Option<Box<ListServed>>,
    sessions: Option<Box<ListSessions>>,
    templates: Option<Box<ListTemplates>>,
}

/// Lists what may follow an `@`, by the working directory and the typed beginning: value and description.
type ListMentions = dyn Fn(&Path, &str) -> Vec<(String, String)> + Send;
type ListServed = dyn Fn(&[&str]) -> Vec<(String, String)> + Send;
type ListSessions = dyn Fn(&Path) -> Vec<(String, String)> + Send;
type ListTemplates = dyn Fn(&Path) -> Vec<(String, String)> + Send;
type ListConversations = dyn Fn() -> Vec<(String, String)> + Send;

impl ShellCompleter {
    /// Makes a completer. Without `live`, arguments complete to paths.
    #[must_use]
    pub fn new(state: SharedState, metas: Vec<MetaEntry>, live: Option<Box<dyn LiveCompletion>>) -> Self {
        Self { state, metas, live, conversations: None, mentions: None, served: None, sessions: None, templates: None }
    }

    /// Adds the completion of `:resume`: `list` returns the conversations, number and title, the last used first.
    #[must_use]
    pub fn with_conversations(self, list: impl Fn() -> Vec<(String, String)> + Send + 'static) -> Self {
        Self { conversations: Some(Box::new(list)), ..self }
    }

    /// Adds the completion of `@` in a question.
    #[must_use]
    pub fn with_mentions(self, list: impl Fn(&Path, &str) -> Vec<(String, String)> + Send + 'static) -> Self {
        Self { mentions: Some(Box::new(list)), ..self }
    }

    /// Adds the completion of `:mcp` and `:call`: `list` returns the words that may follow others.
    #[must_use]
    pub fn with_served(self, list: impl Fn(&[&str]) -> Vec<(String, String)> + Send + 'static) -> Self {
        Self { served: Some(Box::new(list)), ..self }
    }

    /// Adds the completion of the ids of `:session`: `list` returns the sessions of the repository at a directory, id and title.
    #[must_use]
    pub fn with_sessions(self, list: impl Fn(&Path) -> Vec<(String, String)> + Send + 'static) -> Self {
        Self { sessions: Some(Box::new(list)), ..self }
    }

    /// Adds the completion of `:p`: `list` returns the prompt templates that count in a directory, name and description.
    #[must_use]
    pub fn with_templates(self, list: impl Fn(&Path) -> Vec<(String, String)> + Send + 'static) -> Self {
        Self { templates: Some(Box::new(list)), ..self }
    }

    /// Returns the candidates for a part of `line`, best kind first, sorted within a kind.
    pub fn candidates(&mut self, line: &str, position_bytes: usize) -> (Span, Vec<Candidate>) {
        let position = line.floor_char_boundary(position_bytes);
        let before = &line[..position];
        // The lock is not held while the live shell answers: the loop may write the state meanwhile.
        let state = state::read(&self.state).clone();
        if let Some(found) = self.mention(before, &state) {
            return found;
        }
        if let Some(found) = self.meta(before) {
            return found;
        }
        let verdict = state.verdict(before);
        // While a command after `!` is incomplete, the text reads as an event of the history.
        let begun = before.trim_start().strip_prefix('!').filter(|it| it.starts_with(char::is_alphabetic));
        let shell_start = match begun {
            Some(begun) if verdict.rule == "history-expansion" => before.len() - begun.len(),
            _ => state::shell_text_start(before, &verdict),
        };
        let (inner, is_arithmetic) = inner_start(&before[shell_start..]);
        let start = shell_start + inner;
        let mut request = Request::of(before, start);
        let span = |from: usize| Span::new(from, position);
        if let Some((from, found)) = variables(&request, &state) {
            if found.is_empty() {
                return (span(request.word_start), bounded(request.with_dollar(&state)));
            }
            return (span(from), bounded(found));
        }
        if is_arithmetic {
            return (span(request.word_start), Vec::new());
        }
        // The live shell isn't asked about text for the model.
        let mut live = self.live.as_mut().filter(|_| verdict.route != Route::Ask);
        // fzf's completion draws a menu of its own.
        let is_fzfs = request.word.ends_with("**") && state.names.functions.contains("__fzf_generic_path_completion");
        if let Some(live) = live.as_mut().filter(|_| is_fzfs) {
            live.hand_over();
            return (span(position), Vec::new());
        }
        if let Some(live) = live.as_mut().filter(|_| !state.other_grammar) {
            if let Some(found) = request.users(live.as_mut()) {
                return (span(request.word_start), bounded(found));
            }
            request.anchor = paths::head(request.value()).and_then(|head| {
                let directory = live.value(head)?;
                directory.starts_with('/').then(|| paths::Anchor { head: head.to_owned(), directory: directory.into() })
            });
        }
        // bash's completions expect one simple command; zsh and fish find it themselves.
        let live_start = if state.other_grammar { shell_start } else { request.simple_start };
        let text = &line[live_start..position];
        let mut found = Vec::new();
        // Text pasted key by key (a tab in a here-document) must not become another word.
        let begins_row = before[..request.word_start].trim_end_matches([' ', '\t']).ends_with('\n');
        for fit in Fit::ALL.into_iter().take(if begins_row { 1 } else { Fit::ALL.len() }) {
            found = request.own(&state, fit).unwrap_or_else(|| {
                let by_path = || request.paths(&state, paths::Wanted::Any, fit);
                let found = if request.anchor.is_some() { by_path() } else { Vec::new() };
                let found = if found.is_empty() { request.ask(live.as_deref_mut(), text, &state, fit) } else { found };
                if found.is_empty() { by_path() } else { found }
            });
            if !found.is_empty() || request.word.is_empty() {
                break;
            }
        }
        (span(request.word_start), bounded(found))
    }

    /// Completes a mention in a question, if the word at the cursor begins with `@`.
    fn mention(&self, before: &str, state: &EditorState) -> Option<(Span, Vec<Candidate>)> {
        let list = self.mentions.as_ref()?;
        let start = before.trim_end_matches(|c: char| !c.is_whitespace()).len();
        let start = start + usize::from(before[start..].starts_with('('));
        let typed = before[start..].strip_prefix('@')?;
        let is_question = before[..start].trim().is_empty()
            || before.trim_start().starts_with(":ask ")
            || state.verdict(before).route == Route::Ask;
        if !is_question {
            return None;
        }
        let found = list(&state.cwd, typed.trim_start_matches(['"', '\'']));
        let candidate = |(value, what): (String, String)| {
            plain(&format!("@{value}"), Some(what.as_str()).filter(|what| !what.is_empty()))
        };
        Some((Span::new(start, before.len()), bounded(found.into_iter().map(candidate).collect())))
    }

    fn meta(&self, before: &str) -> Option<(Span, Vec<Candidate>)> {
        let indent = before.len() - before.trim_start().len();
        let body = before[indent..].strip_prefix(':')?;
        if body.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '?') {
            return None;
        }
        let Some((name, argument)) = body.split_once(char::is_whitespace) else {
            let rows = self.metas.iter().filter(|entry| entry.name.starts_with(body));
            let found = rows.map(|entry| Candidate {
                value: format!(":{}", entry.name),
                description: Some(entry.help.clone()),
                append_space: !entry.values.is_empty() || matches!(entry.name.as_str(), "resume" | "p"),
            });
            return Some((Span::new(indent, before.len()), bounded(found.collect())));
        };
        let argument = argument.trim_start();
        let span = Span::new(before.len() - argument.len(), before.len());
        if let Some(list) = self.conversations.as_ref().filter(|_| name == "resume") {
            let cwd = state::read(&self.state).cwd.clone();
            let sessions = self.sessions.as_ref().map(|list| list(&cwd)).unwrap_or_default();
            let sessions = sessions.into_iter().map(|(id, title)| (id, format!("{title} (session)")));
            let fitting = list().into_iter().chain(sessions).filter(|(id, _)| id.starts_with(argument));
            return Some((span, bounded(fitting.map(|(id, title)| plain(&id, Some(&title))).collect())));
        }
        if let Some(list) = self.templates.as_ref().filter(|_| name == "p") {
            let cwd = state::read(&self.state).cwd.clone();
            let fitting = list(&cwd).into_iter().filter(|(name, _)| name.starts_with(argument));
            let found = fitting.map(|(name, what)| plain(&name, Some(what.as_str()).filter(|it| !it.is_empty())));
            return Some((span, bounded(found.collect())));
        }
        if let (Some(list), "session", Some((word, typed))) =
            (&self.sessions, name, argument.split_once(char::is_whitespace))
            && takes_session(word)
        {
            let typed = typed.trim_start();
            let cwd = state::read(&self.state).cwd.clone();
            let fitting = list(&cwd).into_iter().filter(|(id, _)| id.starts_with(typed));
            let found = fitting.map(|(id, title)| plain(&id, Some(&title))).collect();
            return Some((Span::new(before.len() - typed.len(), before.len()), bounded(found)));
        }
        if let Some(list) = self.served.as_ref().filter(|_| matches!(name, "mcp" | "call")) {
            let start = argument.trim_end_matches(|c: char| !c.is_whitespace()).len();
            let (earlier, typed) = argument.split_at(start);
            let mut words: Vec<&str> = earlier.split_whitespace().collect();
            if name == "call" {
                words.insert(0, name);
            }
            let fitting = list(&words).into_iter().filter(|(word, _)| word.starts_with(typed));
            let found = fitting.map(|(word, what)| plain(&word, Some(what.as_str()).filter(|it| !it.is_empty())));
            return Some((Span::new(before.len() - typed.len(), before.len()), bounded(found.collect())));
        }
        let values = self.metas.iter().find(|entry| entry.name == name).map_or(&[][..], |entry| &entry.values);
        let found = values.iter().filter(|value| value.starts_with(argument)).map(|value| plain(value, None)).collect();
        Some((span, bounded(found)))
    }
}

impl Completer for ShellCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let (span, found) = self.candidates(line, pos);
        let typed = line.get(span.start..span.end).unwrap_or_default();
        let folder = typed.rfind('/').map_or("", |slash| &typed[..=slash]);
        // A path is shown by its name alone; a branch with a slash has a description.
        let name = |candidate: &Candidate| {
            let path = candidate.description.is_none() && !folder.is_empty();
            let name = candidate.value.strip_prefix(folder).filter(|name| path && !name.is_empty());
            name.map(str::to_owned)
        };
        let suggestions: Vec<Suggestion> = found
            .into_iter()
            .map(|candidate| Suggestion {
                display_override: name(&candidate),
                value: candidate.value,
                description: candidate.description,
                span,
                append_whitespace: candidate.append_space,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

/// The word at the cursor and the text before it in its command.
struct Request<'a> {
    word: &'a str,
    word_start: usize,
    /// Place in the word after the last unquoted `=` or `:`, where bash begins to complete.
    value_start: usize,
    /// The words of the command before the cursor, without assignments, redirections and `sudo`.
    command: Vec<&'a str>,
    after_redirect: bool,
    in_comment: bool,
    /// Place where the simple command at the cursor starts, without keywords and assignments in front.
    simple_start: usize,
    /// The beginning of the word, if only the live shell knows its value.
    anchor: Option<paths::Anchor>,
}

impl<'a> Request<'a> {
    fn of(before: &'a str, start: usize) -> Self {
        let text = &before[start..];
        let pieces = tokens(text, Reading::Shell);
        let at_end = pieces.last().filter(|token| token.end() == text.len());
        let current = at_end.filter(|token| token.traits().is_some());
        let (word, word_start) = current.map_or(("", before.len()), |token| (token.text, start + token.start));
        let earlier = &pieces[..pieces.len() - usize::from(current.is_some())];
        let from = earlier.iter().rposition(Token::ends_command).map_or(0, |index| index + 1);
        let mut command = Vec::new();
        let mut after_redirect = false;
        let mut simple_start = None;
        for token in &earlier[from..] {
            let is_word = matches!(token.kind, TokenKind::Word(_)) && !after_redirect;
            if is_word && simple_start.is_none() && !is_keyword(token.text) && !is_assignment(token.text) {
                simple_start = Some(start + token.start);
            }
            match token.kind {
                TokenKind::Redirect => after_redirect = true,
                TokenKind::Word(_) if after_redirect => after_redirect = false,
                TokenKind::Word(_) if command.is_empty() && introduces_command(token.text) => {}
                TokenKind::Word(_) => command.push(token.text),
                _ => {}
            }
        }
        let in_comment = at_end.is_some_and(|token| token.kind == TokenKind::Comment);
        let simple_start = simple_start.unwrap_or(word_start);
        let value_start = value_start(word);
        Self { word, word_start, value_start, command, after_redirect, in_comment, simple_start, anchor: None }
    }

    /// The part of the word that bash completes.
    fn value(&self) -> &'a str {
        &self.word[self.value_start..]
    }

    /// Puts the typed beginning of the word in front of candidates for its value.
    fn whole(&self, mut found: Vec<Candidate>) -> Vec<Candidate> {
        found.iter_mut().for_each(|one| one.value.insert_str(0, &self.word[..self.value_start]));
        found
    }

    /// The paths whose names hold the last dollar sign of the word.
    fn with_dollar(&self, state: &EditorState) -> Vec<Candidate> {
        let (before, after) = self.word.split_at(self.word.rfind('$').unwrap_or_default());
        paths::complete(&format!("{before}\\{after}"), None, state, paths::Wanted::Any, Fit::Start)
    }

    /// Users after a tilde.
    fn users(&self, live: &mut dyn LiveCompletion) -> Option<Vec<Candidate>> {
        let typed = self.value().strip_prefix('~').filter(|typed| !typed.is_empty())?;
        let is_name = typed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte));
        let found = if is_name { live.users(typed) } else { Vec::new() };
        let make = |name: String| Candidate { append_space: false, ..plain(&format!("~{name}/"), None) };
        (!found.is_empty()).then(|| self.whole(found.into_iter().map(make).collect()))
    }

    /// Asks the live shell. If no name begins as the word does, the shell lists all of them for a fuzzy search.
    fn ask(
        &self,
        live: Option<&mut Box<dyn LiveCompletion>>,
        text: &str,
        state: &EditorState,
        fit: Fit,
    ) -> Vec<Candidate> {
        let Some(live) = live else { return Vec::new() };
        let mut found = if fit == Fit::Start {
            live.complete(text, text.len())
        } else {
            // A second question is worth its time only once, and not for a word with quotes.
            let dashes = self.word.len() - self.word.trim_start_matches('-').len();
            if fit != Fit::StartInAnyCase
                && !self.word.contains(['/', '\'', '"', '\\', '$', '=', ':'])
                && !state.other_grammar
            {
                let shorter = &text[..text.len() - self.word.len() + dashes];
                live.complete(shorter, shorter.len())
            } else {
                Vec::new()
            }
        };
        // bash's completions answer for the part after the last `=` or `:`, if they know such a value, and zsh's for
        // the value that is assigned.
        let (typed, whole) = match self.word.find('=') {
            Some(at) if state.other_grammar && is_assignment(self.word) => (&self.word[..=at], &self.word[..=at]),
            _ if state.other_grammar => ("", ""),
            _ => (&self.word[..self.value_start], self.word),
        };
        let partial = found.iter_mut().filter(|one| !one.value.starts_with(whole));
        partial.for_each(|one| one.value.insert_str(0, typed));
        if fit != Fit::Start {
            let any_case = found.iter().any(|one| Fit::StartInAnyCase.fits(&one.value, self.word));
            let fit = if any_case { Fit::StartInAnyCase } else { fit };
            found.retain(|one| fit.fits(&one.value, self.word));
        }
        found.sort_by(|one, other| one.value.cmp(&other.value));
        found
    }

    /// ReedClaw's own candidates; `None` if the live shell may know better than a list of paths.
    fn own(&self, state: &EditorState, fit: Fit) -> Option<Vec<Candidate>> {
        if self.in_comment {
            return Some(Vec::new());
        }
        // Another shell's engine knows the values of its variables and users.
        if state.other_grammar && paths::head(self.word).is_some() {
            return None;
        }
        if self.after_redirect {
            return Some(self.paths(state, paths::Wanted::Any, fit));
        }
        let Some(&name) = self.command.first() else {
            if !is_assignment(self.word) {
                return Some(self.in_command_position(state, fit));
            }
            return (!state.other_grammar).then(|| self.paths(state, paths::Wanted::Any, fit));
        };
        match name {
            "cd" | "pushd" | "rmdir" => Some(self.paths(state, paths::Wanted::Directories, fit)),
            "export" | "unset" | "readonly" | "declare" if !self.word.contains(['=', '-']) => {
                let names = state.names.variables.iter().filter(|variable| variable.starts_with(self.word));
                Some(
                    names
                        .map(|variable| Candidate {
                            append_space: name == "unset",
                            ..plain(variable, Some("variable"))
                        })
                        .collect(),
                )
            }
            "git" => self.git(state),
            _ => None,
        }
    }

    /// The paths that begin like the word, or else like its value.
    fn paths(&self, state: &EditorState, wanted: paths::Wanted, fit: Fit) -> Vec<Candidate> {
        let complete = |raw| paths::complete(raw, self.anchor.as_ref(), state, wanted, fit);
        let anchors_value = self.anchor.is_some() && self.value_start > 0;
        let found = if anchors_value { Vec::new() } else { complete(self.word) };
        if found.is_empty() && self.value_start > 0 { self.whole(complete(self.value())) } else { found }
    }

    fn in_command_position(&self, state: &EditorState, fit: Fit) -> Vec<Candidate> {
        if self.word.contains(['/', '~', '\'', '"', '\\']) {
            return self.paths(state, paths::Wanted::Runnable, fit);
        }
        let names = &state.names;
        let sets = [&names.functions, &names.builtins, &names.keywords, &names.known];
        let mut words: Vec<&str> = names
            .aliases
            .keys()
            .chain(sets.into_iter().flatten())
            .map(String::as_str)
            .chain(names.programs.iter())
            .collect();
        words.retain(|word| fit.fits(word, self.word));
        words.sort_unstable();
        words.dedup();
        words.truncate(ENTRIES_MAX);
        let mut found: Vec<Candidate> = words
            .into_iter()
            .map(|word| Candidate {
                value: paths::escaped(word),
                description: self.described(word, state),
                append_space: true,
            })
            .collect();
        if !self.word.is_empty() {
            found.extend(self.paths(state, paths::Wanted::Directories, fit));
        }
        found
    }

    fn described(&self, word: &str, state: &EditorState) -> Option<String> {
        let text = match state.names.kind(word)? {
            NameKind::Alias => {
                let target = state.names.aliases.get(word)?;
                let shown: String = target.chars().filter(|c| !c.is_control()).take(DESCRIPTION_CHARS_MAX).collect();
                format!("alias: {shown}")
            }
            NameKind::Function => "function".to_owned(),
            NameKind::Builtin => "builtin".to_owned(),
            NameKind::Keyword => "keyword".to_owned(),
            NameKind::Program => return None,
        };
        Some(text)
    }

    /// References after a subcommand that takes them; none elsewhere, and after `--`, where paths follow.
    fn git(&self, state: &EditorState) -> Option<Vec<Candidate>> {
        let arguments = self.command.get(1..)?;
        let at = arguments.iter().position(|word| !word.starts_with('-'))?;
        let (subcommand, rest) = (arguments[at], &arguments[at + 1..]);
        if self.word.starts_with('-') || rest.contains(&"--") {
            return None;
        }
        let remote_first = matches!(subcommand, "push" | "pull" | "fetch");
        let takes_refs = remote_first
            || matches!(
                subcommand,
                "checkout"
                    | "switch"
                    | "merge"
                    | "rebase"
                    | "branch"
                    | "log"
                    | "diff"
                    | "show"
                    | "reset"
                    | "cherry-pick"
                    | "revert"
                    | "tag"
                    | "worktree"
            );
        let repository = takes_refs.then(|| Repository::find(&state.cwd)).flatten()?;
        // `main..fea`: the part after the dots is what is being typed.
        let part = self.word.rfind("..").map_or(0, |dots| dots + 2);
        let part = part + self.word[part..].strip_prefix('.').map_or(0, |_| 1);
        let (fixed, typed) = self.word.split_at(part);
        let wanted = |names: Vec<String>, what: &'static str| {
            names
                .into_iter()
                .filter(|name| name.starts_with(typed))
                .map(move |name| Candidate {
                    value: paths::escaped(&format!("{fixed}{name}")),
                    description: Some(what.to_owned()),
                    append_space: true,
                })
                .collect::<Vec<_>>()
        };
        if remote_first && rest.iter().all(|word| word.starts_with('-')) {
            return Some(wanted(repository.remotes(), "remote"));
        }
        let refs = repository.refs();
        let mut found = wanted(refs.branches, "branch");
        found.extend(wanted(refs.tags, "tag"));
        if !remote_first {
            found.extend(wanted(refs.remotes, "remote branch"));
        }
        // `git diff README.md`: if no reference fits, a file may.
        (!found.is_empty()).then_some(found)
    }
}

/// Returns the variables after `$`, and the place where the replaced text begins.
fn variables(request: &Request<'_>, state: &EditorState) -> Option<(usize, Vec<Candidate>)> {
    let dollar = request.word.rfind('$')?;
    let before = &request.word[..dollar];
    let in_single_quotes = before.starts_with('\'') && before.matches('\'').count() % 2 == 1;
    if before.ends_with('\\') || in_single_quotes {
        return None;
    }
    let typed = &request.word[dollar + 1..];
    let (open, typed, close) = typed.strip_prefix('{').map_or(("$", typed, ""), |typed| ("${", typed, "}"));
    if !typed.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let names = state.names.variables.iter().filter(|name| name.starts_with(typed));
    let found = names.map(|name| Candidate {
        value: format!("{open}{name}{close}"),
        description: Some("variable".to_owned()),
        append_space: false,
    });
    Some((request.word_start + dollar, found.collect()))
}

/// Place where the innermost unfinished `$(…` or backtick begins: its text is completed as a line of its own, unless it is
/// arithmetic (`$((`).
fn inner_start(text: &str) -> (usize, bool) {
    let (mut start, mut is_arithmetic) = (0, false);
    // Each turn moves forward, and a hundred levels are never typed.
    for _ in 0..100 {
        let pieces = tokens(&text[start..], Reading::Shell);
        let Some(last) = pieces.last() else { break };
        let open = last.traits().and_then(|traits| traits.open);
        let found = match open {
            Some('(') => {
                last.text.find("$(").or_else(|| last.text.find("<(")).or_else(|| last.text.find(">(")).map(|at| at + 2)
            }
            Some('`') => last.text.rfind('`').map(|at| at + 1),
            Some('"') => last.text.rfind("$(").filter(|&at| !last.text[at..].contains(')')).map(|at| at + 2),
            _ => None,
        };
        let Some(inside) = found else { break };
        start += last.start + inside;
        is_arithmetic = text[..start].ends_with("$(") && text[start..].starts_with('(');
        start += usize::from(is_arithmetic);
    }
    (start, is_arithmetic)
}

/// Place after the last `=` or `:` of a word that no quote or backslash hides.
fn value_start(word: &str) -> usize {
    let (mut quote, mut is_escaped, mut start) = (None, false, 0);
    for (at, character) in word.char_indices() {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(character),
            (None, '=' | ':') => start = at + 1,
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    start
}

/// Returns whether a command may follow a word in front of it.
fn introduces_command(word: &str) -> bool {
    const RUNNERS: [&str; 9] = ["sudo", "doas", "nohup", "exec", "command", "builtin", "env", "nice", "xargs"];
    is_assignment(word) || is_keyword(word) || RUNNERS.contains(&word)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+'))
    })
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "{" | "time")
}

fn plain(value: &str, description: Option<&str>) -> Candidate {
    Candidate { value: value.to_owned(), description: description.map(str::to_owned), append_space: true }
}

/// The list as it is shown: bounded, and without what would move the terminal's cursor.
fn bounded(mut found: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen = std::collections::HashSet::new();
    found.retain(|candidate| !candidate.value.chars().any(char::is_control) && seen.insert(candidate.value.clone()));
    found.truncate(ENTRIES_MAX);
    for candidate in &mut found {
        if let Some(text) = candidate.description.as_mut().filter(|text| text.chars().any(char::is_control)) {
            text.retain(|c| !c.is_control());
        }
    }
    found
}

#[cfg(test)]
mod tests;
