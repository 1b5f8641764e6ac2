//! The public figures of a running gateway, which it shows without a token.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Wait for a gateway that may hang.
const WAIT: Duration = Duration::from_secs(2);
/// Bytes of its answer.
const BYTES_MAX: u64 = 1024 * 1024;

/// The figures without labels of the gateway that listens at an address; `None` if nothing answers there.
#[must_use]
pub fn figures_at(address: &str) -> Option<BTreeMap<String, u64>> {
    let to: SocketAddr = address.parse().ok()?;
    let mut socket = TcpStream::connect_timeout(&to, WAIT).ok()?;
    socket.set_read_timeout(Some(WAIT)).ok()?;
    socket
        .write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    socket.take(BYTES_MAX).read_to_string(&mut answer).ok()?;
    let (head, text) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| figures(text))
}

fn figures(text: &str) -> BTreeMap<String, u64> {
    let plain = text.lines().filter(|line| !line.starts_with('#') && !line.contains('{'));
    plain
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_labels_are_read() {
        let found = figures("# TYPE a gauge\na 5\nb{x=\"1\"} 7\nc 1.5\n");
        assert_eq!(found, [("a".to_owned(), 5)].into());
    }
}
