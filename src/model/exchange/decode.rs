//! A response's bytes to an answer: pure and incremental. Takes a stream of events or one JSON object, whichever the
//! server sends; knows nothing of sockets, and leaves the meaning of the JSON to `wire`.

use crate::model::endpoint::Protocol;
use crate::model::error::{Fault, one_line};
use crate::model::exchange::halves::Halves;
use crate::model::exchange::sse;
use crate::model::request::{Response, State};
use crate::model::wire::{self, ANSWER_BYTES_MAX, Bad, Fresh, Gathered, Problem};

/// Limit on the bytes of one response on the wire: each token comes in some hundred bytes of JSON.
pub(in crate::model) const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Limit on the bytes of a response that is one JSON object, since it is held as a whole.
pub(in crate::model) const OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Limit for the raw bytes of a response: a stream of some ten thousand tokens.
const RAW_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a response that an error message may quote.
const SAMPLE_BYTES: usize = 240;

/// `true` if more is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Progress {
    /// The answer may go on.
    More,
    /// The server reported that it is complete.
    Done,
}

/// Takes a response's bytes as they come, cut anywhere.
#[derive(Debug)]
pub(in crate::model) struct Decoder {
    protocol: Protocol,
    reader: Box<dyn wire::Read>,
    got: Gathered,
    form: Form,
    halves: Halves,
    sample: Vec<u8>,
    raw: Vec<u8>,
    response_bytes: usize,
}

#[derive(Debug, Default)]
enum Form {
    #[default]
    Unknown,
    Events(sse::Reader),
    Object(Vec<u8>),
}

impl Decoder {
    /// Makes the decoder of one response.
    pub(in crate::model) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            reader: wire::reader(protocol),
            got: Gathered::default(),
            form: Form::Unknown,
            halves: Halves::default(),
            sample: Vec::new(),
            raw: Vec::new(),
            response_bytes: 0,
        }
    }

    /// Takes the next bytes; [`Self::fresh`] then returns their text, also the text before a fault.
    pub(in crate::model) fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Fault> {
        self.response_bytes = self.response_bytes.saturating_add(bytes.len());
        if self.response_bytes > RESPONSE_BYTES_MAX {
            return Err(Fault::TooLong { what: "response", limit_bytes: RESPONSE_BYTES_MAX });
        }
        let room = RAW_BYTES_MAX.saturating_sub(self.raw.len()).min(bytes.len());
        self.raw.extend_from_slice(&bytes[..room]);
        let result = self.feed_form(bytes);
        if !matches!(result, Ok(Progress::More)) {
            self.got.end_text();
        }
        self.limited(result)
    }

    /// Takes the end of the response: `Ok` if the answer is complete.
    pub(in crate::model) fn finish(&mut self) -> Result<(), Fault> {
        let result = match std::mem::take(&mut self.form) {
            Form::Unknown => Err(Fault::ClosedEarly),
            Form::Object(bytes) => self.take_object(&bytes),
            Form::Events(mut reader) => self.finish_events(&mut reader),
        };
        self.got.end_text();
        self.limited(result)
    }

    /// Returns whether more of the answer came since the last call. Comments in a stream of events don't count.
    pub(in crate::model) fn take_progress(&mut self) -> bool {
        match &mut self.form {
            Form::Unknown => false,
            Form::Object(_) => true,
            Form::Events(reader) => reader.take_progress(),
        }
    }

    /// Returns the text and the thoughts that came since the last call.
    pub(in crate::model) fn fresh(&mut self) -> Fresh {
        std::mem::take(&mut self.got.fresh)
    }

    /// Returns whether the server has named the reason for the end, so that a missing last message does no harm.
    pub(in crate::model) fn has_stopped(&self) -> bool {
        self.got.stop.is_some()
    }

    /// Returns whether a piece of an answer has come.
    pub(in crate::model) fn saw_answer(&self) -> bool {
        self.got.saw_answer
    }

    /// Puts the answer of `model` together.
    pub(in crate::model) fn response(&mut self, model: &str) -> Response {
        self.reader.finish(&mut self.got);
        let got = std::mem::take(&mut self.got);
        let state = State { model: model.to_owned(), protocol: self.protocol.word(), parts: got.parts };
        let raw = std::mem::take(&mut self.raw);
        Response {
            model: model.to_owned(),
            text: got.text,
            calls: got.calls,
            usage: got.usage,
            stop: got.stop.unwrap_or_default(),
            state: (!state.parts.is_empty()).then_some(state),
            // Without a copy if it is UTF-8, as it should be.
            raw: String::from_utf8(raw).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        }
    }

    fn limited<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        if self.got.is_over_limit {
            return Err(Fault::TooLong { what: "answer", limit_bytes: ANSWER_BYTES_MAX });
        }
        result
    }

    fn finish_events(&mut self, reader: &mut sse::Reader) -> Result<(), Fault> {
        let mut events = Vec::new();
        reader.finish(&mut events).map_err(too_long)?;
        let progress = match self.take_events(events) {
            // The last event was cut in the middle of its JSON: that is a cut, not garbage.
            Err(Fault::Garbage { .. }) if self.got.saw_answer || self.begins_as_answer() => Err(Fault::Cut),
            other => other,
        }?;
        if progress == Progress::Done || self.got.stop.is_some() {
            Ok(())
        } else if self.got.saw_answer {
            Err(Fault::Cut)
        } else {
            Err(self.garbage())
        }
    }

    fn feed_form(&mut self, mut bytes: &[u8]) -> Result<Progress, Fault> {
        if matches!(self.form, Form::Unknown) {
            // A byte order mark and blank lines may precede either form.
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
                let progress = self.take_events(events)?;
                fed.map_err(too_long)?;
                Ok(progress)
            }
            Form::Unknown => Ok(Progress::More),
        }
    }

    fn take_events(&mut self, events: Vec<sse::Event>) -> Result<Progress, Fault> {
        for event in events {
            let data = event.data.trim();
            if data == "[DONE]" {
                return if self.got.saw_answer { Ok(Progress::Done) } else { Err(self.garbage()) };
            }
            if event.name == "error" {
                return Err(reported(&Problem::of_body(data.as_bytes())));
            }
            if data.is_empty() {
                continue;
            }
            let mut read = self.reader.event(data, &mut self.got);
            if matches!(read, Err(Bad::Json(_)))
                && let Some(whole) = self.halves.join(data)
            {
                read = self.reader.event(&whole, &mut self.got);
            }
            match read {
                Ok(()) if self.got.is_done => return Ok(Progress::Done),
                Ok(()) if self.got.is_over_limit => break,
                Ok(()) => {}
                Err(Bad::Reported(problem)) => return Err(reported(&problem)),
                Err(Bad::Json(_)) => return Err(Fault::Garbage { sample: one_line(data) }),
            }
        }
        Ok(Progress::More)
    }

    fn take_object(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self.reader.object(bytes, &mut self.got) {
            Ok(()) if self.got.saw_answer => Ok(()),
            Err(Bad::Reported(problem)) => Err(reported(&problem)),
            Err(Bad::Json(error)) if error.is_eof() => Err(Fault::Cut),
            Ok(()) | Err(Bad::Json(_)) => Err(self.garbage()),
        }
    }

    fn begins_as_answer(&self) -> bool {
        let text = String::from_utf8_lossy(&self.sample);
        let data = text.lines().find_map(|line| line.strip_prefix("data:"));
        data.is_some_and(|rest| rest.trim_start().starts_with('{'))
    }

    fn garbage(&self) -> Fault {
        Fault::Garbage { sample: one_line(&String::from_utf8_lossy(&self.sample)) }
    }
}

/// Classifies an error that a server reports inside an answer.
fn reported(problem: &Problem) -> Fault {
    let server_text = one_line(&problem.message);
    let retry_after = problem.retry_after.clone();
    if problem.is_context_overflow() {
        Fault::ContextOverflow { server_text }
    } else if problem.has_code(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "429"]) {
        Fault::RateLimited { retry_after, server_text }
    } else if let Some(status) = status_of(problem) {
        Fault::Server { status, retry_after, server_text }
    } else {
        Fault::ErrorInAnswer { server_text }
    }
}

/// The status that the failure of a server has if it precedes the answer.
fn status_of(problem: &Problem) -> Option<u16> {
    const WORDS: [(&str, u16); 3] = [("overloaded_error", 529), ("UNAVAILABLE", 503), ("server_error", 500)];
    let word = WORDS.into_iter().find(|(word, _)| problem.has_code(&[word]));
    problem.server_status().or(word.map(|(_, status)| status))
}

fn too_long(limit: sse::TooLong) -> Fault {
    Fault::TooLong { what: "event of the answer", limit_bytes: limit.limit_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> (String, Result<(), Fault>) {
        let mut decoder = Decoder::new(Protocol::OpenAi);
        let mut text = String::new();
        for piece in pieces {
            let fed = decoder.feed(piece);
            text.push_str(&decoder.fresh().text);
            match fed {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => return (text, Ok(())),
                Err(fault) => return (text, Err(fault)),
            }
        }
        let end = decoder.finish();
        text.push_str(&decoder.fresh().text);
        (text, end)
    }

    fn text_event(text: &str) -> String {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
    }

    #[test]
    fn every_response_cut_at_every_byte_gives_the_same() {
        let done = "data: [DONE]\n\n";
        let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let table: Vec<(String, &str, Result<(), Fault>)> = vec![
            (format!("{}{}{done}", text_event("hé"), text_event("🦀\\n")), "hé🦀\n", Ok(())),
            (format!("{}{finish}", text_event("a")), "a", Ok(())),
            (format!(": ping\r\n\r\n{}: ping\n\n{done}", text_event("a")), "a", Ok(())),
            (text_event("half"), "half", Err(Fault::Cut)),
            (format!("{}data: {{\"choi", text_event("half")), "half", Err(Fault::Cut)),
            (
                format!("{}data: nonsense\n\n{}", text_event("a"), text_event("b")),
                "a",
                Err(Fault::Garbage { sample: "nonsense".into() }),
            ),
            (
                format!("{}data: {{\"error\":{{\"message\":\"out of\\nmemory\"}}}}\n\n", text_event("a")),
                "a",
                Err(Fault::ErrorInAnswer { server_text: "out of memory".into() }),
            ),
            (
                "error: {\"message\":\"slot gone\"}\n\n".into(),
                "",
                Err(Fault::ErrorInAnswer { server_text: "slot gone".into() }),
            ),
            (
                "data: {\"error\":{\"type\":\"exceed_context_size_error\",\"message\":\"too big\"}}\n\n".into(),
                "",
                Err(Fault::ContextOverflow { server_text: "too big".into() }),
            ),
            ("\n {\"choices\":[{\"message\":{\"content\":\"whole\"}}]}".into(), "whole", Ok(())),
            ("{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"p\"}]}}]}".into(), "p", Ok(())),
            ("{\"choices\":[{\"message\":{\"content\":null}}],\"error\":null}".into(), "", Ok(())),
            ("data: {\"choi".into(), "", Err(Fault::Cut)),
            ("{\"choices\":[{\"mess".into(), "", Err(Fault::Cut)),
            ("{\"error\":\"no\"}".into(), "", Err(Fault::ErrorInAnswer { server_text: "no".into() })),
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

    /// Proxies that cut strings of UTF-16 anywhere send halves of characters, which are no characters to a reader of JSON.
    #[test]
    fn a_character_cut_between_two_pieces_is_put_together() {
        for (pieces, expected) in [
            (&["smile \\ud83d", "\\ude00 end"][..], "smile 😀 end"),
            (&["a\\ud83d\\ude00\\ud83d", "\\ude01"], "a😀😁"),
            (&["\\\\ud83d \\ud83d", "\\ude00"], "\\ud83d 😀"),
            (&["a \\ude00 b"], "a \u{fffd} b"),
            (&["a \\ud83d", "b"], "a b"),
        ] {
            let events: String = pieces.iter().map(|piece| text_event(piece)).collect();
            let (text, end) = decode(&[format!("{events}data: [DONE]\n\n").as_bytes()]);
            assert_eq!((text.as_str(), end), (expected, Ok(())), "{pieces:?}");
        }
    }

    #[test]
    fn a_failure_inside_an_answer_has_the_status_that_its_code_names() {
        let limited = || Fault::RateLimited { retry_after: None, server_text: "m".into() };
        let failed = |status| Fault::Server { status, retry_after: None, server_text: "m".into() };
        for (code, expected) in [
            (r#""code":429"#, limited()),
            (r#""code":"429""#, limited()),
            (r#""code":503"#, failed(503)),
            (r#""code":"server_error""#, failed(500)),
            (r#""code":400"#, Fault::ErrorInAnswer { server_text: "m".into() }),
        ] {
            let event = format!("data: {{\"error\":{{{code},\"message\":\"m\"}},\"choices\":[]}}\n\n");
            assert_eq!(decode(&[event.as_bytes()]).1, Err(expected), "{code}");
        }
    }

    #[test]
    fn an_answer_over_the_limit_is_cut_at_the_limit() {
        let mut decoder = Decoder::new(Protocol::OpenAi);
        let mut text = String::new();
        let piece = text_event(&"é".repeat(1000));
        let fault = (0..3000).find_map(|_| {
            let fault = decoder.feed(piece.as_bytes()).err();
            text.push_str(&decoder.fresh().text);
            fault
        });
        assert_eq!(fault, Some(Fault::TooLong { what: "answer", limit_bytes: ANSWER_BYTES_MAX }));
        assert!(text.len() <= ANSWER_BYTES_MAX && text.len() > ANSWER_BYTES_MAX - 4, "{}", text.len());
    }
}
