//! The commands that an answer proposes: shown exactly, offered one by one, run only on a person's key.

use nu_ansi_term::Color;

use super::hub::{Flow, Repl};
use crate::ask::look;
use crate::proto::ModelCommand;
use crate::render::command_rows;
use crate::repl::records::steps;
use crate::shell::session::KeysTo;

/// The person's choice about a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Run,
    Edit,
    Skip,
    Stop,
}

/// Reads the answer to a proposal from keys: only a lone key counts, so that a paste or an escape sequence is no.
#[must_use]
pub(super) fn choice(keys: &[u8]) -> Option<Choice> {
    match keys {
        b"r" | b"R" | b"y" | b"Y" => Some(Choice::Run),
        b"e" | b"E" => Some(Choice::Edit),
        b"s" | b"S" | b"n" | b"N" | b"\r" | b"\n" | b"\x1b" => Some(Choice::Skip),
        b"t" | b"T" | b"q" | b"Q" | b"\x03" | b"\x04" => Some(Choice::Stop),
        _ => None,
    }
}

/// Offers the proposals that are left; stops if the person edits one (it comes back as the next line).
pub(super) fn offer_proposals(repl: &mut Repl) -> Flow {
    while let Some(command) = repl.proposals.pop_front() {
        let total = repl.proposals_total;
        let number = total - repl.proposals.len();
        match ask_choice(repl, &command, number, total) {
            Ok(Choice::Run) => {
                let flow = steps::run_models_command(repl, command);
                if flow != Flow::Continue {
                    repl.proposals.clear();
                    return flow;
                }
            }
            Ok(Choice::Edit) => {
                repl.edit_next(&command.text);
                return Flow::Continue;
            }
            Ok(Choice::Skip) => {}
            Ok(Choice::Stop) => repl.proposals.clear(),
            Err(flow) => {
                repl.proposals.clear();
                return flow;
            }
        }
    }
    Flow::Continue
}

fn ask_choice(repl: &mut Repl, command: &ModelCommand, number: usize, total: usize) -> Result<Choice, Flow> {
    let console = &repl.console;
    let head = format!("the model proposes ({number} of {total}):");
    console.line(&console.paint(Color::Yellow.bold(), &head));
    command_rows(&command.text, look(console)).iter().for_each(|row| console.line(row));
    let answer = repl.put_question("run [r]  edit [e]  skip [s, Enter]  stop [t]", choice, Choice::Stop);
    if answer == Ok(Choice::Edit) {
        // Keys typed ahead mustn't submit a proposal that is being edited.
        repl.terminal.session.keys_to(KeysTo::HoldFresh);
    }
    let word = match answer {
        Ok(Choice::Run) => "run",
        Ok(Choice::Edit) => "edit",
        Ok(Choice::Skip) => "skipped",
        Ok(Choice::Stop) | Err(_) => "stopped",
    };
    repl.console.line(word);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_plain_yes_runs() {
        assert_eq!(choice(b"r"), Some(Choice::Run));
        assert_eq!(choice(b"\r"), Some(Choice::Skip));
        assert_eq!(choice(b"\x1b"), Some(Choice::Skip));
        assert_eq!(choice(b"\x04"), Some(Choice::Stop));
        assert_eq!(choice(b"\x03"), Some(Choice::Stop));
        // A paste, an arrow key, a burst of typed-ahead keys: no answer at all.
        for keys in [&b"run"[..], b"\x1b[A", b"\x1b[200~r\x1b[201~", b"rr", b"x", b""] {
            assert_eq!(choice(keys), None, "{keys:?}");
        }
    }
}
