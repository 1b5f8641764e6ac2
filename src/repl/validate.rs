//! reedline's validator: whether Enter submits or opens one more line. It must not know bash's whole grammar: on any doubt
//! the line is complete and bash itself says what is wrong with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::{ParseError, ParserOptions, parse_tokens, uncached_tokenize_str};
use reedline::{ValidationResult, Validator};

use super::state::{self, SharedState};
use crate::proto::Route;
use crate::route::lex::{Reading, Token, TokenKind, tokens};

/// A longer text is submitted as it is: parsing it at each Enter would be felt.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Brackets open at once, beyond which the parser's time doubles and more with each: 12 take a millisecond, 24 take 25 s.
const BRACKETS_MAX: usize = 10;
/// Blocks open at once (each `case` doubles the parser's time), and expansions in one word, which recurse.
const BLOCKS_MAX: usize = 8;

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
        let verdict = state.verdict(line);
        if verdict.route == Route::Shell && !state.other_grammar && is_incomplete(&verdict.text) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// Whether bash would ask for more after `text`.
#[must_use]
pub fn is_incomplete(text: &str) -> bool {
    if text.len() > TEXT_BYTES_MAX {
        return false;
    }
    let pieces = tokens(text, Reading::Shell);
    let Some(last) = pieces.last() else { return false };
    // Of a redirection to nowhere bash says at once that it is one.
    if last.kind == TokenKind::Comment && pieces.len() == 1 || last.kind == TokenKind::Redirect {
        return false;
    }
    if last.kind != TokenKind::Comment && ends_with_backslash(text) {
        return true;
    }
    // What closes without having been opened is an error at once; the parser would wait for more.
    if matches!(pieces[0].text, "done" | "fi" | "esac" | ")" | "}" | "then" | "do" | "else" | "elif" | ";;") {
        return false;
    }
    if is_history_expansion(pieces[0].text) || is_too_deep(&pieces) {
        return false;
    }
    // The parser belongs to somebody else and sees every line typed: a panic in it must not end a login shell.
    catch_unwind(AssertUnwindSafe(|| parser_wants_more(text, &pieces))).unwrap_or(false)
}

/// The cached tokenizer would keep typed secrets in memory, so only the uncached one is called.
fn parser_wants_more(text: &str, pieces: &[Token<'_>]) -> bool {
    let options = ParserOptions::default();
    let lexed = match uncached_tokenize_str(text, &options.tokenizer_options()) {
        Ok(lexed) => lexed,
        Err(error) => return error.is_incomplete(),
    };
    // `select` is not in the parser's grammar.
    if pieces.iter().any(|token| token.text == "select") {
        return false;
    }
    matches!(parse_tokens(&lexed, &options), Err(ParseError::ParsingAtEndOfInput))
}

fn ends_with_backslash(text: &str) -> bool {
    text.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

fn is_history_expansion(word: &str) -> bool {
    word.len() > 1 && word.starts_with(['!', '^'])
}

/// Whether so much is open at once that the parser's time or stack is not to be trusted with it.
fn is_too_deep(pieces: &[Token<'_>]) -> bool {
    let (mut brackets, mut blocks) = (0_usize, 0_usize);
    pieces.iter().any(|token| {
        match token.text {
            "(" => brackets += 1,
            ")" => brackets = brackets.saturating_sub(1),
            "if" | "for" | "while" | "until" | "case" | "select" | "{" | "[[" => blocks += 1,
            "fi" | "done" | "esac" | "}" | "]]" => blocks = blocks.saturating_sub(1),
            _ => {}
        }
        let within = token.text.bytes().filter(|byte| matches!(byte, b'(' | b'{' | b'`')).count();
        brackets > BRACKETS_MAX || blocks > BLOCKS_MAX || within > 8 * BLOCKS_MAX
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, RwLock};

    use proptest::prelude::*;

    use super::*;
    use crate::proto::Names;
    use crate::repl::state::EditorState;

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
        ] {
            assert!(!is_incomplete(text), "{text:?} is complete");
        }
    }

    #[test]
    fn a_sentence_is_complete_whatever_its_quotes() {
        let programs = Arc::new(["echo".to_owned()].into());
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
            for count in [BLOCKS_MAX / 2, BLOCKS_MAX, BRACKETS_MAX, 3 * BRACKETS_MAX, 10_000] {
                let _ = is_incomplete(&opener.repeat(count));
            }
        }
        // Far above what a quiet machine needs; without the bounds it is minutes.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
        let many = "echo $(date) && (cd x) && if true; then ls; fi\n".repeat(30);
        assert!(is_incomplete(&format!("{many}echo 'a")) && !is_incomplete(&many));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in any::<String>()) {
            let _ = is_incomplete(&text);
        }

        #[test]
        fn pieces_of_shell_never_panic(pieces in prop::collection::vec(prop::sample::select(vec![
            "if", "for", "(", ")", "{", "}", "in", "do", "done", ";", "|", "&&", "'", "\"", "$(", "${", "`", "\\", "\n", "ls", "é", " ",
            "<<", "<<-E", "E", "#", "x=", "!", "[[", "]]", "((", "))", "case", "esac", ";;", "&>", "<(", "=~", "$'", "@(", "\u{0}",
        ]), 0..16)) {
            let _ = is_incomplete(&pieces.concat());
            let _ = is_incomplete(&pieces.join(" "));
        }
    }
}
