//! The hooks as the prompt's loop and the editor's slots ask them: a project's before the user's own. It runs no Lua itself
//! and must not know how long a hook may take.

pub(super) mod acts;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use reedline::{Completer, CompletionResult, Span, Suggestion};

use crate::config::{
    Action, Answer, HookContext, HookEvent, HookFailure, HookSet, Hooks, KeyDoes, KeyName, OverlayHooks,
};
use crate::ops::commands;
use crate::proto::Route;
use crate::render::text::has_hidden;
use crate::render::{CSI_CHARS_MAX, sanitise};
use crate::repl::editing::complete::ShellCompleter;
use crate::repl::editing::prompt::ReedPrompt;
use crate::repl::editing::state::RouteHook;

/// Longest text of a prompt, in characters: a whole screen of text is no prompt.
const PROMPT_CHARS_MAX: usize = 2_000;
/// Prefix of the request that the loop gets when a key with a hook is pressed; the key's name follows.
pub(super) const KEY_COMMAND: &str = "key ";

/// The hooks of both origins, shared by the loop and the editor's slots.
#[derive(Clone, Default)]
pub(super) struct SharedHooks(Arc<Mutex<Both>>);

#[derive(Default)]
struct Both {
    own: Hooks,
    project: OverlayHooks,
    context: HookContext,
    failures: Vec<HookFailure>,
    /// The line that was asked about last: each key asks several times.
    routed: Option<(String, Option<Route>)>,
    /// Hooks don't see lines that begin with a space.
    ignores_space: bool,
}

impl Both {
    fn is_private(&self, line: &str) -> bool {
        self.ignores_space && line.starts_with(' ')
    }
}

/// Notes a failure, which the loop reports later.
fn noted<T: Default>(result: Result<T, HookFailure>, failures: &mut Vec<HookFailure>) -> T {
    result.unwrap_or_else(|failure| {
        failures.push(failure);
        T::default()
    })
}

impl SharedHooks {
    fn lock(&self) -> MutexGuard<'_, Both> {
        self.0.lock()
    }

    /// Returns whether a hook has failed since the failures were taken.
    fn has_failed(&self) -> bool {
        !self.lock().failures.is_empty()
    }

    /// Sets the user's hooks.
    pub(super) fn set_own(&self, own: Hooks) {
        let mut both = self.lock();
        (both.own, both.routed) = (own, None);
    }

    /// Sets a project's hooks.
    pub(super) fn set_project(&self, project: OverlayHooks) {
        self.lock().project = project;
    }

    /// Sets `history.ignore_space`.
    pub(super) fn set_ignore_space(&self, ignores: bool) {
        self.lock().ignores_space = ignores;
    }

    /// Returns whether a line, and the answer to it, is hidden from the hooks.
    pub(super) fn is_private(&self, line: &str) -> bool {
        self.lock().is_private(line)
    }

    /// The router's hook, if there is one.
    pub(super) fn route_hook(&self) -> Option<RouteHook> {
        let hooks = self.clone();
        self.lock().own.has("route").then(|| RouteHook::new(move |line| hooks.route(line)))
    }

    fn route(&self, line: &str) -> Option<Route> {
        let both = &mut *self.lock();
        if both.is_private(line) {
            return None;
        }
        if let Some((asked, route)) = &both.routed
            && asked == line
        {
            return *route;
        }
        let route = noted(both.own.route(line, &both.context), &mut both.failures);
        both.routed = Some((line.to_owned(), route));
        route
    }

    /// Reports an event to the hooks; returns the lines to show.
    pub(super) fn tell(&self, event: HookEvent<'_>) -> Vec<String> {
        let Both { own, project, failures, .. } = &mut *self.lock();
        let texts = [noted(own.tell(event), failures), noted(project.tell(event), failures)];
        texts.into_iter().flatten().collect()
    }

    /// The text of a prompt: from the project's hook, or from the user's own if that fails or is missing.
    fn text(&self, name: &'static str) -> Option<String> {
        let Both { own, project, context, failures, .. } = &mut *self.lock();
        noted(project.text(name, context), failures).or_else(|| noted(own.text(name, context), failures))
    }

    fn complete(&self, line: &str, position_bytes: usize) -> Option<Vec<crate::config::Suggested>> {
        if self.is_private(line) {
            return None;
        }
        let Both { own, project, context, failures, .. } = &mut *self.lock();
        let found = noted(project.complete(line, position_bytes, context), failures);
        found.or_else(|| noted(own.complete(line, position_bytes, context), failures))
    }

    /// The keys with hooks; a project's key precedes the user's of the same name.
    pub(super) fn keys(&self) -> Vec<(KeyName, KeyDoes)> {
        let both = self.lock();
        let mut keys = both.project.keys();
        let own = both.own.keys().into_iter().filter(|(key, _)| keys.iter().all(|(other, _)| other != key));
        let own: Vec<_> = own.collect();
        keys.extend(own);
        keys
    }

    /// The meta commands with hooks, and their help.
    pub(super) fn metas(&self) -> Vec<(String, String)> {
        let both = self.lock();
        let mut metas = both.project.metas();
        let own = both.own.metas().into_iter().filter(|(name, _)| metas.iter().all(|(other, _)| other != name));
        let own: Vec<_> = own.collect();
        metas.extend(own);
        metas
    }

    /// The meta commands with hooks, except those whose name is one of ReedClaw's own.
    pub(super) fn usable_metas(&self) -> impl Iterator<Item = (String, String)> + use<> {
        self.metas().into_iter().filter(|(name, _)| commands::name_problem(name).is_none())
    }

    /// Runs a meta command's hook; `None` if there is none of that name.
    fn meta(&self, name: &str, argument: &str) -> Option<(Action, bool)> {
        let Both { own, project, failures, .. } = &mut *self.lock();
        let widened = project.meta(name, argument).map(|result| (result.map(Action::from), true));
        let result = widened.or_else(|| own.meta(name, argument).map(|result| (result, false)));
        result.map(|(result, of_project)| (acted(result, failures), of_project))
    }

    /// Calls the function of a key.
    fn press(&self, key: &KeyName, line: &str) -> (Action, bool) {
        let line = if self.is_private(line) { "" } else { line };
        let Both { own, project, context, failures, .. } = &mut *self.lock();
        let context = HookContext { line: Some(line.to_owned()), ..context.clone() };
        let widened = project.press(key, &context).map(|result| (result.map(Action::from), true));
        let result = widened.or_else(|| own.press(key, &context).map(|result| (result, false)));
        result.map_or((Action::Nothing, false), |(result, of_project)| (acted(result, failures), of_project))
    }

    /// Takes the failures that haven't been shown yet.
    pub(super) fn take_failures(&self) -> Vec<HookFailure> {
        std::mem::take(&mut self.lock().failures)
    }

    /// Puts the hooks' texts into a prompt.
    pub(super) fn decorate(&self, prompt: ReedPrompt, context: impl FnOnce() -> HookContext) -> ReedPrompt {
        if !self.has_any() {
            return prompt;
        }
        let context = context();
        {
            let mut both = self.lock();
            (both.context, both.routed) = (context, None);
        }
        prompt.with_texts(self.text("prompt"), self.text("right_prompt"))
    }

    /// Returns whether there is a hook that needs the session's place.
    fn has_any(&self) -> bool {
        fn any<A: Answer>(hooks: &HookSet<A>) -> bool {
            !hooks.keys().is_empty() || ["prompt", "right_prompt", "route", "complete"].iter().any(|it| hooks.has(it))
        }
        let both = self.lock();
        any(&both.own) || any(&both.project)
    }
}

fn acted(result: Result<Action, HookFailure>, failures: &mut Vec<HookFailure>) -> Action {
    result.unwrap_or_else(|failure| {
        failures.push(failure);
        Action::Nothing
    })
}

/// The completer that asks the hook first.
pub(super) struct HookCompleter {
    pub(super) inner: ShellCompleter,
    pub(super) hooks: SharedHooks,
}

impl Completer for HookCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or(line);
        // A meta command's name is completed by the table of meta commands.
        let own_completions = (!before.trim_start().starts_with(':')).then(|| self.hooks.complete(line, pos)).flatten();
        let Some(found) = own_completions else { return self.inner.complete(line, pos) };
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = &before[start..];
        let fits =
            |value: &str| value.starts_with(word) && !value.is_empty() && !has_hidden(value) && !value.contains('\n');
        let suggestions = found.into_iter().filter(|suggested| fits(&suggested.value)).map(|suggested| Suggestion {
            value: suggested.value,
            description: suggested.description.map(|text| sanitise(&text).replace('\n', " ")),
            span: Span::new(start, pos),
            append_whitespace: true,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}

/// Makes a hook's text fit for a prompt: colours stay if colours are used, and all other control sequences are removed.
#[must_use]
pub(super) fn prompt_text(text: &str, color: bool) -> String {
    let mut out = String::new();
    let text: String = text.chars().take(PROMPT_CHARS_MAX).collect();
    let mut rest = text.as_str();
    let mut has_color = false;
    while let Some(at) = rest.find("\x1b[") {
        let parameters =
            rest[at + 2..].chars().take(CSI_CHARS_MAX).take_while(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
        let end = at + 2 + parameters.count();
        if !rest[end..].starts_with('m') {
            // The sequence is no colour: the sanitiser removes it from the text up to the next sequence.
            let next = rest[at + 2..].find("\x1b[").map_or(rest.len(), |next| at + 2 + next);
            out.push_str(&sanitise(&rest[..next]));
            rest = &rest[next..];
            continue;
        }
        out.push_str(&sanitise(&rest[..at]));
        if color {
            out.push_str(&rest[at..=end]);
            has_color = true;
        }
        rest = &rest[end + 1..];
    }
    out.push_str(&sanitise(rest));
    if has_color {
        out.push_str("\x1b[0m");
    }
    out.replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_keeps_its_colours_and_nothing_else() {
        for (text, color, want) in [
            ("plain ", true, "plain "),
            ("\x1b[1;34mblue\x1b[0m x", true, "\x1b[1;34mblue\x1b[0m x\x1b[0m"),
            ("\x1b[1;34mblue\x1b[0m x", false, "blue x"),
            ("a\x1b[2Jb\x1b[31mc", true, "ab\x1b[31mc\x1b[0m"),
            ("a\x1b]0;title\x07b", true, "ab"),
            ("a\x1b[6n", true, "a"),
            ("a\rb\x08c\u{202e}d", true, "abcd"),
            ("a\tb\nc", true, "a b\nc"),
            ("\x1b[", true, ""),
        ] {
            assert_eq!(prompt_text(text, color), want, "{text:?}");
        }
        assert!(prompt_text(&"x".repeat(100_000), true).len() <= PROMPT_CHARS_MAX);
    }
}
