//! Machines that may be reached: those of the public internet only. Pure tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::url::{Host, Url};

/// Parts of IPv4 that aren't the public internet: the network, its bits, what it is.
const REFUSED_V4: &[([u8; 4], u32, &str)] = &[
    ([0, 0, 0, 0], 8, "this machine"),
    ([10, 0, 0, 0], 8, "a private network"),
    ([100, 64, 0, 0], 10, "a provider's inner network"),
    ([127, 0, 0, 0], 8, "this machine"),
    ([169, 254, 0, 0], 16, "the local link, with a cloud's metadata"),
    ([172, 16, 0, 0], 12, "a private network"),
    ([192, 0, 0, 0], 24, "kept for protocols"),
    ([192, 0, 2, 0], 24, "for documents only"),
    ([192, 88, 99, 0], 24, "a relay"),
    ([192, 168, 0, 0], 16, "a private network"),
    ([198, 18, 0, 0], 15, "for measurements only"),
    ([198, 51, 100, 0], 24, "for documents only"),
    ([203, 0, 113, 0], 24, "for documents only"),
    ([224, 0, 0, 0], 4, "a group of machines"),
    ([240, 0, 0, 0], 4, "kept for the future"),
];

/// Parts of IPv6's public space (2000::/3) that aren't public machines; all outside of that space is refused anyway.
const REFUSED_V6: &[([u16; 3], u32, &str)] = &[
    // 2001::/32 (Teredo) hides an IPv4 address in it, and benchmarks and identifiers are here, too.
    ([0x2001, 0, 0], 23, "kept for protocols"),
    ([0x2001, 0xdb8, 0], 32, "for documents only"),
    ([0x2002, 0, 0], 16, "a tunnel to an IPv4 address"),
    ([0x3fff, 0, 0], 20, "for documents only"),
];

/// Names that mean this machine or a local network, with all names below them.
const REFUSED_NAMES: &[&str] = &["localhost", "localdomain", "local", "internal", "home.arpa"];

/// The addresses that a request may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// Private networks and this machine, too.
    pub(super) allow_private: bool,
    pub(super) ports: Vec<u16>,
    /// Every port, and not only those.
    pub(super) any_port: bool,
}

impl Reach {
    /// Returns whether a web address may be requested, before its name is looked up.
    ///
    /// # Errors
    /// Why not, in words that follow the address.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        if !self.any_port && !self.ports.contains(&url.port) {
            return Err(format!("port {} isn't one that may be used (tools.http_ports)", url.port));
        }
        match &url.host {
            Host::Address(address) => self.check_address(*address),
            Host::Name(_) if self.allow_private => Ok(()),
            Host::Name(name) => {
                let is_refused = |ending: &&&str| {
                    name.strip_suffix(**ending).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                match REFUSED_NAMES.iter().find(|ending| is_refused(ending)) {
                    Some(ending) => Err(format!("a name in {ending} is of this machine or its network")),
                    None if !name.contains('.') => Err("a name without a dot is of this network".to_owned()),
                    None => Ok(()),
                }
            }
        }
    }

    /// Returns whether a machine may be contacted.
    ///
    /// # Errors
    /// Why not, with the address.
    pub(super) fn check_address(&self, address: IpAddr) -> Result<(), String> {
        let refused = match address {
            _ if self.allow_private => None,
            IpAddr::V4(address) => refused_v4(address),
            IpAddr::V6(address) => refused_v6(address),
        };
        refused.map_or(Ok(()), |what| Err(format!("{address} is not a public address ({what})")))
    }
}

fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    let is_in = |(network, bits, _): &&([u8; 4], u32, &str)| {
        (u32::from(address) ^ u32::from(Ipv4Addr::from(*network))) >> (32 - bits) == 0
    };
    REFUSED_V4.iter().find(is_in).map(|(_, _, what)| *what)
}

fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    if let Some(inner) = address.to_ipv4_mapped() {
        return refused_v4(inner);
    }
    // NAT64: networks without IPv4 reach IPv4 addresses by this prefix.
    if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return refused_v4(Ipv4Addr::from(u32::from(parts[6]) << 16 | u32::from(parts[7])));
    }
    if parts[0] >> 13 != 1 {
        return Some("outside of the public space");
    }
    let high = |parts: [u16; 3]| u64::from(parts[0]) << 32 | u64::from(parts[1]) << 16 | u64::from(parts[2]);
    let own = high([parts[0], parts[1], parts[2]]);
    let is_in = |(network, bits, _): &&([u16; 3], u32, &str)| (own ^ high(*network)) >> (48 - bits) == 0;
    REFUSED_V6.iter().find(is_in).map(|(_, _, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach() -> Reach {
        Reach { allow_private: false, ports: vec![80, 443], any_port: false }
    }

    #[test]
    fn only_public_machines_may_be_spoken_to() {
        // The first and the last address of each network, and their neighbours if these are public.
        for (first, last, before, after) in [
            ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
            ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
            ("224.0.0.0", "239.255.255.255", "223.255.255.255", ""),
            ("240.0.0.0", "255.255.255.255", "", ""),
            ("::", "::", "", ""),
            ("::1", "::1", "", ""),
            ("::7f00:1", "::808:808", "", ""),
            ("::ffff:10.0.0.0", "::ffff:10.255.255.255", "::ffff:9.255.255.255", "::ffff:11.0.0.0"),
            ("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", ""),
            ("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808", ""),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:808:808", "", ""),
            ("100::", "100::ffff", "", ""),
            ("2001::", "2001:0:ffff:ffff::", "2000:ffff::", ""),
            ("2001:2::", "2001:1ff:ffff::", "", "2001:200::"),
            ("2001:db8::", "2001:db8:ffff:ffff::", "2001:db7:ffff::", "2001:db9::"),
            ("2002::", "2002:ffff::", "2001:ffff::", "2003::"),
            ("3fff::", "3fff:fff:ffff::", "3ffe:ffff::", "3fff:1000::"),
            ("4000::", "ffff:ffff::", "", ""),
            ("fc00::", "fdff:ffff::", "", ""),
            ("fe80::", "febf:ffff::", "", ""),
            ("fec0::", "feff:ffff::", "", ""),
            ("ff00::", "ffff::1", "", ""),
        ] {
            for refused in [first, last] {
                let address: IpAddr = refused.parse().expect(refused);
                assert!(reach().check_address(address).is_err(), "{refused}");
                assert!(Reach { allow_private: true, ..reach() }.check_address(address).is_ok());
            }
            for public in [before, after].into_iter().filter(|it| !it.is_empty()) {
                assert_eq!(reach().check_address(public.parse().expect(public)), Ok(()), "{public}");
            }
        }
        for public in ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001:82a::200e"] {
            assert_eq!(reach().check_address(public.parse().expect(public)), Ok(()), "{public}");
        }
    }

    #[test]
    fn names_and_ports_are_looked_at_before_anything_is_asked() {
        let check = |url: &str| reach().check(&Url::parse(url).expect(url));
        for url in [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://localhost.localdomain/",
            "http://metadata.google.internal/",
            "http://x.internal/",
            "http://printer.local/",
            "http://router.home.arpa/",
            "http://router/",
            "http://metadata/",
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://127.1/",
            "http://0177.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://[fe80::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://example.com:22/",
            "http://example.com:8080/",
            "https://example.com:6379/",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
        for url in [
            "http://example.com/",
            "https://example.com/",
            "http://example.com:443/",
            "https://internal.example.com/",
            "http://mylocal.example/",
            "http://notlocalhost.example/",
            "http://8.8.8.8/",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        let open = Reach { allow_private: true, ports: vec![8080], any_port: false };
        assert_eq!(open.check(&Url::parse("http://localhost:8080/").expect("an address")), Ok(()));
        assert!(open.check(&Url::parse("http://localhost/").expect("an address")).is_err());
    }
}
