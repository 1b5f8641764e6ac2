//! The transport of the oldest servers with an address (HTTP with events, version 2024-11-05): one stream brings all answers, and
//! its first event names the address for requests, which must be at the same server.

use futures::stream::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use ureq::http::Uri;

use super::http::{Http, HttpError};
use super::listen::Task;

/// Bytes between the stream and the protocol.
const BUFFER_BYTES: usize = 64 << 10;

/// An open connection: lines of the protocol, and the tasks that carry them.
pub(super) struct Lines {
    pub(super) output: ReadHalf<DuplexStream>,
    pub(super) input: WriteHalf<DuplexStream>,
    pub(super) tasks: Vec<Task>,
}

/// Opens the stream of a server, and waits for the address for requests.
///
/// # Errors
/// The server isn't reached, wants a login, has no such stream, or names an address of another server.
pub(super) async fn open(http: &Http) -> Result<Lines, HttpError> {
    let mut events = http.events().await?;
    let broken = |why: &str| HttpError::Broken(why.to_owned());
    let first = events.next().await.ok_or_else(|| broken("its stream ended at once"))?;
    let first = first.map_err(|error| HttpError::Broken(error.to_string()))?;
    let named = first.data.filter(|_| first.event.as_deref() == Some("endpoint"));
    let named = named.ok_or_else(|| broken("its stream doesn't begin with an address for requests"))?;
    let address = endpoint(http.url(), named.trim())
        .ok_or_else(|| broken("its address for requests is at another server, and isn't used"))?;
    let (ours, theirs) = duplex(BUFFER_BYTES);
    let ((output, input), (requests, mut answers)) = (split(ours), split(theirs));
    let reader = tokio::spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
            let Some(data) = event.data.filter(|_| is_message) else { continue };
            // Line ends between the parts of a JSON text are blanks, too.
            let line = format!("{}\n", data.replace(['\n', '\r'], " "));
            if answers.write_all(line.as_bytes()).await.is_err() {
                break;
            }
        }
        let _ = answers.shutdown().await;
    });
    let http = http.clone();
    let stream = reader.abort_handle();
    let writer = tokio::spawn(async move {
        let mut lines = BufReader::new(requests).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if http.post_to(&address, line.into_bytes()).await.is_err() {
                // It is unknown which answer won't come, so the connection ends.
                stream.abort();
                break;
            }
        }
    });
    Ok(Lines { output, input, tasks: vec![Task::of(reader), Task::of(writer)] })
}

/// The address for requests, if it is at the same server.
fn endpoint(base: &str, named: &str) -> Option<String> {
    let base: Uri = base.parse().ok()?;
    let origin = format!("{}://{}", base.scheme_str()?, base.authority()?);
    let whole = match named {
        _ if named.contains("://") => named.to_owned(),
        _ if named.starts_with("//") => return None,
        _ if named.starts_with('/') => format!("{origin}{named}"),
        _ => format!("{origin}{}{named}", &base.path()[..base.path().rfind('/')? + 1]),
    };
    let uri: Uri = whole.parse().ok()?;
    let is_same = uri.scheme_str() == base.scheme_str() && uri.authority() == base.authority();
    is_same.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_the_same_server_only() {
        let base = "https://a.example:8443/v1/sse";
        for (named, expected) in [
            ("/messages?id=1", Some("https://a.example:8443/messages?id=1")),
            ("messages", Some("https://a.example:8443/v1/messages")),
            ("https://a.example:8443/m", Some("https://a.example:8443/m")),
            ("http://a.example:8443/m", None),
            ("https://a.example/m", None),
            ("https://b.example/m", None),
            ("//b.example/m", None),
            ("https://a.example:8443@b.example/m", None),
        ] {
            assert_eq!(endpoint(base, named).as_deref(), expected, "{named}");
        }
    }
}
