//! The caller: the token names the user, the headers name the tenant and further ids.

mod callers;
mod jwt;

use axum::http::HeaderMap;
use serde_json::json;

use super::http::problem::{Answered, Problem};
use super::traces::context::{Context, TRACEPARENT};
use crate::ledger::uuid_v7;
use crate::proto::team::{Identity, Mode};

pub use callers::Callers;

/// Longest id in a header, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// The ids of a request, as its headers have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The mode that the client expects.
    pub mode: Mode,
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The trace: from `X-Trace-Id`, else from `traceparent`, else a new one.
    pub trace_id: String,
    /// The value of W3C's `traceparent` for requests that this one causes.
    pub span: Option<String>,
    /// The run.
    pub run_id: Option<String>,
    /// The step.
    pub step_id: Option<String>,
    /// The surface.
    pub surface_id: Option<String>,
    /// The application.
    pub app_id: Option<String>,
    /// The user name that the client claims.
    pub user: Option<String>,
}

/// Returns whether a text may be an id.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_ours)
}

/// Reads a header that holds an id.
fn id(headers: &HeaderMap, name: &'static str) -> Answered<Option<String>> {
    let invalid = || {
        Problem::new(
            400,
            "identity_invalid",
            format!("the header {name} must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -"),
        )
        .context(json!({"header": name}))
    };
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid())?;
    if values.next().is_some() || !is_id(text) {
        return Err(invalid());
    }
    Ok(Some(text.to_owned()))
}

/// The request's own id: the client's if it is one, else a new one. Errors about the other headers carry it already.
#[must_use]
pub fn request_id(headers: &HeaderMap) -> String {
    id(headers, "X-Request-Id").ok().flatten().unwrap_or_else(uuid_v7)
}

/// Reads the ids of a request to a gateway in a mode. Absent ones have defaults if both that and the request's mode are `lab`.
///
/// # Errors
/// A mandatory header is missing, or one is malformed; the context names it.
pub fn ids(headers: &HeaderMap, mode: Mode) -> Answered<Ids> {
    let needed = |name: &'static str, default: &str, mode: Mode| match id(headers, name)? {
        Some(value) => Ok(value),
        None if mode == Mode::Lab => Ok(default.to_owned()),
        None => Err(Problem::new(400, "identity_missing", format!("the header {name} is missing"))
            .context(json!({"header": name}))),
    };
    let word = needed("X-Mode", Mode::Lab.word(), mode)?;
    let asked = Mode::of(&word).ok_or_else(|| {
        Problem::new(400, "identity_invalid", "the header X-Mode must be saas, enterprise or lab")
            .context(json!({"header": "X-Mode"}))
    })?;
    let mandatory = |name, default| needed(name, default, if mode == Mode::Lab { asked } else { mode });
    let (tenant, project) = (mandatory("X-Tenant-Id", "local")?, mandatory("X-Project-Id", "default")?);
    mandatory("X-Request-Id", "made")?;
    let (trace_id, span) = trace(headers)?;
    Ok(Ids {
        mode: asked,
        tenant,
        project,
        trace_id,
        span,
        run_id: id(headers, "X-Run-Id")?,
        step_id: id(headers, "X-Step-Id")?,
        surface_id: id(headers, "X-Surface-Id")?,
        app_id: id(headers, "X-App-Id")?,
        user: id(headers, "X-User-Id")?,
    })
}

/// Returns the span that the request belongs to.
fn traced(headers: &HeaderMap) -> Option<Context> {
    Context::read(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// Returns the trace of a request whose span has begun: its id, and W3C's header for requests that it causes.
pub fn trace(headers: &HeaderMap) -> Answered<(String, Option<String>)> {
    let context = traced(headers);
    let named = id(headers, "X-Trace-Id")?;
    let trace_id = named.or_else(|| context.as_ref().map(|context| context.trace.clone())).unwrap_or_else(uuid_v7);
    Ok((trace_id, context.map(|context| context.to_string())))
}

/// Returns the log span of a call or a run, which adds the ids to each line.
pub fn log_span(who: &Identity) -> tracing::Span {
    let (run_id, request_id, trace_id) = (who.run_id.as_deref(), who.request_id.as_str(), who.trace_id.as_str());
    tracing::info_span!("run", run_id, request_id, trace_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 4] =
        [("X-Mode", "saas"), ("X-Tenant-Id", "acme"), ("X-Project-Id", "shop"), ("X-Request-Id", "r-1")];

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    fn refused(lines: &[(&'static str, &str)], mode: Mode) -> Option<(&'static str, serde_json::Value)> {
        let problem = ids(&headers(lines), mode).err()?;
        Some((problem.code, problem.details.context.expect("facts")["header"].clone()))
    }

    #[test]
    fn scenario_1_outside_lab_each_mandatory_header_is_needed_and_checked() {
        assert!(ids(&headers(&WHOLE), Mode::Saas).is_ok());
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for (at, (name, _)) in WHOLE.iter().enumerate() {
            let mut lines = WHOLE.to_vec();
            lines.remove(at);
            assert_eq!(refused(&lines, Mode::Saas), Some(("identity_missing", (*name).into())), "without {name}");
            // A gateway in lab has no defaults for a request in another mode.
            let expected = (*name != "X-Mode").then(|| ("identity_missing", (*name).into()));
            assert_eq!(refused(&lines, Mode::Lab), expected, "without {name} in lab");
            for wrong in ["", long.as_str(), "a b", "a/b", "a\tb"] {
                let mut lines = WHOLE.to_vec();
                lines[at].1 = wrong;
                let found = refused(&lines, Mode::Saas);
                assert_eq!(found, Some(("identity_invalid", (*name).into())), "{name}: {wrong:?}");
            }
            let mut twice = WHOLE.to_vec();
            twice.push(WHOLE[at]);
            assert_eq!(refused(&twice, Mode::Saas), Some(("identity_invalid", (*name).into())), "{name} twice");
        }
    }

    #[test]
    fn scenario_1_in_lab_absent_headers_have_defaults_and_malformed_ones_are_refused() {
        let ids_of = ids(&HeaderMap::new(), Mode::Lab).expect("defaults");
        assert_eq!((ids_of.mode, ids_of.tenant.as_str(), ids_of.project.as_str()), (Mode::Lab, "local", "default"));
        assert_eq!(refused(&[("X-Tenant-Id", "")], Mode::Lab), Some(("identity_invalid", "X-Tenant-Id".into())));
        assert_eq!(refused(&[("X-Run-Id", "a b")], Mode::Lab), Some(("identity_invalid", "X-Run-Id".into())));
    }

    #[test]
    fn a_trace_comes_from_its_header_or_from_traceparent() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        let lines = [("traceparent", parent.as_str())];
        assert_eq!(ids(&headers(&lines), Mode::Lab).expect("ids").trace_id, trace);
        let both = [("traceparent", parent.as_str()), ("X-Trace-Id", "mine")];
        assert_eq!(ids(&headers(&both), Mode::Lab).expect("ids").trace_id, "mine");
        for wrong in ["00-0-0-0", "01", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
            assert_ne!(ids(&headers(&[("traceparent", wrong)]), Mode::Lab).expect("ids").trace_id, wrong);
        }
    }
}
