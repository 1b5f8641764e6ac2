//! Web addresses read as a browser reads them, so that no spelling of a host means one machine here and another to the code that
//! connects: the address that is passed on is written from the parsed parts. Pure. What a browser would silently repair is
//! refused.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest address, in bytes: servers take about as much.
const URL_BYTES_MAX: usize = 8 * 1024;
/// Longest name of a host and of one of its labels, as in DNS.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_https: bool,
    pub(super) host: Host,
    pub(super) port: u16,
    /// Path and query, as they are sent; it begins with a slash.
    pub(super) path: String,
}

/// The host of the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// A name in lower case, without a dot at its end.
    Name(String),
    /// An address, however it was written.
    Address(IpAddr),
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none that is requested, in words that follow it.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > URL_BYTES_MAX {
            return Err("it is too long");
        }
        if text.chars().any(|c| c.is_control() || c == '\\' || c.is_whitespace()) {
            return Err("it holds a blank, a control character or a backslash");
        }
        let (scheme, rest) = text.split_once("://").ok_or("it must begin with http:// or https://")?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("only http and https are spoken"),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a name or password in it isn't taken");
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            "" => {
                if is_https {
                    443
                } else {
                    80
                }
            }
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                port.parse().map_err(|_| "there is no such port")?
            }
            _ => return Err("there is no such port"),
        };
        Ok(Self { is_https, host: Host::parse(host)?, port, path: path(rest) })
    }

    /// Resolves the target of a redirect.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub(super) fn join(&self, location: &str) -> Result<Self, &'static str> {
        let scheme = location.split(['/', '?', '#']).next().unwrap_or_default();
        if scheme.contains(':') {
            return Self::parse(location);
        }
        let own = if self.is_https { "https" } else { "http" };
        if location.starts_with("//") {
            return Self::parse(&format!("{own}:{location}"));
        }
        let here = self.path.split('?').next().unwrap_or("/");
        let path = match location.as_bytes().first() {
            None | Some(b'#') => self.path.clone(),
            Some(b'/') => location.to_owned(),
            Some(b'?') => format!("{here}{location}"),
            Some(_) => format!("{}/{location}", here.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        Self::parse(&format!("{}{}", self.origin(), without_dots(&path)))
    }

    /// Scheme, host and port.
    fn origin(&self) -> String {
        let (scheme, usual) = if self.is_https { ("https", 443) } else { ("http", 80) };
        let port = if self.port == usual { String::new() } else { format!(":{}", self.port) };
        format!("{scheme}://{}{port}", self.host)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl Host {
    /// Reads a host as a browser does: a host that ends in a number is an IPv4 address or invalid.
    fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or("its host is no address")?;
            let address: Ipv6Addr = inner.parse().map_err(|_| "its host is no address")?;
            return Ok(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() {
            return Err("it names no host");
        }
        if !name.is_ascii() {
            return Err("its host isn't in its ASCII form (xn--…)");
        }
        let labels: Vec<&str> = name.split('.').collect();
        let is_number = |label: &&str| {
            let is_hex = label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
            is_hex || (!label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if labels.last().is_some_and(is_number) {
            return ipv4(&labels).map(|address| Self::Address(address.into())).ok_or("its host is no address");
        }
        let fits = |label: &&str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.len() <= LABEL_BYTES_MAX && label.bytes().all(is_plain)
        };
        if name.len() > HOST_BYTES_MAX || !labels.iter().all(fits) {
            return Err("its host is no name");
        }
        Ok(Self::Name(name))
    }
}

/// Reads an IPv4 address of one to four numbers, decimal, octal or hexadecimal; the last one fills what is left.
fn ipv4(labels: &[&str]) -> Option<Ipv4Addr> {
    let number = |label: &&str| {
        let (digits, radix) = match (label.strip_prefix("0x"), label.strip_prefix('0')) {
            (Some(""), _) | (None, Some("")) => ("0", 10),
            (Some(hex), _) => (hex, 16),
            (None, Some(octal)) => (octal, 8),
            (None, None) => (*label, 10),
        };
        // Signs aren't allowed in these numbers.
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, radix).ok()).flatten()
    };
    let numbers: Vec<u64> = labels.iter().map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) {
        return None;
    }
    let free_bits = 8 * (4 - u32::try_from(first.len()).ok()?);
    if *last >= 1 << free_bits {
        return None;
    }
    let high = first.iter().fold(0, |address, number| (address << 8) | number);
    u32::try_from((high << free_bits) | last).ok().map(Ipv4Addr::from)
}

fn split_port(authority: &str) -> Result<(&str, &str), &'static str> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after_host..].find(':') {
        Some(at) => Ok((&authority[..after_host + at], &authority[after_host + at + 1..])),
        None if after_host > 0 && after_host < authority.len() => Err("its host is no address"),
        None => Ok((authority, "")),
    }
}

/// Path and query as they are sent, without a fragment.
fn path(rest: &str) -> String {
    let rest = rest.split('#').next().unwrap_or_default();
    let mut path = String::with_capacity(rest.len() + 1);
    if !rest.starts_with('/') {
        path.push('/');
    }
    for byte in rest.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>^`{|}".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

/// The path without `.` and `..`; a query stays as it is.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut left: Vec<&str> = Vec::new();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    for (at, part) in parts.iter().enumerate() {
        match *part {
            "." => {}
            ".." => drop(left.pop()),
            part => {
                left.push(part);
                continue;
            }
        }
        if at + 1 == parts.len() {
            left.push("");
        }
    }
    format!("/{}{query}", left.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_of_an_address_is_understood() {
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("127.0.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0X7F.0x0.0.0x1", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("0x", "0.0.0.0"),
            ("0x.0x.0", "0.0.0.0"),
            ("169.254.43518", "169.254.169.254"),
            ("10.16777215", "10.255.255.255"),
            ("4294967295", "255.255.255.255"),
            ("[::1]", "[::1]"),
            ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
            ("[0:0:0:0:0:ffff:7f00:1]", "[::ffff:127.0.0.1]"),
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("a_b.example", "a_b.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("1.2.3.example", "1.2.3.example"),
        ] {
            let url = Url::parse(&format!("http://{host}/")).unwrap_or_else(|why| panic!("{host}: {why}"));
            assert_eq!(url.host.to_string(), address, "{host}");
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for url in [
            "",
            "example.com",
            "http:example.com",
            "http:/example.com",
            "http:///",
            "http://",
            "http://.",
            "ftp://example.com",
            "file:///etc/passwd",
            "gopher://example.com",
            "javascript://example.com",
            "http://user@example.com",
            "http://user:pw@example.com",
            "http://example.com@127.0.0.1",
            "http://127.0.0.1\\@example.com",
            "http://example.com:0x50/",
            "http://example.com:65536/",
            "http://example.com:-1/",
            "http://example.com:80:80/",
            "http://exa mple.com/",
            "http://exa\tmple.com/",
            "http://example.com/\r\nHost: x",
            " http://example.com/",
            "http://%31%32%37.0.0.1/",
            "http://１２７.0.0.1/",
            "http://ⓛocalhost/",
            "http://example。com/",
            "http://256.1.1.1/",
            "http://1.2.3.4.5/",
            "http://1.2.3.0x100/",
            "http://4294967296/",
            "http://127.0.0.08/",
            "http://0x7g.1.1.1.0x/",
            "http://example.0x7f/",
            "http://a..b/",
            "http://a*b.example/",
            "http://[::1/",
            "http://[::1]x/",
            "http://[fe80::1%25eth0]/",
            "http://[127.0.0.1]/",
        ] {
            assert!(Url::parse(url).is_err(), "{url:?} {:?}", Url::parse(url));
        }
        assert!(Url::parse(&format!("http://{}.example/", "a".repeat(64))).is_err());
        assert!(Url::parse(&format!("http://{}example/", "a.".repeat(130))).is_err());
        assert!(Url::parse(&format!("http://example.com/{}", "a".repeat(9000))).is_err());
    }

    #[test]
    fn addresses_are_sent_in_normal_form() {
        for (url, sent) in [
            ("HTTP://Example.COM", "http://example.com/"),
            ("http://example.com:80/a", "http://example.com/a"),
            ("https://example.com:443", "https://example.com/"),
            ("http://example.com:443/", "http://example.com:443/"),
            ("http://example.com?q=1#f", "http://example.com/?q=1"),
            ("http://example.com:/", "http://example.com/"),
            ("http://example.com/ü/{a}|\"<>", "http://example.com/%C3%BC/%7Ba%7D%7C%22%3C%3E"),
            ("http://example.com/a%2Fb//c", "http://example.com/a%2Fb//c"),
            ("http://0x7f.1:8080/x", "http://127.0.0.1:8080/x"),
        ] {
            assert_eq!(Url::parse(url).expect(url).to_string(), sent);
        }
    }

    #[test]
    fn a_redirect_leads_where_a_browser_would_go() {
        let here = Url::parse("https://example.com/a/b?q").expect("an address");
        for (location, there) in [
            ("https://other.example/x", "https://other.example/x"),
            ("http://127.1/", "http://127.0.0.1/"),
            ("//other.example", "https://other.example/"),
            ("/x?y", "https://example.com/x?y"),
            ("x", "https://example.com/a/x"),
            ("../x", "https://example.com/x"),
            ("../../../x", "https://example.com/x"),
            ("./", "https://example.com/a/"),
            ("..", "https://example.com/"),
            ("?z", "https://example.com/a/b?z"),
            ("#f", "https://example.com/a/b?q"),
            ("", "https://example.com/a/b?q"),
            ("/a?u=http://x/../y", "https://example.com/a?u=http://x/../y"),
        ] {
            assert_eq!(here.join(location).expect(location).to_string(), there, "{location}");
        }
        for location in ["ftp://x/", "javascript:alert(1)", "http://u@x/", "//@127.0.0.1/", "/\\evil"] {
            assert!(here.join(location).is_err(), "{location}");
        }
    }
}
