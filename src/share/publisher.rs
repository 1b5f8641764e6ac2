//! The two threads of a shared session: one hides secrets and sends frames, the other receives the viewers and their answers.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::elsewhere::{Refusal, RemoteAnswer};
use super::http::{Connection, Place, Request};
use super::queue::{Batch, Item, Queue};
use super::{EVERYBODY, JSON, Wanted};
use crate::base::base64;
use crate::redact::{Redactor, Settling, Stars};

/// Bytes of one request with frames.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Bytes that wait while the gateway doesn't answer; older output goes.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of output in a frame.
const FRAME_BYTES: usize = 16 * 1024;
/// Characters of a text in a frame.
const TEXT_CHARS_MAX: usize = 32 * 1024;
/// Time for which output is held back that may become a secret.
const HELD: Duration = Duration::from_millis(50);
/// Interval at which the session reports that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Longest silence of the gateway, which sends signs of life, too; a longer one means a lost connection.
const SILENCE: Duration = Duration::from_secs(45);
/// Waits between attempts, the first and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// The way to the gateway.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub place: Place,
    pub id: String,
    /// The publisher's secret; a restarted gateway issues another.
    token: Arc<Mutex<String>>,
    /// The wishes with which it began; their title has no secrets.
    pub wanted: Wanted,
}

impl Link {
    pub fn new(place: Place, id: String, token: String, wanted: Wanted) -> Self {
        Self { place, id, token: Arc::new(Mutex::new(token)), wanted }
    }

    fn token(&self) -> String {
        self.token.lock().clone()
    }
}

/// A frame that waits.
struct Waiting {
    text: String,
    /// Bytes of output in it; zero for other frames, which are never dropped.
    output_bytes: usize,
}

/// Frames on their way, made harmless.
struct Outgoing {
    /// Knows the secrets of submitted lines, too: what prints them later names no place by which they are found.
    redactor: Redactor,
    stars: Stars,
    /// Pieces of an answer and of a thought.
    pieces: [Settling; 2],
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Frames at the front that have a number already.
    numbered: usize,
    lost: u64,
    /// The open question, for a gateway that is restarted.
    question: Option<String>,
}

/// Sends frames until the session is over.
pub(super) fn publish(queue: &Queue, link: &Link, connection: &mut Connection, redactor: &Redactor) {
    let mut out = Outgoing::new(redactor);
    let (mut accepted, mut spoken, mut again) = (0, Instant::now(), None::<Duration>);
    loop {
        let wait = match again {
            Some(wait) => wait,
            None if out.stars.holds() => HELD,
            None => HEARTBEAT.saturating_sub(spoken.elapsed()),
        };
        let batch = queue.take(wait);
        let (is_over, is_idle) = (batch.is_over, batch.items.is_empty());
        out.take(batch);
        if is_idle || is_over {
            out.release();
        }
        if is_over {
            out.push(json!({"k": "end"}), 0);
        }
        while !out.waiting.is_empty() || spoken.elapsed() >= HEARTBEAT {
            let sent = send(connection, link, &mut out, &mut accepted).or_else(|why| match why {
                // Waiting frames go with the next attempt.
                Unsent::Unknown => resume(queue, link, connection, (&mut out, &mut accepted)).and(Err(Unsent::Later)),
                why => Err(why),
            });
            match sent {
                Ok(()) => {
                    (spoken, again) = (Instant::now(), None);
                    queue.set_waiting(false);
                }
                Err(Unsent::Later) => {
                    queue.set_waiting(true);
                    again = Some(again.map_or(AGAIN.0, |wait| (wait * 2).min(AGAIN.1)));
                    break;
                }
                Err(Unsent::Unknown) => return queue.end_by_gateway(UNKNOWN.into()),
                Err(Unsent::Ended(why)) => return queue.end_by_gateway(why),
            }
        }
        if is_over {
            return;
        }
    }
}

/// The reason that is shown if a restarted gateway doesn't accept the session.
const UNKNOWN: &str = "the gateway doesn't know it any more; share it again";

/// Reason why frames weren't accepted.
enum Unsent {
    /// The session isn't shared any more.
    Ended(String),
    /// The gateway doesn't know the session: perhaps it was restarted.
    Unknown,
    /// The gateway doesn't answer now.
    Later,
}

/// Sends as many frames as one request holds.
fn send(connection: &mut Connection, link: &Link, out: &mut Outgoing, accepted: &mut u64) -> Result<(), Unsent> {
    let mut body = String::new();
    let mut count = 0;
    for (number, frame) in (*accepted + 1..).zip(&out.waiting) {
        let line = format!("{{\"seq\":{number},{}\n", &frame.text[1..]);
        if count > 0 && body.len() + line.len() > REQUEST_BYTES_MAX {
            break;
        }
        body.push_str(&line);
        count += 1;
    }
    // From now on the gateway may know these frames, so their numbers are fixed.
    out.numbered = out.numbered.max(count);
    let path = format!("/shares/{}/frames", link.id);
    let request = Request {
        method: "POST",
        path: &path,
        token: Some(&link.token()),
        kind: "application/x-ndjson",
        body: body.as_bytes(),
    };
    let answer = connection.ask(&request).map_err(|_| Unsent::Later)?;
    let known = match answer.status {
        202 => answer.body["accepted_to"].as_u64(),
        409 => answer.body["error"]["context"]["expected_seq"].as_u64().map(|next| next.saturating_sub(1)),
        // A proxy answers like this for an unreachable gateway.
        408 | 429 | 500..600 => return Err(Unsent::Later),
        401 | 404 | 410 => return Err(Unsent::Unknown),
        status => return Err(Unsent::Ended(format!("the gateway refuses it ({status})"))),
    };
    let known = known.ok_or_else(|| Unsent::Ended("the gateway answers something else".into()))?;
    if known < *accepted || answer.status == 409 && known == *accepted {
        return Err(Unsent::Ended("the gateway has lost a part of it".into()));
    }
    out.forget(usize::try_from(known - *accepted).unwrap_or(usize::MAX));
    *accepted = known;
    Ok(())
}

/// Asks a restarted gateway to continue the session, under the same address. Frames that the previous one may have received get
/// new numbers, and viewers a new picture.
fn resume(
    queue: &Queue,
    link: &Link,
    connection: &mut Connection,
    (out, accepted): (&mut Outgoing, &mut u64),
) -> Result<(), Unsent> {
    let last = *accepted + u64::try_from(out.numbered).unwrap_or(u64::MAX) + 1;
    let mut body = link.wanted.to_json();
    (body["share_id"], body["after"]) = (link.id.as_str().into(), last.into());
    let body = body.to_string();
    let request = Request { method: "POST", path: "/shares", token: None, kind: JSON, body: body.as_bytes() };
    let answer = connection.ask(&request).map_err(|_| Unsent::Later)?;
    match answer.status {
        201 => {}
        408 | 429 | 500..600 => return Err(Unsent::Later),
        410 => {
            let why = answer.body["error"]["context"]["why"].as_str().unwrap_or(UNKNOWN);
            return Err(Unsent::Ended(why.to_owned()));
        }
        _ => return Err(Unsent::Unknown),
    }
    let token = answer.body["publish_token"].as_str().ok_or(Unsent::Unknown)?;
    *link.token.lock() = token.to_owned();
    (*accepted, out.numbered) = (last, 0);
    out.ask_again();
    queue.is_back();
    Ok(())
}

impl Outgoing {
    fn new(redactor: &Redactor) -> Self {
        Self {
            redactor: redactor.clone(),
            stars: Stars::default(),
            pieces: Default::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            numbered: 0,
            lost: 0,
            question: None,
        }
    }

    /// Puts the open question at the front, unless it is still waiting to be sent.
    fn ask_again(&mut self) {
        let Some(question) = &self.question else { return };
        if self.waiting.iter().all(|waiting| waiting.text != *question) {
            self.waiting_bytes += question.len();
            self.waiting.push_front(Waiting { text: question.clone(), output_bytes: 0 });
        }
    }

    fn take(&mut self, batch: Batch) {
        for item in batch.items {
            match item {
                Item::Output(at, bytes) => {
                    let bytes = self.stars.push(&self.redactor, &bytes);
                    self.output(at, &bytes);
                }
                Item::Frame(at, frame) => self.frame(at, frame),
                Item::Gap(bytes) => {
                    self.release();
                    self.lost += bytes;
                    self.gap();
                }
            }
        }
        self.gap();
    }

    /// Reports dropped output to the gateway.
    fn gap(&mut self) {
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            self.push(json!({"k": "g", "bytes": lost}), 0);
        }
    }

    /// Releases output that was held back, since nothing has arrived that would decide about it.
    fn release(&mut self) {
        let bytes = self.stars.release(&self.redactor);
        self.output(0, &bytes);
    }

    fn output(&mut self, at: u64, bytes: &[u8]) {
        for piece in bytes.chunks(FRAME_BYTES) {
            let mut frame = json!({"k": "o", "d": base64::encode(piece)});
            if at > 0 {
                frame["at_ms"] = at.into();
            }
            self.push(frame, piece.len());
        }
    }

    fn frame(&mut self, at: u64, mut frame: Value) {
        self.release();
        if frame["k"] == "l" {
            self.learn(&mut frame);
        }
        let digest = frame.as_object_mut().and_then(|fields| fields.remove("digest"));
        if frame["k"] == "e" {
            self.settle_pieces(at, &mut frame);
            if frame.is_null() {
                return;
            }
        } else {
            frame = redacted(&self.redactor, frame);
        }
        if let Some(digest) = digest {
            frame["digest"] = digest;
        }
        frame["at_ms"] = at.into();
        match frame["k"].as_str() {
            Some("q") => self.question = Some(frame.to_string()),
            Some("a") => self.question = None,
            _ => {}
        }
        self.push(frame, 0);
    }

    /// Remembers the secrets of a submitted line, and removes the text of a hidden one.
    fn learn(&mut self, frame: &mut Value) {
        if let Some(knowing) = frame["text"].as_str().and_then(|text| self.redactor.knowing(text)) {
            self.redactor = knowing;
        }
        if frame["hidden"] == true {
            frame["text"] = "".into();
        }
    }

    /// Hides secrets in an event of an answer, also those that come in two pieces.
    fn settle_pieces(&mut self, at: u64, frame: &mut Value) {
        let kind = frame["event"]["event"].as_str().unwrap_or_default().to_owned();
        let kinds = ["text", "thought"];
        let is_piece = kinds.iter().position(|it| *it == kind);
        for (number, name) in kinds.iter().enumerate() {
            if is_piece == Some(number) {
                continue;
            }
            let (rest, _) = self.pieces[number].finish(&self.redactor);
            if !rest.is_empty() {
                let event = json!({"event": name, "text": rest});
                self.push(json!({"k": "e", "at_ms": at, "event": event}), 0);
            }
        }
        let Some(number) = is_piece else {
            *frame = redacted(&self.redactor, frame.take());
            return;
        };
        let text = frame["event"]["text"].as_str().unwrap_or_default().to_owned();
        let (text, _) = self.pieces[number].push(&self.redactor, &text);
        if text.is_empty() {
            *frame = Value::Null;
        } else {
            frame["event"]["text"] = text.into();
        }
    }

    fn push(&mut self, frame: Value, output_bytes: usize) {
        let text = frame.to_string();
        self.waiting_bytes += text.len();
        self.waiting.push_back(Waiting { text, output_bytes });
        while self.waiting_bytes > WAITING_BYTES_MAX {
            // Frames that the gateway may already know are never dropped.
            let output = (self.numbered..self.waiting.len()).find(|at| self.waiting[*at].output_bytes > 0);
            let Some(gone) = output.and_then(|at| self.waiting.remove(at)) else { break };
            self.waiting_bytes -= gone.text.len();
            self.lost += gone.output_bytes as u64;
        }
    }

    /// Forgets frames that the gateway has.
    fn forget(&mut self, count: usize) {
        let count = count.min(self.waiting.len());
        for frame in self.waiting.drain(..count) {
            self.waiting_bytes -= frame.text.len();
        }
        self.numbered = self.numbered.saturating_sub(count);
    }
}

/// The same value, with the secrets of its texts hidden and long ones cut.
fn redacted(redactor: &Redactor, value: Value) -> Value {
    match value {
        Value::String(text) => cut(redactor.redact(&text).text.into_owned()).into(),
        Value::Array(items) => items.into_iter().map(|item| redacted(redactor, item)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, field)| (name, redacted(redactor, field)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Truncates a text at its limit. Line ends remain: the page makes characters visible that would hide or reverse text.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Handles the gateway's messages about a session until it is over.
pub(super) fn control(queue: &Queue, link: &Link) {
    let mut again = AGAIN.0;
    while !queue.is_over() {
        if let Ok(true) = hear(queue, link) {
            again = AGAIN.0;
        }
        queue.rest(again);
        again = (again * 2).min(AGAIN.1);
    }
}

/// Handles events until the connection is lost; returns whether there was one.
fn hear(queue: &Queue, link: &Link) -> io::Result<bool> {
    let path = format!("/shares/{}/control", link.id);
    let request = Request { method: "GET", path: &path, token: Some(&link.token()), kind: JSON, body: b"" };
    let mut events = request.events(&link.place)?;
    queue.hears_by(Some(events.hangup()?));
    while let Ok((name, data)) = events.next(SILENCE) {
        match name.as_str() {
            "viewers" => queue.set_viewers(data["count"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0)),
            "answer" => answer(queue, link, &data),
            // The next gateway may continue it.
            "end" if data["may_return"] == true => break,
            "end" => {
                let why = data["why"].as_str().unwrap_or("the gateway has ended it").to_owned();
                queue.end_by_gateway(why);
            }
            _ => {}
        }
    }
    queue.hears_by(None);
    // The current viewers are unknown.
    queue.set_viewers(0);
    Ok(true)
}

/// Handles an answer from elsewhere. The gateway has checked it; whether it comes first is decided here, since this side knows
/// the terminal's answer.
fn answer(queue: &Queue, link: &Link, data: &Value) {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let (by, word, number) = (text("by"), text("answer"), &data["number"]);
    let may_answer = link.wanted.approve.iter().any(|user| *user == by || user == EVERYBODY);
    let is_seen = data["seen_to_end"] == true;
    let open = queue.opened().filter(|open| *number == open.number && may_answer && is_seen);
    let answer = RemoteAnswer { is_yes: word == "once", note: text("note"), by: by.clone() };
    let done = open.as_ref().map_or(Err(Refusal::Late), |open| open.answer_there(&text("digest"), answer));
    let frame = match done {
        Ok(()) => json!({"k": "a", "number": number, "answer": word, "by": by}),
        // The answer that counts was reported, or is about to be.
        Err(Refusal::Answered(_)) => return,
        Err(refusal) => {
            let why = if refusal == Refusal::OtherCall { "other_call" } else { "late" };
            json!({"k": "x", "number": number, "by": by, "why": why})
        }
    };
    queue.push(frame, true);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(out: &Outgoing) -> String {
        out.waiting.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn scenario_55_secrets_are_hidden_in_every_frame_before_it_is_sent() {
        let redactor = Redactor::new([("a key", "s3cr3t-value")]);
        let mut out = Outgoing::new(&redactor);
        let frames = [
            json!({"k": "l", "text": "curl -H s3cr3t-value", "to": "shell"}),
            json!({"k": "q", "digest": "d1", "card": {"action": "echo s3cr3t-value", "changes": [{"new": "s3cr3t-value"}]}}),
            json!({"k": "e", "event": {"event": "text", "text": "it is s3cr3t-"}}),
            json!({"k": "e", "event": {"event": "text", "text": "value, and no more"}}),
            json!({"k": "e", "event": {"event": "answered", "text": "it is s3cr3t-value, and no more"}}),
        ];
        let items = frames.into_iter().map(|frame| Item::Frame(1, frame));
        let output = [b"\x1b[1ms3cr3t".to_vec(), b"-value\x1b[0m\n".to_vec()].map(|bytes| Item::Output(2, bytes));
        out.take(Batch { items: items.chain(output).collect(), is_over: false });
        out.release();
        let text = all(&out);
        assert!(!text.contains("s3cr3t") && !text.contains(&base64::encode(b"s3cr3t")[..6]), "{text}");
        let output = out.waiting.iter().filter_map(|it| serde_json::from_str::<Value>(&it.text).ok());
        let output = output.filter_map(|it| base64::decode(it["d"].as_str()?));
        assert_eq!(output.collect::<Vec<_>>().concat(), b"\x1b[1m************\x1b[0m\n", "{text}");
        assert!(text.contains("\"digest\":\"d1\"") && text.contains("and no more"), "{text}");
        // A value that a line sets is a secret from then on, even if the line itself isn't shared.
        for (line, is_hidden) in [("export MY_API_KEY=hunter2hunter2zz", false), (" DB_PASSWORD=correct-horse-9", true)]
        {
            let mut out = Outgoing::new(&redactor);
            let frame = json!({"k": "l", "text": line, "to": "shell", "hidden": is_hidden});
            let shown = format!("{}\n", line.split('=').nth(1).unwrap_or_default()).into_bytes();
            let items = [Item::Frame(1, frame), Item::Output(2, shown)];
            out.take(Batch { items: items.into(), is_over: false });
            out.release();
            let frames: Vec<Value> = out.waiting.iter().filter_map(|it| serde_json::from_str(&it.text).ok()).collect();
            assert_eq!(frames[0]["text"] == "", is_hidden, "{frames:?}");
            let output = frames.iter().filter_map(|it| base64::decode(it["d"].as_str()?)).collect::<Vec<_>>().concat();
            assert!(output.ends_with(b"**\n") && !output.contains(&b'h'), "{}", String::from_utf8_lossy(&output));
        }
    }

    #[test]
    fn lines_of_a_change_stay_lines_and_long_texts_are_cut() {
        let (old, long) = ("a\n\tb\n", "é".repeat(TEXT_CHARS_MAX + 1));
        let shown = redacted(&Redactor::default(), json!({"changes": [{"old": old, "new": long}]}));
        assert_eq!(shown["changes"][0]["old"], old);
        assert_eq!(shown["changes"][0]["new"], "é".repeat(TEXT_CHARS_MAX) + "…");
    }

    #[test]
    fn while_nobody_takes_frames_the_oldest_output_goes_and_is_counted() {
        let redactor = Redactor::default();
        let mut out = Outgoing::new(&redactor);
        out.push(json!({"k": "l", "text": "first"}), 0);
        out.numbered = 1;
        for _ in 0..200 {
            out.output(1, &[b'x'; FRAME_BYTES]);
        }
        assert!(out.waiting_bytes <= WAITING_BYTES_MAX, "{}", out.waiting_bytes);
        out.take(Batch { items: VecDeque::from([Item::Gap(5)]), is_over: false });
        let left = out.waiting.iter().map(|it| it.output_bytes).sum::<usize>() as u64;
        let last = &out.waiting.back().expect("a gap").text;
        assert_eq!(*last, json!({"k": "g", "bytes": 200 * FRAME_BYTES as u64 - left + 5}).to_string());
        assert!(out.waiting[0].text.contains("first"));
    }
}
