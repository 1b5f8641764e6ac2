//! Short texts of a model that aren't part of a conversation: its title, the first line of a commit, the summary of a file, an
//! opinion. Meant for work beside an answer.

use std::sync::Arc;

use crate::agent::purse::Purse;
use crate::agent::{MoneyOptions, Recorder};
use crate::model::{Cancel, ChatEvent, Crossing, Item, Metadata, Provider, Request, Sending, Sink, Task};
use crate::proto::Failure;

/// Characters of question and answer that are read: a title needs no more.
const READ_CHARS: usize = 2_000;
/// Tokens that may be written, thoughts among them.
const OUTPUT_TOKENS_MAX: u64 = 300;
/// Characters of a title: a line of a list.
const TITLE_CHARS_MAX: usize = 60;
const INSTRUCTIONS: &str = "You name conversations. Answer with a title for the one below, in its language: two to six \
    words, no quotes, no full stop, nothing else.";

const SUBJECT_INSTRUCTIONS: &str = "You write commit messages. Answer with the first line of one for the changes \
    below, in English and in the imperative: at most 60 characters, no quotes, no full stop, nothing else.";

const SUMMARY_INSTRUCTIONS: &str = "You describe files of a repository. Answer with one line for each file below: its \
    number, a colon, and what the file is for, in English, with at most 30 words. Nothing else.";
/// Tokens that may be written for the summary of one file.
const SUMMARY_TOKENS: u64 = 100;
/// Limit on the characters of a summary; the rest is cut.
const SUMMARY_CHARS_MAX: usize = 400;

/// Makes titles.
pub struct Titler {
    provider: Arc<dyn Provider>,
    money: MoneyOptions,
    cancel: Cancel,
}

impl Titler {
    pub(in crate::agent) fn new(provider: Arc<dyn Provider>, money: MoneyOptions) -> Self {
        Self { provider, money, cancel: Cancel::new() }
    }

    /// The same, stopped by this handle.
    pub(in crate::agent) fn stopped_by(self, cancel: Cancel) -> Self {
        Self { cancel, ..self }
    }

    /// Asks for the title of a conversation with this beginning. `None` if there is no answer, it isn't a title, or a budget
    /// forbids it.
    pub fn title(&self, question: &str, answer: &str, recorder: &mut dyn Recorder) -> Option<String> {
        self.line(INSTRUCTIONS, question, answer, recorder).as_deref().and_then(title_of)
    }

    /// Asks for the first line of a commit with what this question and answer changed; as [`Titler::title`].
    pub fn subject(&self, question: &str, answer: &str, recorder: &mut dyn Recorder) -> Option<String> {
        self.line(SUBJECT_INSTRUCTIONS, question, answer, recorder).as_deref().and_then(title_of)
    }

    /// Asks for summaries of files, each a path and the beginning of its text. Returns them with the numbers of their files.
    ///
    /// # Errors
    /// There is no answer, or a budget forbids it; in words.
    pub fn summaries(
        &self,
        files: &[(&str, &str)],
        recorder: &mut dyn Recorder,
    ) -> Result<Vec<(usize, String)>, String> {
        let part = |(number, (path, text)): (usize, &(&str, &str))| format!("File {}: {path}\n{text}\n\n", number + 1);
        let asked: String = files.iter().enumerate().map(part).collect();
        let tokens = SUMMARY_TOKENS * u64::try_from(files.len()).unwrap_or(1).max(1);
        let text = self.asked(SUMMARY_INSTRUCTIONS, asked, tokens, recorder)?;
        let line = |line: &str| {
            let (number, text) = line.trim().trim_start_matches("File ").split_once([':', '.'])?;
            let number = number.trim().parse::<usize>().ok()?.checked_sub(1).filter(|it| *it < files.len())?;
            let text: String = text.trim().chars().filter(|c| !c.is_control()).take(SUMMARY_CHARS_MAX).collect();
            (!text.is_empty()).then_some((number, text))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    fn line(&self, system: &str, question: &str, answer: &str, recorder: &mut dyn Recorder) -> Option<String> {
        let part = |text: &str| text.chars().take(READ_CHARS).collect::<String>();
        let begin = format!("Question:\n{}\n\nAnswer:\n{}", part(question), part(answer));
        Some(self.asked(system, begin, OUTPUT_TOKENS_MAX, recorder).unwrap_or_default())
    }

    /// Asks for a text.
    pub(in crate::agent) fn asked(
        &self,
        system: &str,
        question: String,
        tokens_max: u64,
        recorder: &mut dyn Recorder,
    ) -> Result<String, String> {
        let request = Request {
            system: Some(system.to_owned()),
            messages: vec![Item::User(question)],
            max_output_tokens: Some(tokens_max),
            metadata: Metadata { task: Task::Summary, ..Metadata::default() },
            whole: true,
            ..Request::default()
        };
        let mut purse = Purse::default();
        purse.configure(self.money.clone());
        let mut quiet = Quiet { purse, recorder, cancel: self.cancel.clone(), thoughts: String::new() };
        let end = self.provider.chat(&request, &mut quiet);
        let Quiet { mut purse, recorder, thoughts, .. } = quiet;
        let text = end.as_ref().map_or("", |response| &response.text);
        let answer = end.as_ref().map(|response| response.text.clone()).map_err(ToString::to_string);
        // The store reports its own failures.
        let _ = purse.settle(end.as_ref().map_err(|error| &**error), (text, &thoughts), recorder);
        answer
    }
}

/// The title in an answer: its first line with words, without marks around it.
fn title_of(text: &str) -> Option<String> {
    let marks = |c: char| c.is_whitespace() || "\"'`*#.:«»“”„".contains(c);
    let line = text.lines().map(|line| line.trim_matches(marks)).find(|line| !line.is_empty())?;
    let line = line.strip_prefix("Title:").unwrap_or(line).trim_matches(marks);
    let clean: String = line.chars().filter(|c| !c.is_control()).collect();
    // A longer text is talk, not a title.
    (clean.chars().count() <= TITLE_CHARS_MAX && !clean.is_empty()).then_some(clean)
}

/// Receives the answer in the background.
struct Quiet<'a> {
    purse: Purse,
    recorder: &'a mut dyn Recorder,
    cancel: Cancel,
    thoughts: String,
}

impl Sink for Quiet<'_> {
    fn event(&mut self, event: ChatEvent) {
        if let ChatEvent::Thought(piece) = event {
            self.thoughts.push_str(&piece);
        }
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn permit(&mut self, sending: &Sending<'_>) -> Result<Option<u64>, Failure> {
        self.purse.permit(sending, self.recorder)
    }

    /// No person is asked, so no text goes to a more distant model than they have allowed.
    fn consent(&mut self, _: &Crossing) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        for (text, title) in [
            ("Disk full on /var", Some("Disk full on /var")),
            ("\n\n**\"Mounting a disk.\"**\nIt is about disks.", Some("Mounting a disk")),
            ("Title: Größe von Ordnern", Some("Größe von Ordnern")),
            ("", None),
            (" \n\"\"\n", None),
            ("Of course! Here is a title for the conversation that you have asked me to name:", None),
        ] {
            assert_eq!(title_of(text).as_deref(), title, "{text:?}");
        }
    }
}
