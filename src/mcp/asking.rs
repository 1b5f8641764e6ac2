//! The dialogue of a server with the person during a call: forms, links, and signs of progress. Only the caller can answer a
//! server; without a call its questions are declined.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ProgressNotificationParam, ProgressToken};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::{McpError, Reply};
use crate::proto::served::{Field, FieldKind, FormAnswer};

/// Fields of a form.
const FIELDS_MAX: usize = 50;
/// Choices of a field.
const CHOICES_MAX: usize = 100;
/// Bytes of a message for the person.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Limit on the open questions of one call. A server may send any number of them.
const QUESTIONS_MAX: usize = 4;
/// Shortest time between two signs of progress that are passed on.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// Words of fields that ask for what must not be typed into a form.
const SECRETS: [&str; 16] = [
    "apikey",
    "credential",
    "credentials",
    "otp",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pin",
    "privatekey",
    "pwd",
    "secret",
    "secrets",
    "token",
    "tokens",
];
/// Secrets of two words.
const SECRET_PAIRS: [(&str, &str); 4] = [("access", "key"), ("api", "key"), ("private", "key"), ("secret", "key")];

/// A message from the thread to a caller.
pub(super) enum CallerMessage {
    Done(Result<Reply, McpError>),
    Form { message: String, fields: Vec<Field>, answer: oneshot::Sender<FormAnswer> },
    Link { message: String, url: String, answer: oneshot::Sender<bool> },
    Progress { message: String, share: Option<f64> },
}

pub(super) type Caller = std::sync::mpsc::Sender<CallerMessage>;

/// The calls that are under way at one server.
#[derive(Clone, Default)]
pub(super) struct Talks(Arc<Mutex<Vec<Talk>>>);

struct Talk {
    token: ProgressToken,
    caller: Caller,
    /// Time when the call last showed a sign of life.
    last: Instant,
    /// Time when the caller was last informed of its progress.
    shown: Option<Instant>,
    /// Questions that the person hasn't answered yet.
    open: usize,
}

/// A call that is under way, until this is dropped.
pub(super) struct Entry {
    talks: Talks,
    token: ProgressToken,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.talks.lock().retain(|talk| talk.token != self.token);
    }
}

impl Entry {
    /// Time when the call last showed a sign of life; now while the person is asked.
    pub(super) fn last(&self) -> Instant {
        let talks = self.talks.lock();
        let found = talks.iter().find(|talk| talk.token == self.token);
        found.filter(|talk| talk.open == 0).map_or_else(Instant::now, |talk| talk.last)
    }
}

impl Talks {
    fn lock(&self) -> MutexGuard<'_, Vec<Talk>> {
        self.0.lock()
    }

    pub(super) fn begin(&self, token: ProgressToken, caller: Caller) -> Entry {
        self.lock().push(Talk { token: token.clone(), caller, last: Instant::now(), shown: None, open: 0 });
        Entry { talks: self.clone(), token }
    }

    pub(super) fn progress(&self, params: &ProgressNotificationParam) {
        if let Some(talk) = self.lock().iter_mut().find(|talk| talk.token == params.progress_token) {
            talk.last = Instant::now();
            // A caller that waits for the person receives nothing, and a server may send more than a person can read.
            if talk.open > 0 || talk.shown.is_some_and(|at| at.elapsed() < PROGRESS_PAUSE) {
                return;
            }
            talk.shown = Some(talk.last);
            let share =
                params.total.filter(|total| *total > 0.0).map(|total| (params.progress / total).clamp(0.0, 1.0));
            let mut message = params.message.clone().unwrap_or_default();
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
            let _ = talk.caller.send(CallerMessage::Progress { message, share });
        }
    }

    /// Passes a server's question to the caller of the newest call.
    pub(super) async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let newest = |talk: &Talk| (talk.open < QUESTIONS_MAX).then(|| (talk.token.clone(), talk.caller.clone()));
        let Some((token, caller)) = self.lock().last().and_then(newest) else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        self.count(&token, 1);
        let result = put(params, &caller).await;
        self.count(&token, -1);
        result
    }

    fn count(&self, token: &ProgressToken, change: isize) {
        if let Some(talk) = self.lock().iter_mut().find(|talk| talk.token == *token) {
            talk.open = talk.open.saturating_add_signed(change);
            talk.last = Instant::now();
        }
    }
}

async fn put(params: ElicitRequestParams, caller: &Caller) -> ElicitResult {
    let declined = || ElicitResult::new(ElicitationAction::Decline);
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            let Some(fields) = fields(&schema) else { return declined() };
            let (answer, answered) = oneshot::channel();
            let _ = caller.send(CallerMessage::Form { message: shortened(message), fields, answer });
            match answered.await.unwrap_or(FormAnswer::Cancelled) {
                FormAnswer::Sent(content) => {
                    ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
                }
                FormAnswer::Declined => declined(),
                FormAnswer::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
            }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let is_web = url.starts_with("https://") || super::oauth::is_this_machine(&url);
            if !is_web || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return declined();
            }
            let (answer, answered) = oneshot::channel();
            let _ = caller.send(CallerMessage::Link { message: shortened(message), url, answer });
            match answered.await {
                Ok(true) => ElicitResult::new(ElicitationAction::Accept),
                Ok(false) => declined(),
                Err(_) => ElicitResult::new(ElicitationAction::Cancel),
            }
        }
        _ => declined(),
    }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}

/// The fields of a form; `None` if it has too many or one that can't be shown.
fn fields(schema: &Value) -> Option<Vec<Field>> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    if properties.len() > FIELDS_MAX {
        return None;
    }
    let field = |(name, rule): (&String, &Value)| {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = kind(rule)?;
        Some(Field {
            name: name.clone(),
            title: text("title"),
            description: text("description"),
            is_secret: matches!(kind, FieldKind::Text { .. }) && is_secret(name, rule),
            kind,
            is_required: required.contains(&name.as_str()),
            default: rule.get("default").cloned(),
        })
    };
    properties.iter().map(field).collect()
}

/// Returns whether a field of text asks for a secret, by its name, title or description.
fn is_secret(name: &str, rule: &Value) -> bool {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_one = |text: &str| {
        let words = words(text);
        let is_pair = |pair: &[String]| SECRET_PAIRS.contains(&(pair[0].as_str(), pair[1].as_str()));
        words.iter().any(|word| SECRETS.contains(&word.as_str())) || words.windows(2).any(is_pair)
    };
    text("format") == "password" || [name, text("title"), text("description")].into_iter().any(is_one)
}

/// The words of a name or a sentence, in small letters; a capital after a small letter begins one.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = c.is_lowercase() || c.is_numeric();
        if let Some(last) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn kind(rule: &Value) -> Option<FieldKind> {
    let number = |key: &str| rule.get(key).and_then(Value::as_f64);
    let size = |key: &str| rule.get(key).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    match rule.get("type").and_then(Value::as_str)? {
        "boolean" => Some(FieldKind::Bool),
        "number" => Some(FieldKind::Number { is_whole: false, least: number("minimum"), most: number("maximum") }),
        "integer" => Some(FieldKind::Number { is_whole: true, least: number("minimum"), most: number("maximum") }),
        "array" => Some(FieldKind::Several(choices(rule.get("items")?)?)),
        "string" => Some(match choices(rule) {
            Some(choices) => FieldKind::One(choices),
            None => FieldKind::Text {
                least: size("minLength"),
                most: size("maxLength"),
                format: rule.get("format").and_then(Value::as_str).unwrap_or_default().to_owned(),
            },
        }),
        _ => None,
    }
}

/// The choices of a field, each with the words for the person.
fn choices(rule: &Value) -> Option<Vec<(String, String)>> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| rule.get(key)).and_then(Value::as_array);
    let found: Vec<(String, String)> = if let Some(titled) = titled {
        let pair = |it: &Value| {
            let value = it.get("const")?.as_str()?.to_owned();
            Some((value.clone(), it.get("title").and_then(Value::as_str).map_or(value, str::to_owned)))
        };
        titled.iter().map(pair).collect::<Option<_>>()?
    } else {
        let values = rule.get("enum")?.as_array()?;
        let names = rule.get("enumNames").and_then(Value::as_array);
        let name = |at: usize| names.and_then(|names| names.get(at)).and_then(Value::as_str);
        let pair = |(at, value): (usize, &Value)| {
            let value = value.as_str()?.to_owned();
            Some((value.clone(), name(at).map_or(value, str::to_owned)))
        };
        values.iter().enumerate().map(pair).collect::<Option<_>>()?
    };
    (found.len() <= CHOICES_MAX).then_some(found)
}

/// The answer to a server's question in a result, as the protocol writes it.
pub(super) fn as_value(result: &ElicitResult) -> Value {
    serde_json::to_value(result).unwrap_or_else(|_| Value::Object(Map::new()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_field_is_understood() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "default": "Ada"},
                "age": {"type": "integer", "minimum": 0},
                "ok": {"type": "boolean"},
                "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
                "size": {"type": "string", "oneOf": [{"const": "s", "title": "small"}]},
                "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
                "apiToken": {"type": "string"},
            },
            "required": ["name"],
        });
        let fields = fields(&schema).expect("fields");
        let get = |name: &str| fields.iter().find(|field| field.name == name).expect("a field").clone();
        assert!(get("name").is_required && !get("age").is_required && get("name").default == Some(json!("Ada")));
        assert_eq!(get("colour").kind, FieldKind::One(vec![("r".into(), "red".into()), ("g".into(), "green".into())]));
        assert_eq!(get("size").kind, FieldKind::One(vec![("s".into(), "small".into())]));
        assert!(matches!(get("days").kind, FieldKind::Several(ref choices) if choices.len() == 2));
        assert!(get("apiToken").is_secret && !get("name").is_secret);
        for (name, rule, is_wanted) in [
            ("max_tokens", json!({"type": "integer"}), false),
            ("token", json!({"type": "string", "enum": ["a", "b"]}), false),
            ("pwd", json!({"type": "string"}), true),
            ("x", json!({"type": "string", "description": "Your PIN, please"}), true),
            ("x", json!({"type": "string", "title": "API-Key"}), true),
            ("x", json!({"type": "string", "format": "password"}), true),
            ("secretary", json!({"type": "string", "description": "Who opens the spinning pinboard?"}), false),
        ] {
            let schema = json!({"properties": {name: rule}});
            assert_eq!(super::fields(&schema).expect("fields")[0].is_secret, is_wanted, "{schema}");
        }
        assert_eq!(super::fields(&json!({"properties": {"x": {"type": "object"}}})), None);
    }

    fn talk() -> (Talks, Entry, ProgressToken, std::sync::mpsc::Receiver<CallerMessage>) {
        let ((caller, heard), talks) = (std::sync::mpsc::channel(), Talks::default());
        let token = ProgressToken(rmcp::model::NumberOrString::Number(1));
        let entry = talks.begin(token.clone(), caller);
        (talks, entry, token, heard)
    }

    #[test]
    fn a_caller_hears_of_progress_no_more_often_than_somebody_reads_it() {
        let (talks, _entry, token, heard) = talk();
        let progress: ProgressNotificationParam =
            serde_json::from_value(json!({"progressToken": 1, "progress": 1})).expect("a sign of progress");
        (0..1000).for_each(|_| talks.progress(&progress));
        // The machine may be busy.
        let count = heard.try_iter().count();
        assert!((1..10).contains(&count), "{count}");
        talks.count(&token, 1);
        (0..1000).for_each(|_| talks.progress(&progress));
        assert_eq!(heard.try_iter().count(), 0, "the person is asked something");
    }

    #[test]
    fn more_questions_than_a_few_are_declined_while_they_are_open() {
        use std::task::{Context, Poll, Waker};

        let (talks, _entry, _, heard) = talk();
        let link = json!({"mode": "url", "message": "m", "url": "https://a.example/", "elicitationId": "1"});
        let link: ElicitRequestParams = serde_json::from_value(link).expect("a question");
        let mut asked: Vec<_> = (0..10).map(|_| Box::pin(talks.ask(link.clone()))).collect();
        let mut context = Context::from_waker(Waker::noop());
        let ends = asked.iter_mut().map(|ask| ask.as_mut().poll(&mut context));
        let is_declined = |end: &Poll<ElicitResult>| matches!(end, Poll::Ready(result) if result.action == ElicitationAction::Decline);
        assert_eq!(ends.filter(is_declined).count(), 10 - QUESTIONS_MAX);
        assert_eq!(heard.try_iter().count(), QUESTIONS_MAX);
    }
}
