//! The servers in another client's JSON as Lua for the user's config. Nothing is run, and no value that may be a secret is
//! copied.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::lua::quoted;
use crate::redact::Redactor;
use crate::render::text::escape_visible;

/// Servers of one file.
const SERVERS_MAX: usize = 32;
/// Longest name of a server, in bytes.
const NAME_BYTES_MAX: usize = 20;
/// Keys under which clients name their servers.
const KEYS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "context_servers"];

/// Words of options and variables whose values may be secrets.
const SECRETS: [&str; 13] = [
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "credential",
    "credentials",
    "header",
    "key",
    "passwd",
    "password",
    "pat",
    "secret",
    "token",
];
/// Text in place of a value that may be a secret.
const LEFT_OUT: &str = "[left out]";
/// Keys of a server that are read, or that say nothing that a config needs.
const READ: [&str; 15] = [
    "args",
    "command",
    "cwd",
    "description",
    "disabled",
    "enabled",
    "env",
    "environment",
    "headers",
    "httpUrl",
    "name",
    "serverUrl",
    "transport",
    "type",
    "url",
];

/// Lua for the config.
///
/// # Errors
/// The text isn't such a file, in words.
pub fn lua(json: &str) -> Result<String, String> {
    let whole: Value = serde_json::from_str(&plain_json(json)).map_err(|error| format!("it isn't JSON: {error}"))?;
    let inner = whole.get("mcp").unwrap_or(&whole);
    let servers = KEYS.iter().find_map(|key| inner.get(key).or_else(|| whole.get(key))).and_then(Value::as_object);
    let servers = servers.ok_or_else(|| format!("it names no servers ({})", KEYS.join(", ")))?;
    let mut lua = String::from("mcp = {\n  servers = {\n");
    let mut names: Vec<String> = Vec::new();
    for (name, server) in servers {
        let Some(server) = server.as_object().filter(|_| names.len() < SERVERS_MAX) else {
            let why = if server.is_object() { "there are too many" } else { "it is no server" };
            let _ = writeln!(lua, "    -- left out: {} ({why})", escape_visible(name));
            continue;
        };
        let name = free_name(name, &names);
        write_server(&mut lua, &name, server);
        names.push(name);
    }
    lua.push_str("  },\n},\n");
    Ok(lua)
}

fn write_server(lua: &mut String, name: &str, server: &Map<String, Value>) {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    // A name may be a word of Lua.
    let _ = writeln!(lua, "    [\"{name}\"] = {{");
    if server.get("disabled") == Some(&Value::Bool(true)) || server.get("enabled") == Some(&Value::Bool(false)) {
        let _ = writeln!(lua, "      -- it was switched off in the other client");
    }
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| text(key));
    match (argv(server), url) {
        (Some((words, notes)), _) => {
            for note in notes {
                let _ = writeln!(lua, "      -- {note}");
            }
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let _ = writeln!(lua, "      command = {{ {} }},", words.join(", "));
        }
        (None, Some(url)) => {
            let (plain, is_cut) = plain_address(url);
            let _ = writeln!(lua, "      url = {},", quoted(&plain));
            if is_cut {
                let _ = writeln!(
                    lua,
                    "      -- its address had a login or a query, which may hold a key; add what is needed"
                );
            }
            if [text("type"), text("transport")].contains(&Some("sse")) {
                let _ = writeln!(lua, "      transport = \"sse\",");
            }
        }
        (None, None) => {
            let _ = writeln!(lua, "      -- it has neither a command nor an address");
        }
    }
    let _ = match text("cwd") {
        Some(cwd) if cwd.starts_with(['/', '~']) => writeln!(lua, "      cwd = {},", quoted(cwd)),
        Some(cwd) => writeln!(lua, "      -- its cwd wasn't copied: {}", escape_visible(cwd)),
        None => Ok(()),
    };
    write_names(lua, server);
    let is_other = |key: &&String| !READ.contains(&key.as_str());
    let others: Vec<String> = server.keys().filter(is_other).map(|key| escape_visible(key)).collect();
    if !others.is_empty() {
        let _ = writeln!(lua, "      -- left out: {}", others.join(", "));
    }
    let _ = writeln!(lua, "    }},");
}

/// Writes the names of variables and headers.
fn write_names(lua: &mut String, server: &Map<String, Value>) {
    let names = |keys: &[&str]| -> Vec<String> {
        let named = keys.iter().find_map(|key| server.get(*key)).and_then(Value::as_object);
        named.map(|named| named.keys().map(|name| escape_visible(name)).collect()).unwrap_or_default()
    };
    let (variables, headers) = (names(&["env", "environment"]), names(&["headers"]));
    if !variables.is_empty() {
        let variables: Vec<String> = variables.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(lua, "      -- the values weren't copied; these variables are passed on from yours");
        let _ = writeln!(lua, "      pass = {{ {} }},", variables.join(", "));
    }
    if !headers.is_empty() {
        let headers = headers.join(", ");
        let _ = writeln!(lua, "      -- its headers weren't copied: {headers}; key_env names a variable with a key");
    }
}

/// Returns the program with its arguments, without possible secrets, and notes on what was changed.
fn argv(server: &Map<String, Value>) -> Option<(Vec<String>, Vec<&'static str>)> {
    let command = match server.get("command")? {
        Value::Array(words) => words.clone(),
        word => vec![word.clone()],
    };
    let arguments = server.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut words, mut notes) = (Vec::new(), Vec::new());
    let mut note = |text: &'static str| {
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    let mut is_secret = false;
    for word in command.into_iter().chain(arguments) {
        let Some(word) = word_of(&word) else {
            note("an argument that is no text is left out");
            continue;
        };
        let plain =
            if std::mem::take(&mut is_secret) && !word.starts_with('-') { LEFT_OUT.to_owned() } else { shown(&word) };
        if plain != word {
            note("values that may be secrets weren't copied: [left out] replaces them");
        }
        if plain.contains("${") {
            note("${…} isn't filled in here: write what is meant");
        }
        is_secret =
            !words.is_empty() && !word.contains('=') && (word == "-H" || word.starts_with('-') && names_secret(&word));
        words.push(plain);
    }
    words.first().is_some_and(|program: &String| !program.is_empty()).then_some((words, notes))
}

/// An argument as text.
fn word_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns an argument without possible secrets.
fn shown(word: &str) -> String {
    if word.starts_with("http://") || word.starts_with("https://") {
        return plain_address(word).0;
    }
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    match word.split_once('=').or_else(|| word.split_once(": ")) {
        Some((_, value)) if value.is_empty() || value.starts_with("${") => word.to_owned(),
        Some((name, _)) if names_secret(name) && is_plain(name) && word.contains('=') => format!("{name}={LEFT_OUT}"),
        Some((name, _)) if names_secret(name) => LEFT_OUT.to_owned(),
        _ if Redactor::default().redact(word).hidden.is_empty() => word.to_owned(),
        _ => LEFT_OUT.to_owned(),
    }
}

/// Returns whether the name of an option, a variable or a header says that its value may be a secret.
fn names_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SECRETS.contains(&word))
}

/// Returns an address without a login, a query and a fragment, which may hold keys; and whether it had any of these.
fn plain_address(url: &str) -> (String, bool) {
    let plain = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let plain = if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") };
    let plain = Redactor::default().redact(&plain).text.into_owned();
    let is_cut = plain != url;
    (plain, is_cut)
}

/// A name that this config takes and that isn't there yet.
fn free_name(name: &str, used: &[String]) -> String {
    let small = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let mut plain: String = small.skip_while(|c| !c.is_ascii_lowercase()).take(NAME_BYTES_MAX).collect();
    if plain.is_empty() {
        plain.push_str("server");
    }
    let mut free = plain.clone();
    let mut count = 2;
    while used.contains(&free) {
        let end = count.to_string();
        free = format!("{}{end}", &plain[..plain.len().min(NAME_BYTES_MAX - end.len())]);
        count += 1;
    }
    free
}

/// Returns JSON without extensions that some clients allow: comments, trailing commas, a byte order mark.
fn plain_json(text: &str) -> String {
    let text = without_comments(text.trim_start_matches('\u{feff}'));
    let mut plain = String::with_capacity(text.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        in_string ^= c == '"' && !is_escaped;
        is_escaped = in_string && c == '\\' && !is_escaped;
        if c == ',' && !in_string && text[at + 1..].trim_start().starts_with(['}', ']']) {
            continue;
        }
        plain.push(c);
    }
    plain
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
    fn secrets_among_arguments_and_in_addresses_are_not_copied() {
        let file = r#"{"mcpServers": {
            "local": {"command": "npx", "args": ["-y", "mcp-remote", "https://u:pw@x.example/mcp?k=1", "--header",
                "Authorization: Bearer hidden1", "--port", 8080, true, "--api-key=hidden2", "-H", "X-Y: hidden3",
                "--token", "${input:tok}", {"a": 1}], "cwd": "/srv", "envFile": ".env"},
            "end": {"type": "sse", "url": "https://user:hidden4@x.example/sse#hidden5", "headers": {"X\nos.exit()": "1"}},
            "docker": {"command": "docker", "args": ["run", "-e", "GITHUB_TOKEN=hidden6", "-e", "LEVEL=high",
                "Authorization: Bearer hidden8==", "image"]},
            "list": "x",
            "open": {"command": ["node", "x.js"], "environment": {"K": "hidden7"}, "cwd": "${workspaceFolder}"}
        }}"#;
        let lua = super::lua(file).expect("lua");
        assert!(!lua.contains("hidden") && !lua.contains("pw@"), "{lua}");
        for part in [
            r#"["local"] = {"#,
            r#""npx", "-y", "mcp-remote", "https://x.example/mcp", "--header", "[left out]", "--port", "8080", "true", "#,
            r#""--api-key=[left out]", "-H", "[left out]", "--token", "[left out]" },"#,
            "-- an argument that is no text is left out",
            "-- values that may be secrets weren't copied",
            r#"cwd = "/srv","#,
            "-- left out: envFile",
            r#"["end"] = {"#,
            r#"url = "https://x.example/sse","#,
            "-- its address had a login or a query",
            r#"transport = "sse","#,
            r#""run", "-e", "GITHUB_TOKEN=[left out]", "-e", "LEVEL=high", "[left out]", "image" },"#,
            "-- left out: list (it is no server)",
            r#"command = { "node", "x.js" },"#,
            r#"pass = { "K" },"#,
            "-- its cwd wasn't copied: ${workspaceFolder}",
        ] {
            assert!(lua.contains(part), "{part}: {lua}");
        }
        assert!(lua.lines().all(|line| !line.trim_start().starts_with("os.exit")), "{lua}");
    }

    #[test]
    fn json_as_editors_write_it_is_read() {
        let file = "\u{feff}{ // servers\n \"servers\": {\"a\": {\"command\": \"x,]\\\" ,}\", \"args\": [\"-y\", /* no more */ ], }, },}";
        let lua = super::lua(file).expect("lua");
        assert!(lua.contains(r#"command = { "x,]\" ,}", "-y" },"#), "{lua}");
    }

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
        assert!(lua.contains("    [\"a\"] = {") && lua.contains("    [\"a2\"] = {"), "{lua}");
        assert!(super::lua("[]").is_err() && super::lua("{").is_err());
    }
}
