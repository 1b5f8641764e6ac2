//! A server's questions, put to the person field by field, each marked as the server's.

use serde_json::{Map, Value};

use super::shown::clean;
use crate::proto::served::{Asks, Field, FieldKind, FormAnswer};
use crate::render::text::escape_visible;
use crate::tools::Replies;

/// Limit on the characters of a server's progress message: it shares a row with the spinner.
const PROGRESS_CHARS_MAX: usize = 50;
/// Answers to one field that may be wrong before the form is declined.
const TRIES: usize = 3;

/// The person, as a server asks them.
pub struct Asked<'p>(pub &'p mut dyn Replies);

impl Asks for Asked<'_> {
    fn form(&mut self, server: &str, message: &str, fields: &[Field]) -> FormAnswer {
        let (who, head) = (heading(server), escape_visible(message));
        if let Some(secret) = fields.iter().find(|field| field.is_secret) {
            let name = escape_visible(&secret.name);
            let choices = ["decline".to_owned()];
            let _ = self.0.reply_to(
                &who,
                &format!("{head}\nIt wants a secret ({name}), which isn't sent this way."),
                &choices,
            );
            return FormAnswer::Declined;
        }
        let names: Vec<String> = fields.iter().map(shown).collect();
        let (question, fill) = match names.is_empty() {
            true => (format!("{head}\nIts form has no fields: it wants a yes."), "yes"),
            false => {
                let names = names.join(", ");
                (format!("{head}\nIts form has the fields {names}. Do you want to fill it in?"), "fill it in")
            }
        };
        let (fill, decline) = (fill.to_owned(), "decline".to_owned());
        let choices = [fill.clone(), decline.clone()];
        let mut tries = 0..TRIES;
        loop {
            match self.0.reply_to(&who, &question, &choices) {
                None => return FormAnswer::Cancelled,
                Some(reply) if reply == fill || is_yes(&reply) => break,
                Some(reply) if reply == decline || is_no(&reply) => return FormAnswer::Declined,
                // Perhaps the value of a field, which is asked for only after a yes.
                Some(_) if tries.next().is_some() => {}
                Some(_) => return FormAnswer::Declined,
            }
        }
        let mut content = Map::new();
        for field in fields {
            match self.field(server, field) {
                Some(Some(value)) => {
                    content.insert(field.name.clone(), value);
                }
                Some(None) => {}
                None => return FormAnswer::Declined,
            }
        }
        FormAnswer::Sent(content)
    }

    fn link(&mut self, server: &str, message: &str, url: &str) -> bool {
        let head = escape_visible(message);
        let question = format!(
            "{head}\nIt wants you to open this address yourself, {}: {}\nDid you do what it asks for there?",
            at_host(url),
            escape_visible(url)
        );
        self.0
            .reply_to(&heading(server), &question, &["yes".to_owned(), "no".to_owned()])
            .is_some_and(|reply| is_yes(&reply))
    }

    fn progress(&mut self, message: &str, share: Option<f64>) {
        let message: String =
            clean(message).lines().next().unwrap_or_default().chars().take(PROGRESS_CHARS_MAX).collect();
        let share = share.map(|share| format!("{:.0} %", share * 100.0));
        let parts: Vec<String> =
            Some(message.trim().to_owned()).filter(|it| !it.is_empty()).into_iter().chain(share).collect();
        if !parts.is_empty() {
            self.0.progress(&parts.join(", "));
        }
    }
}

impl Asked<'_> {
    /// The value of a field; nothing if the form can't be sent without it.
    fn field(&mut self, server: &str, field: &Field) -> Option<Option<Value>> {
        let usual = field.default.as_ref().map(|value| format!(" Without an answer it is {value}."));
        let note = usual.unwrap_or_else(|| if field.is_required { " It is needed.".into() } else { String::new() });
        let about = escape_visible(&field.description);
        let choices: Vec<String> = match &field.kind {
            FieldKind::Bool => vec!["yes".into(), "no".into()],
            FieldKind::One(all) => all.iter().map(|(_, title)| escape_visible(title)).collect(),
            _ => Vec::new(),
        };
        for _ in 0..TRIES {
            let question = format!("{} {about}{}{note}", shown(field), kind(&field.kind));
            let Some(reply) = self.0.reply_to(&heading(server), &question, &choices) else {
                return match (&field.default, field.is_required) {
                    (Some(value), _) => Some(Some(value.clone())),
                    (None, false) => Some(None),
                    (None, true) => None,
                };
            };
            if let Some(value) = value(&field.kind, reply.trim()) {
                return Some(Some(value));
            }
        }
        None
    }
}

/// Names the host of an address, and warns of anything in the address that misleads a reader.
pub(super) fn at_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    // Browsers take a backslash for a slash.
    let place = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let (user, host) = place.rsplit_once('@').map_or((None, place), |(user, host)| (Some(user), host));
    let host = host.to_lowercase();
    let is_odd = |label: &str| label.starts_with("xn--") || !label.is_ascii();
    let mut careful = Vec::new();
    if host.split('.').any(is_odd) {
        careful.push("its letters may look like others");
    }
    if user.is_some() {
        careful.push("the part before @ isn't the host");
    }
    let careful = if careful.is_empty() { String::new() } else { format!(" (careful: {})", careful.join("; ")) };
    format!("at {}{careful}", escape_visible(&host))
}

fn heading(server: &str) -> String {
    format!("The server {server} asks:")
}

fn shown(field: &Field) -> String {
    escape_visible(if field.title.is_empty() { &field.name } else { &field.title })
}

fn is_yes(reply: &str) -> bool {
    matches!(reply.trim().to_lowercase().as_str(), "y" | "yes")
}

fn is_no(reply: &str) -> bool {
    matches!(reply.trim().to_lowercase().as_str(), "n" | "no")
}

fn kind(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Number { is_whole: true, .. } => " (a whole number)".into(),
        FieldKind::Number { .. } => " (a number)".into(),
        FieldKind::Text { format, .. } if !format.is_empty() => format!(" ({})", escape_visible(format)),
        FieldKind::Several(all) => {
            let titles: Vec<String> = all.iter().map(|(_, title)| escape_visible(title)).collect();
            format!(" (any of {}, with commas between)", titles.join(", "))
        }
        _ => String::new(),
    }
}

/// Returns the value for a reply; `None` if the field doesn't accept it.
fn value(kind: &FieldKind, reply: &str) -> Option<Value> {
    let of = |all: &[(String, String)], reply: &str| {
        let found = all.iter().find(|(value, title)| value == reply || escape_visible(title) == reply);
        found.map(|(value, _)| Value::from(value.clone()))
    };
    match kind {
        FieldKind::Text { least, most, format } => {
            let count = reply.chars().count();
            let fits = least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most);
            let is_form = match format.as_str() {
                "email" => reply.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
                "uri" => reply.contains(':'),
                "date" => reply.parse::<jiff::civil::Date>().is_ok(),
                "date-time" => reply.parse::<jiff::Timestamp>().is_ok(),
                _ => true,
            };
            (fits && is_form).then(|| reply.into())
        }
        FieldKind::Number { is_whole, least, most } => {
            let number: f64 = reply.parse().ok().filter(|number: &f64| number.is_finite())?;
            let fits = least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most);
            match is_whole {
                true => reply.parse::<i64>().ok().filter(|_| fits).map(Value::from),
                false => Some(Value::from(number)).filter(|_| fits),
            }
        }
        FieldKind::Bool => match reply.to_lowercase().as_str() {
            "y" | "yes" | "true" => Some(true.into()),
            "n" | "no" | "false" => Some(false.into()),
            _ => None,
        },
        FieldKind::One(all) => of(all, reply),
        FieldKind::Several(all) => {
            reply.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| of(all, part)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Script(Vec<Option<&'static str>>, Vec<String>);

    impl Replies for Script {
        fn reply(&mut self, question: &str, _: &[String]) -> Option<String> {
            self.1.push(question.to_owned());
            self.0.remove(0).map(str::to_owned)
        }
    }

    fn field(name: &str, kind: FieldKind, default: Option<Value>) -> Field {
        Field {
            name: name.into(),
            title: String::new(),
            description: String::new(),
            kind,
            is_required: default.is_none(),
            is_secret: name == "password",
            default,
        }
    }

    fn whole() -> FieldKind {
        FieldKind::Number { is_whole: true, least: Some(0.0), most: Some(150.0) }
    }

    #[test]
    fn a_form_is_filled_in_with_defaults_and_wrong_answers_are_asked_again() {
        let text = || FieldKind::Text { least: None, most: None, format: String::new() };
        let fields = [
            field("name", text(), Some(json!("Ada"))),
            field("age", whole(), None),
            field("ok", FieldKind::Bool, None),
        ];
        let mut script = Script(vec![Some("fill it in"), None, Some("old"), Some("36"), Some("yes")], Vec::new());
        let sent = Asked(&mut script).form("one", "who\u{1b}[2J?", &fields);
        assert_eq!(
            sent,
            FormAnswer::Sent(json!({"name": "Ada", "age": 36, "ok": true}).as_object().expect("it").clone())
        );
        assert!(script.1.iter().all(|question| !question.contains('\u{1b}')), "{:?}", script.1);
    }

    #[test]
    fn a_host_is_named_with_what_misleads_about_it() {
        let letters = "(careful: its letters may look like others)";
        let user = "(careful: the part before @ isn't the host)";
        for (url, shown) in [
            ("https://A.example:8443/b?c=xn--", "at a.example:8443".to_owned()),
            ("https://XN--80ak6aa92e.com/", format!("at xn--80ak6aa92e.com {letters}")),
            ("https://www.xn--80ak6aa92e.com", format!("at www.xn--80ak6aa92e.com {letters}")),
            (
                "https://\u{430}\u{440}\u{440}\u{4cf}\u{435}.com/login",
                format!("at \u{430}\u{440}\u{440}\u{4cf}\u{435}.com {letters}"),
            ),
            ("https://apple.com@evil.example/login?a=xn--", format!("at evil.example {user}")),
            ("https://apple.com\\@evil.example/", "at apple.com".to_owned()),
            ("https://a@b@evil.example#@apple.com", format!("at evil.example {user}")),
        ] {
            assert_eq!(at_host(url), shown, "{url}");
        }
    }

    #[test]
    fn an_answer_that_is_neither_yes_nor_no_is_asked_for_again() {
        let text = || FieldKind::Text { least: None, most: None, format: String::new() };
        let fields = [field("colour", text(), None)];
        let mut script = Script(vec![Some("red"), Some("fill it in"), Some("red")], Vec::new());
        let sent = FormAnswer::Sent(json!({"colour": "red"}).as_object().expect("it").clone());
        assert_eq!(Asked(&mut script).form("one", "Which?", &fields), sent);
        assert_eq!(script.1[0], script.1[1]);
        let mut never = Script(vec![Some("red"); TRIES + 1], Vec::new());
        assert_eq!(Asked(&mut never).form("one", "Which?", &fields), FormAnswer::Declined);
    }

    #[test]
    fn a_form_without_fields_is_a_question_for_a_yes() {
        let mut script = Script(vec![Some("yes")], Vec::new());
        assert_eq!(Asked(&mut script).form("one", "Delete it?", &[]), FormAnswer::Sent(Map::new()));
        assert_eq!(script.1, ["Delete it?\nIts form has no fields: it wants a yes."]);
        let mut no = Script(vec![Some("decline")], Vec::new());
        assert_eq!(Asked(&mut no).form("one", "", &[]), FormAnswer::Declined);
    }

    #[test]
    fn nothing_is_sent_without_a_yes_or_for_a_secret() {
        let fields = [field("age", whole(), None)];
        assert_eq!(Asked(&mut Script(vec![None], Vec::new())).form("one", "", &fields), FormAnswer::Cancelled);
        assert_eq!(Asked(&mut Script(vec![Some("no")], Vec::new())).form("one", "", &fields), FormAnswer::Declined);
        let mut never = Script(vec![Some("yes"), None], Vec::new());
        assert_eq!(Asked(&mut never).form("one", "", &fields), FormAnswer::Declined, "a needed field is missing");
        let secret = [field("password", FieldKind::Bool, None)];
        assert_eq!(Asked(&mut Script(vec![Some("yes")], Vec::new())).form("one", "", &secret), FormAnswer::Declined);
        let mut link = Script(vec![Some("yes")], Vec::new());
        assert!(Asked(&mut link).link("one", "", "https://xn--80ak6aa92e.com/"));
        assert!(
            link.1[0].contains("at xn--80ak6aa92e.com (careful: its letters may look like others)"),
            "{:?}",
            link.1
        );
        assert!(!Asked(&mut Script(vec![None], Vec::new())).link("one", "", "https://a.b/"));
    }
}
