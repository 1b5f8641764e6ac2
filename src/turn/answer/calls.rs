//! Calls of tools that a model wrote into its answer's text: bare JSON, in a fence, between tags, or with doubled braces, as
//! small models do if their server doesn't know their format. They are judged like any other call. Pure.

use serde_json::{Map, Value};

use super::loose::loose_json;

/// Words by which a mark around a call, or a key that holds calls, is known.
const CALL_WORDS: [&str; 7] = ["tool", "tools", "function", "functions", "call", "calls", "invoke"];
/// Keys that can hold the name of a tool.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
/// Keys under which the arguments are found.
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "args", "input", "tool_input"];
/// Limit on the calls in a text.
const CALLS_MAX: usize = 32;
/// Bytes of a mark.
const MARK_BYTES_MAX: usize = 120;
/// Places at which a loose value may end.
const ENDS_MAX: usize = 64;

/// A call found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCall {
    /// The name, as written.
    pub name: String,
    /// The arguments, as JSON.
    pub arguments: String,
}

/// The kind of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// No call.
    Words,
    /// These calls, and the words before them.
    Calls(String, Vec<WrittenCall>),
    /// Looks like a call, but can't be read as one.
    Unclear,
}

/// Reads an answer's text; `is_tool` says whether a name is a tool's.
#[must_use]
pub fn read_calls(text: &str, is_tool: &dyn Fn(&str) -> bool) -> Reading {
    let mut starts = line_starts(text).filter(|at| may_begin_call(&text[*at..])).peekable();
    if starts.peek().is_none() {
        return Reading::Words;
    }
    for start in starts.by_ref() {
        let calls = Reader::new(&text[start..], is_tool).read().unwrap_or_default();
        if !calls.is_empty() {
            return Reading::Calls(text[..start].trim_end().to_owned(), calls);
        }
    }
    // An answer may well contain JSON; only one that begins like a call was meant as one.
    let begin = text.trim_start();
    let is_meant = may_begin_call(begin) && has_call_keys(begin) || has_mark(text);
    if is_meant { Reading::Unclear } else { Reading::Words }
}

/// Returns whether a text that is still arriving may turn out to be a call: its beginning so far is that of a call.
#[must_use]
pub fn may_begin_call(text: &str) -> bool {
    let mut rest = text.trim_start();
    for _ in 0..2 {
        if let Some(after) = rest.strip_prefix("```") {
            let Some((info, body)) = after.split_once('\n') else {
                return after.len() < 12 && after.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            };
            if !["", "json", "tool_call", "tool_code", "xml", "text", "plaintext"].contains(&info.trim()) {
                return false;
            }
            rest = body.trim_start();
        }
    }
    if let Some((mark, _)) = Mark::at(rest).or_else(|| Mark::before_object(rest)) {
        return mark.is_special() || mark.is_of_call();
    }
    if rest.is_empty() || "```".starts_with(rest) || Mark::may_begin(rest) {
        return !text.trim().is_empty();
    }
    let inner = rest.trim_start_matches('[').trim_start();
    let Some(inner) = inner.strip_prefix('{') else { return inner.is_empty() };
    let inner = inner.strip_prefix('{').unwrap_or(inner).trim_start();
    let Some(quote) = inner.chars().next() else { return true };
    let inner = if quote == '"' || quote == '\'' { &inner[1..] } else { return false };
    let is_key = |key: &&str| match inner.split_once(quote) {
        Some((name, _)) => name == *key || is_call_word(name),
        None => key.starts_with(inner),
    };
    NAMES.iter().chain(&ARGUMENTS).chain(&["type", "id", "tool_calls", "function_call"]).any(is_key)
}

/// Places at which a line begins.
fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
}

fn has_call_keys(text: &str) -> bool {
    let has =
        |keys: &[&str]| keys.iter().any(|key| text.contains(&format!("{key}\"")) || text.contains(&format!("{key}'")));
    has(&NAMES) && has(&ARGUMENTS)
}

/// Returns whether a line outside of code begins with a mark of a call.
fn has_mark(text: &str) -> bool {
    let mut is_code = false;
    text.trim_start().lines().any(|line| {
        is_code ^= line.trim_start().starts_with("```");
        let line = line.trim_start();
        !is_code && Mark::at(line).or_else(|| Mark::before_object(line)).is_some_and(|(mark, _)| mark.is_of_call())
    })
}

/// Looks whether one of a name's parts is a word for calls: `tool_call`, `antml:invoke`.
fn is_call_word(name: &str) -> bool {
    name.split(['_', '-', '.', ':', '\u{2581}'])
        .any(|part| CALL_WORDS.iter().any(|word| part.eq_ignore_ascii_case(word)))
}

/// A mark around a call or around a part of one: a tag, a token of a chat's template (`<|…|>`), a word in brackets
/// (`[TOOL_CALLS]`).
struct Mark<'t> {
    inner: &'t str,
    is_tag: bool,
}

impl<'t> Mark<'t> {
    /// The mark with which a text begins, and the rest.
    fn at(text: &'t str) -> Option<(Self, &'t str)> {
        let (inner, rest) = match text.strip_prefix('<') {
            Some(rest) => rest.split_once('>')?,
            None => text.strip_prefix('[')?.split_once(']')?,
        };
        let is_tag = text.starts_with('<');
        Self::is_inner(inner, is_tag).then_some((Self { inner, is_tag }, rest))
    }

    /// The beginning of a tag with which a text begins, before an object as the value of an attribute, and the rest.
    fn before_object(text: &'t str) -> Option<(Self, &'t str)> {
        let at = text.find('{')?;
        let inner = text[..at].strip_prefix('<')?;
        Self::is_inner(inner, true).then_some((Self { inner, is_tag: true }, &text[at..]))
    }

    /// Looks whether a text may be the beginning of a mark.
    fn may_begin(text: &str) -> bool {
        let inner = text.strip_prefix('<').or_else(|| text.strip_prefix('['));
        inner.is_some_and(|inner| inner.is_empty() || Self::is_inner(inner, text.starts_with('<')))
    }

    fn is_inner(inner: &str, is_tag: bool) -> bool {
        if !is_tag {
            return !inner.is_empty() && inner.bytes().all(|it| it.is_ascii_uppercase() || b"_/".contains(&it));
        }
        inner.len() <= MARK_BYTES_MAX
            && inner.starts_with(|c: char| c.is_ascii_alphabetic() || ['/', '|', '\u{ff5c}'].contains(&c))
            && !inner.contains(['<', '>', '\n', '{'])
    }

    fn is_special(&self) -> bool {
        self.inner.starts_with(['|', '\u{ff5c}'])
    }

    fn is_end(&self) -> bool {
        self.inner.starts_with('/')
    }

    /// Its words: `invoke`, `name`, `shell`.
    fn words(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        let is_between = |c: char| !c.is_alphanumeric() && !['_', '-', '.', ':', '\u{2581}'].contains(&c);
        self.inner.split(is_between).filter(|word| !word.is_empty())
    }

    fn first(&self) -> &'t str {
        self.words().next().unwrap_or_default()
    }

    fn is_of_call(&self) -> bool {
        is_call_word(self.first())
    }
}

/// A call whose name has arrived.
struct Begun<'t> {
    name: String,
    /// The first word of the mark that named it.
    mark: Option<&'t str>,
    /// The name of an argument whose value comes next.
    key: Option<&'t str>,
    arguments: Map<String, Value>,
}

impl Begun<'_> {
    fn whole(self) -> WrittenCall {
        WrittenCall { name: self.name, arguments: Value::Object(self.arguments).to_string() }
    }
}

/// Reads calls by one rule for all families of models: a call is an object with a tool's name and arguments; or a tool's name, in
/// a mark or directly after one, followed by one object or by marks that each have an argument. Other marks are skipped. Words
/// end the reading; they may only follow a call that was in marks or a fence.
struct Reader<'t, 'f> {
    rest: &'t str,
    is_tool: &'f dyn Fn(&str) -> bool,
    calls: Vec<WrittenCall>,
    begun: Option<Begun<'t>>,
}

impl<'t, 'f> Reader<'t, 'f> {
    fn new(rest: &'t str, is_tool: &'f dyn Fn(&str) -> bool) -> Self {
        Self { rest, is_tool, calls: Vec::new(), begun: None }
    }

    /// The calls; `None` if a part of them can't be read.
    fn read(mut self) -> Option<Vec<WrittenCall>> {
        let (mut is_marked, mut is_after_mark) = (false, false);
        while self.calls.len() < CALLS_MAX {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            let is_first = self.calls.is_empty() && self.begun.is_none();
            let was_after_mark = std::mem::take(&mut is_after_mark);
            if self.rest.is_empty() {
                break;
            } else if let Some(after) = self.rest.strip_prefix("```") {
                self.rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                is_marked |= is_first;
            } else if let Some((mark, after)) = Mark::at(self.rest) {
                self.rest = after;
                let holds_value = self.take_mark(&mark)?;
                is_marked |= is_first;
                is_after_mark = !mark.is_end() && !holds_value;
            } else if self.take_attributes() {
                is_marked |= is_first;
            } else if self.rest.starts_with(['{', '[']) {
                self.take_value()?;
            } else if !(was_after_mark && self.take_name()) {
                // An incomplete call, or JSON in the middle of words.
                if self.begun.is_some() || !is_marked {
                    return None;
                }
                break;
            }
        }
        self.end_call();
        Some(self.calls)
    }

    fn begin_call(&mut self, name: &str, mark: Option<&'t str>) {
        self.end_call();
        self.begun = Some(Begun { name: name.to_owned(), mark, key: None, arguments: Map::new() });
    }

    fn end_call(&mut self) {
        self.calls.extend(self.begun.take().map(Begun::whole));
    }

    /// Reads a mark, with its value if it has one; returns whether it had one.
    fn take_mark(&mut self, mark: &Mark<'t>) -> Option<bool> {
        let (first, last) = (mark.first(), mark.words().last().unwrap_or_default());
        let is_of_call = mark.is_of_call();
        if !mark.is_tag || mark.is_special() {
            return Some(false);
        }
        if mark.is_end() {
            let ends = |begun: &Begun<'_>| begun.mark == Some(first) || is_of_call && !begun.arguments.is_empty();
            if self.begun.as_ref().is_some_and(ends) {
                self.end_call();
            }
            return Some(false);
        }
        match &mut self.begun {
            Some(begun) if !is_of_call && !ARGUMENTS.contains(&first) => {
                let (value, rest) = self.rest.split_once(&format!("</{first}>"))?;
                self.rest = rest;
                if first == last && (first.ends_with("_key") || first.ends_with("_name")) {
                    begun.key = Some(value.trim());
                    return Some(true);
                }
                let value = value.strip_prefix('\n').unwrap_or(value);
                let value = value.strip_suffix('\n').unwrap_or(value);
                let key = begun.key.take().unwrap_or(last);
                begun.arguments.insert(key.to_owned(), value.into());
                return Some(true);
            }
            _ if (self.is_tool)(last) => self.begin_call(last, Some(first)),
            _ => {}
        }
        Some(false)
    }

    /// Takes a tag that holds a tool's name and, in quotes, its arguments: `<function name="shell" arguments='{…}'/>`.
    fn take_attributes(&mut self) -> bool {
        let Some((mark, value)) = Mark::before_object(self.rest) else { return false };
        let Some(name) = mark.words().find(|word| (self.is_tool)(word)) else { return false };
        let Some(quote) = mark.inner.chars().next_back().filter(|it| ['"', '\''].contains(it)) else { return false };
        let Some((Value::Object(arguments), rest)) = value_at(value) else { return false };
        let end = rest.strip_prefix(quote).map(|rest| rest.trim_start_matches([' ', '/']));
        let Some(rest) = end.and_then(|rest| rest.strip_prefix('>')) else { return false };
        self.rest = rest;
        self.begin_call(name, None);
        self.calls.extend(self.begun.take().map(|begun| Begun { arguments, ..begun }.whole()));
        true
    }

    /// Reads an object: a call, or the arguments of the named one; or an array of calls.
    fn take_value(&mut self) -> Option<()> {
        let (value, rest) = value_at(self.rest)?;
        self.rest = rest;
        match (self.begun.take(), value) {
            (Some(begun), Value::Object(arguments)) if begun.arguments.is_empty() => {
                self.calls.push(Begun { arguments, ..begun }.whole());
            }
            (Some(_), _) => return None,
            (None, value) => self.calls.extend(calls_of(&value, self.is_tool)?),
        }
        Some(())
    }

    /// Takes the name of a tool after a mark, or another single word between two marks.
    fn take_name(&mut self) -> bool {
        let end = self.rest.find(['<', '[', '{', '\n', '`']).unwrap_or(self.rest.len());
        let (words, rest) = self.rest.split_at(end);
        let count = words.split_whitespace().count();
        let last = words.split_whitespace().last().unwrap_or_default();
        let name = last.rsplit('=').next().unwrap_or_default();
        // Numbered, as `shell:0`.
        let name =
            name.rsplit_once(':').filter(|it| it.1.bytes().all(|it| it.is_ascii_digit())).map_or(name, |it| it.0);
        let is_name = count <= 2 && (self.is_tool)(name);
        if is_name {
            self.begin_call(name, None);
        } else if count != 1 || !rest.starts_with('<') {
            return false;
        }
        self.rest = rest;
        true
    }
}

/// The object or array at the beginning of a text, in strict or loose JSON, and the rest.
fn value_at(text: &str) -> Option<(Value, &str)> {
    let mut strict = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    if let Some(Ok(value)) = strict.next() {
        return Some((value, &text[strict.byte_offset()..]));
    }
    let mut ends: Vec<usize> =
        ["</", "<|", "```", "[/"].iter().flat_map(|it| text.match_indices(it)).map(|it| it.0).collect();
    ends.sort_unstable();
    ends.truncate(ENDS_MAX);
    ends.push(text.len());
    ends.into_iter().find_map(|end| Some((loose_json(text[..end].trim_end()).ok()?, &text[end..])))
}

/// The calls of an object or an array, also of one within a key for calls; `None` if anything else is among them.
fn calls_of(value: &Value, is_tool: &dyn Fn(&str) -> bool) -> Option<Vec<WrittenCall>> {
    if let Value::Array(items) = value {
        let calls: Option<Vec<_>> = items.iter().map(|it| call_of(it, is_tool)).collect();
        return calls.filter(|calls| !calls.is_empty());
    }
    if let Some(call) = call_of(value, is_tool) {
        return Some(vec![call]);
    }
    let held = |(key, value): (&String, &Value)| is_call_word(key) && (value.is_array() || value.is_object());
    let (_, inner) = value.as_object()?.iter().find(|(key, value)| held((key, value)))?;
    calls_of(inner, is_tool)
}

fn call_of(value: &Value, is_tool: &dyn Fn(&str) -> bool) -> Option<WrittenCall> {
    let fields = value.as_object()?;
    // OpenAI's own form of a call: the function is an object of its own.
    if let Some(function @ Value::Object(_)) = fields.get("function") {
        return call_of(function, is_tool);
    }
    let name = NAMES.iter().find_map(|key| fields.get(*key)?.as_str()).filter(|name| is_tool(name))?;
    let arguments = ARGUMENTS.iter().find_map(|key| fields.get(*key));
    let arguments = match arguments {
        None if fields.len() == 1 => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments.clone(),
        Some(Value::String(text)) => loose_json(text).ok().filter(Value::is_object)?,
        _ => return None,
    };
    Some(WrittenCall { name: name.to_owned(), arguments: arguments.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Reading {
        read_calls(text, &|name| name == "shell" || name == "file_read")
    }

    #[test]
    fn calls_written_as_text_are_found() {
        let call = r#"{"name": "shell", "arguments": {"command": "ls"}}"#;
        for text in [
            call.to_owned(),
            format!("```json\n{call}\n```"),
            format!("```\n{call}"),
            format!("<tool_call>\n{call}\n</tool_call>"),
            format!("<tools>{call}</tools>"),
            format!("```xml\n<tool_call>\n{call}\n</tool_call>\n```"),
            r#"{{"name": "shell", "arguments": {"command": "ls"}}}"#.to_owned(),
            r"{'name': 'shell', 'parameters': {'command': 'ls'}}".to_owned(),
            r#"[{"type": "function", "function": {"name": "shell", "arguments": "{\"command\":\"ls\"}"}}]"#.to_owned(),
        ] {
            let expected = WrittenCall { name: "shell".into(), arguments: r#"{"command":"ls"}"#.into() };
            assert_eq!(read(&text), Reading::Calls(String::new(), vec![expected]), "{text}");
            let every_start = text.char_indices().map(|(at, _)| &text[..at]).filter(|start| !start.trim().is_empty());
            every_start.for_each(|start| assert!(may_begin_call(start), "{start}"));
        }
        let Reading::Calls(words, calls) = read(&format!("I look.\n\n```json\n{call}\n```\n")) else { panic!("calls") };
        assert_eq!((words.as_str(), calls.len()), ("I look.", 1));
        let Reading::Calls(_, calls) = read(&format!("{call}\n{call}")) else { panic!("calls") };
        assert_eq!(calls.len(), 2);
        let two = format!("<tool_call>\n{call}\n</tool_call>\n<tool_call>\n{call}\n</tool_call>");
        assert!(matches!(read(&two), Reading::Calls(_, calls) if calls.len() == 2));
    }

    #[test]
    fn every_familys_way_to_write_a_call_is_read() {
        let one = |name: &str, arguments: &str| vec![WrittenCall { name: name.into(), arguments: arguments.into() }];
        let json = r#"{"name":"shell","arguments":{"command":"ls"}}"#;
        let function = "<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>";
        let block = format!("```json\n{json}\n```");
        for text in [
            format!("<tool_call>\n{function}\n</tool_call>"),
            function.to_owned(),
            "<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>".to_owned(),
            "<function_calls>\n<invoke name=\"shell\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</function_calls>"
                .to_owned(),
            "<tool_use><name>shell</name><arguments>{\"command\": \"ls\"}</arguments></tool_use>".to_owned(),
            "<tools>\n  <function name=\"shell\" arguments='{\"command\": \"ls\"}'/>\n</tools>".to_owned(),
            "<function name=\"shell\" arguments=\"{\"command\": \"ls\"}\"></function>".to_owned(),
            format!("[TOOL_CALLS][{json}]"),
            "[TOOL_CALLS]shell[ARGS]{\"command\": \"ls\"}".to_owned(),
            format!("<|python_tag|>{json}"),
            "<|tool_call_begin|>functions.shell:0<|tool_call_argument_begin|>{\"command\": \"ls\"}<|tool_call_end|>"
                .replace("functions.", ""),
            "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>function<\u{ff5c}tool\u{2581}sep\u{ff5c}>shell\n```json\n{\"command\": \"ls\"}\n```<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>".to_owned(),
            "<|channel|>commentary to=shell <|constrain|>json<|message|>{\"command\": \"ls\"}<|call|>".to_owned(),
            format!(r#"{{"tool_calls": [{json}]}}"#),
            format!("{block}\n\nThen I will answer."),
            format!("<tool_call>\n{json}\n</tool_call>\nThe shell says <b>a</b>."),
            "<tool_call>{'name': 'shell', 'arguments': {'command': 'ls'}}</tool_call> I wait.".to_owned(),
        ] {
            assert_eq!(read(&text), Reading::Calls(String::new(), one("shell", r#"{"command":"ls"}"#)), "{text}");
            let every_start = text.char_indices().map(|(at, _)| &text[..at]).filter(|start| !start.trim().is_empty());
            every_start.for_each(|start| assert!(may_begin_call(start), "{start} of {text}"));
        }
        let two = format!("I look.\n{function}\n<function=file_read><parameter=path>a <b></parameter></function>");
        let both = [one("shell", r#"{"command":"ls"}"#), one("file_read", r#"{"path":"a <b>"}"#)].concat();
        assert_eq!(read(&two), Reading::Calls("I look.".into(), both));
        // If the call is incomplete, or names no tool, the model is asked again.
        for text in [
            "<function=shell>\n<parameter=command>\nrm -r bui",
            "I look.\n<tool_call>\n<function=unknown>\n<parameter=a>b</parameter>\n</function>\n</tool_call>",
            "<tool_call>{\"name\": \"shell\", \"argum",
            "<function name=\"shell\" arguments='{\"command\": \"ls\"}",
            "<function name=\"unknown\" arguments='{\"command\": \"ls\"}'/>",
            "<function=shell><parameter=command>a</parameter>b</parameter></function>",
        ] {
            assert_eq!(read(text), Reading::Unclear, "{text}");
        }
        for text in [
            "Use <tool_call> for it.",
            "```html\n<function-list>\n```",
            "Its marks are:\n\n```\n<tool_call>\n```\n",
            "<tooltip>a</tooltip>",
            "<button data='{\"command\": \"ls\"}'/>",
            "<|im_start|>It is 4.",
            "[WARNING] no",
            "```python\nx = 1\n```\nshell",
        ] {
            assert_eq!(read(text), Reading::Words, "{text}");
        }
    }

    #[test]
    fn other_text_is_no_call() {
        for text in [
            "The file holds 3 lines.",
            "```rust\nfn main() {}\n```",
            r#"{"name": "demo", "version": "1"}"#,
            r#"{"name": "Maria", "arguments": {"age": 3}} is not what I meant"#,
            "Here it is:\n```json\n{\"port\": 80}\n```",
            "<b>bold</b>",
            "",
        ] {
            assert!(!matches!(read(text), Reading::Calls(..)), "{text}");
        }
        for text in ["The", "```rust\n", "<b>", "{\"port", "{ x", "[1", "fn"] {
            assert!(!may_begin_call(text), "{text}");
        }
        assert_eq!(read(r#"{"name": "run_it", "arguments": {"x": 1}}"#), Reading::Unclear);
        assert_eq!(read(r#"{"name": "shell", "arguments": {"command": "rm -r bui"#), Reading::Unclear);
    }
}
