//! A minimal client of NATS JetStream: it publishes a message and waits for the stream's acknowledgement, and requests the last
//! message of a subject. It knows neither events nor tenants. The protocol is that of docs.nats.io/reference/reference-protocols.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::base64;
use crate::host::{Authorities, Wire};
use crate::ledger::uuid_v7;

/// The default port.
const PORT: u16 = 4222;
/// The longest wait for the server.
const WAIT: Duration = Duration::from_secs(5);
/// Limit on a line, in bytes; that of `INFO` is the longest.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The address of a server, with the login.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    is_encrypted: bool,
    login: Option<Login>,
}

// Logs must not contain a password, so only tests can print it.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone, PartialEq, Eq)]
enum Login {
    Token(String),
    User(String, String),
}

impl Address {
    /// Reads `nats://[TOKEN@|USER:PASSWORD@]HOST[:PORT]`, or the same with `tls://`, which encrypts the connection.
    ///
    /// # Errors
    /// The text isn't such an address, or names another machine without encryption.
    pub fn read(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("the address must begin with nats:// or tls://")?;
        let is_encrypted = match scheme {
            "nats" => false,
            "tls" => true,
            _ => return Err("the address must begin with nats:// or tls://".into()),
        };
        let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        let login = login.map(|login| match login.split_once(':') {
            Some((user, password)) => Login::User(user.to_owned(), password.to_owned()),
            None => Login::Token(login.to_owned()),
        });
        let place = place.trim_end_matches('/');
        let split = place.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = split.unwrap_or((place, PORT));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        match is_here || is_encrypted && !host.is_empty() {
            true => Ok(Self { host: host.to_owned(), port, is_encrypted, login }),
            false => Err(format!("{host:?} isn't this machine, and nothing encrypts the connection")),
        }
    }
}

/// A connection.
pub struct Connection {
    wire: BufReader<Wire>,
    /// The prefix of the subjects for answers.
    inbox: String,
    asked: u64,
}

/// An operation of the server.
enum Operation {
    Info(Value),
    Message(Message),
    Ping,
    Pong,
    Refused(String),
    Other,
}

/// An answer.
struct Message {
    subject: String,
    /// The status in its headers, such as 503 if the subject has no subscriber.
    status: String,
    payload: Vec<u8>,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server can't be reached, refuses the login, or needs what this client doesn't have.
    pub fn open(address: &Address, authorities: &Authorities) -> io::Result<Self> {
        let wire = Wire::tcp(&address.host, address.port, WAIT)?;
        wire.set_waits(WAIT, WAIT)?;
        let wire = BufReader::new(wire);
        let mut connection = Self { wire, inbox: format!("_INBOX.{}", uuid_v7()), asked: 0 };
        let Operation::Info(info) = connection.next()? else {
            return Err(io::Error::other("it isn't a server of NATS"));
        };
        if address.is_encrypted {
            // The reader's buffer is empty: the server waits for the handshake after its first line.
            let wire = connection.wire.into_inner().encrypt(&address.host, authorities)?;
            connection = Self { wire: BufReader::new(wire), ..connection };
        } else if info["tls_required"] == true {
            return Err(io::Error::other("the server wants an encrypted connection: use tls:// in its address"));
        }
        let mut options = json!({"verbose": false, "pedantic": false, "headers": true, "no_responders": true, "protocol": 1,
            "lang": "rust", "name": "reedclaw", "version": env!("CARGO_PKG_VERSION")});
        match &address.login {
            None => {}
            Some(Login::Token(token)) => options["auth_token"] = token.as_str().into(),
            Some(Login::User(user, password)) => {
                options["user"] = user.as_str().into();
                options["pass"] = password.as_str().into();
            }
        }
        let inbox = connection.inbox.clone();
        connection.write(format!("CONNECT {options}\r\nSUB {inbox}.* 1\r\n").as_bytes())?;
        connection.check()?;
        Ok(connection)
    }

    /// Checks that the server responds, and answers the server's own pings meanwhile.
    ///
    /// # Errors
    /// The server doesn't respond, or has refused something.
    pub fn check(&mut self) -> io::Result<()> {
        self.write(b"PING\r\n")?;
        loop {
            match self.next()? {
                Operation::Pong => return Ok(()),
                Operation::Ping => self.write(b"PONG\r\n")?,
                Operation::Refused(why) => return Err(io::Error::other(why)),
                Operation::Info(_) | Operation::Message(_) | Operation::Other => {}
            }
        }
    }

    /// Publishes a message, and returns when the stream has stored it, or has one with this id.
    ///
    /// # Errors
    /// The stream doesn't take it, or the connection breaks: then it is unknown whether the stream has it.
    pub fn publish(&mut self, stream: &str, subject: &str, id: &str, payload: &[u8]) -> io::Result<()> {
        let headers = format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\nNats-Expected-Stream: {stream}\r\n\r\n");
        let answer = self.ask(subject, &headers, payload)?;
        let value = answer.value(subject)?;
        match (refusal(&value), value["stream"] == stream && value["seq"].is_u64()) {
            (None, true) => Ok(()),
            (Some((_, why)), _) => Err(io::Error::other(why)),
            (None, false) => Err(io::Error::other(format!("no stream {stream} has stored it"))),
        }
    }

    /// Returns the id of the newest message of a subject, if the stream has any.
    ///
    /// # Errors
    /// The stream doesn't answer, or the connection breaks.
    pub fn last_id(&mut self, stream: &str, subject: &str) -> io::Result<Option<String>> {
        let wanted = json!({"last_by_subj": subject}).to_string();
        let answer = self.ask(&format!("$JS.API.STREAM.MSG.GET.{stream}"), "", wanted.as_bytes())?;
        let value = answer.value("JetStream")?;
        match refusal(&value) {
            Some((404, _)) => return Ok(None),
            Some((_, why)) => return Err(io::Error::other(why)),
            None => {}
        }
        let headers = value["message"]["hdrs"].as_str().and_then(base64::decode).unwrap_or_default();
        let headers = String::from_utf8_lossy(&headers).into_owned();
        Ok(headers.lines().find_map(|line| line.strip_prefix("Nats-Msg-Id:").map(|id| id.trim().to_owned())))
    }

    /// Sends a message and waits for its answer.
    fn ask(&mut self, subject: &str, headers: &str, payload: &[u8]) -> io::Result<Message> {
        self.asked += 1;
        let reply = format!("{}.{}", self.inbox, self.asked);
        let whole = headers.len() + payload.len();
        let first = match headers.len() {
            0 => format!("PUB {subject} {reply} {whole}\r\n"),
            length => format!("HPUB {subject} {reply} {length} {whole}\r\n"),
        };
        self.write(&[first.as_bytes(), headers.as_bytes(), payload, b"\r\n"].concat())?;
        loop {
            match self.next()? {
                Operation::Message(message) if message.subject == reply => return Ok(message),
                Operation::Ping => self.write(b"PONG\r\n")?,
                Operation::Refused(why) => return Err(io::Error::other(why)),
                Operation::Message(_) | Operation::Info(_) | Operation::Pong | Operation::Other => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.get_mut().write_all(bytes)?;
        self.wire.get_mut().flush()
    }

    /// Reads the next operation of the server.
    fn next(&mut self) -> io::Result<Operation> {
        let mut line = String::new();
        let read = self.wire.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        Ok(match word.to_ascii_uppercase().as_str() {
            "INFO" => Operation::Info(serde_json::from_str(rest).unwrap_or_default()),
            "PING" => Operation::Ping,
            "PONG" => Operation::Pong,
            "-ERR" => Operation::Refused(rest.trim_matches(['\'', ' ']).to_owned()),
            "MSG" | "HMSG" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                Operation::Message(self.message(&words, word.len() == 4)?)
            }
            _ => Operation::Other,
        })
    }

    /// Reads the message that a line announces: its subject, the subscription, possibly a reply subject, and its lengths.
    fn message(&mut self, words: &[&str], has_headers: bool) -> io::Result<Message> {
        let wrong = || io::Error::other("the server's answer can't be read");
        let number = |word: Option<&&str>| word.and_then(|word| word.parse::<usize>().ok()).ok_or_else(wrong);
        let whole = number(words.last())?;
        let head = if has_headers { number(words.get(words.len().saturating_sub(2)))? } else { 0 };
        if whole > ANSWER_BYTES_MAX || head > whole {
            return Err(wrong());
        }
        let mut bytes = vec![0; whole + 2];
        self.wire.read_exact(&mut bytes)?;
        bytes.truncate(whole);
        let payload = bytes.split_off(head);
        let status = String::from_utf8_lossy(&bytes);
        let status = status.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
        let subject = words.first().copied().unwrap_or_default().to_owned();
        Ok(Message { subject, status, payload })
    }
}

impl Message {
    /// The answer as JSON.
    fn value(&self, asked: &str) -> io::Result<Value> {
        if self.status == "503" {
            return Err(io::Error::other(format!("no stream takes {asked}")));
        }
        serde_json::from_slice(&self.payload).map_err(io::Error::other)
    }
}

/// Returns the code and the text of an answer that refuses something.
fn refusal(answer: &Value) -> Option<(i64, String)> {
    let error = answer.get("error")?;
    let why = error["description"].as_str().unwrap_or("it was refused").to_owned();
    Some((error["code"].as_i64().unwrap_or_default(), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_server_of_this_machine_and_perhaps_a_login() {
        let read = |text: &str| Address::read(text).map(|it| (it.host, it.port, it.login));
        assert_eq!(read("nats://127.0.0.1"), Ok(("127.0.0.1".into(), 4222, None)));
        assert_eq!(read("nats://[::1]:5/"), Ok(("::1".into(), 5, None)));
        assert_eq!(read("nats://[::1]"), Ok(("::1".into(), 4222, None)));
        let login = Login::User("anna".into(), "a:b@c".into());
        assert_eq!(read("nats://anna:a:b@c@localhost:4333"), Ok(("localhost".into(), 4333, Some(login))));
        assert_eq!(read("nats://word@localhost"), Ok(("localhost".into(), 4222, Some(Login::Token("word".into())))));
        assert!(Address::read("tls://db.example").is_ok_and(|it| it.is_encrypted));
        for wrong in
            ["", "127.0.0.1:4222", "http://127.0.0.1", "nats://", "tls://", "nats://db.example", "nats://10.0.0.1:4222"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
