//! The caller's end of a question: pieces as they come, time-outs that are exact, and a way out that is immediate. Never
//! touches a socket itself.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::model::cancel::Waker;
use crate::model::endpoint::{Ask, Endpoint};
use crate::model::error::{Fault, ModelError};
use crate::model::exchange::connections::{Connections, InUse};
use crate::model::exchange::worker::{self, Job};
use crate::model::request::{Request, Response};
use crate::model::wire::{self, Without};

/// Pieces that wait between the request's thread and the caller; when full, the thread waits and so does the server.
const PIECES_WAITING_MAX: usize = 64;
/// Interval for asking a server that is working whether it still is.
const WORK_LOOK: Duration = Duration::from_secs(30);
/// Longest single wait if the caller names none: only a bound for the clock's arithmetic, no polling.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More of the answer, raw as the model sent it.
    Text(String),
    /// More of its thoughts, raw.
    Thought(String),
    /// The time for the answer to begin is over, but the server reports that it is working: it has this long in all.
    AtWork(Duration),
    /// The answer is whole.
    Done(Box<Response>),
}

/// A message from the request's thread to the caller.
#[derive(Debug)]
pub(in crate::model) enum StreamEvent {
    /// Bytes without text arrived: headers or data, but not comments, which a server may send endlessly.
    Alive,
    Text(String),
    Thought(String),
    End(Result<Box<Response>, Fault>),
    Woken,
}

/// A question on its way. Dropping it ends the request at once and waits for nothing.
#[derive(Debug)]
pub struct Stream {
    heard: Receiver<StreamEvent>,
    waker: Waker,
    question: Option<InUse>,
    connections: Connections,
    /// `true` if the question went out on a connection of an earlier one.
    reuses: bool,
    identity: ModelError,
    phase: Phase,
    first_byte_timeout: Duration,
    busy_timeout: Duration,
    idle_timeout: Duration,
    /// The check whether the server is working, and the time until which it may extend the wait.
    works: Option<(Works, Instant)>,
    /// `true` if the answer has more time because the server is working.
    is_extended: bool,
}

/// Asks whether a server is working.
struct Works(Box<dyn Fn() -> bool + Send>);

impl std::fmt::Debug for Works {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Works")
    }
}

#[derive(Debug)]
enum Phase {
    /// Connecting and waiting for the headers: the thread's own time-outs hold.
    Asked,
    /// The headers are here, no text yet.
    Begun { deadline: Instant },
    /// Text is coming.
    Running { deadline: Instant },
    /// The end, which every further call returns again.
    Ended(Result<Box<Response>, Fault>),
}

/// Sends the request, without the fields that the server has refused, and returns the stream of the answer at once; a failure
/// appears in the stream. The question goes out on the open connection `open` if there is one; after the answer it belongs to
/// `connections`.
pub(in crate::model) fn start(
    endpoint: &Endpoint,
    request: &Request,
    without: Without,
    connections: &Connections,
    open: Option<ureq::Agent>,
) -> Stream {
    let (sender, heard) = sync_channel(PIECES_WAITING_MAX);
    let wake = sender.clone();
    let mut asked = Stream {
        heard,
        // A full channel means that the caller isn't waiting.
        waker: Waker::new(move || {
            let _ = wake.try_send(StreamEvent::Woken);
        }),
        question: None,
        connections: connections.clone(),
        reuses: open.is_some(),
        identity: ModelError::of(endpoint, Fault::ClosedEarly),
        phase: Phase::Asked,
        first_byte_timeout: endpoint.first_byte_timeout,
        busy_timeout: endpoint.busy_timeout,
        idle_timeout: endpoint.idle_timeout,
        works: None,
        is_extended: false,
    };
    if let Err(fault) = asked.launch(endpoint, request, without, sender, open) {
        asked.phase = Phase::Ended(Err(fault));
    }
    asked
}

impl Stream {
    /// Waits for the next piece, at most `wait`: `None` after a silence or a wake-up.
    ///
    /// # Errors
    /// Any [`Fault`], with the model's name. The pieces before it have been returned already.
    pub fn recv_timeout(&mut self, wait: Duration) -> Result<Option<Piece>, Box<ModelError>> {
        let until = Instant::now() + wait.min(WAIT_MAX);
        loop {
            let now = Instant::now();
            let (deadline, fault) = match &self.phase {
                Phase::Ended(end) => return self.ending(end.clone()),
                Phase::Asked => (None, Fault::ClosedEarly),
                Phase::Begun { deadline } => {
                    let limit = if self.is_extended { self.busy_timeout } else { self.first_byte_timeout };
                    (Some(*deadline), Fault::NeverStarted(limit))
                }
                Phase::Running { deadline } => (Some(*deadline), Fault::Stalled(self.idle_timeout)),
            };
            let next = deadline.map_or(until, |deadline| deadline.min(until));
            match self.heard.recv_timeout(next.saturating_duration_since(now)) {
                Ok(StreamEvent::Text(text)) => {
                    self.phase = Phase::Running { deadline: Instant::now() + self.idle_timeout };
                    return Ok(Some(Piece::Text(text)));
                }
                Ok(StreamEvent::Thought(text)) => {
                    self.phase = Phase::Running { deadline: Instant::now() + self.idle_timeout };
                    return Ok(Some(Piece::Thought(text)));
                }
                Ok(StreamEvent::Alive) => self.stay_alive(),
                Ok(StreamEvent::End(end)) => self.phase = Phase::Ended(end),
                Ok(StreamEvent::Woken) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        if self.may_begin_later() {
                            if !std::mem::replace(&mut self.is_extended, true) {
                                return Ok(Some(Piece::AtWork(self.busy_timeout)));
                            }
                            continue;
                        }
                        self.hang_up();
                        self.phase = Phase::Ended(Err(fault));
                    } else if until <= Instant::now() {
                        return Ok(None);
                    }
                }
                // This can't happen while `waker` lives, but would be an end.
                Err(RecvTimeoutError::Disconnected) => self.phase = Phase::Ended(Err(Fault::Cut)),
            }
        }
    }

    /// Waits longer for the answer to begin while the server reports that it is working, as a slow one does that reads a long
    /// prompt.
    pub(in crate::model) fn wait_while(&mut self, works: impl Fn() -> bool + Send + 'static) {
        let now = Instant::now();
        self.works = Some((Works(Box::new(works)), now + self.busy_timeout));
        if matches!(self.phase, Phase::Asked) {
            self.phase = Phase::Begun { deadline: now + self.first_byte_timeout };
        }
    }

    /// Returns whether the answer may begin later, since the server reports that it is working.
    fn may_begin_later(&mut self) -> bool {
        let now = Instant::now();
        let Phase::Begun { deadline } = &mut self.phase else { return false };
        let Some((works, until)) = &self.works else { return false };
        if now >= *until || !(works.0)() {
            return false;
        }
        *deadline = (Instant::now() + self.first_byte_timeout.min(WORK_LOOK)).min(*until);
        true
    }

    /// Returns a handle that wakes this stream's caller.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Ends the request at once: the connection closes, so that the server stops too, and this call doesn't wait.
    pub fn cancel(self) {
        drop(self);
    }

    fn launch(
        &mut self,
        endpoint: &Endpoint,
        request: &Request,
        without: Without,
        sender: SyncSender<StreamEvent>,
        open: Option<ureq::Agent>,
    ) -> Result<(), Fault> {
        let internal = |why: String| Fault::Internal { why };
        let model = request.model.as_deref().unwrap_or(&endpoint.model);
        let address = endpoint.address(if request.whole { Ask::Whole(model) } else { Ask::Stream(model) })?;
        let body = wire::body(request, endpoint, without).map_err(|error| internal(error.to_string()))?;
        let agent = match open {
            Some(agent) => agent,
            None => worker::agent(endpoint, &address)?,
        };
        let question = InUse::new(agent.clone());
        self.question = Some(question.clone());
        let job = Job {
            agent,
            question,
            connections: self.connections.clone(),
            url: address.url,
            body,
            endpoint: endpoint.clone(),
            trace: request.trace.clone(),
        };
        thread::Builder::new()
            .name("model-request".to_owned())
            .spawn(move || worker::run(job, sender))
            .map_err(|error| internal(error.to_string()))?;
        Ok(())
    }

    fn stay_alive(&mut self) {
        match &mut self.phase {
            phase @ (Phase::Asked | Phase::Begun { .. }) => {
                *phase = Phase::Begun { deadline: Instant::now() + self.first_byte_timeout };
            }
            Phase::Running { deadline } => *deadline = Instant::now() + self.idle_timeout,
            Phase::Ended(_) => {}
        }
    }

    fn ending(&self, end: Result<Box<Response>, Fault>) -> Result<Option<Piece>, Box<ModelError>> {
        match end {
            Ok(response) => Ok(Some(Piece::Done(response))),
            Err(fault) => Err(Box::new(ModelError { fault, ..self.identity.clone() })),
        }
    }

    fn hang_up(&mut self) {
        if let Some(question) = self.question.take() {
            question.hang_up();
        }
    }

    /// Returns whether the server had closed the reused connection on which this question was sent.
    pub(in crate::model) fn found_it_closed(&self) -> bool {
        self.reuses && matches!(self.phase, Phase::Ended(Err(Fault::ClosedEarly)))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        match &self.phase {
            Phase::Ended(Ok(_)) => {
                if let Some(question) = &self.question {
                    self.connections.leave(question);
                }
            }
            _ => self.hang_up(),
        }
    }
}
