//! A server's message, read from its text. rmcp tries some twenty kinds of answers, each on a copy of the message. A list of tools
//! may have megabytes, so it is read directly.

pub(super) mod input;
pub(super) mod lines;

use rmcp::model::{
    JsonRpcMessage, JsonRpcResponse, JsonRpcVersion2_0, ListToolsResult, MetaObject, RequestId, ResultType,
    ServerJsonRpcMessage, ServerResult, Tool,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A mark that some programs put before their text; it isn't part of the JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An answer with a list of tools and nothing else, so that no other kind of answer fits it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsAnswer {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    result: Tools,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tools {
    tools: Vec<Tool>,
    next_cursor: Option<String>,
    result_type: Option<ResultType>,
    #[serde(rename = "_meta")]
    meta: Option<MetaObject>,
    // Lists are fetched again at each start, whatever their declared lifetime.
    #[serde(rename = "ttlMs")]
    _ttl_ms: Option<IgnoredAny>,
    #[serde(rename = "cacheScope")]
    _cache_scope: Option<IgnoredAny>,
}

/// Reads a message.
///
/// # Errors
/// It isn't JSON, or not a message of the protocol.
pub(super) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    match serde_json::from_slice::<ToolsAnswer>(text) {
        Ok(ToolsAnswer { jsonrpc, id, result }) if is_complete(&result) => {
            let mut list = ListToolsResult::with_all_items(result.tools);
            (list.next_cursor, list.result_type, list.meta) = (result.next_cursor, result.result_type, result.meta);
            let result = ServerResult::ListToolsResult(list);
            Ok(JsonRpcMessage::Response(JsonRpcResponse { jsonrpc, id, result }))
        }
        _ => serde_json::from_slice(text),
    }
}

fn is_complete(tools: &Tools) -> bool {
    tools.result_type.as_ref().is_none_or(|kind| *kind == ResultType::COMPLETE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading directly has the same result as rmcp, except for the declared lifetime of a list.
    #[test]
    fn a_list_of_tools_is_read_as_every_message_is() {
        let tool = r#"{"name":"a","title":"A","inputSchema":{"type":"object","$defs":{"b":[1,2.5,null]}},"outputSchema":{"type":"object"},
            "annotations":{"readOnlyHint":true},"icons":[{"src":"data:,x"}],"_meta":{"k":1},"more":[[1]]}"#;
        for text in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool},{tool}]}}}}"#),
            format!(
                r#"{{"result":{{"tools":[{tool}],"nextCursor":"n","_meta":{{"a":"b"}}}},"id":"x","jsonrpc":"2.0"}}"#
            ),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"resultType":"complete"}}"#.to_owned(),
            format!("\u{feff}{}", r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#),
            // The answer isn't only a list, so rmcp decides.
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}],"contents":[]}}}}"#),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"resultType":"input_required"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{"tools":[]}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}"#.to_owned(),
        ] {
            let plain = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let theirs = serde_json::from_str::<ServerJsonRpcMessage>(plain);
            let value = |message| serde_json::to_value::<ServerJsonRpcMessage>(message).expect("JSON");
            assert_eq!(read(text.as_bytes()).ok().map(value), theirs.ok().map(value), "{text}");
        }
        let lasting =
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":5,"cacheScope":"public","resultType":"complete"}}"#;
        let JsonRpcMessage::Response(answer) = read(lasting.as_bytes()).expect("a list") else { panic!("an answer") };
        assert!(matches!(answer.result, ServerResult::ListToolsResult(list) if list.ttl_ms.is_none()));
    }
}
