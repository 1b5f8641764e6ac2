//! Requests to a gateway, through the Unix socket of one of the same user or over the network: a minimal HTTP client.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Uri;
use ureq::{Proxy, ProxyProtocol};

use crate::base::base64;
use crate::host::{Authorities, Hangup, Wire};

/// Time for an answer.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a line of events: a question's answer with its note.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The place of a gateway.
#[derive(Clone, Debug)]
pub enum Place {
    /// A socket: a gateway of the same user.
    Here(PathBuf),
    /// A team's gateway.
    There(Team),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(_) => f.write_str("the gateway"),
            Self::There(team) => write!(f, "the gateway {}", team.authority()),
        }
    }
}

/// A team's gateway, and the caller's identity.
#[derive(Clone)]
pub struct Team {
    host: String,
    port: u16,
    is_encrypted: bool,
    authorities: Authorities,
    /// The proxy on the way, which the environment names as for requests to models.
    proxy: Option<Proxy>,
    token: String,
    identity: String,
}

// Logs must not contain a token.
impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Team {
    /// Makes the client of the gateway at `https://HOST[:PORT]`, or `http://` on this machine, for the holder of a token in a
    /// tenant: its mode, name and project.
    ///
    /// # Errors
    /// The address isn't one of these, or a value can't be a part of a request's head.
    pub fn new(
        url: &str,
        token: &str,
        (mode, tenant, project): (&str, &str, &str),
        authorities: Authorities,
    ) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| format!("{url:?} isn't an address"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_here = matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1");
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if is_here => false,
            _ => return Err(format!("{url:?} isn't an address that begins with https://")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || url.contains('@') {
            return Err(format!("{url:?} has more than a name and a port"));
        }
        let is_plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        if ![token, mode, tenant, project].into_iter().all(is_plain) {
            return Err("the token, the tenant and the project are words without blanks".into());
        }
        let identity = format!("X-Mode: {mode}\r\nX-Tenant-Id: {tenant}\r\nX-Project-Id: {project}\r\n");
        let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let proxy = Proxy::try_from_env().filter(|proxy| !is_here && !proxy.is_no_proxy(&uri));
        Ok(Self { host, port, is_encrypted, authorities, proxy, token: token.to_owned(), identity })
    }

    /// Connects to the gateway, or to the proxy that leads there.
    fn reach(&self) -> io::Result<Wire> {
        let Some(proxy) = &self.proxy else { return Wire::tcp(&self.host, self.port, WAIT) };
        let (host, port) = (proxy.host(), proxy.port());
        let failed = |why: String| io::Error::other(format!("by the proxy {host}:{port}: {why}"));
        if !matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) {
            return Err(failed(
                "HTTPS_PROXY must begin with http:// or https:// here; NO_PROXY names hosts without a proxy".into(),
            ));
        }
        let mut wire = Wire::tcp(host, port, WAIT).map_err(|error| failed(error.to_string()))?;
        wire.set_waits(WAIT, WAIT)?;
        if proxy.protocol() == ProxyProtocol::Https {
            let name = host.trim_matches(['[', ']']);
            wire = wire.encrypt(name, &self.authorities).map_err(|error| failed(error.to_string()))?;
        }
        let status = self.tunnel(proxy, &mut wire).map_err(|error| failed(error.to_string()))?;
        if status / 100 == 2 { Ok(wire) } else { Err(failed(format!("it answers HTTP {status}"))) }
    }

    /// Asks a proxy for a tunnel to the gateway; returns the status of its answer.
    fn tunnel(&self, proxy: &Proxy, wire: &mut (impl Read + Write)) -> io::Result<u16> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let target = format!("{host}:{}", self.port);
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let (Some(user), password) = (proxy.username(), proxy.password().unwrap_or_default()) {
            let both = base64::encode(format!("{user}:{password}").as_bytes());
            head += &format!("Proxy-Authorization: Basic {both}\r\n");
        }
        wire.write_all((head + "\r\n").as_bytes())?;
        wire.flush()?;
        // The gateway never sends first, so no data is lost here.
        Ok(Head::read(&mut BufReader::new(wire))?.status)
    }

    /// The header `Host`.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_encrypted, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl Place {
    fn connect(&self) -> io::Result<BufReader<Wire>> {
        let wire = match self {
            Self::Here(path) => Wire::unix(path)?,
            Self::There(team) => team.reach()?,
        };
        wire.set_waits(WAIT, WAIT)?;
        let wire = match self {
            Self::There(team) if team.is_encrypted => wire.encrypt(&team.host, &team.authorities)?,
            _ => wire,
        };
        Ok(BufReader::new(wire))
    }

    /// The head's lines with the caller's identity and the destination.
    fn head(&self) -> String {
        match self {
            Self::Here(_) => "Host: localhost\r\n".into(),
            Self::There(team) => {
                format!("Host: {}\r\n{}X-Request-Id: share\r\n", team.authority(), team.identity)
            }
        }
    }

    /// The secret of the person who begins to share; a socket speaks for its user without one.
    fn token(&self) -> Option<&str> {
        match self {
            Self::Here(_) => None,
            Self::There(team) => Some(&team.token),
        }
    }
}

/// The answer to a request.
pub(super) struct Answer {
    pub status: u16,
    /// Its body; null if it isn't JSON.
    pub body: Value,
}

/// A request.
pub(super) struct Request<'r> {
    pub method: &'static str,
    pub path: &'r str,
    /// The secret for `Authorization`; that of the place if there is none.
    pub token: Option<&'r str>,
    pub kind: &'static str,
    pub body: &'r [u8],
}

impl Request<'_> {
    fn send(&self, place: &Place, wire: &mut Wire, version: &str) -> io::Result<()> {
        let mut head = format!("{} {} HTTP/{version}\r\n{}", self.method, self.path, place.head());
        if let Some(token) = self.token.or_else(|| place.token()) {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if self.method != "GET" {
            head += &format!("Content-Type: {}\r\nContent-Length: {}\r\n", self.kind, self.body.len());
        }
        head += "\r\n";
        wire.write_all(&[head.as_bytes(), self.body].concat())?;
        wire.flush()
    }

    /// Sends it and returns the endless stream of events. The request uses HTTP/1.0, in which a body isn't chunked.
    pub fn events(&self, place: &Place) -> io::Result<Events> {
        let mut reader = place.connect()?;
        self.send(place, reader.get_mut(), "1.0")?;
        let head = Head::read(&mut reader)?;
        if head.status != 200 {
            return Err(io::Error::other(format!("the gateway answered {}", head.status)));
        }
        Ok(Events { reader })
    }
}

/// The connection of one sender, which stays open between requests.
#[derive(Debug)]
pub(super) struct Connection {
    place: Place,
    open: Option<BufReader<Wire>>,
}

impl Connection {
    pub fn new(place: Place) -> Self {
        Self { place, open: None }
    }

    /// Sends a request and waits for the answer. If the other side has closed an idle connection, it is sent again over a new
    /// one, so a repeated request must have no further effect.
    pub fn ask(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        if let Some(reader) = self.open.take()
            && let Ok(answer) = self.over(reader, request)
        {
            return Ok(answer);
        }
        let reader = self.place.connect()?;
        self.over(reader, request)
    }

    fn over(&mut self, mut reader: BufReader<Wire>, request: &Request<'_>) -> io::Result<Answer> {
        request.send(&self.place, reader.get_mut(), "1.1")?;
        let head = Head::read(&mut reader)?;
        let body = head.body(&mut reader)?;
        if !head.closes {
            self.open = Some(reader);
        }
        Ok(Answer { status: head.status, body: serde_json::from_slice(&body).unwrap_or_default() })
    }
}

/// The relevant part of an answer's head.
struct Head {
    status: u16,
    length: Option<usize>,
    /// `true` if the body comes in pieces, each with its length.
    is_chunked: bool,
    /// `true` if the connection ends after it.
    closes: bool,
}

impl Head {
    fn read(reader: &mut impl BufRead) -> io::Result<Self> {
        let mut reader = reader.take(LINE_BYTES_MAX);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("the gateway speaks no HTTP"))?;
        let mut head = Self { status, length: None, is_chunked: false, closes: false };
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
                return Ok(head);
            }
            let (name, value) = line.trim_end().split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.trim().parse().ok(),
                "transfer-encoding" => head.is_chunked = value.trim().eq_ignore_ascii_case("chunked"),
                "connection" => head.closes = value.trim().eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
    }

    /// Reads the body. A proxy may pass it on in pieces.
    fn body<R: BufRead>(&self, reader: &mut R) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        let mut take = |reader: &mut R, length: usize| {
            if length > ANSWER_BYTES_MAX - body.len() {
                return Err(io::Error::other("the answer is too long for a gateway's"));
            }
            let from = body.len();
            body.resize(from + length, 0);
            reader.read_exact(&mut body[from..])
        };
        if !self.is_chunked {
            let length = self.length.ok_or_else(|| io::Error::other("the answer has no length"))?;
            take(reader, length)?;
            return Ok(body);
        }
        loop {
            let mut line = String::new();
            reader.take(LINE_BYTES_MAX).read_line(&mut line)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
            take(reader, length)?;
            line.clear();
            // After a piece its end; after the last one perhaps more headers.
            while reader.take(LINE_BYTES_MAX).read_line(&mut line)? > 0 && length == 0 && line.trim_end() != "" {
                line.clear();
            }
            if length == 0 {
                return Ok(body);
            }
        }
    }
}

/// Events of the gateway as they come.
pub(super) struct Events {
    reader: BufReader<Wire>,
}

impl Events {
    /// A handle by which another thread can end the wait.
    pub fn hangup(&self) -> io::Result<Hangup> {
        self.reader.get_ref().hangup()
    }

    /// The next event: its name and its data.
    pub fn next(&mut self, silence: Duration) -> io::Result<(String, Value)> {
        self.reader.get_ref().set_waits(silence, WAIT)?;
        let mut name = String::new();
        loop {
            let mut line = String::new();
            let count = (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut line)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Ok((name, serde_json::from_str(data).unwrap_or_default()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_in_pieces_and_within_its_bounds() {
        let read = |text: &str| {
            let mut reader = text.as_bytes();
            let head = Head::read(&mut reader).map_err(|error| error.to_string())?;
            let body = head.body(&mut reader).map_err(|error| error.to_string())?;
            let left = std::str::from_utf8(reader).expect("text").to_owned();
            Ok::<_, String>((head.status, head.closes, String::from_utf8(body).expect("text"), left))
        };
        let whole = |status, closes, body: &str, left: &str| Ok((status, closes, body.to_owned(), left.to_owned()));
        let next = "HTTP/1.1 202 Accepted\r\n";
        let text = format!("HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}{next}");
        assert_eq!(read(&text), whole(201, true, "{}", next));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n";
        let pieces = "5\r\n{\"a\":\r\n2;more=1\r\n1}\r\n0\r\n";
        assert_eq!(read(&format!("{chunked}{pieces}\r\n{next}")), whole(200, false, "{\"a\":1}", next));
        assert_eq!(read(&format!("{chunked}{pieces}Trailer: x\r\n\r\n{next}")), whole(200, false, "{\"a\":1}", next));
        for wrong in [
            "SSH-2.0-server\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab".to_owned(),
            format!("{chunked}ffffffffffffffff\r\n"),
            format!("{chunked}x\r\n"),
            format!("{chunked}{}", "2000\r\n".to_owned() + &"y".repeat(8192) + "\r\n").repeat(9),
        ] {
            assert!(read(&wrong).is_err(), "{wrong:.60}");
        }
    }

    /// Records the written bytes, and returns prepared ones.
    struct Played<'a>(Vec<u8>, &'a [u8]);

    impl Read for Played<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1.read(into)
        }
    }

    impl Write for Played<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_proxy_is_asked_for_a_tunnel_with_its_password_and_without_the_token() {
        let team =
            Team::new("https://[2001:db8::1]", "rc_person_secret", ("saas", "acme", "default"), Authorities::default())
                .expect("an address");
        for (address, answer, status, login) in [
            ("http://proxy:3128", "HTTP/1.1 200 Connection established\r\n\r\n", 200, ""),
            (
                "http://ann:word@proxy:3128",
                "HTTP/1.0 407 no\r\n\r\n",
                407,
                "Proxy-Authorization: Basic YW5uOndvcmQ=\r\n",
            ),
        ] {
            let mut played = Played(Vec::new(), answer.as_bytes());
            let proxy = Proxy::new(address).expect("a proxy");
            assert_eq!(team.tunnel(&proxy, &mut played).expect("an answer"), status);
            let target = "[2001:db8::1]:443";
            let asked = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n");
            assert_eq!(String::from_utf8(played.0).expect("text"), asked);
        }
    }

    #[test]
    fn a_teams_gateway_is_reached_by_https_and_its_token_is_never_shown() {
        let team = |url: &str, tenant: &str| {
            Team::new(url, "rc_person_secret", ("saas", tenant, "default"), Authorities::default())
        };
        let found = team("https://team.example", "acme").expect("an address");
        assert_eq!((found.authority().as_str(), found.port), ("team.example", 443));
        assert_eq!(format!("{:?}", Place::There(found)), "There(team.example:443)");
        let found = team("https://[2001:db8::1]:8443/", "acme").expect("an address");
        assert_eq!((found.host.as_str(), found.authority().as_str()), ("2001:db8::1", "[2001:db8::1]:8443"));
        assert!(team("http://localhost:4117", "acme").is_ok_and(|it| !it.is_encrypted));
        for (url, tenant) in [
            ("http://team.example", "acme"),
            ("team.example", "acme"),
            ("https://", "acme"),
            ("https://me:word@team.example", "acme"),
            ("https://team.example/path", "acme"),
            ("https://team.example", "ac\r\nme"),
            ("https://team.example", ""),
        ] {
            assert!(team(url, tenant).is_err(), "{url} {tenant:?}");
        }
    }
}
