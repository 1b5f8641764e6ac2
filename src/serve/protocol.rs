//! The Model Context Protocol as a server speaks it: both of its eras, with tools and nothing else. Values in, values out.

use serde_json::{Map, Value, json};

use crate::rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};

/// The version without a handshake.
const MODERN: &str = "2026-07-28";
/// The versions that begin with a handshake, the newest first.
const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The version isn't one of ours.
const UNSUPPORTED_VERSION: i64 = -32_022;
/// Keys of the facts that a request or a result carries.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const ABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// Characters of a client's name.
const NAME_CHARS_MAX: usize = 60;
/// Time for which a client may cache a list; the offer doesn't change while the process runs.
const LIST_TTL_MS: u64 = 3_600_000;

/// The part of the connection that requests build on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Connection {
    /// The client, in its own words; empty if it sent no name.
    pub(super) client: String,
    /// A handshake was made.
    has_handshake: bool,
}

/// The meaning of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClientRequest {
    /// The answer to a request that is answered at once.
    Answer(Value),
    /// A tool is called.
    Call {
        /// The tool's name.
        name: String,
        /// Its arguments, an object.
        arguments: Value,
        /// The token for signs of progress, null if none is wanted.
        progress: Value,
        /// The client speaks the version without a handshake.
        is_modern: bool,
    },
}

impl Connection {
    /// Interprets a request. `tools` are the offered definitions, `instructions` are for the client's model.
    ///
    /// # Errors
    /// It can't be answered.
    pub(super) fn understand(
        &mut self,
        method: &str,
        params: &Value,
        tools: &[Value],
        instructions: &str,
    ) -> Result<ClientRequest, RpcError> {
        let meta = &params["_meta"];
        let version = meta.get(VERSION_KEY);
        let is_modern = version.is_some() || method == "server/discover";
        if let Some(wanted) = version.filter(|wanted| *wanted != MODERN) {
            let data = json!({"supported": [MODERN], "requested": wanted});
            return Err(RpcError { data, ..RpcError::new(UNSUPPORTED_VERSION, "this version isn't spoken here") });
        }
        if is_modern {
            if version.is_none() || !meta[ABILITIES_KEY].is_object() {
                let message = format!("_meta must have {VERSION_KEY} and {ABILITIES_KEY}");
                return Err(RpcError::new(INVALID_PARAMS, message));
            }
            self.note_client(&meta[CLIENT_KEY]);
        }
        match method {
            "initialize" if !is_modern => return Ok(ClientRequest::Answer(self.handshake(params, instructions))),
            "ping" if !is_modern => return Ok(ClientRequest::Answer(json!({}))),
            _ if !is_modern && !self.has_handshake => {
                let message = format!("initialize comes first, or _meta has {VERSION_KEY}");
                return Err(RpcError::new(INVALID_PARAMS, message));
            }
            _ => {}
        }
        match method {
            "server/discover" => {
                let mut result = json!({
                    "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "instructions": instructions,
                    "ttlMs": LIST_TTL_MS, "cacheScope": "private",
                });
                mark(&mut result, true);
                Ok(ClientRequest::Answer(result))
            }
            "tools/list" if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) => {
                Err(RpcError::new(INVALID_PARAMS, "this cursor isn't ours: the list has one page"))
            }
            "tools/list" => {
                let mut result = json!({"tools": tools});
                if is_modern {
                    (result["ttlMs"], result["cacheScope"]) = (LIST_TTL_MS.into(), "private".into());
                }
                mark(&mut result, is_modern);
                Ok(ClientRequest::Answer(result))
            }
            "tools/call" => call(params, tools, is_modern),
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("there is no method {method:?}"))),
        }
    }

    fn handshake(&mut self, params: &Value, instructions: &str) -> Value {
        self.has_handshake = true;
        self.note_client(&params["clientInfo"]);
        let wanted = params["protocolVersion"].as_str().unwrap_or_default();
        let version = HANDSHAKE.into_iter().find(|known| *known == wanted).unwrap_or(HANDSHAKE[0]);
        json!({
            "protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": own(), "instructions": instructions,
        })
    }

    fn note_client(&mut self, info: &Value) {
        if let Some(name) = info["name"].as_str() {
            self.client = name.chars().take(NAME_CHARS_MAX).collect();
        }
    }
}

fn call(params: &Value, tools: &[Value], is_modern: bool) -> Result<ClientRequest, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    if !tools.iter().any(|tool| tool["name"] == name) {
        return Err(RpcError::new(INVALID_PARAMS, format!("there is no tool {name:?}")));
    }
    let arguments = match &params["arguments"] {
        Value::Null => Value::Object(Map::new()),
        Value::Object(_) => params["arguments"].clone(),
        _ => return Err(RpcError::new(INVALID_PARAMS, "the arguments are an object")),
    };
    let progress = params["_meta"]["progressToken"].clone();
    Ok(ClientRequest::Call { name: name.to_owned(), arguments, progress, is_modern })
}

/// Adds the parts that each result of the newest version has.
pub(super) fn mark(result: &mut Value, is_modern: bool) {
    if is_modern {
        result["resultType"] = "complete".into();
        result["_meta"][SERVER_KEY] = own();
    }
}

fn own() -> Value {
    json!({"name": "reedclaw", "title": "ReedClaw", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(more: Value) -> Value {
        let mut params = more;
        params["_meta"] = json!({VERSION_KEY: MODERN, ABILITIES_KEY: {}, CLIENT_KEY: {"name": "new", "version": "1"}});
        params
    }

    #[test]
    fn both_eras_get_what_they_know() {
        let tools = [json!({"name": "time"})];
        let mut connection = Connection::default();
        let early = connection.understand("tools/list", &json!({}), &tools, "");
        assert_eq!(early.expect_err("no handshake").code, INVALID_PARAMS);
        for (wanted, answered) in [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25"), (MODERN, "2025-11-25")] {
            let params = json!({"protocolVersion": wanted, "clientInfo": {"name": "old", "version": "1"}});
            let Ok(ClientRequest::Answer(result)) = connection.understand("initialize", &params, &tools, "hello")
            else {
                panic!("no answer");
            };
            assert_eq!((&result["protocolVersion"], &result["instructions"]), (&json!(answered), &json!("hello")));
        }
        assert_eq!(connection.client, "old");
        let listed = connection.understand("tools/list", &json!({}), &tools, "");
        assert_eq!(listed, Ok(ClientRequest::Answer(json!({"tools": tools}))));

        let mut connection = Connection::default();
        let Ok(ClientRequest::Answer(result)) =
            connection.understand("server/discover", &modern(json!({})), &tools, "")
        else {
            panic!("no answer");
        };
        assert_eq!((&result["resultType"], &result["supportedVersions"]), (&json!("complete"), &json!([MODERN])));
        let Ok(ClientRequest::Answer(result)) = connection.understand("tools/list", &modern(json!({})), &tools, "")
        else {
            panic!("no answer");
        };
        assert_eq!((&result["tools"], &result["cacheScope"]), (&json!(tools), &json!("private")));
        assert_eq!(connection.client, "new");
        let mut other = modern(json!({}));
        other["_meta"][VERSION_KEY] = json!("2027-01-01");
        let error = connection.understand("tools/list", &other, &tools, "").expect_err("another version");
        assert_eq!((error.code, &error.data["supported"]), (UNSUPPORTED_VERSION, &json!([MODERN])));
        let mut code = |method: &str, params: Value| {
            connection.understand(method, &params, &tools, "").expect_err("no answer").code
        };
        assert_eq!(code("ping", modern(json!({}))), METHOD_NOT_FOUND);
        assert_eq!(code("initialize", modern(json!({}))), METHOD_NOT_FOUND);
        assert_eq!(code("tools/list", json!({"_meta": {VERSION_KEY: MODERN}})), INVALID_PARAMS);
        assert_eq!(code("server/discover", json!({})), INVALID_PARAMS);
    }

    #[test]
    fn only_what_is_listed_can_be_called() {
        let tools = [json!({"name": "time"})];
        let mut connection = Connection { has_handshake: true, ..Connection::default() };
        let mut code =
            |params: Value| connection.understand("tools/call", &params, &tools, "").map_err(|error| error.code);
        assert_eq!(code(json!({"name": "shell"})), Err(INVALID_PARAMS));
        assert_eq!(code(json!({"name": "time", "arguments": []})), Err(INVALID_PARAMS));
        let call =
            ClientRequest::Call { name: "time".into(), arguments: json!({}), progress: json!(7), is_modern: false };
        assert_eq!(code(json!({"name": "time", "_meta": {"progressToken": 7}})), Ok(call));
    }
}
