//! The messages of a conversation, and the choice of those that are sent: roles in turn, within limits, the oldest
//! removed with a notice. Pure; knows nothing of how they are sent or stored.
//!
//! Tokens are estimated, not counted: a text of n characters counts as n/4 tokens, rounded up. Code and languages other than
//! English need more, so leave room between `token_budget` and the model's real context.

use super::compact::{Older, PastSummary, Summary};
use super::exec::Outputs;
use crate::base::text::counted;
use crate::proto::{CommandOutcome, Message, Role};
use crate::redact::{Hidden, Redactor};

/// Characters that count as one token.
pub const CHARS_PER_TOKEN: usize = 4;
/// Marks an answer that the user stopped.
const STOPPED: &str = "[stopped by the user]";
/// Marks an answer that broke off.
const BROKE_OFF: &str = "[the answer broke off here]";

/// Estimates the tokens of a text: its characters divided by 4, rounded up.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    text.chars().count().div_ceil(CHARS_PER_TOKEN)
}

/// The limits of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The instructions at the start; if blank, none are sent.
    pub system_prompt: String,
    /// Limit on the question/answer pairs of a request, including the question being asked; 0 counts as 1.
    pub max_turns: usize,
    /// Limit on the tokens of a request, estimated.
    pub token_budget: usize,
    /// Limit on the tokens of commands' output before one question, estimated; never more than half the budget.
    pub exec_output_tokens: usize,
    /// Percentage of the window from which on the older part is summarised; 0 means never.
    pub compact_at_percent: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            max_turns: 40,
            token_budget: 8192,
            exec_output_tokens: 2048,
            compact_at_percent: 0,
        }
    }
}

/// A conversation: questions and answers, and the commands run since the last question.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub(super) options: Options,
    pub(super) pairs: Vec<Pair>,
    /// The replacement for the first pairs, which are held in case it is removed.
    pub(super) summary: Option<Summary>,
    pub(super) may_compact: bool,
    /// The answering model's window, if known.
    window_tokens: Option<usize>,
    /// The server's way of counting, against the estimate here.
    pub(super) scale: Scale,
    pub(super) outputs: Outputs,
    /// Notes before the next question, unless the model has them already.
    notes: Vec<String>,
    open: Option<Open>,
    redactor: Redactor,
}

/// The ratio of a server's own count of a request to the estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Tokens that the server counts for one estimated token.
    pub factor: f64,
    /// Estimated tokens of each request beside the conversation: tools, and calls of earlier questions.
    pub beside: usize,
}

impl Scale {
    /// The ratio before a server has counted: only the estimate exists, and only the conversation is included.
    pub const UNKNOWN: Self = Self { factor: 1.0, beside: 0 };

    /// The tokens of a part by the server's count.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "token counts are far below the limits of a float"
    )]
    pub fn counted(self, estimated: usize) -> usize {
        (estimated as f64 * self.factor).ceil() as usize
    }

    /// The estimate of a part that the server counts at this.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "token counts are far below the limits of a float"
    )]
    pub fn estimated(self, counted: usize) -> usize {
        (counted as f64 / self.factor) as usize
    }

    /// The tokens of a request as the server counts, whose conversation is estimated at this.
    #[must_use]
    pub fn request(self, estimated: usize) -> usize {
        self.counted(estimated + self.beside)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) question: String,
    pub(super) answer: String,
    /// Bytes of the notes at the start of the question.
    pub(super) notes_bytes: usize,
}

impl Pair {
    pub(super) fn tokens(&self) -> usize {
        estimate_tokens(&self.question) + estimate_tokens(&self.answer)
    }
}

/// A turn of a conversation that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastTurn {
    /// The question, without the outputs that went with it.
    pub question: String,
    /// The answer, up to its end or break.
    pub answer: String,
    /// `true` if it is complete.
    pub is_whole: bool,
}

/// The question being answered, with the outputs that it carries.
#[derive(Clone, Debug)]
struct Open {
    content: String,
    notes_bytes: usize,
    outputs: Outputs,
}

impl Conversation {
    /// Starts an empty conversation.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            pairs: Vec::new(),
            summary: None,
            may_compact: true,
            window_tokens: None,
            scale: Scale::UNKNOWN,
            outputs: Outputs::default(),
            notes: Vec::new(),
            open: None,
            redactor: Redactor::default(),
        }
    }

    /// Limits requests to the answering model's window, if it is known.
    pub fn fit_window(&mut self, window_tokens: Option<usize>) {
        self.window_tokens = window_tokens;
    }

    /// The answering model's window, if it is known.
    #[must_use]
    pub fn window_tokens(&self) -> Option<usize> {
        self.window_tokens
    }

    /// Uses the server's way of counting from now on.
    pub fn scale(&mut self, scale: Scale) {
        self.scale = scale;
    }

    /// Limit for the tokens of a request: the budget, or the model's window if that is smaller.
    #[must_use]
    pub fn budget(&self) -> usize {
        self.window_tokens.map_or(self.options.token_budget, |window| window.min(self.options.token_budget))
    }

    /// Puts notes before the next question. Each begins with a line that names its kind, such as `[git]`; the model
    /// gets one only if it differs from the last of its kind in the turns that are still sent.
    pub fn attach(&mut self, notes: Vec<String>) {
        self.notes = notes;
    }

    /// Puts one more note before the next question, in the place of one with the same first line.
    pub fn attach_also(&mut self, note: String) {
        let heading = |note: &str| note.lines().next().unwrap_or_default().to_owned();
        self.notes.retain(|it| heading(it) != heading(&note));
        self.notes.push(note);
    }

    /// Returns whether no turn is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns whether a question, as it was sent or recorded, is among those that are sent in full.
    #[must_use]
    pub fn sends(&self, question: &str) -> bool {
        self.live().iter().any(|pair| pair.question.ends_with(question) || question.ends_with(&pair.question))
    }

    /// The turns that are sent in full.
    pub(super) fn live(&self) -> &[Pair] {
        &self.pairs[self.summarised()..]
    }

    fn summarised(&self) -> usize {
        self.summary.as_ref().map_or(0, |summary| summary.pairs.min(self.pairs.len()))
    }

    /// The notes that the model doesn't have yet, or has in an older form.
    pub(super) fn fresh_notes(&self) -> String {
        self.notes.iter().filter(|note| !self.has_note(note)).map(|note| format!("{}\n\n", note.trim_end())).collect()
    }

    /// Returns whether a note is the last of its kind in the turns that are still sent.
    #[must_use]
    pub fn has_note(&self, note: &str) -> bool {
        let heading = note.lines().next().unwrap_or_default();
        let kind = heading.split_inclusive(']').next().unwrap_or_default();
        let of_kind = |pair: &&Pair| pair.question[..pair.notes_bytes].lines().any(|line| line.starts_with(kind));
        self.live().iter().rev().find(of_kind).is_some_and(|pair| pair.question.contains(note))
    }

    /// Hides secrets in the outputs of commands with this from now on.
    pub fn redact_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Changes the limits; turns that no longer fit are dropped with the next question.
    pub fn limit(&mut self, options: Options) {
        self.options = options;
    }

    /// Sets the system prompt from the next question on.
    pub fn instruct(&mut self, system_prompt: &str) {
        if self.options.system_prompt != system_prompt {
            system_prompt.clone_into(&mut self.options.system_prompt);
        }
    }

    /// Stores a command's outcome for the next question; returns the secrets hidden in it, with their places.
    pub fn ran(&mut self, outcome: &CommandOutcome) -> Vec<(String, Hidden)> {
        self.outputs.add(outcome, self.exec_output_tokens(), &self.redactor)
    }

    /// Opens a question: returns the messages to send, and notices for the user about messages that no longer fit.
    /// Evicted messages are gone, however the question ends. A question that is still open counts as failed.
    #[must_use]
    pub fn messages_for(&mut self, question: &str) -> (Vec<Message>, Vec<String>) {
        self.failed();
        let outputs = std::mem::take(&mut self.outputs);
        let mut notes = self.fresh_notes();
        self.notes.clear();
        let notes_bytes = notes.len();
        notes.push_str(&outputs.before(question));
        let content = notes;
        let notices = self.make_room(&content);
        let messages = self.messages(&content);
        self.open = Some(Open { content, notes_bytes, outputs });
        (messages, notices)
    }

    /// The messages of the open question once more, after the older part became a summary or left.
    #[must_use]
    pub fn messages_again(&mut self) -> Vec<Message> {
        self.open.as_ref().map(|open| self.messages(&open.content)).unwrap_or_default()
    }

    fn messages(&self, content: &str) -> Vec<Message> {
        let mut messages = Vec::with_capacity(self.pairs.len() * 2 + 2);
        if !self.options.system_prompt.trim().is_empty() {
            messages.push(Message { role: Role::System, content: self.options.system_prompt.clone() });
        }
        let mut summary = self.summary.as_ref();
        let mut asked = |question: &str| {
            let content = summary.take().map_or_else(|| question.to_owned(), |summary| summary.before(question));
            Message { role: Role::User, content }
        };
        for pair in self.live() {
            messages.push(asked(&pair.question));
            messages.push(Message { role: Role::Assistant, content: pair.answer.clone() });
        }
        messages.push(asked(content));
        messages
    }

    /// Closes the open question with its whole answer; a blank one leaves no message.
    pub fn answered(&mut self, text: &str) {
        self.close(text, None);
    }

    /// Closes the open question that the user stopped: the text up to then stays, with a mark; without text there is no
    /// message.
    pub fn cancelled(&mut self, text: &str) {
        self.close(text, Some(STOPPED));
    }

    /// Closes the open question whose answer broke off: the text up to then stays, with a mark; without text there is
    /// no message.
    pub fn broke_off(&mut self, text: &str) {
        self.close(text, Some(BROKE_OFF));
    }

    /// Closes the open question without an answer: no message stays, and the outputs it carried wait for the next one.
    pub fn failed(&mut self) {
        if let Some(open) = self.open.take() {
            let tokens_max = self.exec_output_tokens();
            self.outputs.put_back(open.outputs, tokens_max);
        }
    }

    /// Forgets questions and answers; outputs of commands since the last question stay for the next one.
    pub fn clear(&mut self) {
        self.failed();
        self.pairs.clear();
        self.summary = None;
        self.may_compact = true;
    }

    /// Replaces the turns by these, except those without an answer; outputs of commands since the last question stay
    /// for the next one. A turn that is held already keeps its outputs. A summary replaces the first of them.
    pub fn restore(&mut self, turns: Vec<PastTurn>, summary: Option<PastSummary>) {
        self.failed();
        self.summary = summary.map(|PastSummary { text, turns: count }| {
            let pairs = turns.iter().take(count).filter(|turn| !turn.answer.trim().is_empty()).count();
            Summary { text, pairs }
        });
        let mut held = std::mem::take(&mut self.pairs).into_iter().peekable();
        for PastTurn { question, answer, is_whole } in turns {
            if answer.trim().is_empty() {
                continue;
            }
            let came = if is_whole { answer.as_str() } else { answer.trim_end() };
            let is_same = |pair: &Pair| pair.question.ends_with(&question) && pair.answer.starts_with(came);
            // Held turns are in the same order; those before the first that fits have been evicted or rewound.
            let pair = if held.peek().is_some_and(is_same) { held.next() } else { None };
            self.pairs.push(pair.unwrap_or_else(|| {
                let answer = if is_whole { answer.clone() } else { format!("{came}\n{BROKE_OFF}") };
                Pair { question, answer, notes_bytes: 0 }
            }));
        }
    }

    /// Forgets everything but the options.
    pub fn reset(&mut self) {
        let redactor = std::mem::take(&mut self.redactor);
        *self = Self { redactor, ..Self::new(self.options.clone()) };
    }

    fn close(&mut self, text: &str, mark: Option<&str>) {
        if text.trim().is_empty() {
            self.failed();
        } else if let Some(open) = self.open.take() {
            let answer = mark.map_or_else(|| text.to_owned(), |mark| format!("{}\n{mark}", text.trim_end()));
            self.pairs.push(Pair { question: open.content, answer, notes_bytes: open.notes_bytes });
        }
    }

    /// Evicts the oldest pairs until question and history fit.
    fn make_room(&mut self, content: &str) -> Vec<String> {
        let fixed = estimate_tokens(&self.options.system_prompt) + estimate_tokens(content);
        let fixed = fixed + self.summary.as_ref().map_or(0, Summary::tokens);
        let (live, scale) = (self.live(), self.scale);
        let mut tokens = fixed + live.iter().map(Pair::tokens).sum::<usize>();
        let pairs_max = self.options.max_turns.max(1) - 1;
        let budget = self.budget();
        let mut evicted = 0;
        while evicted < live.len() && (live.len() - evicted > pairs_max || scale.request(tokens) > budget) {
            tokens -= live[evicted].tokens();
            evicted += 1;
        }
        let from = self.summarised();
        self.pairs.drain(from..from + evicted);
        let mut notices = Vec::new();
        if evicted > 0 {
            notices.push(evicted_notice(evicted));
        }
        let tokens = scale.request(tokens);
        if tokens > budget {
            notices.push(format!("[context] the question alone is about {tokens} tokens, over the budget of {budget}"));
        }
        notices
    }

    /// Drops the older part without a summary; returns the notice about it.
    #[must_use]
    pub fn evict(&mut self, older: &Older) -> String {
        let from = self.summarised();
        let until = (from + older.turns).min(self.pairs.len());
        self.pairs.drain(from..until);
        evicted_notice(until - from)
    }

    pub(super) fn open_tokens(&self) -> usize {
        self.open.as_ref().map_or(0, |open| estimate_tokens(&open.content))
    }

    fn exec_output_tokens(&self) -> usize {
        self.options.exec_output_tokens.min(self.budget() / 2)
    }
}

fn evicted_notice(turns: usize) -> String {
    format!("[context] oldest {} evicted", counted(turns, "turn"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::proto::Capture;

    fn ran(command: &str, output: &str) -> CommandOutcome {
        let output = Capture { head: output.as_bytes().to_vec(), ..Capture::default() };
        let (command, environment) = (command.into(), String::new());
        CommandOutcome { command, status: 0, duration: Duration::ZERO, cwd: None, environment, output }
    }

    fn with(max_turns: usize, token_budget: usize) -> Conversation {
        let system_prompt = "sys".to_owned();
        Conversation::new(Options { system_prompt, max_turns, token_budget, ..Options::default() })
    }

    fn contents(messages: &[Message]) -> Vec<&str> {
        messages.iter().map(|message| message.content.as_str()).collect()
    }

    #[test]
    fn tokens_are_a_quarter_of_the_characters_rounded_up() {
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éééé", 1)] {
            assert_eq!(estimate_tokens(text), tokens);
        }
    }

    #[test]
    fn a_picture_is_known_as_long_as_its_turn_is_sent() {
        let mut talk = with(1, 10_000);
        let mark = "[picture cat.png, png, 1 KiB, 00000001]";
        assert!(!talk.has_note(mark));
        for (question, held) in [("see", true), ("what else?", false)] {
            talk.attach(if held { vec![mark.to_owned()] } else { Vec::new() });
            let _ = talk.messages_for(question);
            talk.answered("yes");
            assert_eq!((talk.has_note(mark), talk.has_note("[picture dog.png]")), (held, false));
        }
    }

    #[test]
    fn the_oldest_pair_leaves_with_its_notice() {
        let mut talk = with(2, 10_000);
        for question in ["one", "two"] {
            assert_eq!(talk.messages_for(question).1, [""; 0]);
            talk.answered("yes");
        }
        let (messages, notices) = talk.messages_for("three");
        assert_eq!(notices, ["[context] oldest 1 turn evicted"]);
        assert_eq!(contents(&messages), ["sys", "two", "yes", "three"]);
    }

    #[test]
    fn the_budget_evicts_as_many_as_needed_in_one_notice() {
        let mut talk = with(40, 100);
        for _ in 0..3 {
            let _ = talk.messages_for(&"q".repeat(60));
            talk.answered(&"a".repeat(60));
        }
        let (messages, notices) = talk.messages_for(&"q".repeat(200));
        assert_eq!(notices, ["[context] oldest 2 turns evicted"]);
        assert_eq!(messages.len(), 4);
        talk.failed();
        let (messages, notices) = talk.messages_for(&"q".repeat(4000));
        assert_eq!(notices[0], "[context] oldest 1 turn evicted");
        assert_eq!(notices[1], "[context] the question alone is about 1001 tokens, over the budget of 100");
        assert_eq!(messages.len(), 2);
    }

    #[test]
    fn a_failed_question_leaves_no_message_and_gives_its_outputs_back() {
        let mut talk = with(40, 10_000);
        talk.ran(&ran("ls", "file"));
        let _ = talk.messages_for("what is it?");
        talk.ran(&ran("pwd", "/home"));
        talk.failed();
        let (messages, _) = talk.messages_for("again?");
        let block = |command, output| format!("[exec output]\n$ {command}\n(exit status 0)\n{output}\n\n");
        assert_eq!(messages[1].content, format!("{}{}again?", block("ls", "file"), block("pwd", "/home")));
        talk.answered("a file");
        assert_eq!(talk.messages_for("and?").0.last().map(|it| it.content.as_str()), Some("and?"));
    }

    #[test]
    fn the_first_part_of_a_stopped_answer_stays_with_a_mark() {
        let mut talk = with(40, 10_000);
        let _ = talk.messages_for("one");
        talk.cancelled("half \n");
        let _ = talk.messages_for("two");
        talk.broke_off("quarter");
        let _ = talk.messages_for("three");
        talk.cancelled(" ");
        let (messages, _) = talk.messages_for("four");
        assert_eq!(
            contents(&messages),
            ["sys", "one", "half\n[stopped by the user]", "two", "quarter\n[the answer broke off here]", "four"]
        );
    }

    #[test]
    fn recorded_turns_come_back_and_held_ones_keep_their_outputs() {
        let past = |question: &str, answer: &str, is_whole| PastTurn {
            question: question.to_owned(),
            answer: answer.to_owned(),
            is_whole,
        };
        let mut talk = with(40, 10_000);
        talk.restore(vec![past("one", "yes", true), past("two", "", false), past("three", "ha \n", false)], None);
        talk.ran(&ran("ls", "file"));
        let (messages, _) = talk.messages_for("four");
        let broken = "ha\n[the answer broke off here]";
        assert_eq!(contents(&messages)[..5], ["sys", "one", "yes", "three", broken]);
        talk.answered("four!");
        let _ = talk.messages_for("five");
        talk.answered("five!");
        talk.restore(vec![past("one", "yes", true), past("three", "ha \n", false), past("four", "four!", true)], None);
        let (messages, _) = talk.messages_for("six");
        let contents = contents(&messages);
        assert_eq!((contents.len(), contents[1..5].join(" ")), (8, format!("one yes three {broken}")));
        assert!(contents[5].contains("$ ls") && contents[6..] == ["four!", "six"], "{contents:?}");
    }

    #[test]
    fn clear_keeps_outputs_and_reset_forgets_them() {
        let mut talk = with(40, 10_000);
        let _ = talk.messages_for("one");
        talk.answered("yes");
        talk.ran(&ran("ls", "file"));
        talk.clear();
        let (messages, _) = talk.messages_for("two");
        assert!(messages.len() == 2 && messages[1].content.contains("$ ls"));
        talk.reset();
        assert_eq!(contents(&talk.messages_for("three").0), ["sys", "three"]);
    }

    #[test]
    fn a_blank_system_prompt_is_not_sent() {
        let mut talk = Conversation::new(Options::default());
        assert_eq!(contents(&talk.messages_for("q").0), ["q"]);
    }

    proptest! {
        #[test]
        fn roles_alternate_and_limits_hold_whatever_happens(
            steps in prop::collection::vec((0u8..7, "[a-z ]{0,80}"), 0..60), max_turns in 0usize..5, budget in 20usize..200) {
            let mut talk = Conversation::new(Options { max_turns, token_budget: budget, ..Options::default() });
            for (step, text) in steps {
                match step {
                    0 => talk.answered(&text),
                    1 => talk.cancelled(&text),
                    2 => talk.failed(),
                    3 => drop(talk.ran(&ran("c", &text.repeat(20)))),
                    4 => talk.broke_off(&text),
                    _ => {
                        let (messages, notices) = talk.messages_for(&text);
                        for (at, message) in messages.iter().enumerate() {
                            prop_assert_eq!(message.role, if at % 2 == 0 { Role::User } else { Role::Assistant });
                        }
                        prop_assert_eq!(messages.len() % 2, 1);
                        prop_assert!(messages.len() / 2 < max_turns.max(1));
                        let tokens: usize = messages.iter().map(|message| estimate_tokens(&message.content)).sum();
                        let alone = notices.iter().any(|notice| notice.contains("alone"));
                        prop_assert!(tokens <= budget || (alone && messages.len() == 1));
                    }
                }
            }
        }
    }
}
