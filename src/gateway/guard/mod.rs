//! The checks before routing, for every path: they stop a page of another site, and a name that was made to lead here. Pure.

use axum::http::{HeaderMap, Method, header};

use super::http::problem::{Answered, Problem};

mod reach;

pub use reach::{Origin, Reach};

/// The names of this gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Accepted values of `Host`.
    hosts: Vec<String>,
    /// Accepted values of `Origin`.
    origins: Vec<String>,
    /// Values of `Host` that a proxy serves with encryption.
    encrypted: Vec<String>,
}

impl Names {
    /// The names of a listener's port on this machine, and those by which others reach it.
    #[must_use]
    pub fn of(port: u16, reach: &Reach) -> Self {
        let mut hosts: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].iter().map(|name| format!("{name}:{port}")).collect();
        let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        let secure = reach.public.iter().filter(|origin| origin.is_secure()).map(|origin| origin.host().to_owned());
        let node = reach.node.iter().filter(|origin| origin.is_secure()).map(|origin| origin.host().to_owned());
        let encrypted = secure.chain(reach.hosts.iter().cloned()).chain(node).collect();
        hosts.extend(reach.public.iter().map(|origin| origin.host().to_owned()));
        hosts.extend(reach.hosts.iter().cloned());
        hosts.extend(reach.node.iter().map(|origin| origin.host().to_owned()));
        origins.extend(reach.public.iter().chain(&reach.origins).map(ToString::to_string));
        Self { hosts, origins, encrypted }
    }

    /// Returns whether a request with this `Host` has come through a proxy that encrypts.
    #[must_use]
    pub fn is_encrypted(&self, host: &str) -> bool {
        self.encrypted.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Checks a request's head.
    ///
    /// # Errors
    /// `Host` isn't exactly one of the names (421), a browser says that another site asks (403), or a write has another
    /// content type than JSON (415), which a page could send without asking.
    pub fn check(&self, method: &Method, headers: &HeaderMap, (is_raw, is_page): (bool, bool)) -> Answered<()> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if hosts.next().is_some()
            || !host.is_some_and(|host| self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host)))
        {
            return Err(Problem::new(421, "misdirected", "the header Host doesn't name this gateway"));
        }
        // The console's files contain no user's data: links elsewhere may lead to them, and the frame of a shared screen, which
        // has an opaque origin, requests its scripts with `Origin: null`.
        let is_file = is_page && matches!(*method, Method::GET | Method::HEAD);
        if !is_file && !self.is_by_own_page(headers) {
            return Err(Problem::new(403, "origin_refused", "requests of other sites are refused"));
        }
        if matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
            if is_raw { check_no_form(headers)? } else { check_type(headers)? }
        }
        Ok(())
    }

    /// Returns whether a request is from a page of this gateway, or from no page at all.
    fn is_by_own_page(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let is_ours = origins
            .next()
            .is_none_or(|origin| origin.to_str().is_ok_and(|origin| self.origins.iter().any(|name| name == origin)));
        let is_elsewhere = headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site");
        is_ours && origins.next().is_none() && !is_elsewhere
    }
}

/// Writes are JSON exactly, so that no form and no simple request of a page is one. A write without a body needs no type.
fn check_type(headers: &HeaderMap) -> Answered<()> {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = kinds.next().map(|kind| kind.to_str().unwrap_or("?").trim().to_ascii_lowercase());
    let is_json =
        kind.as_deref().is_some_and(|kind| matches!(kind, "application/json" | "application/json; charset=utf-8"));
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let is_empty = !headers.contains_key(header::TRANSFER_ENCODING) && length.is_none_or(|length| length == "0");
    if kinds.next().is_none() && (is_json || kind.is_none() && is_empty) {
        return Ok(());
    }
    Err(Problem::new(415, "unsupported_media_type", "a body has the content type application/json"))
}

/// Checks that a file has one type, and not one that a page of another site can send without a preflight.
fn check_no_form(headers: &HeaderMap) -> Answered<()> {
    const SIMPLE: [&str; 3] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = kinds.next().and_then(|kind| kind.to_str().ok()).map(str::to_ascii_lowercase);
    let is_other = kind.is_some_and(|kind| !SIMPLE.contains(&kind.split(';').next().unwrap_or_default().trim()));
    if is_other && kinds.next().is_none() {
        return Ok(());
    }
    Err(Problem::new(
        415,
        "unsupported_media_type",
        "a file needs one content type, and not that of a form or plain text",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &Method, lines: &[(&'static str, &'static str)]) -> Option<u16> {
        status_of(method, lines, false)
    }

    fn status_of(method: &Method, lines: &[(&'static str, &'static str)], is_page: bool) -> Option<u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a value"));
        }
        Names::of(4117, &Reach::default()).check(method, &headers, (false, is_page)).err().map(|problem| problem.status)
    }

    #[test]
    fn only_exact_hosts_and_origins_of_this_gateway_pass() {
        const HOST: (&str, &str) = ("host", "127.0.0.1:4117");
        for host in ["127.0.0.1:4117", "localhost:4117", "[::1]:4117"] {
            assert_eq!(status(&Method::GET, &[("host", host)]), None, "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1", "127.0.0.1:4118", "127.0.0.1:4117.evil.example", "localhost.:4117", ""]
        {
            assert_eq!(status(&Method::GET, &[("host", host)]), Some(421), "{host}");
        }
        assert_eq!(status(&Method::GET, &[]), Some(421));
        assert_eq!(status(&Method::GET, &[HOST, HOST]), Some(421));
        for origin in ["null", "http://evil.example", "https://127.0.0.1:4117", "http://127.0.0.1:4117.evil.example"] {
            assert_eq!(status(&Method::GET, &[HOST, ("origin", origin)]), Some(403), "{origin}");
        }
        assert_eq!(status(&Method::GET, &[HOST, ("origin", "http://localhost:4117")]), None);
        assert_eq!(status(&Method::GET, &[HOST, ("sec-fetch-site", "cross-site")]), Some(403));
        assert_eq!(status(&Method::GET, &[HOST, ("sec-fetch-site", "same-origin")]), None);
    }

    #[test]
    fn files_of_the_console_are_given_to_a_frame_with_an_origin_of_its_own() {
        let lines = [("host", "127.0.0.1:4117"), ("origin", "null"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status_of(&Method::GET, &lines, true), None);
        assert_eq!(status_of(&Method::POST, &lines, true), Some(403));
        assert_eq!(status_of(&Method::GET, &[("host", "evil.example"), lines[1]], true), Some(421));
    }

    #[test]
    fn a_write_is_json_or_has_no_body() {
        const HOST: (&str, &str) = ("host", "127.0.0.1:4117");
        let post = |kind: Option<&'static str>, length: &'static str| {
            let mut lines = vec![HOST, ("content-length", length)];
            lines.extend(kind.map(|kind| ("content-type", kind)));
            status(&Method::POST, &lines)
        };
        assert_eq!(post(Some("application/json"), "2"), None);
        assert_eq!(post(Some("Application/JSON; charset=UTF-8"), "2"), None);
        assert_eq!(post(None, "0"), None);
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json5"] {
            assert_eq!(post(Some(kind), "2"), Some(415), "{kind}");
        }
        assert_eq!(post(None, "2"), Some(415));
        assert_eq!(post(Some("text/plain"), "0"), Some(415));
        assert_eq!(status(&Method::POST, &[HOST, ("transfer-encoding", "chunked")]), Some(415));
        let file = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "127.0.0.1:4117".parse().expect("a value"));
            headers.insert("content-type", kind.parse().expect("a value"));
            Names::of(4117, &Reach::default()).check(&Method::POST, &headers, (true, false)).is_ok()
        };
        assert!(file("image/png") && !file("Text/Plain; charset=utf-8") && !file("multipart/form-data; boundary=x"));
    }
}
