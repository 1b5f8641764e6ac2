//! OpenAI's Responses API (the "Responses" and "Streaming events" pages of its API reference). Nothing is stored at the
//! server: everything that the model must see again, including encrypted reasoning, goes back with each request.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Bad, Gathered, Problem, ThinkingForm, Without, cost, own_parts, raw, tokens};
use crate::model::endpoint::Endpoint;
use crate::model::request::{Item, Request, StopReason, Usage};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Box<RawValue>>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Box<RawValue>,
    strict: bool,
}

/// Writes a request.
pub(super) fn body(request: &Request, endpoint: &Endpoint, without: Without) -> serde_json::Result<Vec<u8>> {
    let mut input = Vec::new();
    for item in &request.messages {
        add(item, request, endpoint, &mut input)?;
    }
    let thinking = endpoint.thinking.filter(|_| without.thinking == ThinkingForm::Usual);
    let reasoning = thinking.map(|thinking| match thinking.effort() {
        Some(effort) => json!({"effort": effort, "summary": "auto"}),
        None => json!({"effort": "none"}),
    });
    let tools = request.tools.iter().map(|tool| {
        let parameters = super::schema(tool)?;
        Ok(Tool { r#type: "function", name: &tool.name, description: &tool.description, parameters, strict: false })
    });
    serde_json::to_vec(&Body {
        model: request.model.as_deref().unwrap_or(&endpoint.model),
        instructions: request.system.as_deref(),
        input,
        stream: !request.whole,
        store: false,
        include: (!without.encrypted_reasoning).then_some(["reasoning.encrypted_content"]),
        temperature: request.temperature.or(endpoint.temperature),
        max_output_tokens: super::output_tokens_max(request, endpoint),
        reasoning,
        text: super::answer_schema(request, without)
            .map(|schema| json!({"format": {"type": "json_schema", "name": "answer", "schema": schema}})),
        tools: tools.collect::<serde_json::Result<_>>()?,
    })
}

fn add(item: &Item, request: &Request, endpoint: &Endpoint, input: &mut Vec<Box<RawValue>>) -> serde_json::Result<()> {
    let value = match item {
        Item::System(text) => json!({"role": "developer", "content": text}),
        Item::User(text) if request.images_in(text).next().is_some() => {
            let image = |image| json!({"type": "input_image", "image_url": super::data_url(image)});
            let mut parts: Vec<Value> = request.images_in(text).map(image).collect();
            parts.push(json!({"type": "input_text", "text": text}));
            json!({"role": "user", "content": parts})
        }
        Item::User(text) => json!({"role": "user", "content": text}),
        Item::Assistant { text, calls, state } => {
            if let Some(parts) = own_parts(state.as_ref(), endpoint) {
                for part in parts {
                    input.push(raw(part)?);
                }
                return Ok(());
            }
            if !text.is_empty() {
                input.push(raw(&json!({"role": "assistant", "content": text}).to_string())?);
            }
            for call in calls {
                let (id, name, arguments) = (&call.id, &call.name, &call.arguments);
                let call = json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
                input.push(raw(&call.to_string())?);
            }
            return Ok(());
        }
        Item::Tool(result) => {
            json!({"type": "function_call_output", "call_id": result.id, "output": result.content})
        }
    };
    input.push(raw(&value.to_string())?);
    Ok(())
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    delta: Option<Value>,
    output_index: Option<u64>,
}

#[derive(Deserialize)]
struct Response<'a> {
    status: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<Value>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct OutputItem {
    r#type: String,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    content: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    refusal: Option<String>,
}

/// Reads one response.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The index of the item whose text came in pieces, so that its end doesn't repeat it.
    streamed: Vec<Option<u64>>,
}

impl super::Read for Reader {
    fn event(&mut self, data: &str, got: &mut Gathered) -> Result<(), Bad> {
        let event: Event<'_> = serde_json::from_str(data)?;
        let delta = || event.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
        match event.r#type.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                got.saw_answer = true;
                if !self.streamed.contains(&event.output_index) {
                    self.streamed.push(event.output_index);
                }
                got.say(delta());
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                got.saw_answer = true;
                got.think(delta());
            }
            "response.output_item.done" => {
                got.saw_answer = true;
                if let Some(item) = event.item {
                    let is_streamed = self.streamed.contains(&event.output_index);
                    output(item, is_streamed, got)?;
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                if let Some(response) = event.response {
                    // Its items have come one by one, but for servers that send the end alone.
                    let items_came = !got.parts.is_empty();
                    self.response(response.get(), !items_came, got)?;
                }
                got.saw_answer = true;
                got.is_done = true;
            }
            "error" => return Err(Bad::Reported(Problem::of_body(data.as_bytes()))),
            kind if kind.starts_with("response.") => got.saw_answer = true,
            _ => {}
        }
        Ok(())
    }

    fn object(&mut self, body: &[u8], got: &mut Gathered) -> Result<(), Bad> {
        let response: &RawValue = serde_json::from_slice(body)?;
        self.response(response.get(), true, got)?;
        got.is_done = got.saw_answer;
        Ok(())
    }

    fn finish(&mut self, got: &mut Gathered) {
        if let Some(stop) = got.stop.as_mut().filter(|stop| stop.reason == StopReason::Done)
            && !got.calls.is_empty()
        {
            stop.reason = StopReason::ToolCalls;
        }
    }
}

impl Reader {
    fn response(&mut self, text: &str, with_output: bool, got: &mut Gathered) -> Result<(), Bad> {
        let response: Response<'_> = serde_json::from_str(text)?;
        if let Some(error) = response.error.as_ref().filter(|error| !error.is_null()) {
            return Err(Bad::Reported(Problem::of(error)));
        }
        got.saw_answer |= response.output.is_some();
        if with_output {
            for item in response.output.into_iter().flatten() {
                output(item, !self.streamed.is_empty(), got)?;
            }
        }
        if let Some(usage) = response.usage.as_ref().filter(|usage| usage.is_object()) {
            got.usage = Some(usage_of(usage));
        }
        let detail = response.incomplete_details.as_ref().and_then(|it| it.get("reason")).and_then(Value::as_str);
        match (detail, response.status.as_deref()) {
            (Some("max_output_tokens"), _) => got.stopped(StopReason::Length, "max_output_tokens"),
            (Some("content_filter"), _) => got.stopped(StopReason::Filtered, "content_filter"),
            (Some(other), _) => got.stopped(StopReason::Other, other),
            (None, Some("failed")) => {
                let message = "the server failed and gave no reason".to_owned();
                return Err(Bad::Reported(Problem { message, ..Problem::default() }));
            }
            (None, Some(status)) => got.stopped(StopReason::Done, status),
            (None, None) => {}
        }
        Ok(())
    }
}

/// Takes a whole item of the output; its text too, unless that came in pieces.
fn output(item: &RawValue, is_said: bool, got: &mut Gathered) -> Result<(), Bad> {
    got.keep_part(item.get());
    let item: OutputItem = serde_json::from_str(item.get())?;
    match item.r#type.as_str() {
        "function_call" => {
            let arguments = item.arguments.unwrap_or_default();
            got.call(&item.call_id.unwrap_or_default(), &item.name.unwrap_or_default(), &arguments);
        }
        "message" if !is_said => {
            for part in item.content.into_iter().flatten() {
                if let Some(text) = part.text.or(part.refusal) {
                    got.say(&text);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Cached tokens are inside the input's, thoughts inside the output's.
fn usage_of(usage: &Value) -> Usage {
    let input = tokens(usage, "/input_tokens");
    let cache_read = tokens(usage, "/input_tokens_details/cached_tokens");
    let cache_write = tokens(usage, "/input_tokens_details/cache_write_tokens");
    let reasoning_out = tokens(usage, "/output_tokens_details/reasoning_tokens");
    Usage {
        uncached_in: input.saturating_sub(cache_read).saturating_sub(cache_write),
        cache_read,
        cache_write,
        visible_out: tokens(usage, "/output_tokens").saturating_sub(reasoning_out),
        reasoning_out,
        cost: cost(usage),
        raw: usage.to_string(),
    }
}
