//! Uses of the last answer: `:copy`, `:run` and `:save`. A block of code runs only by the key that a
//! model's command needs.

use std::fs::OpenOptions;
use std::io::Write;

use crate::base::base64;
use crate::base::text::quoted_words;
use crate::host;
use crate::proto::{Failure, ModelCommand};
use crate::render::sanitise;
use crate::render::text::escape_visible;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::offer;
use crate::turn::{CodeBlock, code_blocks};

/// Bytes that are sent to the terminal for its clipboard: many terminals drop a longer text as a whole.
const TERMINAL_BYTES_MAX: usize = 74_994 / 4 * 3;

/// Languages of blocks that are for a shell, as models name them.
const SHELLS: [&str; 11] = [
    "sh",
    "bash",
    "zsh",
    "fish",
    "ksh",
    "shell",
    "console",
    "terminal",
    "shell-session",
    "shellsession",
    "shellscript",
];

/// `:copy [N]`: the last answer, or its block N.
pub(in crate::repl) fn copy(repl: &Repl, argument: &str) {
    let (what, text) = if argument.is_empty() {
        if repl.last_answer.is_empty() {
            return repl.console.failure(&Failure::user("there is no answer to copy").hint("ask something first"));
        }
        ("the answer".to_owned(), sanitise(&repl.last_answer).into_owned())
    } else {
        match block(repl, argument) {
            Ok(block) => (format!("block {argument}"), block.text),
            Err(failure) => return repl.console.failure(&failure),
        }
    };
    let fits = text.len() <= TERMINAL_BYTES_MAX;
    if fits {
        repl.console.raw(format!("\x1b]52;c;{}\x07", base64::encode(text.as_bytes())).as_bytes());
    }
    match (host::copy_to_clipboard(&text, repl.runtime.env()), fits) {
        (Some(program), _) => repl.console.notice(&format!("{what} is copied, by {program}")),
        (None, true) => repl.console.notice(&format!("{what} was sent to the terminal's clipboard")),
        (None, false) => repl.console.failure(
            &Failure::user(format!("{what} is too long for a terminal's clipboard ({} bytes)", text.len()))
                .hint(":save N FILE writes a block to a file; wl-copy or xclip would take it"),
        ),
    }
}

/// `:run N`: a block, through the live shell, with the question first.
pub(in crate::repl) fn run_block(repl: &mut Repl, argument: &str) -> Flow {
    match block(repl, argument) {
        Ok(block) => {
            if !is_for_shell(&block.language) {
                let language = escape_visible(&block.language);
                repl.console.notice(&format!("block {argument} is {language}; the shell would run it as commands"));
            }
            repl.proposals_total = 1;
            repl.proposals = [ModelCommand { text: block.text.trim_end().to_owned() }].into();
            offer::offer_proposals(repl)
        }
        Err(failure) => {
            repl.console.failure(&failure);
            Flow::Continue
        }
    }
}

/// Returns whether a block's language is a shell's, or missing.
fn is_for_shell(language: &str) -> bool {
    let language = language.to_ascii_lowercase();
    language.is_empty() || SHELLS.contains(&language.as_str())
}

/// `:save N FILE`: a block, to a file that isn't there yet.
pub(in crate::repl) fn save_block(repl: &Repl, argument: &str) {
    let (number, file) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    // A name with blanks may be in quotes, and needn't be.
    let file = match quoted_words(file)[..] {
        [only] => only,
        _ => file.trim(),
    };
    let path = state::read(&repl.state).resolve(file).filter(|_| !file.is_empty());
    let Some(path) = path else {
        return repl.console.failure(&Failure::user(":save needs a number and a file").hint(":save N FILE"));
    };
    let saved = block(repl, number).and_then(|block| {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let done = file.and_then(|mut file| {
            file.write_all(block.text.as_bytes())?;
            file.sync_all()
        });
        done.map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::AlreadyExists {
                "nothing was overwritten: choose another name, or remove it first"
            } else {
                ""
            };
            Failure::user(format!("{} can't be written: {error}", path.display())).hint(hint)
        })
    });
    match saved {
        Ok(()) => repl.console.notice(&format!("block {number} is in {}", path.display())),
        Err(failure) => repl.console.failure(&failure),
    }
}

/// A block of the last answer by its number from 1, as it was shown.
fn block(repl: &Repl, number: &str) -> Result<CodeBlock, Failure> {
    let blocks = code_blocks(&sanitise(&repl.last_answer));
    let count = blocks.len();
    let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    at.and_then(|at| blocks.into_iter().nth(at)).filter(|block| !block.text.trim().is_empty()).ok_or_else(|| {
        let there = match count {
            0 => "the last answer has no block of code".to_owned(),
            1 => "the last answer has one block of code: 1".to_owned(),
            _ => format!("the last answer has blocks 1 to {count}"),
        };
        Failure::user(format!("there is no block {number}")).hint(&there)
    })
}
