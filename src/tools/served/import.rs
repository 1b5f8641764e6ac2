//! The servers in another client's JSON as Lua for the user's config. Nothing is run, and no value that may be a secret is
//! copied.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::render::text::escape_visible;

/// Servers of one file.
const SERVERS_MAX: usize = 32;
/// Longest name of a server, in bytes.
const NAME_BYTES_MAX: usize = 20;
/// Keys under which clients name their servers.
const KEYS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "context_servers"];

/// Lua for the config.
///
/// # Errors
/// The text isn't such a file, in words.
pub fn lua(json: &str) -> Result<String, String> {
    let whole: Value =
        serde_json::from_str(&without_comments(json)).map_err(|error| format!("it isn't JSON: {error}"))?;
    let inner = whole.get("mcp").unwrap_or(&whole);
    let servers = KEYS.iter().find_map(|key| inner.get(key).or_else(|| whole.get(key))).and_then(Value::as_object);
    let servers = servers.ok_or_else(|| format!("it names no servers ({})", KEYS.join(", ")))?;
    let mut lua = String::from("mcp = {\n  servers = {\n");
    let mut names: Vec<String> = Vec::new();
    for (name, server) in servers.iter().take(SERVERS_MAX) {
        let Some(server) = server.as_object() else { continue };
        let name = free_name(name, &names);
        write_server(&mut lua, &name, server);
        names.push(name);
    }
    lua.push_str("  },\n},\n");
    Ok(lua)
}

fn write_server(lua: &mut String, name: &str, server: &Map<String, Value>) {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let key = if name.contains('-') { format!("[\"{name}\"]") } else { name.to_owned() };
    let _ = writeln!(lua, "    {key} = {{");
    if server.get("disabled") == Some(&Value::Bool(true)) {
        let _ = writeln!(lua, "      -- it was switched off in the other client");
    }
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| text(key));
    match (text("command"), url) {
        (Some(command), _) => {
            let arguments = server.get("args").and_then(Value::as_array).into_iter().flatten();
            let words = std::iter::once(command).chain(arguments.filter_map(Value::as_str));
            let words: Vec<String> = words.map(quoted).collect();
            let _ = writeln!(lua, "      command = {{ {} }},", words.join(", "));
        }
        (None, Some(url)) => {
            // A query may hold a key.
            let (plain, query) = url.split_once('?').map_or((url, None), |(plain, query)| (plain, Some(query)));
            let _ = writeln!(lua, "      url = {},", quoted(plain));
            if query.is_some() {
                let _ = writeln!(lua, "      -- its address had a query, which may hold a key; add what is needed");
            }
        }
        (None, None) => {
            let _ = writeln!(lua, "      -- it has neither a command nor an address");
        }
    }
    for (key, what) in [("env", "variables"), ("headers", "headers")] {
        let given = server.get(key).and_then(Value::as_object);
        let names: Vec<String> =
            given.map(|given| given.keys().map(|name| escape_visible(name)).collect()).unwrap_or_default();
        match (names.is_empty(), key) {
            (true, _) => {}
            (false, "env") => {
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                let _ = writeln!(lua, "      -- the values weren't copied; these {what} are passed on from yours");
                let _ = writeln!(lua, "      pass = {{ {} }},", names.join(", "));
            }
            (false, _) => {
                let _ = writeln!(
                    lua,
                    "      -- its {what} weren't copied: {}; key_env names a variable with a key",
                    names.join(", ")
                );
            }
        }
    }
    let _ = writeln!(lua, "    }},");
}

/// A name that this config takes and that isn't there yet.
fn free_name(name: &str, taken: &[String]) -> String {
    let small = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let mut plain: String = small.skip_while(|c| !c.is_ascii_lowercase()).take(NAME_BYTES_MAX).collect();
    if plain.is_empty() {
        plain.push_str("server");
    }
    let mut free = plain.clone();
    let mut count = 2;
    while taken.contains(&free) {
        let end = count.to_string();
        free = format!("{}{end}", &plain[..plain.len().min(NAME_BYTES_MAX - end.len())]);
        count += 1;
    }
    free
}

/// A text as a string of Lua: everything but plain ASCII as decimal escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => {
                let _ = write!(quoted, "\\{byte:03}");
            }
        }
    }
    quoted.push('"');
    quoted
}

/// JSON without the comments that some clients allow.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' if in_string => {
                plain.push(c);
                plain.extend(rest.next());
                continue;
            }
            '"' => in_string = !in_string,
            '/' if !in_string && rest.peek() == Some(&'/') => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
                continue;
            }
            '/' if !in_string && rest.peek() == Some(&'*') => {
                let mut before = ' ';
                for c in rest.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                continue;
            }
            _ => {}
        }
        plain.push(c);
    }
    plain
}

#[cfg(test)]
mod tests {

    #[test]
    fn servers_of_three_clients_become_lua_without_their_secrets() {
        let one = r#"{"mcpServers": {"GitHub Tools": {"command": "npx", "args": ["-y", "a\"b"], "env": {"TOKEN": "s3cret"}}}}"#;
        let lua = super::lua(one).expect("lua");
        assert!(
            lua.contains(r#"["github-tools"] = {"#) && lua.contains(r#"command = { "npx", "-y", "a\"b" },"#),
            "{lua}"
        );
        assert!(lua.contains(r#"pass = { "TOKEN" },"#) && !lua.contains("s3cret"), "{lua}");
        let two = "{ // a comment\n \"servers\": {\"web\": {\"type\": \"http\", \"url\": \"https://a.b/mcp?key=s3cret\", \
                   \"headers\": {\"Authorization\": \"Bearer s3cret\"}}}}";
        let lua = super::lua(two).expect("lua");
        assert!(lua.contains(r#"url = "https://a.b/mcp","#) && !lua.contains("s3cret"), "{lua}");
        let three = r#"{"mcp": {"servers": {"a": {"command": "x"}, "A": {"command": "y"}, "b": 1}}}"#;
        let lua = super::lua(three).expect("lua");
        assert!(lua.contains("    a = {") && lua.contains("    a2 = {"), "{lua}");
        assert!(super::lua("[]").is_err() && super::lua("{").is_err());
    }
}
