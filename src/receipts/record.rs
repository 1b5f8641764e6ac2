//! One receipt as a line: canonical JSON as RFC 8785 wants it (keys sorted, no white space, one way to write each
//! value), and its digests. Pure. A line in any other form is invalid, so that no byte of it is arbitrary.

use std::borrow::Cow;
use std::ops::Range;

use ring::hmac;

use crate::base::hash::Hasher;
use crate::base::hex;

/// The byte before a hashed record in logs of the first builds; such hashes still hold.
const OLDER_DOMAIN_RECORD: &[u8] = &[0x00];
/// The domain byte before a record that is sealed with a key.
const DOMAIN_SEAL: &[u8] = &[0x02];
/// The previous hash of the first record.
pub(super) const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Largest whole number that every reader of JSON preserves (RFC 8785, section 3.2.2.3).
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// The subject of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call is about to run.
    Intent,
    /// End of a call.
    Outcome,
    /// A call was not let run.
    Denied,
    /// Seals with a key begin.
    Anchor,
    /// Something was wrong with the log, and it continues.
    Recovery,
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Let run, and did not fail.
    Allowed,
    /// Refused.
    Denied,
    /// Let run, and failed.
    Failed,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Intent, Self::Outcome, Self::Denied, Self::Anchor, Self::Recovery];

    /// Its name in a receipt.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Outcome => "outcome",
            Self::Denied => "denied",
            Self::Anchor => "anchor",
            Self::Recovery => "recovery",
        }
    }
}

impl Status {
    const ALL: [Self; 3] = [Self::Allowed, Self::Denied, Self::Failed];

    /// Its name in a receipt.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

/// A receipt. A text that isn't known is absent, and `null` in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// `receipt-…`, once in all logs.
    pub id: Cow<'a, str>,
    /// The time, in UTC (RFC 3339, with milliseconds).
    pub timestamp: Cow<'a, str>,
    /// Its number, from 1; the number of its line.
    pub seq: u64,
    /// The log that it belongs to.
    pub log_id: Cow<'a, str>,
    /// Its subject.
    pub kind: Kind,
    /// The conversation in which the call was made.
    pub conversation_id: Option<u64>,
    /// The tool.
    pub tool: Option<Cow<'a, str>>,
    /// SHA-256 of the canonical arguments.
    pub args_hash: Option<Cow<'a, str>>,
    /// SHA-256 of the result.
    pub result_hash: Option<Cow<'a, str>>,
    /// The state of the call.
    pub status: Option<Status>,
    /// Its risk, by the policy.
    pub risk: Option<Cow<'a, str>>,
    /// The author of the decision.
    pub approver: Option<Cow<'a, str>>,
    /// The rule that decided.
    pub rule: Option<Cow<'a, str>>,
    /// The sandbox that it runs in.
    pub sandbox: Option<Cow<'a, str>>,
    /// Of an outcome: the id of its intent.
    pub intent: Option<Cow<'a, str>>,
    /// The access outside the workspace that a call was granted; of an outcome, the files that it changed there.
    /// Without either there is no such member in the line.
    pub outside: Option<Cow<'a, str>>,
    /// The hash of the receipt before.
    pub previous_hash: Cow<'a, str>,
    /// Of a log with a key.
    pub seal: Option<Seal<'a>>,
}

/// The part that a key adds to a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal<'a> {
    /// The number of times that the key has advanced.
    pub epoch: u64,
    /// The id of the key.
    pub key_id: Cow<'a, str>,
    /// HMAC-SHA256 over the record without this and without its hash.
    pub mac: Cow<'a, str>,
}

impl Record<'_> {
    /// The same record, for longer than its line.
    pub(super) fn into_owned(self) -> Record<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let all = |text: Option<Cow<'_, str>>| text.map(own);
        Record {
            id: own(self.id),
            timestamp: own(self.timestamp),
            log_id: own(self.log_id),
            tool: all(self.tool),
            args_hash: all(self.args_hash),
            result_hash: all(self.result_hash),
            risk: all(self.risk),
            approver: all(self.approver),
            rule: all(self.rule),
            sandbox: all(self.sandbox),
            intent: all(self.intent),
            outside: all(self.outside),
            previous_hash: own(self.previous_hash),
            seal: self.seal.map(|seal| Seal { epoch: seal.epoch, key_id: own(seal.key_id), mac: own(seal.mac) }),
            seq: self.seq,
            kind: self.kind,
            conversation_id: self.conversation_id,
            status: self.status,
        }
    }

    /// Writes the record without its hash, and without the seal's code unless `with_mac` is set.
    fn canonical(&self, with_mac: bool, receipt_hash: Option<&str>) -> Vec<u8> {
        let mut out = Writer { bytes: Vec::with_capacity(900) };
        out.text("approver", self.approver.as_deref());
        out.text("args_hash", self.args_hash.as_deref());
        out.number("conversation_id", self.conversation_id);
        if let Some(seal) = &self.seal {
            out.number("epoch", Some(seal.epoch));
        }
        out.text("id", Some(&self.id));
        out.text("intent", self.intent.as_deref());
        if let Some(seal) = &self.seal {
            out.text("key_id", Some(&seal.key_id));
        }
        out.text("kind", Some(self.kind.name()));
        out.text("log_id", Some(&self.log_id));
        if let Some(seal) = self.seal.as_ref().filter(|_| with_mac) {
            out.text("mac", Some(&seal.mac));
        }
        if self.outside.is_some() {
            out.text("outside", self.outside.as_deref());
        }
        out.text("previous_hash", Some(&self.previous_hash));
        if let Some(hash) = receipt_hash {
            out.text("receipt_hash", Some(hash));
        }
        out.text("result_hash", self.result_hash.as_deref());
        out.text("risk", self.risk.as_deref());
        out.text("rule", self.rule.as_deref());
        out.text("sandbox", self.sandbox.as_deref());
        out.number("seq", Some(self.seq));
        out.text("status", self.status.map(Status::name));
        out.text("timestamp", Some(&self.timestamp));
        out.text("tool", self.tool.as_deref());
        out.bytes.push(b'}');
        out.bytes
    }

    /// Seals the record with the key of its epoch.
    pub(super) fn seal(&mut self, key: &[u8; 32]) {
        let bytes = self.canonical(false, None);
        if let Some(seal) = &mut self.seal {
            seal.mac = hex::encode(mac(key, &[&bytes]).as_ref()).into();
        }
    }

    /// Returns the line, with its line feed, and the hash in it.
    #[must_use]
    pub fn line(&self) -> (Vec<u8>, String) {
        let hash = digest(&[&self.canonical(true, None)]);
        let mut line = self.canonical(true, Some(&hash));
        line.push(b'\n');
        (line, hash)
    }
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    context.update(DOMAIN_SEAL);
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

/// SHA-256 of the parts, one after the other, as hexadecimal text.
pub(super) fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finish_hex()
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn key(&mut self, key: &str) {
        self.bytes.push(if self.bytes.is_empty() { b'{' } else { b',' });
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
    }

    fn text(&mut self, key: &str, text: Option<&str>) {
        self.key(key);
        match text {
            None => self.bytes.extend_from_slice(b"null"),
            Some(text) => {
                self.bytes.push(b'"');
                escape(text, &mut self.bytes);
                self.bytes.push(b'"');
            }
        }
    }

    fn number(&mut self, key: &str, number: Option<u64>) {
        self.key(key);
        match number {
            None => self.bytes.extend_from_slice(b"null"),
            Some(number) => self.bytes.extend_from_slice(number.min(INTEGER_MAX).to_string().as_bytes()),
        }
    }
}

/// Writes the inside of a string as RFC 8785, section 3.2.2.2, wants it.
fn escape(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// A parsed line: a record, the hash in it, and the places of both codes in it.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    pub(super) record: Record<'a>,
    pub(super) receipt_hash: &'a str,
    line: &'a [u8],
    hash_span: Range<usize>,
    mac_span: Option<Range<usize>>,
}

impl<'a> Parsed<'a> {
    /// Reads a line without its line feed; none if it isn't a receipt written canonically.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let mut from = Reader { text, at: 0 };
        let approver = from.text_or_null("{\"approver\":")?;
        let args_hash = from.text_or_null(",\"args_hash\":")?;
        let conversation_id = from.number_or_null(",\"conversation_id\":")?;
        let epoch = if from.sees(",\"epoch\":") { Some(from.number(",\"epoch\":")?) } else { None };
        let id = from.text(",\"id\":")?;
        let intent = from.text_or_null(",\"intent\":")?;
        let key_id = if epoch.is_some() { Some(from.text(",\"key_id\":")?) } else { None };
        let kind = from.text(",\"kind\":")?;
        let kind = Kind::ALL.into_iter().find(|it| it.name() == kind)?;
        let log_id = from.text(",\"log_id\":")?;
        let before = from.at;
        let mac = if epoch.is_some() { Some(from.text(",\"mac\":")?) } else { None };
        let mac_span = mac.is_some().then_some(before..from.at);
        let outside = if from.sees(",\"outside\":") { Some(from.text(",\"outside\":")?) } else { None };
        let previous_hash = from.text(",\"previous_hash\":")?;
        let before = from.at;
        let Cow::Borrowed(receipt_hash) = from.text(",\"receipt_hash\":")? else { return None };
        let hash_span = before..from.at;
        let result_hash = from.text_or_null(",\"result_hash\":")?;
        let risk = from.text_or_null(",\"risk\":")?;
        let rule = from.text_or_null(",\"rule\":")?;
        let sandbox = from.text_or_null(",\"sandbox\":")?;
        let seq = from.number(",\"seq\":")?;
        let status = from.text_or_null(",\"status\":")?;
        let status = match status {
            None => None,
            Some(status) => Some(Status::ALL.into_iter().find(|it| it.name() == status)?),
        };
        let timestamp = from.text(",\"timestamp\":")?;
        let tool = from.text_or_null(",\"tool\":")?;
        from.expect("}")?;
        if from.at != line.len() {
            return None;
        }
        let seal = match (epoch, key_id, mac) {
            (Some(epoch), Some(key_id), Some(mac)) => Some(Seal { epoch, key_id, mac }),
            _ => None,
        };
        let record = Record {
            id,
            timestamp,
            seq,
            log_id,
            kind,
            conversation_id,
            tool,
            args_hash,
            result_hash,
            status,
            risk,
            approver,
            rule,
            sandbox,
            intent,
            outside,
            previous_hash,
            seal,
        };
        Some(Self { record, receipt_hash, line, hash_span, mac_span })
    }

    /// Returns whether the claimed hash is that of the record, in today's form or in the older one.
    pub(super) fn hash_holds(&self) -> bool {
        let [before, after] = [&self.line[..self.hash_span.start], &self.line[self.hash_span.end..]];
        // Canonical JSON begins with a brace, so no record has the same hash as another one in the other form.
        digest(&[before, after]) == self.receipt_hash
            || digest(&[OLDER_DOMAIN_RECORD, before, after]) == self.receipt_hash
    }

    /// Returns whether the seal matches the key; false if there is none.
    pub(super) fn seal_holds(&self, key: &[u8; 32]) -> bool {
        let (Some(seal), Some(span)) = (&self.record.seal, &self.mac_span) else { return false };
        let (hash, line) = (&self.hash_span, self.line);
        let tag = mac(key, &[&line[..span.start], &line[span.end..hash.start], &line[hash.end..]]);
        // A person who can measure this time has the log, and gains nothing without the key.
        hex::encode(tag.as_ref()) == seal.mac
    }
}

/// Reads exactly what [`Writer`] writes.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn sees(&self, what: &str) -> bool {
        self.text.as_bytes()[self.at..].starts_with(what.as_bytes())
    }

    fn expect(&mut self, what: &str) -> Option<()> {
        let found = self.sees(what);
        self.at += if found { what.len() } else { 0 };
        found.then_some(())
    }

    fn is_null(&mut self) -> bool {
        self.expect("null").is_some()
    }

    fn text(&mut self, key: &str) -> Option<Cow<'a, str>> {
        self.expect(key)?;
        self.string()
    }

    fn text_or_null(&mut self, key: &str) -> Option<Option<Cow<'a, str>>> {
        self.expect(key)?;
        if self.is_null() { Some(None) } else { self.string().map(Some) }
    }

    fn number(&mut self, key: &str) -> Option<u64> {
        self.expect(key)?;
        self.digits()
    }

    fn number_or_null(&mut self, key: &str) -> Option<Option<u64>> {
        self.expect(key)?;
        if self.is_null() { Some(None) } else { self.digits().map(Some) }
    }

    fn digits(&mut self) -> Option<u64> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, is_canonical) = (&rest[..length], length == 1 || !rest.starts_with('0'));
        self.at += length;
        digits.parse().ok().filter(|number| is_canonical && *number <= INTEGER_MAX)
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect("\"")?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut is_plain = true;
        loop {
            match bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    self.at += 2;
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        let inside = &self.text[start..self.at];
        self.at += 1;
        if is_plain { Some(Cow::Borrowed(inside)) } else { unescape(inside).map(Cow::Owned) }
    }
}

/// Reads the inside of a string; none if [`escape`] would have written it in another way.
fn unescape(inside: &str) -> Option<String> {
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escaped = &rest[at + 1..];
        let (character, length) = match escaped.as_bytes().first()? {
            b'"' => ('"', 1),
            b'\\' => ('\\', 1),
            b'b' => ('\u{8}', 1),
            b't' => ('\t', 1),
            b'n' => ('\n', 1),
            b'f' => ('\u{c}', 1),
            b'r' => ('\r', 1),
            b'u' => (char::from(u8::from_str_radix(escaped.get(1..5)?, 16).ok()?), 5),
            _ => return None,
        };
        text.push(character);
        rest = &escaped[length..];
    }
    text.push_str(rest);
    let mut again = Vec::with_capacity(inside.len());
    escape(&text, &mut again);
    (again == inside.as_bytes()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(text: &str, sealed: bool) -> Record<'static> {
        let text = || Some(Cow::Owned(text.to_owned()));
        Record {
            id: "receipt-1".into(),
            timestamp: "2026-11-21T12:19:44.250Z".into(),
            seq: 7,
            log_id: "log".into(),
            kind: Kind::Outcome,
            conversation_id: Some(3),
            tool: text(),
            args_hash: None,
            result_hash: text(),
            status: Some(Status::Failed),
            risk: Some("high".into()),
            approver: None,
            rule: text(),
            sandbox: None,
            intent: Some("receipt-0".into()),
            outside: sealed.then(|| Cow::Owned("write /srv/x".to_owned())),
            previous_hash: NO_HASH.into(),
            seal: sealed.then(|| Seal { epoch: 2, key_id: "k".into(), mac: "".into() }),
        }
    }

    #[test]
    fn a_line_is_canonical_json() {
        let (line, hash) = record("a\"b\\c\u{1}\u{7f}é\n\u{1F600}", false).line();
        let text = String::from_utf8(line).unwrap();
        assert!(text.contains(r#""rule":"a\"b\\c\u0001"#) && text.contains("é\\n\u{1F600}"), "{text}");
        // serde_json sorts the keys and adds no white space: the bytes must be the same.
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap() + "\n", text);
        assert_eq!(value["receipt_hash"], serde_json::json!(hash));
        // The hash is SHA-256 of the line without it.
        let mut without = value;
        without.as_object_mut().unwrap().remove("receipt_hash");
        assert_eq!(digest(&[serde_json::to_string(&without).unwrap().as_bytes()]), hash);
    }

    #[test]
    fn a_seal_is_of_its_key_and_its_record() {
        let mut sealed = record("x", true);
        sealed.seal(&[1; 32]);
        let (line, _) = sealed.line();
        let parsed = Parsed::read(line.trim_ascii_end()).unwrap();
        assert!(parsed.hash_holds() && parsed.seal_holds(&[1; 32]) && !parsed.seal_holds(&[2; 32]));
        let mut other = Record { seq: 8, ..sealed };
        let (line, _) = other.line();
        assert!(!Parsed::read(line.trim_ascii_end()).unwrap().seal_holds(&[1; 32]));
        other.seal(&[1; 32]);
        let (line, _) = other.line();
        assert!(Parsed::read(line.trim_ascii_end()).unwrap().seal_holds(&[1; 32]));
    }

    #[test]
    fn another_way_to_write_it_is_no_receipt() {
        let (line, _) = record("a\n", false).line();
        let text = std::str::from_utf8(&line).unwrap().trim_end();
        assert!(Parsed::read(text.as_bytes()).is_some());
        for (from, to) in [
            (",\"id\"", ", \"id\""),
            ("\"seq\":7", "\"seq\":07"),
            ("\"seq\":7", "\"seq\":7.0"),
            ("\"seq\":7", "\"seq\":9007199254740992"),
            ("a\\n", "a\\u000a"),
            ("a\\n", "a\n"),
            ("failed", "Failed"),
            ("receipt-1", "receipt\\u002d1"),
            ("receipt-1", "receipt\\/1"),
            ("}", "} "),
            ("}", ",\"x\":1}"),
            ("{", " {"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(Parsed::read(changed.as_bytes()).is_none(), "{changed}");
        }
    }

    proptest! {
        #[test]
        fn a_written_record_is_read_back(text in any::<String>(), sealed in any::<bool>(), seq in 0..=INTEGER_MAX) {
            let mut record = Record { seq, ..record(&text, sealed) };
            record.seal(&[7; 32]);
            let (line, hash) = record.line();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let parsed = Parsed::read(&line[..line.len() - 1]).unwrap();
            prop_assert_eq!(&parsed.record, &record);
            prop_assert!(parsed.hash_holds() && parsed.receipt_hash == hash);
            prop_assert_eq!(parsed.seal_holds(&[7; 32]), sealed);
        }

        #[test]
        fn no_line_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..700) {
            let _ = Parsed::read(&bytes);
            let (line, _) = record("a\\\"", true).line();
            let cut = cut.min(line.len());
            let mut mixed = line[..cut].to_vec();
            mixed.extend_from_slice(&bytes);
            let read = Parsed::read(&mixed);
            prop_assert!(cut == line.len() || read.is_none_or(|read| read.line == mixed), "what is read is all of it");
            prop_assert!(Parsed::read(line.trim_ascii_end()).is_some());
        }
    }
}
