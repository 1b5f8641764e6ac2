//! Anthropic's Messages API (the "Messages", "Streaming messages", "Extended thinking" and "Prompt caching" pages of its
//! documentation). Blocks of an answer go back as they came: signed thoughts are refused otherwise.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{ANSWER_TOOL, Bad, Gathered, Problem, ThinkingForm, Without, own_parts, raw, tokens};
use crate::base::base64;
use crate::model::endpoint::{Endpoint, Thinking};
use crate::model::request::{Item, Request, StopReason, Usage};

/// Limit of an answer if the config has none: the protocol requires a number, and every current model can write as
/// much.
const MAX_TOKENS_DEFAULT: u64 = 8192;
/// Fewest tokens of thoughts that the protocol takes.
const THINKING_TOKENS_MIN: u64 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    stream: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Box<RawValue>>,
}

/// Marks the end of the prefix for the cache. The prefix is stable, so each request finds the previous one's.
fn cache_mark() -> Value {
    json!({"type": "ephemeral"})
}

/// Writes a request.
pub(super) fn body(request: &Request, endpoint: &Endpoint, without: Without) -> serde_json::Result<Vec<u8>> {
    let mut messages: Vec<Message> = Vec::new();
    let last = request.messages.len().saturating_sub(1);
    for (at, item) in request.messages.iter().enumerate() {
        let (role, mut content) = blocks(item, request, endpoint, at == last)?;
        match messages.last_mut() {
            // Results of tools that were called together must come in one message.
            Some(message) if message.role == role => message.content.append(&mut content),
            _ => messages.push(Message { role, content }),
        }
    }
    messages.retain(|message| !message.content.is_empty());
    let system = request.system.as_deref().filter(|text| !text.is_empty());
    let tools = request.tools.iter();
    let count = tools.len();
    let tools = tools.into_iter().enumerate().map(|(at, tool)| {
        // The system prompt's mark covers the tools too.
        let cache_control = (at + 1 == count && system.is_none()).then(cache_mark);
        let input_schema = super::schema(tool)?;
        Ok(Tool { name: &tool.name, description: &tool.description, input_schema, cache_control })
    });
    let mut tools = tools.collect::<serde_json::Result<Vec<_>>>()?;
    let mut form = without.thinking;
    // The arguments of a tool are an object always.
    let answer_schema = super::answer_schema(request, without).filter(|schema| schema["type"] == "object");
    if let Some(schema) = &answer_schema {
        let input_schema = raw(&schema.to_string())?;
        tools.push(Tool { name: ANSWER_TOOL, description: "Gives the answer.", input_schema, cache_control: None });
        // A model that must call a tool can't think.
        form = ThinkingForm::Unsaid;
    }
    let (max_tokens, thinking, output_config) = thinking(request, endpoint, form);
    let thinks = thinking.as_ref().is_some_and(|thinking| thinking["type"] != "disabled");
    serde_json::to_vec(&Body {
        model: request.model.as_deref().unwrap_or(&endpoint.model),
        max_tokens,
        system: system.map(|text| json!([{"type": "text", "text": text, "cache_control": cache_mark()}])),
        tools,
        tool_choice: answer_schema.map(|_| json!({"type": "tool", "name": ANSWER_TOOL})),
        messages,
        // A model that thinks takes no other temperature than its own.
        temperature: request.temperature.or(endpoint.temperature).filter(|_| !thinks),
        thinking,
        output_config,
        stream: !request.whole,
    })
}

/// The answer's limit and the fields for thinking. Newer models take an effort, older ones a number of tokens, which
/// counts towards the limit.
fn thinking(request: &Request, endpoint: &Endpoint, form: ThinkingForm) -> (u64, Option<Value>, Option<Value>) {
    let limit = super::output_tokens_max(request, endpoint);
    let plain = limit.unwrap_or(MAX_TOKENS_DEFAULT);
    let Some(wanted) = endpoint.thinking.filter(|_| form != ThinkingForm::Unsaid) else { return (plain, None, None) };
    let Some(effort) = wanted.effort() else {
        let disabled = json!({"type": "disabled"});
        return (plain, Some(disabled).filter(|_| form == ThinkingForm::Usual), None);
    };
    // Without a configured limit, thoughts don't make the answer shorter.
    let max_tokens = limit.unwrap_or_else(|| MAX_TOKENS_DEFAULT.saturating_add(wanted.tokens()));
    let by_tokens = matches!(wanted, Thinking::Tokens(_)) == (form == ThinkingForm::Usual);
    if !by_tokens {
        let adaptive = json!({"type": "adaptive", "display": "summarized"});
        return (max_tokens, Some(adaptive), Some(json!({"effort": effort})));
    }
    // An answer must fit beside it.
    let tokens = if wanted.tokens() < max_tokens { wanted.tokens() } else { max_tokens / 2 }.max(THINKING_TOKENS_MIN);
    let enabled = json!({"type": "enabled", "budget_tokens": tokens});
    (max_tokens, Some(enabled).filter(|_| tokens < max_tokens), None)
}

fn blocks(
    item: &Item,
    request: &Request,
    endpoint: &Endpoint,
    is_last: bool,
) -> serde_json::Result<(&'static str, Vec<Box<RawValue>>)> {
    let mut content = Vec::new();
    let mut block = match item {
        Item::System(text) => json!({"type": "text", "text": text}),
        Item::User(text) => {
            for image in request.images_in(text) {
                let (format, data) = (image.format(), base64::encode(image.bytes()));
                let source = json!({"type": "base64", "media_type": format!("image/{format}"), "data": data});
                content.push(raw(&json!({"type": "image", "source": source}).to_string())?);
            }
            json!({"type": "text", "text": text})
        }
        Item::Tool(result) => {
            let (id, content) = (&result.id, &result.content);
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": result.is_error})
        }
        Item::Assistant { text, calls, state } => {
            if let Some(parts) = own_parts(state.as_ref(), endpoint) {
                let parts = parts.iter().map(|part| raw(part)).collect::<serde_json::Result<_>>()?;
                return Ok(("assistant", parts));
            }
            if !text.trim().is_empty() {
                content.push(raw(&json!({"type": "text", "text": text}).to_string())?);
            }
            for call in calls {
                content.push(raw(&tool_use(&call.id, &call.name, &call.arguments)?)?);
            }
            return Ok(("assistant", content));
        }
    };
    if is_last {
        block["cache_control"] = cache_mark();
    }
    content.push(raw(&block.to_string())?);
    Ok(("user", content))
}

fn tool_use(id: &str, name: &str, arguments: &str) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct ToolUse<'a> {
        r#type: &'static str,
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    }
    let input = super::arguments_object(arguments)?;
    serde_json::to_string(&ToolUse { r#type: "tool_use", id, name, input })
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    #[serde(borrow)]
    message: Option<Answer<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    delta: Option<Delta<'a>>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    stop_reason: Option<String>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    r#type: Option<String>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    stop_reason: Option<String>,
}

/// A block as it opens.
#[derive(Deserialize)]
struct Opening {
    r#type: String,
    id: Option<String>,
    name: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
}

/// A block that is coming.
#[derive(Debug)]
struct Block {
    index: Option<u64>,
    kind: Kind,
    /// The block's opening as it came.
    opening: String,
}

#[derive(Debug)]
enum Kind {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    ToolUse {
        id: String,
        name: String,
        arguments: String,
    },
    /// An answer that a schema holds, as the arguments of a tool.
    Answer(String),
    /// Complete from the start: redacted thoughts, results of the server's own tools, unknown blocks.
    Other,
}

/// Reads one response.
#[derive(Debug, Default)]
pub(super) struct Reader {
    blocks: Vec<Block>,
    usage: Map<String, Value>,
}

impl super::Read for Reader {
    fn event(&mut self, data: &str, got: &mut Gathered) -> Result<(), Bad> {
        let event: Event<'_> = serde_json::from_str(data)?;
        match event.r#type.as_str() {
            "message_start" => {
                got.saw_answer = true;
                self.add_usage(event.message.and_then(|message| message.usage));
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.open(event.index, block.get(), got)?;
                }
            }
            "content_block_delta" => {
                let block = self.blocks.iter_mut().rev().find(|block| block.index == event.index);
                if let (Some(block), Some(delta)) = (block, event.delta) {
                    block.grow(&delta, got);
                }
            }
            "message_delta" => {
                self.add_usage(event.usage);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    got.stopped(stop_reason(&reason), &reason);
                }
            }
            "message_stop" => got.is_done = got.saw_answer,
            "error" => return Err(Bad::Reported(Problem::of_body(data.as_bytes()))),
            _ => {}
        }
        Ok(())
    }

    fn object(&mut self, body: &[u8], got: &mut Gathered) -> Result<(), Bad> {
        let answer: Answer<'_> = serde_json::from_slice(body)?;
        if let Some(error) = &answer.error {
            return Err(Bad::Reported(Problem::of(error)));
        }
        got.saw_answer = answer.content.is_some();
        for (index, block) in (0..).zip(answer.content.into_iter().flatten()) {
            self.open(Some(index), block.get(), got)?;
            if let Some(Block { kind: Kind::ToolUse { arguments, .. }, opening, .. }) = self.blocks.last_mut() {
                let input: ToolInput<'_> = serde_json::from_str(opening)?;
                *arguments = input.input.map(|input| input.get().to_owned()).unwrap_or_default();
            }
            if let Some(Block { kind: Kind::Answer(text), opening, .. }) = self.blocks.last_mut() {
                let input: ToolInput<'_> = serde_json::from_str(opening)?;
                *text = input.input.map(|input| input.get().to_owned()).unwrap_or_default();
                got.say(text);
            }
        }
        if let Some(reason) = answer.stop_reason {
            got.stopped(stop_reason(&reason), &reason);
        }
        self.add_usage(answer.usage);
        got.is_done = got.saw_answer;
        Ok(())
    }

    fn finish(&mut self, got: &mut Gathered) {
        for block in std::mem::take(&mut self.blocks) {
            match block.kind {
                Kind::Text(text) | Kind::Answer(text) if text.is_empty() => {}
                Kind::Text(text) | Kind::Answer(text) => {
                    got.parts.push(json!({"type": "text", "text": text}).to_string())
                }
                Kind::Thinking { text, signature } => {
                    let part = json!({"type": "thinking", "thinking": text, "signature": signature});
                    got.parts.push(part.to_string());
                }
                Kind::ToolUse { id, name, arguments } => {
                    got.parts.extend(tool_use(&id, &name, &arguments));
                    got.call(&id, &name, &arguments);
                }
                Kind::Other => got.parts.push(block.opening),
            }
        }
        if !self.usage.is_empty() {
            got.usage = Some(usage_of(&Value::Object(std::mem::take(&mut self.usage))));
        }
    }
}

#[derive(Deserialize)]
struct ToolInput<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

impl Reader {
    fn open(&mut self, index: Option<u64>, opening: &str, got: &mut Gathered) -> Result<(), Bad> {
        let block: Opening = serde_json::from_str(opening)?;
        got.saw_answer = true;
        let kind = match block.r#type.as_str() {
            "text" => {
                let text = block.text.unwrap_or_default();
                got.say(&text);
                Kind::Text(text)
            }
            "thinking" => {
                let text = block.thinking.unwrap_or_default();
                got.think(&text);
                Kind::Thinking { text, signature: block.signature.unwrap_or_default() }
            }
            "tool_use" if block.name.as_deref() == Some(ANSWER_TOOL) => Kind::Answer(String::new()),
            "tool_use" => Kind::ToolUse {
                id: block.id.unwrap_or_default(),
                name: block.name.unwrap_or_default(),
                arguments: String::new(),
            },
            _ => Kind::Other,
        };
        self.blocks.push(Block { index, kind, opening: opening.to_owned() });
        Ok(())
    }

    /// Replaces earlier numbers by later ones: the input's come first, the output's grow.
    fn add_usage(&mut self, usage: Option<Value>) {
        if let Some(Value::Object(usage)) = usage {
            self.usage.extend(usage.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }
}

impl Block {
    fn grow(&mut self, delta: &Delta<'_>, got: &mut Gathered) {
        match (&mut self.kind, delta.r#type.as_deref()) {
            (Kind::Text(text), Some("text_delta")) => {
                let piece = delta.text.as_deref().unwrap_or_default();
                text.push_str(piece);
                got.say(piece);
            }
            (Kind::Thinking { text, .. }, Some("thinking_delta")) => {
                let piece = delta.thinking.as_deref().unwrap_or_default();
                text.push_str(piece);
                got.think(piece);
            }
            (Kind::Thinking { signature, .. }, Some("signature_delta")) => {
                signature.push_str(got.within_limit(delta.signature.as_deref().unwrap_or_default()));
            }
            (Kind::Answer(text), Some("input_json_delta")) => {
                let piece = delta.partial_json.as_deref().unwrap_or_default();
                text.push_str(piece);
                got.say(piece);
            }
            (Kind::ToolUse { arguments, .. }, Some("input_json_delta")) => {
                arguments.push_str(got.within_limit(delta.partial_json.as_deref().unwrap_or_default()));
            }
            _ => {}
        }
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" => StopReason::Done,
        "max_tokens" => StopReason::Length,
        "tool_use" => StopReason::ToolCalls,
        "refusal" => StopReason::Filtered,
        "model_context_window_exceeded" => StopReason::ContextFull,
        "pause_turn" => StopReason::Paused,
        _ => StopReason::Other,
    }
}

/// Cached tokens aren't included in the input's, thoughts are included in the output's.
fn usage_of(usage: &Value) -> Usage {
    let reasoning_out = tokens(usage, "/output_tokens_details/thinking_tokens");
    Usage {
        uncached_in: tokens(usage, "/input_tokens"),
        cache_read: tokens(usage, "/cache_read_input_tokens"),
        cache_write: tokens(usage, "/cache_creation_input_tokens"),
        visible_out: tokens(usage, "/output_tokens").saturating_sub(reasoning_out),
        reasoning_out,
        cost: None,
        raw: usage.to_string(),
    }
}
