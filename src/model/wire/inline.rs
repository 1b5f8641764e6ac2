//! Thoughts that a model writes at the beginning of its text, between marks, as servers hand them on that don't know the
//! model's format: separated while the text arrives. Pure.

/// Text and thoughts, as far as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct Fresh {
    pub text: String,
    pub thought: String,
}

/// The words in the marks.
const WORDS: [&str; 5] = ["think", "thinking", "thought", "thoughts", "reasoning"];

/// Separates thoughts from text.
#[derive(Debug, Default)]
pub(super) struct Inline {
    /// Text that isn't separated yet.
    held: String,
    place: Place,
}

#[derive(Debug, Default, PartialEq)]
enum Place {
    /// Only blanks have arrived.
    #[default]
    Start,
    /// Within thoughts that this mark ends.
    Thoughts(String),
    /// After thoughts, where blanks are no text.
    After,
    Text,
}

impl Inline {
    /// Takes a piece; returns the text and thoughts that are certain by now.
    pub(super) fn push(&mut self, piece: &str) -> Fresh {
        let mut fresh = Fresh::default();
        self.held.push_str(piece);
        loop {
            match &self.place {
                Place::Text => {
                    fresh.text.push_str(&std::mem::take(&mut self.held));
                    return fresh;
                }
                Place::Thoughts(end) => match self.held.find(end.as_str()) {
                    Some(at) => {
                        fresh.thought.push_str(&self.held[..at]);
                        self.held.drain(..at + end.len());
                        self.place = Place::After;
                    }
                    None => {
                        let begins_end =
                            |at: &usize| self.held.is_char_boundary(*at) && end.starts_with(&self.held[*at..]);
                        let from = self.held.len().saturating_sub(end.len());
                        let certain = (from..self.held.len()).find(begins_end).unwrap_or(self.held.len());
                        fresh.thought.extend(self.held.drain(..certain));
                        return fresh;
                    }
                },
                Place::Start | Place::After => {
                    let begun = self.held.trim_start();
                    match opening(begun) {
                        Opening::Open => return fresh,
                        Opening::Mark(end) => {
                            // The end mark has one more slash.
                            self.held = begun[end.len() - 1..].to_owned();
                            self.place = Place::Thoughts(end);
                        }
                        Opening::None => {
                            if self.place == Place::After {
                                self.held = begun.to_owned();
                            }
                            self.place = Place::Text;
                        }
                    }
                }
            }
        }
    }

    /// Returns the rest at the end of the text.
    pub(super) fn finish(&mut self) -> Fresh {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.place, Place::Text) {
            Place::Thoughts(_) => Fresh { thought: held, ..Fresh::default() },
            Place::After => Fresh { text: held.trim_start().to_owned(), ..Fresh::default() },
            Place::Start | Place::Text => Fresh { text: held, ..Fresh::default() },
        }
    }
}

/// The beginning of a text.
enum Opening {
    /// No mark.
    None,
    /// May become one.
    Open,
    /// The mark of thoughts that end with this.
    Mark(String),
}

fn opening(begun: &str) -> Opening {
    let close = match begun.chars().next() {
        None => return Opening::Open,
        Some('<') => '>',
        Some('[') => ']',
        Some(_) => return Opening::None,
    };
    let word = begun[1..].split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let lower = word.to_ascii_lowercase();
    match begun[1 + word.len()..].chars().next() {
        None if WORDS.iter().any(|it| it.starts_with(&lower)) => Opening::Open,
        Some(c) if c == close && WORDS.contains(&lower.as_str()) => {
            Opening::Mark(format!("{}/{word}{close}", &begun[..1]))
        }
        _ => Opening::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thoughts and text of a text that comes in pieces of this many characters.
    fn split(text: &str, size: usize) -> (String, String) {
        let (mut inline, mut all) = (Inline::default(), Fresh::default());
        let chars: Vec<char> = text.chars().collect();
        let mut add = |fresh: Fresh| {
            all.text += &fresh.text;
            all.thought += &fresh.thought;
        };
        chars.chunks(size).for_each(|piece| add(inline.push(&piece.iter().collect::<String>())));
        add(inline.finish());
        (all.thought, all.text)
    }

    #[test]
    fn thoughts_at_the_beginning_of_a_text_are_no_text() {
        for (text, thought, rest) in [
            ("<think>\nlong é\n</think>\n\nIt is 4.", "\nlong é\n", "It is 4."),
            ("\n<think></think>It is <b>4</b>.", "", "It is <b>4</b>."),
            ("[THINK]a < b[/THINK]yes", "a < b", "yes"),
            ("<thinking>a</thinking> <think>b</think> c", "ab", "c"),
            ("<think>hmm", "hmm", ""),
            ("<think>hmm</thi", "hmm</thi", ""),
            ("<think>hmm</think>", "hmm", ""),
            ("<thi", "", "<thi"),
            ("<this> is <think>text</think>", "", "<this> is <think>text</think>"),
            ("  plain\n", "", "  plain\n"),
            ("A <think> later", "", "A <think> later"),
            ("[1, 2]", "", "[1, 2]"),
        ] {
            for size in [1, 3, 100] {
                assert_eq!(split(text, size), (thought.into(), rest.into()), "{text} by {size}");
            }
        }
    }
}
