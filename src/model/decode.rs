//! A response's bytes to the answer's text: pure and incremental. Takes a stream of events or one JSON object, whichever
//! the server chose to send; knows nothing of sockets.

use super::error::{Fault, one_line};
use super::sse;
use super::wire::{Chunk, Problem};

/// Most text of one answer, in bytes: a hundred times what a person reads; reaching it ends the answer and is said.
pub(super) const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of one response on the wire: each token comes in some hundred bytes of JSON.
pub(super) const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most bytes of a response that is one JSON object, since it is held whole.
pub(super) const OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a response kept to show how garbage begins.
const SAMPLE_BYTES: usize = 240;

/// Whether more is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The answer may go on.
    More,
    /// The server said that it is whole.
    Done,
}

/// Takes a response's bytes as they come, cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    form: Form,
    sample: Vec<u8>,
    finish_reason: Option<String>,
    saw_answer: bool,
    response_bytes: usize,
    answer_bytes: usize,
}

#[derive(Debug, Default)]
enum Form {
    #[default]
    Unknown,
    Events(sse::Reader),
    Object(Vec<u8>),
}

impl Decoder {
    /// Takes the next bytes and adds what they say to `text`, also what came before a fault.
    pub(super) fn feed(&mut self, bytes: &[u8], text: &mut String) -> Result<Progress, Fault> {
        self.response_bytes = self.response_bytes.saturating_add(bytes.len());
        if self.response_bytes > RESPONSE_BYTES_MAX {
            return Err(Fault::TooLong { what: "response", limit_bytes: RESPONSE_BYTES_MAX });
        }
        let before = text.len();
        let result = self.feed_form(bytes, text);
        self.answer_bytes = self.answer_bytes.saturating_add(text.len() - before);
        if self.answer_bytes > ANSWER_BYTES_MAX {
            let mut keep = before + (text.len() - before) - (self.answer_bytes - ANSWER_BYTES_MAX);
            while !text.is_char_boundary(keep) {
                keep -= 1;
            }
            text.truncate(keep);
            return Err(Fault::TooLong { what: "answer", limit_bytes: ANSWER_BYTES_MAX });
        }
        result
    }

    /// Takes the end of the response: `Ok` where the answer is whole.
    pub(super) fn finish(&mut self, text: &mut String) -> Result<(), Fault> {
        match std::mem::take(&mut self.form) {
            Form::Unknown => Err(Fault::ClosedEarly),
            Form::Object(bytes) => self.take_object(&bytes, text),
            Form::Events(mut reader) => {
                let mut events = Vec::new();
                reader.finish(&mut events).map_err(too_long)?;
                let progress = match self.take_events(events, text) {
                    // The last event was cut in the middle of its JSON: that is a cut, not garbage.
                    Err(Fault::Garbage { .. }) if self.saw_answer || self.begins_as_answer() => Err(Fault::Cut),
                    other => other,
                }?;
                if progress == Progress::Done || self.finish_reason.is_some() {
                    Ok(())
                } else if self.saw_answer {
                    Err(Fault::Cut)
                } else {
                    Err(self.garbage())
                }
            }
        }
    }

    /// The server's reason for ending the answer (`stop`, `length`), where it gave one.
    pub(super) fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.as_deref()
    }

    /// Whether a piece of an answer has come.
    pub(super) fn saw_answer(&self) -> bool {
        self.saw_answer
    }

    fn feed_form(&mut self, mut bytes: &[u8], text: &mut String) -> Result<Progress, Fault> {
        if matches!(self.form, Form::Unknown) {
            // A byte order mark and blank lines may stand before either form.
            let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte));
            let Some(start) = start else { return Ok(Progress::More) };
            bytes = &bytes[start..];
            self.form = match bytes[0] {
                b'{' | b'[' => Form::Object(Vec::new()),
                _ => Form::Events(sse::Reader::default()),
            };
        }
        let wanted = SAMPLE_BYTES.saturating_sub(self.sample.len()).min(bytes.len());
        self.sample.extend_from_slice(&bytes[..wanted]);
        match &mut self.form {
            Form::Object(object) => {
                if object.len() + bytes.len() > OBJECT_BYTES_MAX {
                    return Err(Fault::TooLong { what: "response", limit_bytes: OBJECT_BYTES_MAX });
                }
                object.extend_from_slice(bytes);
                Ok(Progress::More)
            }
            Form::Events(reader) => {
                let mut events = Vec::new();
                let fed = reader.feed(bytes, &mut events);
                let progress = self.take_events(events, text)?;
                fed.map_err(too_long)?;
                Ok(progress)
            }
            Form::Unknown => Ok(Progress::More),
        }
    }

    fn take_events(&mut self, events: Vec<sse::Event>, text: &mut String) -> Result<Progress, Fault> {
        for event in events {
            let data = event.data.trim();
            if data == "[DONE]" {
                return if self.saw_answer { Ok(Progress::Done) } else { Err(self.garbage()) };
            }
            if event.name == "error" {
                return Err(reported(&Problem::of_body(data.as_bytes())));
            }
            if data.is_empty() {
                continue;
            }
            let chunk: Chunk = serde_json::from_str(data).map_err(|_| Fault::Garbage { sample: one_line(data) })?;
            self.take_chunk(chunk, text)?;
        }
        Ok(Progress::More)
    }

    fn take_object(&mut self, bytes: &[u8], text: &mut String) -> Result<(), Fault> {
        let chunk: Chunk =
            serde_json::from_slice(bytes).map_err(|error| if error.is_eof() { Fault::Cut } else { self.garbage() })?;
        let is_answer = chunk.is_answer();
        let before = text.len();
        self.take_chunk(chunk, text)?;
        if text.len() - before > ANSWER_BYTES_MAX {
            return Err(Fault::TooLong { what: "answer", limit_bytes: ANSWER_BYTES_MAX });
        }
        if is_answer { Ok(()) } else { Err(self.garbage()) }
    }

    fn take_chunk(&mut self, chunk: Chunk, text: &mut String) -> Result<(), Fault> {
        if let Some(problem) = chunk.error() {
            return Err(reported(&problem));
        }
        self.saw_answer |= chunk.is_answer();
        if let Some(reason) = chunk.take(text) {
            self.finish_reason = Some(reason);
        }
        Ok(())
    }

    fn begins_as_answer(&self) -> bool {
        self.sample.strip_prefix(b"data:").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"))
    }

    fn garbage(&self) -> Fault {
        Fault::Garbage { sample: one_line(&String::from_utf8_lossy(&self.sample)) }
    }
}

fn reported(problem: &Problem) -> Fault {
    let said = one_line(&problem.message);
    if problem.is_context_overflow() { Fault::ContextOverflow { said } } else { Fault::ErrorInAnswer { said } }
}

fn too_long(limit: sse::TooLong) -> Fault {
    Fault::TooLong { what: "event of the answer", limit_bytes: limit.limit_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> (String, Result<(), Fault>) {
        let mut decoder = Decoder::default();
        let mut text = String::new();
        for piece in pieces {
            match decoder.feed(piece, &mut text) {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => return (text, Ok(())),
                Err(fault) => return (text, Err(fault)),
            }
        }
        let end = decoder.finish(&mut text);
        (text, end)
    }

    fn said(text: &str) -> String {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
    }

    #[test]
    fn every_response_cut_at_every_byte_gives_the_same() {
        let done = "data: [DONE]\n\n";
        let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let table: Vec<(String, &str, Result<(), Fault>)> = vec![
            (format!("{}{}{done}", said("hé"), said("🦀\\n")), "hé🦀\n", Ok(())),
            (format!("{}{finish}", said("a")), "a", Ok(())),
            (format!(": ping\r\n\r\n{}: ping\n\n{done}", said("a")), "a", Ok(())),
            (said("half"), "half", Err(Fault::Cut)),
            (format!("{}data: {{\"choi", said("half")), "half", Err(Fault::Cut)),
            (
                format!("{}data: nonsense\n\n{}", said("a"), said("b")),
                "a",
                Err(Fault::Garbage { sample: "nonsense".into() }),
            ),
            (
                format!("{}data: {{\"error\":{{\"message\":\"out of\\nmemory\"}}}}\n\n", said("a")),
                "a",
                Err(Fault::ErrorInAnswer { said: "out of memory".into() }),
            ),
            (
                "error: {\"message\":\"slot gone\"}\n\n".into(),
                "",
                Err(Fault::ErrorInAnswer { said: "slot gone".into() }),
            ),
            (
                "data: {\"error\":{\"type\":\"exceed_context_size_error\",\"message\":\"too big\"}}\n\n".into(),
                "",
                Err(Fault::ContextOverflow { said: "too big".into() }),
            ),
            ("\n {\"choices\":[{\"message\":{\"content\":\"whole\"}}]}".into(), "whole", Ok(())),
            ("{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"p\"}]}}]}".into(), "p", Ok(())),
            ("{\"choices\":[{\"message\":{\"content\":null}}],\"error\":null}".into(), "", Ok(())),
            ("data: {\"choi".into(), "", Err(Fault::Cut)),
            ("{\"choices\":[{\"mess".into(), "", Err(Fault::Cut)),
            ("{\"error\":\"no\"}".into(), "", Err(Fault::ErrorInAnswer { said: "no".into() })),
            ("{\"hello\":1}".into(), "", Err(Fault::Garbage { sample: "{\"hello\":1}".into() })),
            ("<html>\n<b>hi".into(), "", Err(Fault::Garbage { sample: "<html> <b>hi".into() })),
            ("data: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n".into(), "", Ok(())),
            ("data: {}\n\ndata: [DONE]\n\n".into(), "", Err(Fault::Garbage { sample: "data: {} data: [DONE]".into() })),
            (String::new(), "", Err(Fault::ClosedEarly)),
            ("\u{feff}data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\ndata: [DONE]\n\n".into(), "b", Ok(())),
        ];
        for (response, text, end) in table {
            let bytes = response.as_bytes();
            let expected = (text.to_owned(), end);
            assert_eq!(decode(&[bytes]), expected, "{response}");
            for cut in 0..=bytes.len() {
                let got = decode(&[&bytes[..cut], &bytes[cut..]]);
                if matches!(expected.1, Err(Fault::Garbage { .. })) {
                    assert!(matches!(got.1, Err(Fault::Garbage { .. })), "{response} cut at {cut}: {got:?}");
                } else {
                    assert_eq!(got, expected, "{response} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn an_answer_over_the_limit_ends_and_keeps_what_fits() {
        let mut decoder = Decoder::default();
        let mut text = String::new();
        let piece = said(&"é".repeat(1000));
        let fault = (0..3000).find_map(|_| decoder.feed(piece.as_bytes(), &mut text).err());
        assert_eq!(fault, Some(Fault::TooLong { what: "answer", limit_bytes: ANSWER_BYTES_MAX }));
        assert!(text.len() <= ANSWER_BYTES_MAX && text.len() > ANSWER_BYTES_MAX - 4, "{}", text.len());
    }
}
