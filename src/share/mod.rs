//! A live session as others see it: the output of commands, the lines that ran, the model's events, questions. It owns the frames
//! to the gateway and their transport, the stars over secrets, and the rule that a session never waits for its viewers.
//!
//! It must not know the viewers, any drawing, or the keys: no key ever gets here. None of it exists before [`Share::begin`] is
//! called: no thread, no socket.
//!
//! ```text
//! share-out      takes the gathered items, hides secrets, sends frames
//! share-control  receives the viewers, and answers to questions
//! ```

mod card;
mod elsewhere;
mod http;
mod publisher;
mod queue;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::proto::Event;
use crate::proto::tool::Question;
use crate::proto::wire::Line;
use crate::redact::Redactor;

pub use card::card;
pub use elsewhere::{ELSEWHERE_WAIT, Elsewhere, Refusal, RemoteAnswer};
pub use http::{Place, Team};

use http::{Connection, Request};
use publisher::Link;
use queue::Queue;

/// The name of the gateway's socket in the state directory.
pub const SOCKET_NAME: &str = "gateway.sock";
/// Means everyone in the lists of viewers and approvers.
pub const EVERYBODY: &str = "*";
/// Limit on a question for others, in bytes; a longer one is only asked at the terminal.
const CARD_BYTES_MAX: usize = 160 * 1024;
/// Time for a gateway to take a session, with the look-up of its name.
const BEGIN_WAIT: Duration = Duration::from_secs(10);
/// Time that the end of a session waits for its last frames.
const END_WAIT: Duration = Duration::from_secs(1);

/// The wishes of the person who shares a session: what, and with whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `shell` or `agent`.
    pub kind: &'static str,
    /// A line about it.
    pub title: String,
    /// The size of its screen.
    pub columns: u16,
    /// The size of its screen.
    pub rows: u16,
    /// The users who may watch; [`EVERYBODY`] means all members.
    pub watch: Vec<String>,
    /// The users who may watch and answer; [`EVERYBODY`] means all approvers.
    pub approve: Vec<String>,
}

impl Wanted {
    /// The body of the request that begins to share.
    fn to_json(&self) -> Value {
        json!({"kind": self.kind, "title": self.title, "cols": self.columns, "rows": self.rows, "watch": self.watch,
            "approve": self.approve, "record": true})
    }
}

/// Reason why a session isn't shared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// No gateway listens.
    #[error("no gateway runs here")]
    NoGateway,
    /// The gateway refuses.
    #[error("{place} refuses to share it: {why}")]
    Refused {
        /// The gateway.
        place: String,
        /// The code for programs.
        code: String,
        /// The gateway's own words.
        why: String,
    },
    /// The other side isn't a gateway, or doesn't answer.
    #[error("{place} {why}")]
    Failed {
        /// The gateway.
        place: String,
        /// The problem, as the rest of a sentence.
        why: String,
    },
}

impl ShareError {
    /// The next step for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoGateway => "reedclaw gateway --open starts one; share.gateway in the config names one elsewhere",
            Self::Failed { .. } => "share.gateway in the config has its address; without it a gateway of yours is used",
            Self::Refused { code, .. } => match code.as_str() {
                "unauthenticated" => "share.token_env names the variable with a token that counts there",
                "not_a_member" => "share.tenant names the tenant; an admin there adds you with reedclaw gateway member",
                "mode_mismatch" => "share.mode is the mode of that tenant",
                "misdirected" => "share.gateway must have the name by which that gateway is called",
                _ => "",
            },
        }
    }
}

/// A session that is shared, until this is dropped.
#[derive(Debug)]
pub struct Share {
    url: String,
    /// The named users who aren't members.
    unknown: Vec<String>,
    wanted: Wanted,
    queue: Arc<Queue>,
    asked: AtomicU64,
    /// Gets a word when the last frames are sent.
    sent: Receiver<()>,
}

impl Share {
    /// Begins to share, by a gateway. `ended` is called once it is over, also if the gateway has ended it.
    ///
    /// # Errors
    /// There is no gateway, it refuses, or there are no more threads.
    pub fn begin(
        place: &Place,
        wanted: Wanted,
        redactor: Redactor,
        ended: Box<dyn Fn() + Send>,
    ) -> Result<Self, ShareError> {
        let queue = Arc::<Queue>::default();
        let (begins, begun) = sync_channel(1);
        let (ends, sent) = sync_channel(1);
        let failed = |why: String| ShareError::Failed { place: place.to_string(), why };
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let (out, to, what) = (Arc::clone(&queue), place.clone(), wanted.clone());
        let publish = move || {
            let mut connection = Connection::new(to.clone());
            let (line, link) = match open(&mut connection, to, &what, &redactor) {
                Ok(opened) => opened,
                Err(error) => return drop(begins.send(Err(error))),
            };
            if begins.send(Ok((line, link.clone()))).is_err() {
                // The gateway answered too late: the caller has stopped waiting.
                out.end();
            }
            publisher::publish(&out, &link, &mut connection, &redactor);
            let _ = ends.send(());
            ended();
        };
        let no_thread = |error: std::io::Error| failed(format!("isn't asked: {error}"));
        thread("share-out").spawn(publish).map_err(no_thread)?;
        let late = || failed(format!("doesn't answer in {} seconds", BEGIN_WAIT.as_secs()));
        let ((url, unknown), link) = begun.recv_timeout(BEGIN_WAIT).map_err(|_| late())??;
        let control = Arc::clone(&queue);
        let hear = move || publisher::control(&control, &link);
        if let Err(error) = thread("share-control").spawn(hear) {
            queue.end();
            return Err(no_thread(error));
        }
        Ok(Self { url, unknown, wanted, queue, asked: AtomicU64::new(0), sent })
    }

    /// The address at which it can be watched.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The users that were named and aren't members, so that they don't see it.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// The wishes with which it began.
    #[must_use]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The number of current viewers.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.queue.viewers()
    }

    /// Reason why it is over, if the gateway has ended it.
    #[must_use]
    pub fn is_over(&self) -> Option<String> {
        self.queue.over_by_gateway()
    }

    /// Returns whether the gateway doesn't answer now, so that frames wait for it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.queue.is_waiting()
    }

    /// A handle for the output of programs.
    #[must_use]
    pub fn output(&self) -> Output {
        Output(Arc::clone(&self.queue))
    }

    /// A line was submitted: to the `shell`, the `model`, or as a `meta` line. Of a hidden one, viewers see that there was one, and
    /// not what; its text is read for secrets before it is sent.
    pub fn line(&self, text: &str, to: &str, is_hidden: bool) {
        self.queue.push(json!({"k": "l", "text": text, "to": to, "hidden": is_hidden}), false);
    }

    /// Reports the end of a command.
    pub fn command_ended(&self, status: i32, duration: Duration, cwd: Option<&Path>) {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let cwd = cwd.map(|cwd| cwd.display().to_string());
        self.queue.push(json!({"k": "c", "status": status, "ms": ms, "cwd": cwd}), false);
    }

    /// Reports an event of an answer.
    pub fn event(&self, event: &Event) {
        let line: Value = serde_json::from_str(&Line::of(event).to_json()).unwrap_or_default();
        self.queue.push(json!({"k": "e", "event": line}), false);
    }

    /// The person at the terminal is asked: others may answer, too, if that was wanted.
    pub fn ask(&self, question: &Question) -> Option<Arc<Elsewhere>> {
        let may_answer = !self.wanted.approve.is_empty() && !question.only_own_shell && self.is_over().is_none();
        let card = card(question);
        let is_short = card.to_string().len() <= CARD_BYTES_MAX;
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let may_answer = may_answer && is_short;
        let mut frame = json!({"k": "q", "number": number, "may_answer": may_answer});
        frame["card"] =
            if is_short { card } else { json!({"tool": question.tool, "action": "too long to be shown here"}) };
        frame["digest"] = question.digest.clone().into();
        let whom = if self.wanted.approve.iter().any(|user| user == EVERYBODY) {
            "every approver".to_owned()
        } else {
            self.wanted.approve.join(", ")
        };
        let open = Arc::new(Elsewhere::new(number, question.digest.clone(), whom));
        if may_answer {
            self.queue.open(Some(Arc::clone(&open)));
        }
        self.queue.push(frame, true);
        may_answer.then_some(open)
    }

    /// The question that was asked last is over: it was answered at the terminal with `word`, or elsewhere.
    pub fn answered(&self, word: &str, by: Option<&str>) {
        self.queue.open(None);
        // An answer from elsewhere was reported when it came.
        if by.is_none() {
            let number = self.asked.load(Ordering::Relaxed);
            self.queue.push(json!({"k": "a", "number": number, "answer": word, "by": null}), true);
        }
    }
}

const JSON: &str = "application/json";

/// The address for viewers, and the named users who aren't members.
type Opened = (String, Vec<String>);

/// Asks a gateway to share a session; returns its address for viewers, and the link to the gateway.
fn open(
    connection: &mut Connection,
    place: Place,
    wanted: &Wanted,
    redactor: &Redactor,
) -> Result<(Opened, Link), ShareError> {
    let wanted = Wanted { title: redactor.redact(&wanted.title).text.into_owned(), ..wanted.clone() };
    let body = wanted.to_json().to_string();
    let request = Request { method: "POST", path: "/shares", token: None, kind: JSON, body: body.as_bytes() };
    let named = place.to_string();
    let failed = |why: String| ShareError::Failed { place: named.clone(), why };
    let answer = connection.ask(&request).map_err(|error| match (&place, error.kind()) {
        (Place::Here(_), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => ShareError::NoGateway,
        _ => failed(format!("can't be reached: {error}")),
    })?;
    let text = |name: &str| answer.body[name].as_str().map(str::to_owned);
    if let (Some(url), Some(id), Some(token)) = (text("url"), text("share_id"), text("publish_token")) {
        let unknown =
            answer.body["unknown"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned));
        return Ok(((url, unknown.collect()), Link::new(place, id, token, wanted)));
    }
    let error = &answer.body["error"];
    match (error["code"].as_str(), error["message"].as_str()) {
        (Some(code), Some(why)) => {
            Err(ShareError::Refused { place: named, code: code.to_owned(), why: why.to_owned() })
        }
        _ => Err(failed(format!("isn't one, or isn't there: the answer is HTTP {}", answer.status))),
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.queue.end();
        let _ = self.sent.recv_timeout(END_WAIT);
    }
}

/// Accepts the output of programs, without ever waiting.
#[derive(Clone, Debug)]
pub struct Output(Arc<Queue>);

impl Output {
    /// Takes bytes that were written to the terminal.
    pub fn write(&self, bytes: &[u8]) {
        self.0.push_output(bytes);
    }

    /// Reports the new size of the terminal.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.0.push(json!({"k": "r", "cols": columns, "rows": rows}), false);
    }
}
