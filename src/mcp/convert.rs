//! Messages of the protocol as our own nouns, with the limits on what a server may send.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::model::{
    ClientRequest, ContentBlock, ListToolsRequest, PaginatedRequestParams, Prompt, Resource, ResourceContents,
    ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, ServiceError};

use super::{McpError, Part, Reply, Server};
use crate::base::base64;
use crate::proto::served::{Definition, Json, Link, Manifest, PromptSpec};

/// Pages of a list.
const PAGES_MAX: usize = 100;
/// Tools, resources, and prompts of a server, each.
const ITEMS_MAX: usize = 1000;
/// Bytes of a tool's definition.
const DEFINITION_BYTES_MAX: usize = 64 << 10;
/// Bytes of all definitions of a server.
const MANIFEST_BYTES_MAX: usize = 8 << 20;
/// Parts of a result that aren't text.
const BINARIES_MAX: usize = 20;
/// Bytes of text in a result.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Fetches all lists of a server.
///
/// # Errors
/// Its list of tools can't be fetched, in words.
pub(super) async fn manifest(peer: &Peer<RoleClient>, server: &Server) -> Result<Manifest, String> {
    let info = peer.peer_info().ok_or("it said nothing about itself")?;
    let title = info.server_info.as_ref().map(|own| format!("{} {}", own.name, own.version)).unwrap_or_default();
    let mut manifest = Manifest {
        version: info.protocol_version.to_string(),
        title,
        instructions: info.instructions.clone().unwrap_or_default(),
        ..Manifest::default()
    };
    if info.capabilities.tools.is_some() {
        let list = pages(async |page| tools(peer, page).await).await;
        let (tools, is_cut) = list.map_err(|error| format!("its tools can't be listed: {error}"))?;
        add_tools(&mut manifest, tools);
        manifest.left_out.extend(is_cut.then(|| after_pages("tools")));
    }
    if server.has_resources && info.capabilities.resources.is_some() {
        let list = pages(async |page| peer.list_resources(page).await.map(|list| (list.resources, list.next_cursor)));
        match list.await {
            Ok(all) => manifest.resources = within_limit("resources", all, &mut manifest.left_out).map(link).collect(),
            Err(error) => manifest.left_out.push(format!("its resources can't be listed: {error}")),
        }
    }
    if server.has_prompts && info.capabilities.prompts.is_some() {
        let list = pages(async |page| peer.list_prompts(page).await.map(|list| (list.prompts, list.next_cursor)));
        match list.await {
            Ok(all) => manifest.prompts = within_limit("prompts", all, &mut manifest.left_out).map(prompt).collect(),
            Err(error) => manifest.left_out.push(format!("its prompts can't be listed: {error}")),
        }
    }
    Ok(manifest)
}

/// A page of a server's tools. rmcp's own request would store a copy of each page for as long as its server says.
async fn tools(
    peer: &Peer<RoleClient>,
    page: Option<PaginatedRequestParams>,
) -> Result<(Vec<Tool>, Option<String>), ServiceError> {
    let request = ListToolsRequest { params: page, ..ListToolsRequest::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(list) => Ok((list.tools, list.next_cursor)),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// The items of all pages of a list, within the limits, and whether there are more pages than the limit.
async fn pages<T>(
    mut fetch: impl AsyncFnMut(Option<PaginatedRequestParams>) -> Result<(Vec<T>, Option<String>), ServiceError>,
) -> Result<(Vec<T>, bool), ServiceError> {
    let mut all = Vec::new();
    let mut page = None;
    for _ in 0..PAGES_MAX {
        let (items, cursor) = fetch(page).await?;
        all.extend(items);
        // A note names the omitted items.
        if cursor.is_none() || all.len() > ITEMS_MAX {
            return Ok((all, false));
        }
        page = Some(PaginatedRequestParams::default().with_cursor(cursor));
    }
    Ok((all, true))
}

fn after_pages(what: &str) -> String {
    format!("{what} after the first {PAGES_MAX} pages")
}

/// The items of a list up to its limit; `left_out` gets the number of omitted ones.
fn within_limit<T>(what: &str, (items, is_cut): (Vec<T>, bool), left_out: &mut Vec<String>) -> impl Iterator<Item = T> {
    left_out.extend(is_cut.then(|| after_pages(what)));
    left_out.extend((items.len() > ITEMS_MAX).then(|| format!("{what} after the first {ITEMS_MAX}")));
    items.into_iter().take(ITEMS_MAX)
}

fn add_tools(manifest: &mut Manifest, tools: Vec<Tool>) {
    let count = tools.len();
    let mut bytes = 0;
    let mut names = HashSet::new();
    for tool in tools.into_iter().take(ITEMS_MAX).map(definition) {
        let size = size(&tool);
        // Names with a leading @ are ours.
        let is_ours = tool.name.starts_with('@');
        let is_known = names.contains(&tool.name);
        if size > DEFINITION_BYTES_MAX || bytes + size > MANIFEST_BYTES_MAX {
            manifest.left_out.push(format!("the tool {}: its definition is too long", tool.name));
        } else if is_ours {
            manifest.left_out.push(format!("the tool {}: its name begins with @", tool.name));
        } else if is_known {
            manifest.left_out.push(format!("a second tool called {}", tool.name));
        } else {
            bytes += size;
            names.insert(tool.name.clone());
            manifest.tools.push(Arc::new(tool));
        }
    }
    if count > ITEMS_MAX {
        manifest.left_out.push(format!("tools after the first {ITEMS_MAX}"));
    }
}

/// Bytes of the parts of a definition.
fn size(tool: &Definition) -> usize {
    let Definition { name, title, description, input, output, annotations } = tool;
    let schemas: usize = [input, output, annotations].map(|part| part.text().len()).iter().sum();
    name.len() + title.len() + description.len() + schemas
}

fn definition(tool: Tool) -> Definition {
    let hints = tool.annotations.and_then(|hints| serde_json::to_value(hints).ok());
    Definition {
        name: tool.name.into_owned(),
        title: tool.title.unwrap_or_default(),
        description: tool.description.map(std::borrow::Cow::into_owned).unwrap_or_default(),
        input: Json::from(&*tool.input_schema),
        output: tool.output_schema.map(|schema| Json::from(&*schema)).unwrap_or_default(),
        annotations: hints.map(|hints| Json::from(&hints)).unwrap_or_default(),
    }
}

fn link(resource: Resource) -> Link {
    Link {
        uri: resource.uri,
        name: resource.name,
        description: resource.description.unwrap_or_default(),
        media_type: resource.mime_type.unwrap_or_default(),
    }
}

fn prompt(prompt: Prompt) -> PromptSpec {
    let arguments = prompt.arguments.unwrap_or_default();
    PromptSpec {
        name: prompt.name,
        description: prompt.description.unwrap_or_default(),
        arguments: arguments.into_iter().map(|it| (it.name, it.required.unwrap_or(false))).collect(),
    }
}

/// A result as a reply.
///
/// # Errors
/// The server answered with something else, or with a part that can't be read.
pub(super) fn reply(result: ServerResult) -> Result<Reply, McpError> {
    let mut reply = Reply::default();
    match result {
        ServerResult::CallToolResult(result) => {
            reply.is_error = result.is_error.unwrap_or(false);
            reply.structured = result.structured_content.unwrap_or_default();
            reply.parts = parts(result.content)?;
        }
        ServerResult::ReadResourceResult(result) => {
            reply.parts = result.contents.into_iter().map(contents).collect::<Result<_, _>>()?;
        }
        ServerResult::GetPromptResult(result) => {
            reply.parts = parts(result.messages.into_iter().map(|message| message.content).collect())?;
        }
        ServerResult::EmptyResult(_) => {}
        ServerResult::InputRequiredResult(_) => {
            return Err(McpError::Protocol("it asks for input, which this client doesn't offer".into()));
        }
        _ => return Err(McpError::Protocol("the answer is of another kind than the request".into())),
    }
    limit(&mut reply.parts);
    Ok(reply)
}

fn parts(blocks: Vec<ContentBlock>) -> Result<Vec<Part>, McpError> {
    let part = |block| match block {
        ContentBlock::Text(text) => Ok(Part::Text(text.text)),
        ContentBlock::Image(image) => binary(image.mime_type, &image.data),
        ContentBlock::Audio(audio) => binary(audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => contents(embedded.resource),
        ContentBlock::ResourceLink(resource) => Ok(Part::Link(link(resource))),
        _ => Err(McpError::Protocol("a part of the result is of an unknown kind".into())),
    };
    blocks.into_iter().map(part).collect()
}

fn contents(contents: ResourceContents) -> Result<Part, McpError> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => Ok(Part::Text(text)),
        ResourceContents::BlobResourceContents { blob, mime_type, .. } => binary(mime_type.unwrap_or_default(), &blob),
        _ => Err(McpError::Protocol("a resource is of an unknown kind".into())),
    }
}

fn binary(media_type: String, data: &str) -> Result<Part, McpError> {
    let bytes = base64::decode(data).ok_or_else(|| McpError::Protocol("a part of the result is no Base64".into()))?;
    Ok(Part::Binary { media_type, bytes })
}

/// Shortens oversized parts, with a notice in their place.
fn limit(parts: &mut Vec<Part>) {
    let (mut text_left, mut binaries) = (TEXT_BYTES_MAX, 0);
    for part in parts.iter_mut() {
        match part {
            Part::Text(text) if text.len() > text_left => {
                let cut = text.len() - text.floor_char_boundary(text_left);
                text.truncate(text.floor_char_boundary(text_left));
                text.push_str(&format!("\n[{cut} bytes of the result were left out]"));
                text_left = 0;
            }
            Part::Text(text) => text_left -= text.len(),
            Part::Binary { .. } => binaries += 1,
            Part::Link(_) => {}
        }
    }
    if binaries > BINARIES_MAX {
        let mut seen = 0;
        parts.retain(|part| {
            seen += usize::from(matches!(part, Part::Binary { .. }));
            !matches!(part, Part::Binary { .. }) || seen <= BINARIES_MAX
        });
        parts.push(Part::Text(format!("[{} more files were left out]", binaries - BINARIES_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rmcp::model::{CallToolResult, ListToolsResult, ReadResourceResult};
    use serde_json::{Value, json};

    use super::*;

    /// Any JSON, with the words of the protocol among its names and texts.
    fn json_value() -> impl Strategy<Value = Value> {
        let words = ["object", "text", "image", "resource", "@own", "aGk=", "file:///a", "\u{202e}\u{1b}[2J\u{e0041}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::sample::select(words.to_vec()).prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        let names = ["type", "text", "data", "mimeType", "name", "uri", "blob", "resource", "properties", "required"];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let field = (prop::sample::select(names.to_vec()), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                prop::collection::vec(field, 0..4).prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_list_of_tools_is_read_within_its_limits_or_refused(
            tools in prop::collection::vec([json_value(), json_value(), json_value(), json_value()], 0..6),
            is_whole in any::<bool>(),
        ) {
            let tool = |[name, title, schema, hints]: [Value; 4]| match is_whole {
                true => json!({"name": name.to_string(), "description": title.to_string(),
                               "inputSchema": {"type": "object", "properties": {"a": schema}}}),
                false => json!({"name": name, "title": title, "description": title, "inputSchema": schema, "annotations": hints}),
            };
            let list: Vec<Value> = tools.into_iter().map(tool).collect();
            let (count, read) = (list.len(), serde_json::from_value::<ListToolsResult>(json!({"tools": list})));
            prop_assert!(read.is_ok() || !is_whole);
            if let Ok(read) = read {
                let mut manifest = Manifest::default();
                add_tools(&mut manifest, read.tools);
                let names: BTreeSet<&str> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
                prop_assert_eq!(names.len(), manifest.tools.len());
                prop_assert!(names.iter().all(|name| !name.starts_with('@')));
                prop_assert_eq!(manifest.tools.len() + manifest.left_out.len(), count);
            }
        }

        #[test]
        fn any_result_is_read_or_refused(content in prop::collection::vec(json_value(), 0..4), more in json_value()) {
            let called = json!({"content": content, "structuredContent": more, "isError": false});
            let called = serde_json::from_value::<CallToolResult>(called).ok();
            let called = called.and_then(|called| reply(ServerResult::CallToolResult(called)).ok());
            let read = serde_json::from_value::<ReadResourceResult>(json!({"contents": content})).ok();
            let read = read.and_then(|read| reply(ServerResult::ReadResourceResult(read)).ok());
            // A reply must be complete: an unreadable part makes it fail.
            for reply in [called, read].into_iter().flatten() {
                prop_assert_eq!(reply.parts.len(), content.len());
                prop_assert!(!reply.is_error);
            }
        }
    }

    #[test]
    fn a_list_that_is_cut_says_so() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let fetched = |on_each: usize, pages_there: usize| {
            let mut left = pages_there;
            let fetch = async |_| {
                left -= 1;
                Ok((vec![(); on_each], (left > 0).then(|| "more".to_owned())))
            };
            let mut left_out = Vec::new();
            let list = runtime.block_on(pages(fetch)).expect("a list");
            (within_limit("prompts", list, &mut left_out).count(), left_out)
        };
        assert_eq!(fetched(1, PAGES_MAX), (PAGES_MAX, vec![]));
        assert_eq!(fetched(1, PAGES_MAX + 1), (PAGES_MAX, vec!["prompts after the first 100 pages".to_owned()]));
        assert_eq!(fetched(ITEMS_MAX, 1), (ITEMS_MAX, vec![]));
        assert_eq!(fetched(ITEMS_MAX, 2), (ITEMS_MAX, vec!["prompts after the first 1000".to_owned()]));
    }

    #[test]
    fn a_long_result_is_cut_and_says_so() {
        let mut parts = vec![Part::Text("é".repeat(TEXT_BYTES_MAX)), Part::Text("more".into())];
        limit(&mut parts);
        let [Part::Text(first), Part::Text(second)] = &parts[..] else { panic!("{parts:?}") };
        assert!(first.len() < TEXT_BYTES_MAX + 100 && first.ends_with("bytes of the result were left out]"));
        assert_eq!(second, "\n[4 bytes of the result were left out]");
    }

    #[test]
    fn twenty_files_are_kept_of_a_result_and_the_rest_is_counted() {
        let file = Part::Binary { media_type: String::new(), bytes: Vec::new() };
        let mut parts = vec![file; BINARIES_MAX + 2];
        limit(&mut parts);
        assert_eq!(parts.len(), BINARIES_MAX + 1);
        assert_eq!(parts[BINARIES_MAX], Part::Text("[2 more files were left out]".into()));
    }
}
