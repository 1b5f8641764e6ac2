//! Server-sent events, from bytes: pure and incremental. Knows nothing of HTTP, JSON or models.
//!
//! After the "event stream interpretation" of the WHATWG HTML standard (section 9.2.6), with one addition: a field `error`
//! counts as data of an event named `error`, because older llama.cpp servers write failures so. `id` and `retry` are of no
//! use here and ignored.

/// Longest line, in bytes, without its end: a token's event is some hundred, a whole answer in one event may be large.
pub(in crate::model) const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Most data in one event, in bytes, over all its lines.
pub(in crate::model) const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::model) struct Event {
    /// The event's name; empty if the server sent none.
    pub name: String,
    /// Its data lines, joined by newlines.
    pub data: String,
}

/// A line or an event passed its limit; the reader is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct TooLong {
    /// The limit in bytes.
    pub limit_bytes: usize,
}

/// Takes bytes as they arrive, cut anywhere, and returns whole events.
#[derive(Debug, Default)]
pub(in crate::model) struct Reader {
    line: Vec<u8>,
    after_cr: bool,
    past_first_line: bool,
    name: String,
    data: Option<String>,
    has_progressed: bool,
}

impl Reader {
    /// Returns whether anything but comments and blank lines came since the last call: a server may send those
    /// endlessly.
    pub(in crate::model) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed)
    }

    /// Takes the next bytes; whole events go to `events`, those before an error too.
    pub(in crate::model) fn feed(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.append(&bytes[..end])?;
            self.end_line(events)?;
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.append(bytes)
    }

    /// Takes the end of the stream. An event that lacks only its blank line counts, because servers that close early
    /// omit it.
    pub(in crate::model) fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.dispatch(events);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(TooLong { limit_bytes: LINE_BYTES_MAX });
        }
        self.line.extend_from_slice(bytes);
        self.has_progressed |= !bytes.is_empty() && self.line[0] != b':';
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if !self.past_first_line {
            self.past_first_line = true;
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            self.dispatch(events);
        } else {
            self.field(bytes)?;
        }
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match name {
            b"data" => self.add_data(&value)?,
            b"event" => self.name = value.into_owned(),
            b"error" => {
                self.name = "error".to_owned();
                self.add_data(&value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), TooLong> {
        let data = match &mut self.data {
            Some(data) => {
                data.push('\n');
                data
            }
            None => self.data.insert(String::new()),
        };
        if data.len() + value.len() > EVENT_BYTES_MAX {
            return Err(TooLong { limit_bytes: EVENT_BYTES_MAX });
        }
        data.push_str(value);
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            events.push(Event { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut reader = Reader::default();
        let mut events = Vec::new();
        for piece in pieces {
            reader.feed(piece, &mut events).expect("within limits");
        }
        reader.finish(&mut events).expect("within limits");
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    const FIXTURES: &[(&str, &[(&str, &str)])] = &[
        ("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]),
        ("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]),
        ("data: a\r\n\rdata: b\n\r\n", &[("", "a"), ("", "b")]),
        ("data: a\r\ndata: b\r\n\r\n", &[("", "a\nb")]),
        (": ping\n\n: ping\n\ndata:a\n\n", &[("", "a")]),
        ("data: one\ndata:  two\ndata\ndata:\n\n", &[("", "one\n two\n\n")]),
        ("\u{feff}data: é漢🦀\n\n", &[("", "é漢🦀")]),
        ("event: error\ndata: {\"x\": 1}\nid: 3\nretry: 9\n\ndata: b\n\n", &[("error", "{\"x\": 1}"), ("", "b")]),
        ("event: ping\n\ndata: b\n\n", &[("", "b")]),
        ("error: {\"code\":500}\n\n", &[("error", "{\"code\":500}")]),
        ("data: [DONE]\n\n", &[("", "[DONE]")]),
        ("data: a\n\ndata: unfinished", &[("", "a"), ("", "unfinished")]),
        ("\n\n\nnonsense\nfoo: bar\n\n", &[]),
    ];

    #[test]
    fn every_fixture_cut_at_every_byte_gives_the_same() {
        for (text, expected) in FIXTURES {
            let expected: Vec<_> =
                expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
            let bytes = text.as_bytes();
            assert_eq!(read(&[bytes]), expected, "{text:?}");
            for cut in 0..=bytes.len() {
                assert_eq!(read(&[&bytes[..cut], &bytes[cut..]]), expected, "{text:?} cut at {cut}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(&single), expected, "{text:?} byte by byte");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_no_progress() {
        let mut reader = Reader::default();
        let mut events = Vec::new();
        for (bytes, progresses) in
            [(&b": k\n\n: k"[..], false), (b"eepalive", false), (b"\r\n\r\n", false), (b"da", true), (b"ta: x\n", true)]
        {
            reader.feed(bytes, &mut events).expect("within limits");
            assert_eq!(reader.take_progress(), progresses, "{bytes:?}");
        }
    }

    #[test]
    fn a_line_over_the_limit_ends_it_and_one_at_the_limit_does_not() {
        let mut reader = Reader::default();
        let mut events = Vec::new();
        let mut line = b"data: ".to_vec();
        line.resize(LINE_BYTES_MAX, b'x');
        assert_eq!(reader.feed(&line, &mut events), Ok(()));
        assert_eq!(reader.feed(b"y", &mut events), Err(TooLong { limit_bytes: LINE_BYTES_MAX }));
    }

    #[test]
    fn an_event_over_the_limit_ends_it() {
        let mut reader = Reader::default();
        let mut events = Vec::new();
        let mut line = b"data: ".to_vec();
        line.resize(LINE_BYTES_MAX, b'x');
        line.push(b'\n');
        let last = (0..6).map(|_| reader.feed(&line, &mut events)).collect::<Vec<_>>();
        assert!(last.contains(&Err(TooLong { limit_bytes: EVENT_BYTES_MAX })));
    }

    proptest! {
        #[test]
        fn any_stream_in_any_pieces_gives_the_same(
            parts in prop::collection::vec(
                prop::sample::select(vec!["data: x", "data:", "event: e", "\r", "\n", "\r\n", ": c", "é", "error: z", "\u{feff}"]),
                0..30,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let whole = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&whole]));
        }
    }
}
