//! OpenAI's chat completions (the "Create chat completion" and "Chat streaming" pages of its API reference), which
//! llama.cpp, vLLM, Ollama, LM Studio, OpenRouter and many others speak too.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Bad, Gathered, Problem, ThinkingForm, Without, cost, tokens};
use crate::model::endpoint::Endpoint;
use crate::model::provider::Reach;
use crate::model::request::{Item, Request, StopReason, Usage};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Value>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template_kwargs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

/// A tool; its name first and its schema as it was written, for templates show both to the model as they came.
#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Box<RawValue>,
}

/// Writes a request.
pub(super) fn body(request: &Request, endpoint: &Endpoint, without: Without) -> serde_json::Result<Vec<u8>> {
    let system = request.system.as_ref().map(|text| json!({"role": "system", "content": text}));
    let stream = !request.whole;
    let limit = super::output_tokens_max(request, endpoint);
    // OpenAI itself takes the newer name only for its newer models; the other servers know the older one.
    let (max_completion_tokens, max_tokens) =
        if endpoint.endpoint.contains("api.openai.com") { (limit, None) } else { (None, limit) };
    let thinking = endpoint.thinking.filter(|_| without.thinking == ThinkingForm::Usual);
    // Servers that build the prompt with a template have a switch in it; OpenAI refuses unknown fields.
    let switch = thinking.filter(|_| endpoint.reach() != Reach::Internet).map(|thinking| match thinking.effort() {
        Some(effort) => json!({"enable_thinking": true, "reasoning_effort": effort}),
        None => json!({"enable_thinking": false}),
    });
    let tools = request.tools.iter().map(|tool| {
        let parameters = super::schema(tool)?;
        let function = Function { name: &tool.name, description: &tool.description, parameters };
        Ok(Tool { r#type: "function", function })
    });
    serde_json::to_vec(&Body {
        model: request.model.as_deref().unwrap_or(&endpoint.model),
        messages: system
            .map(Ok)
            .into_iter()
            .chain(request.messages.iter().map(|item| message(item, request)))
            .collect::<serde_json::Result<_>>()?,
        stream,
        stream_options: (stream && !without.stream_options).then(|| json!({"include_usage": true})),
        temperature: request.temperature.or(endpoint.temperature),
        max_tokens,
        max_completion_tokens,
        reasoning_effort: thinking.map(|thinking| thinking.effort().unwrap_or("none")),
        chat_template_kwargs: switch,
        response_format: super::answer_schema(request, without)
            .map(|schema| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}})),
        tools: tools.collect::<serde_json::Result<_>>()?,
    })
}

fn message(item: &Item, request: &Request) -> serde_json::Result<Value> {
    Ok(match item {
        Item::User(text) if request.images_in(text).next().is_some() => {
            let image = |image| json!({"type": "image_url", "image_url": {"url": super::data_url(image)}});
            let mut parts: Vec<Value> = request.images_in(text).map(image).collect();
            parts.push(json!({"type": "text", "text": text}));
            json!({"role": "user", "content": parts})
        }
        Item::System(text) => json!({"role": "system", "content": text}),
        Item::User(text) => json!({"role": "user", "content": text}),
        Item::Assistant { text, calls, .. } if calls.is_empty() => json!({"role": "assistant", "content": text}),
        Item::Assistant { text, calls, .. } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    // This is text, but templates parse it: llama.cpp refuses a conversation with a truncated call.
                    let arguments = super::arguments_object(&call.arguments)?;
                    let function = json!({"name": call.name, "arguments": arguments.get()});
                    Ok(json!({"id": call.id, "type": "function", "function": function}))
                })
                .collect::<serde_json::Result<_>>()?;
            let content = (!text.is_empty()).then_some(text);
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Item::Tool(result) => json!({"role": "tool", "tool_call_id": result.id, "content": result.content}),
    })
}

/// A whole answer or one piece of a streamed one.
#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    error: Option<Value>,
    usage: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Option<Delta>,
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    content: Option<Content>,
    reasoning_content: Option<String>,
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionPiece>,
}

#[derive(Debug, Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<Value>,
}

/// Reads one response.
#[derive(Debug, Default)]
pub(super) struct Reader {
    calls: Vec<Call>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
}

impl super::Read for Reader {
    fn event(&mut self, data: &str, got: &mut Gathered) -> Result<(), Bad> {
        self.chunk(serde_json::from_str(data)?, got)
    }

    fn object(&mut self, body: &[u8], got: &mut Gathered) -> Result<(), Bad> {
        self.chunk(serde_json::from_slice(body)?, got)?;
        got.is_done = got.saw_answer;
        Ok(())
    }

    fn finish(&mut self, got: &mut Gathered) {
        for call in std::mem::take(&mut self.calls) {
            got.call(&call.id, &call.name, &call.arguments);
        }
        // Some servers end a call with the word for a plain end.
        if let Some(stop) = got.stop.as_mut().filter(|stop| stop.reason == StopReason::Done)
            && !got.calls.is_empty()
        {
            stop.reason = StopReason::ToolCalls;
        }
    }
}

impl Reader {
    fn chunk(&mut self, chunk: Chunk, got: &mut Gathered) -> Result<(), Bad> {
        if let Some(error) = &chunk.error {
            return Err(Bad::Reported(Problem::of(error)));
        }
        if let Some(usage) = chunk.usage.as_ref().filter(|usage| usage.is_object()) {
            got.usage = Some(usage_of(usage));
        }
        got.saw_answer |= chunk.choices.is_some();
        let Some(choice) = chunk.choices.into_iter().flatten().next() else { return Ok(()) };
        if let Some(delta) = choice.delta.or(choice.message) {
            self.take_delta(delta, got);
        }
        if let Some(reason) = choice.finish_reason {
            // A gateway reports a provider that broke off like this.
            if reason == "error" {
                return Err(Bad::Reported(Problem { message: "the provider broke off".into(), ..Problem::default() }));
            }
            got.stopped(stop_reason(&reason), &reason);
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: Delta, got: &mut Gathered) {
        let reasoning = delta.reasoning.as_ref().and_then(Value::as_str).map(str::to_owned);
        if let Some(thought) = delta.reasoning_content.or(reasoning) {
            got.think(&thought);
        }
        match delta.content {
            Some(Content::Text(piece)) => got.say(&piece),
            Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).for_each(|it| got.say(&it)),
            None => {}
        }
        if let Some(refusal) = delta.refusal {
            got.say(&refusal);
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.call_piece(piece, got);
        }
    }

    /// Takes a piece of a call, by its index; without an index, a new id or name begins a new call.
    fn call_piece(&mut self, piece: CallPiece, got: &mut Gathered) {
        let (name, arguments) = piece.function.map_or((None, None), |function| (function.name, function.arguments));
        let known = match (piece.index, &piece.id) {
            (Some(index), _) => self.calls.iter().position(|call| call.index == Some(index)),
            (None, Some(id)) => self.calls.iter().position(|call| &call.id == id),
            (None, None) if name.is_none() => self.calls.len().checked_sub(1),
            (None, None) => None,
        };
        let at = known.unwrap_or_else(|| {
            self.calls.push(Call { index: piece.index, ..Call::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if let Some(id) = piece.id.filter(|_| call.id.is_empty()) {
            call.id = id;
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            call.name = name;
        }
        let arguments = match arguments {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => return,
            // Some servers send the object itself.
            Some(object) => object.to_string(),
        };
        call.arguments.push_str(got.within_limit(&arguments));
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "stop" | "eos" => StopReason::Done,
        "length" => StopReason::Length,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "content_filter" => StopReason::Filtered,
        _ => StopReason::Other,
    }
}

/// Cached tokens are inside the prompt's; thoughts are inside the completion's, but for servers whose total shows that
/// they count them beside.
fn usage_of(usage: &Value) -> Usage {
    let prompt = tokens(usage, "/prompt_tokens");
    let completion = tokens(usage, "/completion_tokens");
    let cache_read =
        tokens(usage, "/prompt_tokens_details/cached_tokens").max(tokens(usage, "/prompt_cache_hit_tokens"));
    let cache_write = tokens(usage, "/prompt_tokens_details/cache_write_tokens");
    let reasoning_out = tokens(usage, "/completion_tokens_details/reasoning_tokens");
    let is_beside = reasoning_out > 0
        && prompt.saturating_add(completion).saturating_add(reasoning_out) == tokens(usage, "/total_tokens");
    Usage {
        uncached_in: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
        cache_read,
        cache_write,
        visible_out: if is_beside { completion } else { completion.saturating_sub(reasoning_out) },
        reasoning_out,
        cost: cost(usage),
        raw: usage.to_string(),
    }
}
