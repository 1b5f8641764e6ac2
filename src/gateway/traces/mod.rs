//! Traces: the durations of requests, runs, requests to models and calls of tools, as spans in OpenTelemetry's form, in a file
//! that its collector and other tools read (OTLP as JSON lines). Spans have names, ids, numbers and kinds of errors, and no
//! content. It owns that file. Without the setting there is neither file nor thread. It must not know routes and their work.

pub mod context;
pub mod names;

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host;
use crate::log::Bounded;
use crate::proto::Failure;
use crate::proto::team::Identity;
use crate::redact::Redactor;
use context::Context;

/// Size at which a new file is begun, in bytes; the previous one stays.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Spans that wait to be written; more are lost, and counted.
const WAITING_MAX: usize = 4_096;
/// Spans of one line.
const LINE_MAX: usize = 256;
/// Characters of a text in a span.
const TEXT_CHARS_MAX: usize = 256;
/// Interval for reporting a persistent failure again.
const REPEATED: Duration = Duration::from_secs(60);

/// The kind of a span, with OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// The traces of a gateway.
#[derive(Default)]
pub struct Traces(Option<Export>);

struct Export {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Span(Box<Span>),
    End,
}

/// A span, as it is written.
struct Span {
    context: Context,
    parent: Option<String>,
    name: String,
    kind: Kind,
    start_ns: u64,
    ns: u64,
    attributes: Vec<(&'static str, Value)>,
    is_failed: bool,
}

/// A span that has begun. Dropping it records it.
pub struct Open {
    span: Option<Box<Span>>,
    began: Instant,
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Open {
    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    /// Records a failure and its kind: a word, never a message.
    pub fn fail(&mut self, kind: impl Into<String>) {
        self.set(names::ERROR, kind.into());
        if let Some(span) = &mut self.span {
            span.is_failed = true;
        }
    }

    /// Records the answer to a request. A client's own mistake is no failure of the service.
    pub fn answered(&mut self, (method, route): (&str, &str), status: u16, request_id: &str) {
        if let Some(span) = &mut self.span {
            span.name = format!("{method} {route}");
        }
        self.set(names::METHOD, method);
        self.set(names::ROUTE, route);
        self.set(names::STATUS, status);
        self.set(names::REQUEST, request_id);
        if status >= 500 {
            self.fail(status.to_string());
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(mut span) = self.span.take() else { return };
        span.ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.queue.try_send(Message::Span(span)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Traces {
    /// Starts the thread that writes spans to a file. An empty path means none.
    ///
    /// # Errors
    /// The path isn't absolute, or the system has no more threads.
    pub fn start(path: &str, node_id: &str) -> Result<Self, Failure> {
        if path.is_empty() {
            return Ok(Self::default());
        }
        let file = PathBuf::from(path);
        if !file.is_absolute() || file.file_name().is_none() {
            return Err(Failure::user(format!("gateway.traces: {path:?} isn't the whole path of a file")));
        }
        let (queue, spans) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            file: Bounded::new(file, FILE_BYTES_MAX),
            resource: attributes_value(&[
                (names::SERVICE, "reedclaw-gateway".into()),
                (names::SERVICE_VERSION, env!("CARGO_PKG_VERSION").into()),
                (names::SERVICE_INSTANCE, node_id.into()),
            ]),
            redactor: Redactor::default(),
            lost: Arc::clone(&lost),
            reported: None,
        };
        let thread = std::thread::Builder::new().name("gw-traces".into()).spawn(move || writer.run(&spans));
        let thread = thread.map_err(|error| Failure::unavailable(format!("threads: {error}")))?;
        Ok(Self(Some(Export { queue, lost, thread: Mutex::new(Some(thread)) })))
    }

    /// Writes the waiting spans, and ends.
    pub fn end(&self) {
        let Some(export) = &self.0 else { return };
        if let Some(thread) = export.thread.lock().take() {
            let _ = export.queue.send(Message::End);
            let _ = thread.join();
        }
    }

    /// Begins a span; `None` if spans aren't written, or this trace isn't wanted.
    pub fn begin(&self, context: &Context, parent: Option<&str>, kind: Kind, name: String) -> Option<Open> {
        let export = self.0.as_ref().filter(|_| context.is_sampled)?;
        let span = Span {
            context: context.clone(),
            parent: parent.map(str::to_owned),
            name,
            kind,
            start_ns: host::now_unix_ns(),
            ns: 0,
            attributes: Vec::new(),
            is_failed: false,
        };
        let (queue, lost) = (export.queue.clone(), Arc::clone(&export.lost));
        Some(Open { span: Some(Box::new(span)), began: Instant::now(), queue, lost })
    }

    /// Begins a span for an operation of a caller. The context is for operations that it causes in turn; it exists even if spans
    /// aren't written.
    pub fn below(
        &self,
        who: &Identity,
        kind: Kind,
        operation: (&'static str, &str),
    ) -> (Option<Open>, Option<Context>) {
        let Some(parent) = who.span.as_deref().and_then(Context::read) else { return (None, None) };
        let context = parent.child();
        let mut open = self.begin(&context, Some(&parent.span), kind, format!("{} {}", operation.0, operation.1));
        if let Some(open) = &mut open {
            open.set(names::OPERATION, operation.0);
            open.set(names::TENANT, who.tenant.as_str());
            open.set(names::PROJECT, who.project.as_str());
            open.set(names::REQUEST, who.request_id.as_str());
            let ids = [(names::RUN, &who.run_id), (names::STEP, &who.step_id)];
            ids.into_iter().for_each(|(name, id)| id.iter().for_each(|id| open.set(name, id.as_str())));
        }
        (open, Some(context))
    }
}

/// The writing thread.
struct Writer {
    file: Bounded,
    resource: Value,
    redactor: Redactor,
    lost: Arc<AtomicU64>,
    /// Time of the last report of a failure.
    reported: Option<Instant>,
}

impl Writer {
    fn run(mut self, spans: &Receiver<Message>) {
        let mut is_over = false;
        while !is_over {
            let Ok(first) = spans.recv() else { return };
            let mut line = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Span(span) => line.push(self.value(&span)),
                    Message::End => is_over = true,
                }
                next = if line.len() < LINE_MAX && !is_over { spans.try_recv().ok() } else { None };
            }
            self.write(line);
        }
    }

    fn write(&mut self, spans: Vec<Value>) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(event = "spans_lost", count = lost);
        }
        if spans.is_empty() {
            return;
        }
        let scope = json!({"name": "reedclaw.gateway", "version": env!("CARGO_PKG_VERSION")});
        let line = json!({"resourceSpans": [{"resource": {"attributes": self.resource},
            "scopeSpans": [{"scope": scope, "spans": spans, "schemaUrl": names::SCHEMA}], "schemaUrl": names::SCHEMA}]});
        if let Err(error) = self.file.append(&format!("{line}\n"))
            && self.reported.is_none_or(|at| at.elapsed() >= REPEATED)
        {
            self.reported = Some(Instant::now());
            tracing::warn!(event = "traces_not_written", why = error.to_string());
        }
    }

    /// A span in OTLP's form of JSON: ids as hexadecimal text, numbers of 64 bits as text, kinds as numbers.
    fn value(&self, span: &Span) -> Value {
        let clean = |text: &str| -> String { self.redactor.redact(text).text.chars().take(TEXT_CHARS_MAX).collect() };
        let attributes: Vec<(&str, Value)> = span
            .attributes
            .iter()
            .map(|(name, value)| (*name, value.as_str().map_or_else(|| value.clone(), |text| clean(text).into())))
            .collect();
        let mut value = json!({"traceId": span.context.trace, "spanId": span.context.span, "name": clean(&span.name),
            "kind": span.kind as u8, "startTimeUnixNano": span.start_ns.to_string(),
            "endTimeUnixNano": span.start_ns.saturating_add(span.ns).to_string(),
            "attributes": attributes_value(&attributes), "status": if span.is_failed { json!({"code": 2}) } else { json!({}) },
            "flags": 1});
        if let Some(parent) = &span.parent {
            value["parentSpanId"] = parent.as_str().into();
        }
        value
    }
}

/// Attributes in OTLP's form.
fn attributes_value(attributes: &[(&str, Value)]) -> Value {
    attributes.iter().map(|(name, value)| json!({"key": name, "value": any(value)})).collect()
}

fn any(value: &Value) -> Value {
    match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Array(values) => json!({"arrayValue": {"values": values.iter().map(any).collect::<Vec<_>>()}}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(is_sampled: bool) -> Context {
        Context { trace: "0af7651916cd43dd8448eb211c80319c".into(), span: "b7ad6b7169203331".into(), is_sampled }
    }

    #[test]
    fn spans_are_lines_of_otlp_without_secrets() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("traces/gateway.jsonl");
        let traces = Traces::start(path.to_str().expect("text"), "node-1").expect("started");
        assert!(!path.exists(), "no file before the first span");
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let mut open = traces.begin(&context(true), Some("00f067aa0ba902b7"), Kind::Client, format!("chat {secret}"));
        let span = open.as_mut().expect("a span");
        span.set(names::INPUT_TOKENS, 7);
        span.set(names::FINISH_REASONS, json!(["stop"]));
        span.set(names::REQUEST, secret.as_str());
        span.fail("timeout");
        drop(open);
        assert!(traces.begin(&context(false), None, Kind::Server, "unwanted".into()).is_none());
        traces.end();
        let text = std::fs::read_to_string(&path).expect("the file");
        let line: Value = serde_json::from_str(text.trim()).expect("one line of JSON");
        let scope = &line["resourceSpans"][0]["scopeSpans"][0];
        let span = &scope["spans"][0];
        let ids = [&span["traceId"], &span["spanId"], &span["parentSpanId"]];
        assert_eq!(ids, ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"]);
        assert_eq!((&span["kind"], &span["status"]["code"]), (&json!(3), &json!(2)));
        let nanos = |name: &str| span[name].as_str().expect("text").parse::<u64>().expect("a number");
        assert!(nanos("startTimeUnixNano") > 1_600_000_000_000_000_000);
        assert!(nanos("endTimeUnixNano") >= nanos("startTimeUnixNano"));
        let attributes = span["attributes"].as_array().expect("attributes");
        assert_eq!(attributes[0], json!({"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}}));
        let stop = json!({"arrayValue": {"values": [{"stringValue": "stop"}]}});
        assert_eq!(attributes[1]["value"], stop);
        assert!(text.contains("node-1") && !text.contains(&secret), "{text}");
    }

    #[test]
    fn a_path_that_is_not_whole_is_refused_and_none_means_nothing() {
        assert!(Traces::start("traces.jsonl", "n").is_err());
        let off = Traces::start("", "n").expect("off");
        assert!(off.begin(&context(true), None, Kind::Server, "x".into()).is_none());
        off.end();
    }
}
