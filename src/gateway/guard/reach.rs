//! The way by which clients beyond this machine reach the gateway: its public address, further names, and the proxies that
//! encrypt. Pure.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Uri};

use crate::config::ReachSettings;
use crate::proto::Failure;
use crate::proto::team::Mode;

/// Networks of proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// Length of the prefix.
    bits: u32,
}

/// A place on the web: scheme and authority, in lower case, without the scheme's own port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    is_secure: bool,
    host: String,
}

/// The ways in which clients on other machines reach the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The address that people open.
    pub public: Option<Origin>,
    pub hosts: Vec<String>,
    /// The address at which other gateways of the database reach this one.
    pub node: Option<Origin>,
    pub origins: Vec<Origin>,
    proxies: Vec<Network>,
    /// True if others can connect to the listener.
    is_beyond: bool,
}

impl Network {
    /// Reads an address, or one with `/BITS`.
    fn read(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
        Some(Self { address, bits })
    }

    fn has(&self, address: IpAddr) -> bool {
        let same = |differing: u128, width: u32| self.bits == 0 || differing >> (width - self.bits) == 0;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => same(u128::from(ours.to_bits() ^ other.to_bits()), 32),
            (IpAddr::V6(ours), IpAddr::V6(other)) => same(ours.to_bits() ^ other.to_bits(), 128),
            _ => false,
        }
    }
}

impl Origin {
    /// Reads `https://HOST[:PORT]`, or `http://` for a name of this machine.
    pub fn read(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let host = host_of(uri.authority()?.as_str())?;
        let is_secure = uri.scheme_str() == Some("https");
        let is_near = ["localhost", "127.0.0.1", "[::1]"].contains(&uri.host()?);
        let is_plain = uri.scheme_str() == Some("http") && is_near;
        let is_whole = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let host = host.strip_suffix(if is_secure { ":443" } else { ":80" }).unwrap_or(&host).to_owned();
        (is_whole && (is_secure || is_plain)).then_some(Self { is_secure, host })
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The name of the machine, without the brackets of an address, and the port.
    pub fn name_and_port(&self) -> (&str, u16) {
        let usual = if self.is_secure { 443 } else { 80 };
        let (name, port) = match self.host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().unwrap_or(usual)),
            _ => (self.host.as_str(), usual),
        };
        (name.trim_start_matches('[').trim_end_matches(']'), port)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.is_secure { "https" } else { "http" }, self.host)
    }
}

/// A value of the header `Host`, in lower case.
fn host_of(text: &str) -> Option<String> {
    let authority: axum::http::uri::Authority = text.parse().ok()?;
    let has_no_user = !text.contains('@');
    (has_no_user && !authority.host().is_empty() && !text.ends_with(':')).then(|| text.to_ascii_lowercase())
}

impl Reach {
    /// Reads the settings for a listener at `address`.
    ///
    /// # Errors
    /// A refusal that names all that is wrong: a value that can't be read, or a listener that other machines can reach though
    /// nothing would encrypt the tokens.
    pub fn read(settings: &ReachSettings, mode: Mode, address: SocketAddr) -> Result<Self, Failure> {
        let mut wrong = Vec::new();
        let mut bad =
            |setting: &str, value: &str, what: &str| wrong.push(format!("{setting} has {value:?}, not {what}"));
        let mut reach = Self { is_beyond: !address.ip().is_loopback(), ..Self::default() };
        let origin = "an https address without a path";
        if !settings.public_url.is_empty() {
            reach.public = Origin::read(&settings.public_url);
            if reach.public.is_none() {
                bad("gateway.public_url", &settings.public_url, origin);
            }
        }
        if !settings.node_url.is_empty() {
            reach.node = Origin::read(&settings.node_url);
            if reach.node.is_none() {
                bad("gateway.node_url", &settings.node_url, origin);
            }
        }
        for text in &settings.allowed_origins {
            match Origin::read(text) {
                Some(found) => reach.origins.push(found),
                None => bad("gateway.allowed_origins", text, origin),
            }
        }
        for text in &settings.allowed_hosts {
            match host_of(text) {
                Some(found) => reach.hosts.push(found),
                None => bad("gateway.allowed_hosts", text, "a name with or without a port"),
            }
        }
        for text in &settings.trusted_proxies {
            match Network::read(text) {
                Some(found) => reach.proxies.push(found),
                None => bad("gateway.trusted_proxies", text, "an address or a network such as 10.0.0.0/8"),
            }
        }
        if !wrong.is_empty() {
            return Err(Failure::refused(wrong.join("; ")).hint("correct the config, and start the gateway again"));
        }
        if reach.is_beyond {
            allow_beyond(settings, mode, address)?;
        }
        Ok(reach)
    }

    /// Returns the address of the client: that of the connection, or, if that is a trusted proxy, the one that the proxy names.
    ///
    /// # Errors
    /// Another machine has connected without a proxy: its token would cross the network in plain text.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, ()> {
        let is_proxy = |address: IpAddr| self.proxies.iter().any(|network| network.has(address));
        if !is_proxy(peer) {
            return if self.is_beyond && !peer.to_canonical().is_loopback() { Err(()) } else { Ok(peer) };
        }
        let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
        let named: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        // Each proxy appends the address that called it; everything before the first untrusted address may be forged.
        let mut client = peer;
        for text in named.iter().rev() {
            let Some(address) = address_in(text) else { break };
            client = address;
            if !is_proxy(address) {
                break;
            }
        }
        Ok(client)
    }
}

/// An address in `X-Forwarded-For`, with or without a port.
fn address_in(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// A listener for other machines needs persons with rights of their own, and a proxy that encrypts.
fn allow_beyond(settings: &ReachSettings, mode: Mode, address: SocketAddr) -> Result<(), Failure> {
    let mut needs = Vec::new();
    if mode == Mode::Lab {
        needs.push("the mode saas or enterprise");
    }
    if !settings.behind_tls_proxy {
        needs.push("gateway.behind_tls_proxy = true");
    }
    if settings.trusted_proxies.is_empty() {
        needs.push("gateway.trusted_proxies");
    }
    if needs.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(format!("{address} can be reached from other machines, which needs {}", needs.join(" and ")))
        .hint("a proxy that encrypts may as well run here, with the gateway on 127.0.0.1: see the documentation's page on the gateway"))
}
#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ReachSettings {
        ReachSettings {
            public_url: "https://Team.example:443/".into(),
            node_url: "https://One.team.example".into(),
            allowed_hosts: vec!["Old.example:8443".into()],
            allowed_origins: vec!["https://old.example:8443".into()],
            trusted_proxies: vec!["10.0.0.0/8".into(), "fd00::/8".into(), "127.0.0.1".into()],
            behind_tls_proxy: true,
        }
    }

    const NEAR: &str = "127.0.0.1:4117";
    const BEYOND: &str = "0.0.0.0:4117";

    fn read(settings: &ReachSettings, mode: Mode, address: &str) -> Result<Reach, String> {
        Reach::read(settings, mode, address.parse().expect("an address")).map_err(|failure| failure.message)
    }

    #[test]
    fn names_are_in_lower_case_and_without_the_usual_port() {
        let reach = read(&settings(), Mode::Lab, NEAR).expect("it is read");
        assert_eq!(reach.public.as_ref().map(ToString::to_string).as_deref(), Some("https://team.example"));
        assert_eq!(reach.hosts, ["old.example:8443"]);
        assert_eq!(reach.origins[0].to_string(), "https://old.example:8443");
    }

    #[test]
    fn all_that_is_wrong_is_named_at_once() {
        let settings = ReachSettings {
            public_url: "http://team.example".into(),
            node_url: "http://one.team.example".into(),
            allowed_hosts: vec!["a b".into(), "me@host".into()],
            allowed_origins: vec!["https://x.example/path".into(), "null".into(), "*".into()],
            trusted_proxies: vec!["10.0.0.0/33".into(), "proxy".into()],
            behind_tls_proxy: false,
        };
        let why = read(&settings, Mode::Lab, NEAR).expect_err("it is refused");
        for part in ["http://team.example", "a b", "me@host", "x.example/path", "null", "\"*\"", "/33", "\"proxy\""] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }

    #[test]
    fn a_listener_for_other_machines_needs_a_mode_with_members_and_a_proxy_that_encrypts() {
        assert!(read(&settings(), Mode::Saas, BEYOND).is_ok());
        assert!(read(&settings(), Mode::Lab, BEYOND).expect_err("refused").contains("saas or enterprise"));
        let why = read(&ReachSettings::default(), Mode::Lab, "[::]:4117").expect_err("refused");
        assert!(why.contains("behind_tls_proxy") && why.contains("trusted_proxies") && why.contains("saas"), "{why}");
        assert!(read(&ReachSettings::default(), Mode::Lab, NEAR).is_ok());
    }

    #[test]
    fn a_forwarded_address_counts_only_from_a_trusted_proxy_and_up_to_the_first_stranger() {
        let reach = read(&settings(), Mode::Saas, BEYOND).expect("it is read");
        let client = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().expect("a value"));
            }
            reach.client(peer.parse().expect("an address"), &headers).map(|address| address.to_string())
        };
        for (peer, lines, expected) in [
            ("10.1.2.3", &["203.0.113.7"][..], Ok("203.0.113.7")),
            ("10.1.2.3", &["1.2.3.4, 203.0.113.7, 10.9.9.9"], Ok("203.0.113.7")),
            ("10.1.2.3", &["1.2.3.4", "203.0.113.7:55, fd00::1"], Ok("203.0.113.7")),
            ("fd00::9", &["[2001:db8::1]:55"], Ok("2001:db8::1")),
            ("10.1.2.3", &[], Ok("10.1.2.3")),
            ("10.1.2.3", &["1.2.3.4, nonsense"], Ok("10.1.2.3")),
            ("::ffff:10.1.2.3", &["203.0.113.7"], Ok("203.0.113.7")),
            ("::1", &["203.0.113.7"], Ok("::1")),
            ("192.0.2.1", &["10.1.2.3"], Err(())),
        ] {
            assert_eq!(client(peer, lines), expected.map(str::to_owned), "{peer} {lines:?}");
        }
    }
}
