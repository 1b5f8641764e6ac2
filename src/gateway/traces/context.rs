//! A place in a trace, in the format of W3C's header `traceparent`: `00-<32 digits>-<16 digits>-<2 digits>`.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue};

use crate::base::hash;
use crate::gateway::identity::is_id;
use crate::ledger::uuid_v7;

/// The header.
pub const TRACEPARENT: &str = "traceparent";
/// The header with the trace's id as the gateway's clients know it.
const TRACE_ID: &str = "x-trace-id";

/// A span of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace, 32 hexadecimal digits.
    pub trace: String,
    /// The span, 16 hexadecimal digits.
    pub span: String,
    /// False if the trace's originator doesn't want it recorded.
    pub is_sampled: bool,
}

impl Context {
    /// Parses the header's value. A later version may have more parts.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut digits = |length: usize| parts.next().filter(|part| part.len() == length && is_hex(part));
        let (version, trace, span, flags) = (digits(2)?, digits(32)?, digits(16)?, digits(2)?);
        let is_valid = version != "ff" && (version != "00" || parts.next().is_none());
        let is_named = |id: &str| id.bytes().any(|byte| byte != b'0');
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (is_valid && is_named(trace) && is_named(span)).then(|| Self {
            trace: trace.to_owned(),
            span: span.to_owned(),
            is_sampled: flags & 1 == 1,
        })
    }

    /// Returns a new child span.
    pub fn child(&self) -> Self {
        Self { span: new_span(), ..self.clone() }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The random half of a UUID, which is never zero.
fn new_span() -> String {
    uuid_v7().replace('-', "").split_off(16)
}

/// The trace of W3C for a trace's id of any form.
fn trace_of(id: &str) -> String {
    let digits = id.replace('-', "").to_ascii_lowercase();
    match digits.len() == 32 && is_hex(&digits) && digits.bytes().any(|byte| byte != b'0') {
        true => digits,
        false => hash::sha256_hex(id.as_bytes())[..32].to_owned(),
    }
}

/// Begins the span of a request, and the trace if it has none yet. From here on its headers name this span, so that whatever the
/// request causes, also at another gateway, comes below it. Returns the span, and the client's that caused it.
pub fn enter(headers: &mut HeaderMap) -> (Context, Option<String>) {
    let only = |headers: &HeaderMap, name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?.to_owned();
        values.next().is_none().then_some(value)
    };
    let parent = only(headers, TRACEPARENT).and_then(|text| Context::read(&text));
    let named = only(headers, TRACE_ID).filter(|id| is_id(id));
    let id = named.or_else(|| parent.as_ref().map(|parent| parent.trace.clone())).unwrap_or_else(uuid_v7);
    let trace = trace_of(&id);
    let parent = parent.filter(|parent| parent.trace == trace);
    let is_sampled = parent.as_ref().is_none_or(|parent| parent.is_sampled);
    let own = Context { trace, span: new_span(), is_sampled };
    if !headers.contains_key(TRACE_ID)
        && let Ok(id) = HeaderValue::from_str(&id)
    {
        headers.insert(TRACE_ID, id);
    }
    if let Ok(value) = HeaderValue::from_str(&own.to_string()) {
        headers.insert(TRACEPARENT, value);
    }
    (own, parent.map(|parent| parent.span))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn entered(lines: &[(&'static str, &str)]) -> (Context, Option<String>, HeaderMap) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a value"));
        }
        let (own, parent) = enter(&mut headers);
        (own, parent, headers)
    }

    #[test]
    fn a_header_is_read_as_w3c_says() {
        let read = |text: &str| Context::read(text);
        let known = read(&format!("00-{TRACE}-b7ad6b7169203331-01")).expect("a context");
        assert_eq!((known.trace.as_str(), known.is_sampled), (TRACE, true));
        assert_eq!(known.to_string(), format!("00-{TRACE}-b7ad6b7169203331-01"));
        assert!(!read(&format!("00-{TRACE}-b7ad6b7169203331-00")).expect("a context").is_sampled);
        assert!(read(&format!("01-{TRACE}-b7ad6b7169203331-01-more")).is_some(), "of a later version");
        for wrong in [
            "",
            "00",
            &format!("ff-{TRACE}-b7ad6b7169203331-01"),
            &format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            &format!("00-{TRACE}-b7ad6b716920333-01"),
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_request_causes_is_below_its_own_span() {
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (own, caused_by, headers) = entered(&[("traceparent", parent.as_str())]);
        assert_eq!((own.trace.as_str(), caused_by.as_deref()), (TRACE, Some("b7ad6b7169203331")));
        assert_ne!(own.span, "b7ad6b7169203331");
        assert_eq!(headers["traceparent"], own.to_string());
        assert_eq!(headers["x-trace-id"], TRACE);
        let unwanted = format!("00-{TRACE}-b7ad6b7169203331-00");
        assert!(!entered(&[("traceparent", unwanted.as_str())]).0.is_sampled);
    }

    #[test]
    fn a_request_without_a_trace_begins_one_and_any_id_of_a_client_gives_one() {
        let (own, caused_by, headers) = entered(&[]);
        let id = headers["x-trace-id"].to_str().expect("an id").replace('-', "");
        assert_eq!((own.trace, caused_by, own.is_sampled), (id, None, true));
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (mine, caused_by, headers) = entered(&[("X-Trace-Id", "mine"), ("traceparent", parent.as_str())]);
        assert_eq!((mine.trace == TRACE, caused_by), (false, None), "the parent is of another trace");
        assert_eq!(headers["x-trace-id"], "mine");
        assert_eq!(entered(&[("X-Trace-Id", "mine")]).0.trace, mine.trace);
        // A malformed id is refused later, so it stays.
        assert_eq!(entered(&[("X-Trace-Id", "a b")]).2["x-trace-id"], "a b");
    }
}
