//! The outputs of the commands run since the last question, within a budget. Pure; the newest matter most.

use super::conversation::{CHARS_PER_TOKEN, estimate_tokens};
use super::plain::plain_text;
use crate::proto::CommandOutcome;
use crate::redact::{Hidden, Redactor};

/// Length below which a shortened output is useless: the command is then left out and counted.
const USEFUL_CHARS: usize = 120;
/// Characters of a command that name the place where something was hidden.
const SHOWN_CHARS: usize = 60;

/// Blocks that wait for the next question, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outputs {
    blocks: Vec<String>,
    left_out: u64,
}

impl Outputs {
    /// Adds one command; the oldest are removed if the budget is exceeded. Returns the secrets hidden in it, with their
    /// places.
    pub(super) fn add(
        &mut self,
        outcome: &CommandOutcome,
        tokens_max: usize,
        redactor: &Redactor,
    ) -> Vec<(String, Hidden)> {
        let (block, hidden) = block(outcome, tokens_max.saturating_mul(CHARS_PER_TOKEN), redactor);
        self.blocks.push(block);
        self.fit(tokens_max);
        hidden
    }

    /// Puts `older` first: a question that failed returns its outputs.
    pub(super) fn put_back(&mut self, older: Self, tokens_max: usize) {
        let newer = std::mem::replace(self, older);
        self.blocks.extend(newer.blocks);
        self.left_out += newer.left_out;
        self.fit(tokens_max);
    }

    /// Writes them in front of `question`.
    pub(super) fn before(&self, question: &str) -> String {
        let mut text = String::new();
        if self.left_out > 0 {
            text.push_str(&format!("[exec output]\n… {} earlier commands omitted …\n\n", self.left_out));
        }
        for block in &self.blocks {
            text.push_str(block);
            text.push_str("\n\n");
        }
        text.push_str(question);
        text
    }

    fn fit(&mut self, tokens_max: usize) {
        if tokens_max == 0 {
            // Dropped outputs that aren't wanted need no notice.
            *self = Self::default();
            return;
        }
        let chars_max = tokens_max.saturating_mul(CHARS_PER_TOKEN);
        let mut left = chars_max;
        for at in (0..self.blocks.len()).rev() {
            let length = self.blocks[at].chars().count();
            if length > left {
                if left >= USEFUL_CHARS {
                    self.blocks[at] = shorten(&self.blocks[at], left);
                }
                let out = if left >= USEFUL_CHARS { at } else { at + 1 };
                self.blocks.drain(..out);
                self.left_out += out as u64;
                break;
            }
            left -= length;
        }
        debug_assert!(
            self.blocks.iter().map(|block| estimate_tokens(block)).sum::<usize>() <= tokens_max + self.blocks.len()
        );
    }
}

/// A command with its status and output, without secrets: they are hidden before it is shortened, for a cut would leave
/// half of one.
fn block(outcome: &CommandOutcome, chars_max: usize, redactor: &Redactor) -> (String, Vec<(String, Hidden)>) {
    let output = plain_text(&outcome.output);
    let output = if output.is_empty() { "(no output)" } else { &output };
    let command: String = outcome.command.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let (command, output) = (redactor.redact(&command), redactor.redact(output));
    let shown: String =
        command.text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN_CHARS).collect();
    let in_command = command.hidden.into_iter().map(|hidden| (format!("the command {shown}"), hidden));
    let in_output = output.hidden.into_iter().map(|hidden| (format!("the output of {shown}"), hidden));
    let hidden = in_command.chain(in_output).collect();
    let text = format!("[exec output]\n$ {}\n(exit status {})\n{}", command.text, outcome.status, output.text);
    (shorten(&text, chars_max), hidden)
}

/// Reduces a text to a head and a tail of `chars_max` characters, with a line about the gap between them. The head is a third:
/// errors and results come last.
pub(super) fn shorten(text: &str, chars_max: usize) -> String {
    let length = text.chars().count();
    if length <= chars_max {
        return text.to_owned();
    }
    let index = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    // The gap's own line takes its part; twenty digits are the most that a count has.
    let room = chars_max.saturating_sub("\n… bytes omitted …\n".chars().count() + 1 + digits(text.len()));
    let head = index(room / 3);
    let tail = index(length - (room - room / 3));
    let gap = format!("\n… {} bytes omitted …\n", tail - head);
    if room == 0 {
        return gap.trim().chars().take(chars_max).collect();
    }
    [&text[..head], &gap, &text[tail..]].concat()
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::proto::Capture;

    pub(in crate::turn) fn ran(command: &str, status: i32, output: &str) -> CommandOutcome {
        CommandOutcome {
            command: command.into(),
            status,
            duration: Duration::ZERO,
            cwd: None,
            environment: String::new(),
            output: Capture { head: output.as_bytes().to_vec(), ..Capture::default() },
        }
    }

    #[test]
    fn a_block_has_the_tag_the_command_its_status_and_its_output() {
        let mut outputs = Outputs::default();
        outputs.add(&ran("make", 2, "\x1b[31merror\x1b[0m\r\n"), 100, &Redactor::default());
        outputs.add(&ran("true", 0, ""), 100, &Redactor::default());
        assert_eq!(
            outputs.before("why?"),
            "[exec output]\n$ make\n(exit status 2)\nerror\n\n[exec output]\n$ true\n(exit status 0)\n(no output)\n\nwhy?"
        );
    }

    #[test]
    fn a_long_output_keeps_head_and_tail_and_counts_the_gap() {
        let text = format!("head{}tail", "x".repeat(1000));
        let short = shorten(&text, 100);
        assert!(short.starts_with("head") && short.ends_with("tail") && short.chars().count() <= 100, "{short}");
        let lines = short.split('\n').map(str::len).collect::<Vec<_>>();
        assert!(short.contains(&format!("… {} bytes omitted …", text.len() - lines[0] - lines[2])), "{short}");
    }

    #[test]
    fn the_newest_stay_whole_and_the_oldest_leave_counted() {
        let mut outputs = Outputs::default();
        for number in 0..20 {
            outputs.add(&ran(&format!("c{number}"), 0, &"y".repeat(200)), 150, &Redactor::default());
        }
        let text = outputs.before("q");
        assert!(text.contains("$ c19\n(exit status 0)\nyyy") && !text.contains("$ c1\n"), "{text}");
        assert!(text.starts_with("[exec output]\n… 17 earlier commands omitted …\n\n"), "{text}");
        assert!(text.chars().count() < 150 * 4 + 80, "{}", text.len());
    }

    #[test]
    fn without_outputs_a_question_is_sent_as_typed() {
        let mut outputs = Outputs::default();
        outputs.add(&ran("make", 2, "error"), 0, &Redactor::default());
        let mut older = Outputs::default();
        older.add(&ran("true", 0, ""), 100, &Redactor::default());
        outputs.put_back(older, 0);
        assert_eq!(outputs.before("why?"), "why?");
    }

    #[test]
    fn a_secret_is_hidden_before_a_cut_and_reported_with_its_place() {
        let mut outputs = Outputs::default();
        let output = format!("\x1b[1mA\x1b[0m\nDB_PASSWORD=hun\x1b[31mter2\x1b[0m\n{}", "x".repeat(4000));
        let hidden = outputs.add(&ran("mysql --password=hunter3 -e x", 0, &output), 200, &Redactor::default());
        let text = outputs.before("q");
        assert!(!text.contains("hunter") && text.contains("$ mysql --password=[redacted: password] -e x"), "{text}");
        let places: Vec<(&str, usize, usize)> =
            hidden.iter().map(|(place, it)| (place.as_str(), it.line, it.length_chars)).collect();
        let command = "mysql --password=[redacted: password] -e x";
        let (first, second) = (format!("the command {command}"), format!("the output of {command}"));
        assert_eq!(places, [(first.as_str(), 1, 7), (second.as_str(), 2, 7)]);
    }

    proptest! {
        #[test]
        fn shortening_holds_its_limit(text in "[aé🦀\n]{0,300}", chars_max in 0usize..200) {
            let short = shorten(&text, chars_max);
            prop_assert!(short.chars().count() <= chars_max.max(text.chars().count().min(chars_max)));
        }
    }
}
