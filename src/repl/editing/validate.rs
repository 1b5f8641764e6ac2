//! reedline's validator: whether Enter submits or opens one more line. On any doubt the line is complete and bash itself
//! says what is wrong with it.

use reedline::{ValidationResult, Validator};

use crate::bash::is_unfinished;
use crate::proto::Route;
use crate::repl::editing::state::{self, SharedState};

/// Continues an unfinished command on the next line; a question or a meta command is always complete.
pub struct ShellValidator {
    state: SharedState,
}

impl ShellValidator {
    /// Makes a validator that routes by `state`.
    #[must_use]
    pub fn new(state: SharedState) -> Self {
        Self { state }
    }
}

impl Validator for ShellValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        let state = state::read(&self.state);
        let is_open = |text: &str| {
            let verdict = state.verdict(text);
            verdict.route == Route::Shell && is_incomplete(&verdict.text)
        };
        if !state.other_grammar && (is_open(line) || goes_on(line, &is_open)) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// Returns whether the first line began a command that no later line has finished, even if later lines look complete on
/// their own.
fn goes_on(text: &str, is_open: &dyn Fn(&str) -> bool) -> bool {
    let Some((first, _)) = text.split_once('\n') else { return false };
    let begins = matches!(first.split('#').next().unwrap_or_default().trim_start().chars().next(), Some('(' | '{'));
    let mut ends = text.match_indices('\n').map(|(at, _)| at).chain([text.len()]);
    begins && is_open(first) && ends.all(|at| is_incomplete(&text[..at]))
}

/// Returns whether bash would ask for more after `text`.
#[must_use]
pub fn is_incomplete(text: &str) -> bool {
    // Bash replaces such a word before it reads the line.
    let is_from_history = |word: &str| word.len() > 1 && word.starts_with(['!', '^']);
    !text.split_whitespace().next().is_some_and(is_from_history) && is_unfinished(text)
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::proto::Names;
    use crate::repl::editing::state::EditorState;

    #[test]
    fn unfinished_commands_go_on() {
        for text in [
            "echo 'a",
            "echo \"a",
            "echo \"a $(ls",
            "echo $(ls",
            "echo `ls",
            "cat <<EOF",
            "cat <<EOF\nbody",
            "ls |",
            "ls &&",
            "ls ||",
            "if true",
            "if true; then",
            "if true; then ls",
            "for i in a; do",
            "while true; do ls",
            "{ ls",
            "( ls",
            "f() {",
            "case x in",
            "case x in a)",
            "ls \\",
            "echo a\\\\\\",
            "[[ -n x",
            "ls | # all\n",
            "echo ${a",
            "cat <<EOF $(ls",
            "cat << $(ls\nbody",
            "cat <<A <<B\na\nA\n",
            "f()",
            "for i",
            "! ls |",
            "a=(1",
            "diff <(a",
            "[[ -n x &&",
        ] {
            assert!(is_incomplete(text), "{text:?} waits for more");
        }
    }

    #[test]
    fn finished_commands_are_complete() {
        for text in [
            "ls",
            "ls -la | wc -l",
            "echo 'a'",
            "cat <<EOF\nbody\nEOF\n",
            "if true; then ls; fi",
            "for i in a; do ls; done",
            "{ ls; }",
            "( ls )",
            "f() { ls; }",
            "case x in a) ls;; esac",
            "echo a\\\\",
            "done",
            "fi",
            "esac",
            ")",
            "}",
            "# don't",
            "ls # it's",
            "# trailing \\",
            "select x in a b; do echo $x; done",
            "ls ;; ls",
            "a=(1 2)",
            "[[ a =~ ^(b|c)$ ]]",
            "((i++))",
            "!!",
            "!$",
            "^a^b",
            "echo $((1+2))",
            "",
            "  ",
            "x=1",
            ">f",
            "coproc ls",
            "time ls",
            "! ls",
            "echo {a,b}",
            "ls &",
            "diff <(a) <(b)",
            "cat <<A <<B\na\nA\nb\nB\n",
            "ls | ; echo 'a",
            "for",
            "f(",
            "cat <<",
            "ls >",
            "echo ${}",
            "if true; fi",
        ] {
            assert!(!is_incomplete(text), "{text:?} is complete");
        }
    }

    #[test]
    fn a_sentence_is_complete_whatever_its_quotes() {
        let programs = Arc::new(["echo"].into());
        let names = Arc::new(Names { programs, ..Names::default() });
        let validator = ShellValidator::new(Arc::new(RwLock::new(EditorState { names, ..EditorState::default() })));
        let incomplete = |line: &str| matches!(validator.validate(line), ValidationResult::Incomplete);
        for line in ["what's up", "say \"hi to them", ":ask what's", "?echo 'a", "why does ( not close", ""] {
            assert!(!incomplete(line), "{line:?}");
        }
        assert!(incomplete("echo 'a"));
        assert!(incomplete("!nosuch 'a"));
    }

    #[test]
    fn deep_nesting_is_bashs_business_and_quick() {
        let started = std::time::Instant::now();
        let openers = ["(", "$(", "{ ", "if ", "`", "(( ", "case x in a) ", "f() { ", "while ", "[[ ( "];
        for opener in openers {
            for count in [4, 10, 100, 10_000] {
                let _ = is_incomplete(&opener.repeat(count));
            }
        }
        // Far above what a quiet machine needs; without the bounds it is minutes.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
        let many = "echo $(date) && (cd x) && if true; then ls; fi\n".repeat(30);
        assert!(is_incomplete(&format!("{many}echo 'a")) && !is_incomplete(&many));
    }

    /// Returns whether a newline at the end of a finished text leaves it finished. Before a newline, a backslash at the
    /// end has another meaning.
    fn ends_alike(text: &str) -> bool {
        text.ends_with('\\') || is_incomplete(text) || !is_incomplete(&format!("{text}\n"))
    }

    proptest! {
        #[test]
        fn a_newline_after_finished_text_leaves_it_finished(text in any::<String>()) {
            prop_assert!(ends_alike(&text));
        }

        #[test]
        fn finished_pieces_of_shell_stay_so_at_the_end_of_their_line(pieces in prop::collection::vec(prop::sample::select(vec![
            "if", "for", "(", ")", "{", "}", "in", "do", "done", ";", "|", "&&", "'", "\"", "$(", "${", "`", "\\", "\n", "ls", "é", " ",
            "<<", "<<-E", "E", "#", "x=", "!", "[[", "]]", "((", "))", "case", "esac", ";;", "&>", "<(", "=~", "$'", "@(", "\u{0}",
        ]), 0..16)) {
            prop_assert!(ends_alike(&pieces.concat()));
            prop_assert!(ends_alike(&pieces.join(" ")));
        }
    }
}
