//! Google's Gemini API (the "generateContent", "streamGenerateContent", "Function calling" and "Thought signatures" pages
//! of its documentation). Parts of an answer go back as they came, each with its signature.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Bad, Gathered, MADE_UP_ID, Problem, ThinkingForm, Without, own_parts, raw, tokens};
use crate::base::base64;
use crate::model::endpoint::{Endpoint, Thinking};
use crate::model::request::{Image, Item, Request, StopReason, Usage};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    contents: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Value>,
}

#[derive(Serialize)]
struct Content {
    role: &'static str,
    parts: Vec<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools {
    function_declarations: Vec<Function>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function {
    name: String,
    description: String,
    parameters_json_schema: Box<RawValue>,
}

/// Writes a request.
pub(super) fn body(request: &Request, endpoint: &Endpoint, without: Without) -> serde_json::Result<Vec<u8>> {
    let mut contents: Vec<Content> = Vec::new();
    for item in &request.messages {
        let (role, mut parts) = parts(item, request, endpoint)?;
        match contents.last_mut() {
            Some(content) if content.role == role => content.parts.append(&mut parts),
            _ => contents.push(Content { role, parts }),
        }
    }
    contents.retain(|content| !content.parts.is_empty());
    let functions = request.tools.iter().map(|tool| {
        let parameters_json_schema = super::schema(tool)?;
        Ok(Function { name: tool.name.clone(), description: tool.description.clone(), parameters_json_schema })
    });
    let function_declarations = functions.collect::<serde_json::Result<Vec<_>>>()?;
    let mut config = serde_json::Map::new();
    if let Some(temperature) = request.temperature.or(endpoint.temperature) {
        config.insert("temperature".into(), json!(temperature));
    }
    if let Some(limit) = super::output_tokens_max(request, endpoint) {
        config.insert("maxOutputTokens".into(), json!(limit));
    }
    if let Some(thinking) = endpoint.thinking.filter(|_| without.thinking == ThinkingForm::Usual) {
        config.insert("thinkingConfig".into(), thinking_config(thinking, &endpoint.model));
    }
    if let Some(schema) = super::answer_schema(request, without) {
        config.insert("responseMimeType".into(), json!("application/json"));
        config.insert("responseJsonSchema".into(), schema);
    }
    serde_json::to_vec(&Body {
        system_instruction: request.system.as_ref().map(|text| json!({"parts": [{"text": text}]})),
        contents,
        tools: (!function_declarations.is_empty()).then_some([Tools { function_declarations }]),
        generation_config: (!config.is_empty()).then_some(Value::Object(config)),
    })
}

/// The second generation has a number of tokens, later ones have a level.
fn thinking_config(thinking: Thinking, model: &str) -> Value {
    let with_thoughts = thinking != Thinking::Off;
    if model.trim_start_matches("models/").starts_with("gemini-2") {
        return json!({"includeThoughts": with_thoughts, "thinkingBudget": thinking.tokens()});
    }
    json!({"includeThoughts": with_thoughts, "thinkingLevel": thinking.effort().unwrap_or("minimal")})
}

fn parts(
    item: &Item,
    request: &Request,
    endpoint: &Endpoint,
) -> serde_json::Result<(&'static str, Vec<Box<RawValue>>)> {
    let one = |value: Value| Ok(vec![raw(&value.to_string())?]);
    match item {
        Item::System(text) => Ok(("user", one(json!({"text": text}))?)),
        Item::User(text) => {
            let image = |image: &Image| {
                let (format, data) = (image.format(), base64::encode(image.bytes()));
                raw(&json!({"inlineData": {"mimeType": format!("image/{format}"), "data": data}}).to_string())
            };
            let mut parts = request.images_in(text).map(image).collect::<serde_json::Result<Vec<_>>>()?;
            parts.extend(one(json!({"text": text}))?);
            Ok(("user", parts))
        }
        Item::Tool(result) => {
            let key = if result.is_error { "error" } else { "result" };
            let mut response = json!({"name": result.name, "response": {key: result.content}});
            if !result.id.starts_with(MADE_UP_ID) {
                response["id"] = json!(result.id);
            }
            Ok(("user", one(json!({"functionResponse": response}))?))
        }
        Item::Assistant { text, calls, state } => {
            if let Some(parts) = own_parts(state.as_ref(), endpoint) {
                return Ok(("model", parts.iter().map(|part| raw(part)).collect::<serde_json::Result<_>>()?));
            }
            let mut parts = Vec::new();
            if !text.is_empty() {
                parts.extend(one(json!({"text": text}))?);
            }
            for call in calls {
                let arguments: Value = serde_json::from_str(super::arguments_object(&call.arguments)?.get())?;
                parts.extend(one(json!({"functionCall": {"name": call.name, "args": arguments}}))?);
            }
            Ok(("model", parts))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<Value>,
    usage_metadata: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Reply<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<Value>,
    #[serde(borrow)]
    function_call: Option<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<String>,
    name: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

/// Reads one response.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Text without a signature that has no part of its own yet: pieces of one stream are one part.
    plain: String,
}

impl super::Read for Reader {
    fn event(&mut self, data: &str, got: &mut Gathered) -> Result<(), Bad> {
        self.chunk(serde_json::from_str(data)?, got)
    }

    fn object(&mut self, body: &[u8], got: &mut Gathered) -> Result<(), Bad> {
        // Without `alt=sse` a stream is one array of chunks.
        if body.first() == Some(&b'[') {
            for chunk in serde_json::from_slice::<Vec<Chunk<'_>>>(body)? {
                self.chunk(chunk, got)?;
            }
        } else {
            self.chunk(serde_json::from_slice(body)?, got)?;
        }
        got.is_done = got.saw_answer;
        Ok(())
    }

    fn finish(&mut self, got: &mut Gathered) {
        self.end_plain(got);
        if let Some(stop) = got.stop.as_mut().filter(|stop| stop.reason == StopReason::Done)
            && !got.calls.is_empty()
        {
            stop.reason = StopReason::ToolCalls;
        }
    }
}

impl Reader {
    fn chunk(&mut self, chunk: Chunk<'_>, got: &mut Gathered) -> Result<(), Bad> {
        if let Some(error) = &chunk.error {
            return Err(Bad::Reported(Problem::of(error)));
        }
        if let Some(usage) = chunk.usage_metadata.as_ref().filter(|usage| usage.is_object()) {
            got.usage = Some(usage_of(usage));
        }
        let blocked = chunk.prompt_feedback.as_ref().and_then(|it| it.get("blockReason")).and_then(Value::as_str);
        if let Some(reason) = blocked {
            got.saw_answer = true;
            got.stopped(StopReason::Filtered, reason);
        }
        got.saw_answer |= chunk.candidates.is_some() || chunk.usage_metadata.is_some();
        let Some(candidate) = chunk.candidates.into_iter().flatten().next() else { return Ok(()) };
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.part(part, got)?;
        }
        if let Some(reason) = candidate.finish_reason {
            got.stopped(stop_reason(&reason), &reason);
        }
        Ok(())
    }

    fn part(&mut self, whole: &RawValue, got: &mut Gathered) -> Result<(), Bad> {
        let part: Part<'_> = serde_json::from_str(whole.get())?;
        let is_thought = part.thought == Some(true);
        match &part.text {
            Some(text) if is_thought => got.think(text),
            Some(text) => {
                got.say(text);
                if part.thought_signature.is_none() {
                    self.plain.push_str(text);
                    return Ok(());
                }
            }
            None => {}
        }
        if let Some(call) = part.function_call {
            let arguments = call.args.map(RawValue::get).unwrap_or_default();
            got.call(&call.id.unwrap_or_default(), &call.name, arguments);
        }
        // Thoughts in words are only for reading; a signed part goes back.
        if !is_thought || part.thought_signature.is_some() {
            self.end_plain(got);
            got.keep_part(whole.get());
        }
        Ok(())
    }

    fn end_plain(&mut self, got: &mut Gathered) {
        let plain = std::mem::take(&mut self.plain);
        if !plain.is_empty() {
            got.keep_part(&json!({"text": plain}).to_string());
        }
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "STOP" => StopReason::Done,
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => StopReason::Filtered,
        _ => StopReason::Other,
    }
}

/// Cached tokens are inside the prompt's, those of tools beside it; thoughts are beside the candidates'.
fn usage_of(usage: &Value) -> Usage {
    let cache_read = tokens(usage, "/cachedContentTokenCount");
    let prompt = tokens(usage, "/promptTokenCount").saturating_sub(cache_read);
    Usage {
        uncached_in: prompt.saturating_add(tokens(usage, "/toolUsePromptTokenCount")),
        cache_read,
        cache_write: 0,
        visible_out: tokens(usage, "/candidatesTokenCount"),
        reasoning_out: tokens(usage, "/thoughtsTokenCount"),
        cost: None,
        raw: usage.to_string(),
    }
}
