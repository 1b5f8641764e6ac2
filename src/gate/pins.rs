//! The tools of servers that a person has allowed, each by a hash of its whole definition and its server: a tool that has changed
//! is no longer allowed. The file is in the state directory, for every project; the identity of a server includes the directory
//! in which it starts, so a tool is allowed separately for each directory.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::files::{Locked, lock_file, replace_private};
use crate::host::now_unix_ms;
use crate::proto::served::{Definition, Json, PinStanding};
use crate::receipts;

/// Longest file of pins that is read, in bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Longest wait for another session that changes the pins.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Directories for which one tool is allowed at a time. Of more, the oldest is forgotten.
const PLACES_MAX: usize = 50;
/// Separates this hash from every other use of SHA-256.
const DOMAIN: &str = "reedclaw/mcp-tool/1\0";
/// The same for the hash of a whole server.
const WHOLE_DOMAIN: &str = "reedclaw/mcp-server/1\0";

/// The pins can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct PinError {
    /// The file.
    pub path: PathBuf,
    /// The problem, in words.
    pub why: String,
}

/// The pins of all servers.
pub struct Pins {
    path: PathBuf,
    read: Mutex<(Option<SystemTime>, Arc<Content>)>,
}

/// The pins as they were read: equal until a session changes them.
pub struct PinsVersion(Arc<Content>);

impl PinsVersion {
    /// Returns whether a tool was allowed in any directory, as it was or is.
    #[must_use]
    pub fn has(&self, server: &str, tool: &str) -> bool {
        self.0.get(server).is_some_and(|tools| tools.contains_key(tool))
    }

    /// Returns whether anything of a server was allowed.
    #[must_use]
    pub fn has_any(&self, server: &str) -> bool {
        self.0.get(server).is_some_and(|tools| !tools.is_empty())
    }
}

impl PartialEq for PinsVersion {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// By server and tool, a row for each directory in which the server starts, the newest last.
type Content = BTreeMap<String, BTreeMap<String, Vec<Row>>>;

#[derive(Clone, Serialize, Deserialize)]
struct Row {
    /// The directory in which the server starts; empty for one that is reached by an address.
    place: String,
    /// The hash of the server's identity.
    server: String,
    pin: String,
    /// The definition as it was allowed, to show later changes. It is parsed only then.
    definition: Box<RawValue>,
    allowed_ms: i64,
}

/// The parts of a tool that its hash covers, in the order of their names, since that order is part of the hash.
#[derive(Serialize)]
struct HashedTool<'a> {
    annotations: &'a Json,
    description: &'a str,
    input: &'a Json,
    name: &'a str,
    output: &'a Json,
    title: &'a str,
}

/// The hash of a tool: SHA-256 over a fixed prefix and the JSON, with sorted keys, of everything about it that a model
/// or a person sees, and of the identity of its server.
#[must_use]
pub fn pin(identity: &Value, tool: &Definition) -> String {
    PinMaker::new(identity).pin(tool)
}

/// Makes the hashes of one server's tools.
struct PinMaker {
    /// The prefix, the server's identity, and the newest tool.
    bytes: Vec<u8>,
    /// The length of the part that all its tools share.
    shared: usize,
}

impl PinMaker {
    fn new(identity: &Value) -> Self {
        let bytes = format!("{DOMAIN}{{\"server\":{identity},\"tool\":").into_bytes();
        Self { shared: bytes.len(), bytes }
    }

    fn pin(&mut self, tool: &Definition) -> String {
        let Definition { name, title, description, input, output, annotations } = tool;
        let tool = HashedTool { annotations, description, input, name, output, title };
        self.bytes.truncate(self.shared);
        serde_json::to_writer(&mut self.bytes, &tool).expect("JSON becomes text again");
        self.bytes.push(b'}');
        receipts::hash(&self.bytes)
    }
}

/// The hash of everything that a server offers: of its identity and of all its tools, whatever their order.
#[must_use]
pub fn whole_pin(identity: &Value, tools: &[Arc<Definition>]) -> String {
    let mut maker = PinMaker::new(identity);
    let mut pins: Vec<String> = tools.iter().map(|tool| maker.pin(tool)).collect();
    pins.sort_unstable();
    receipts::hash(format!("{WHOLE_DOMAIN}{}", pins.join(" ")).as_bytes())
}

/// The directory in which a server starts.
fn place(identity: &Value) -> &str {
    identity.get("cwd").and_then(Value::as_str).unwrap_or_default()
}

/// The row of a server as it is, among those of its other directories.
fn row_of<'r>(rows: Option<&'r Vec<Row>>, identity: &Value) -> Option<&'r Row> {
    rows?.iter().find(|row| row.place == place(identity))
}

fn standing_of(row: Option<&Row>, pin: impl FnOnce() -> String) -> PinStanding {
    match row {
        Some(row) if row.pin == pin() => PinStanding::Pinned,
        Some(_) => PinStanding::Changed,
        None => PinStanding::New,
    }
}

/// A definition as JSON.
#[must_use]
pub fn definition(tool: &Definition) -> Value {
    let Definition { name, title, description, input, output, annotations } = tool;
    json!({
        "name": name, "title": title, "description": description, "input": input.value(), "output": output.value(),
        "annotations": annotations.value(),
    })
}

impl Pins {
    /// The pins of a state directory. Nothing is read yet.
    #[must_use]
    pub fn at(state: &Path) -> Self {
        Self { path: state.join("mcp").join("pins.json"), read: Mutex::default() }
    }

    /// Returns whether a person has allowed a tool as it is now. If the pins can't be read, nothing is allowed.
    #[must_use]
    pub fn standing(&self, server: &str, identity: &Value, tool: &Definition) -> PinStanding {
        self.standing_with_mark(server, identity, tool).0
    }

    /// The same, with the mark of a tool that is allowed as it is now: its hash, and the time of the yes.
    #[must_use]
    pub fn standing_with_mark(&self, server: &str, identity: &Value, tool: &Definition) -> (PinStanding, String) {
        let pins = self.fresh();
        let row = row_of(pins.get(server).and_then(|tools| tools.get(&tool.name)), identity);
        let standing = standing_of(row, || pin(identity, tool));
        let mark = row.filter(|_| standing == PinStanding::Pinned).map(|row| format!("{} {}", row.pin, row.allowed_ms));
        (standing, mark.unwrap_or_default())
    }

    /// Returns whether a person has allowed each of many tools of one server.
    #[must_use]
    pub fn standings(&self, server: &str, identity: &Value, tools: &[Arc<Definition>]) -> Vec<PinStanding> {
        let pins = self.fresh();
        let (known, mut maker) = (pins.get(server), PinMaker::new(identity));
        let mut standing = |tool: &Arc<Definition>| {
            let row = row_of(known.and_then(|tools| tools.get(&tool.name)), identity);
            standing_of(row, || maker.pin(tool))
        };
        tools.iter().map(&mut standing).collect()
    }

    /// The definition of a tool as it was allowed in the directory in which its server starts.
    #[must_use]
    pub fn allowed(&self, server: &str, identity: &Value, tool: &str) -> Option<Value> {
        let pins = self.fresh();
        serde_json::from_str(row_of(pins.get(server)?.get(tool), identity)?.definition.get()).ok()
    }

    /// Returns whether a tool was allowed in any directory, as it was or is.
    #[must_use]
    pub fn has(&self, server: &str, tool: &str) -> bool {
        self.version().has(server, tool)
    }

    /// Returns whether a person has allowed anything of a server as it is started now.
    #[must_use]
    pub fn knows(&self, server: &str, identity: &Value) -> bool {
        let is = receipts::hash(identity.to_string().as_bytes());
        self.fresh().get(server).is_some_and(|tools| tools.values().flatten().any(|row| row.server == is))
    }

    /// Allows tools as they are now.
    ///
    /// # Errors
    /// The file can't be locked or written: nothing has changed.
    pub fn allow(&self, server: &str, identity: &Value, tools: &[&Definition]) -> Result<(), PinError> {
        let mut maker = PinMaker::new(identity);
        let mut made = Vec::new();
        let (place, is) = (place(identity).to_owned(), receipts::hash(identity.to_string().as_bytes()));
        for tool in tools {
            let definition = serde_json::value::to_raw_value(&definition(tool));
            let definition = definition.map_err(|error| self.failed(error.to_string()))?;
            let (place, server) = (place.clone(), is.clone());
            let row = Row { place, server, pin: maker.pin(tool), definition, allowed_ms: now_unix_ms() };
            made.push((tool.name.clone(), row));
        }
        self.change(|pins| {
            let tools = pins.entry(server.to_owned()).or_default();
            for (name, row) in made {
                let rows = tools.entry(name).or_default();
                rows.retain(|old| old.place != row.place);
                rows.drain(..(rows.len() + 1).saturating_sub(PLACES_MAX));
                rows.push(row);
            }
        })
    }

    /// Revokes what was allowed of a server, or of one of its tools, in every directory. Returns the number of tools.
    ///
    /// # Errors
    /// The file can't be locked or written: nothing has changed.
    pub fn forget(&self, server: &str, tool: Option<&str>) -> Result<usize, PinError> {
        let mut gone = 0;
        self.change(|pins| match tool {
            None => gone = pins.remove(server).map_or(0, |tools| tools.len()),
            Some(tool) => {
                gone = usize::from(pins.get_mut(server).is_some_and(|tools| tools.remove(tool).is_some()));
            }
        })?;
        Ok(gone)
    }

    /// The pins as they are now, for a caller that caches data made from them.
    #[must_use]
    pub fn version(&self) -> PinsVersion {
        PinsVersion(self.fresh())
    }

    fn stamp(&self) -> Option<SystemTime> {
        self.path.metadata().and_then(|data| data.modified()).ok()
    }

    /// The pins, read again if another session has changed them.
    fn fresh(&self) -> Arc<Content> {
        let stamp = self.stamp();
        let mut read = self.read.lock();
        if read.0 != stamp {
            *read = (stamp, Arc::new(self.load()));
        }
        Arc::clone(&read.1)
    }

    fn load(&self) -> Content {
        let is_short = self.path.metadata().is_ok_and(|data| data.len() <= FILE_BYTES_MAX);
        let bytes = is_short.then(|| std::fs::read(&self.path).ok()).flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn failed(&self, why: String) -> PinError {
        PinError { path: self.path.clone(), why }
    }

    fn change(&self, change: impl FnOnce(&mut Content)) -> Result<(), PinError> {
        let failed = |why: String| self.failed(why);
        let lock = self.path.with_extension("lock");
        if let Some(directory) = lock.parent() {
            std::fs::create_dir_all(directory).map_err(|error| failed(error.to_string()))?;
        }
        let file = lock_file(&lock).map_err(|error| failed(error.to_string()))?;
        let _locked = Locked::take(file, false, LOCK_WAIT).map_err(|error| failed(error.to_string()))?;
        let mut pins = self.load();
        change(&mut pins);
        let bytes = serde_json::to_vec_pretty(&pins).map_err(|error| failed(error.to_string()))?;
        replace_private(&self.path, &bytes).map_err(|error| failed(error.to_string()))?;
        let mut read = self.read.lock();
        *read = (self.stamp(), Arc::new(pins));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> Definition {
        Definition {
            name: name.into(),
            description: description.into(),
            input: Json::from(&json!({"type": "object"})),
            ..Definition::default()
        }
    }

    /// A pin in another form would withdraw everything that people have allowed.
    #[test]
    fn a_pin_is_the_hash_of_json_with_sorted_keys() {
        let identity = json!({"program": "/usr/bin/one", "argv": ["one", "\u{e9}\n"], "network": false});
        let whole = Definition {
            title: "A \"title\"".into(),
            input: Json::from(
                &json!({"type": "object", "properties": {"b": {"type": "number", "maximum": 1.5}, "a": {}}}),
            ),
            output: Json::from(&json!({"type": "object"})),
            annotations: Json::from(&json!({"readOnlyHint": true})),
            ..tool("echo", "Gives \u{202e}it\tback.")
        };
        for tool in [whole, tool("plain", "")] {
            let text = json!({"server": identity, "tool": definition(&tool)});
            assert_eq!(pin(&identity, &tool), receipts::hash(format!("{DOMAIN}{text}").as_bytes()));
        }
    }

    #[test]
    fn only_the_very_same_tool_of_the_very_same_server_is_allowed() {
        let top = tempfile::tempdir().expect("a directory");
        let pins = Pins::at(top.path());
        let (identity, echo) = (json!({"program": "/usr/bin/one"}), tool("echo", "Gives it back."));
        assert_eq!(pins.standing("one", &identity, &echo), PinStanding::New);
        pins.allow("one", &identity, &[&echo]).expect("written");
        assert_eq!(pins.standing("one", &identity, &echo), PinStanding::Pinned);
        assert_eq!(Pins::at(top.path()).standing("one", &identity, &echo), PinStanding::Pinned, "in another session");
        let annotated = Definition { annotations: Json::from(&json!({"readOnlyHint": true})), ..echo.clone() };
        let wider =
            Definition { input: Json::from(&json!({"type": "object", "properties": {"x": {}}})), ..echo.clone() };
        for changed in [&tool("echo", "Gives it back. "), &annotated, &wider] {
            assert_eq!(pins.standing("one", &identity, changed), PinStanding::Changed, "{changed:?}");
        }
        assert_eq!(pins.standing("one", &json!({"program": "/tmp/one"}), &echo), PinStanding::Changed);
        assert_eq!(pins.standing("two", &identity, &echo), PinStanding::New);
        assert_eq!(pins.standing("one", &identity, &tool("Echo", "Gives it back.")), PinStanding::New);
        assert_eq!(pins.allowed("one", &identity, "echo"), Some(definition(&echo)));
        let (_, mark) = pins.standing_with_mark("one", &identity, &echo);
        assert!(mark.starts_with(&pin(&identity, &echo)), "{mark}");
        let changed = (PinStanding::Changed, String::new());
        assert_eq!(pins.standing_with_mark("one", &identity, &annotated), changed);
        let all = [&echo, &annotated, &tool("Echo", "")].map(|tool| Arc::new(tool.clone()));
        let expected = [PinStanding::Pinned, PinStanding::Changed, PinStanding::New];
        assert_eq!(pins.standings("one", &identity, &all), expected);
        assert_eq!(pins.standings("two", &identity, &all), [PinStanding::New; 3]);
    }

    #[test]
    fn a_yes_counts_in_one_directory_and_a_no_in_all() {
        let top = tempfile::tempdir().expect("a directory");
        let pins = Pins::at(top.path());
        let at = |place: String| json!({"program": "/usr/bin/one", "cwd": place});
        let (a, b, echo) = (at("/a".into()), at("/b".into()), tool("echo", "Gives it back."));
        pins.allow("one", &a, &[&echo]).expect("written");
        assert_eq!(pins.standing("one", &b, &echo), PinStanding::New);
        assert!(pins.knows("one", &a) && !pins.knows("one", &b));
        pins.allow("one", &b, &[&echo]).expect("written");
        assert_eq!([&a, &b].map(|it| pins.standing("one", it, &echo)), [PinStanding::Pinned; 2]);
        let other = tool("echo", "Another.");
        assert_eq!(pins.standing("one", &a, &other), PinStanding::Changed);
        pins.allow("one", &b, &[&other]).expect("written");
        assert_eq!(pins.allowed("one", &a, "echo"), Some(definition(&echo)), "each has its own");
        (0..PLACES_MAX).for_each(|it| pins.allow("one", &at(format!("/{it}")), &[&echo]).expect("written"));
        assert_eq!(pins.standing("one", &b, &other), PinStanding::New, "the oldest was forgotten");
        assert_eq!(pins.standing("one", &at("/0".into()), &echo), PinStanding::Pinned);
        assert_eq!(pins.forget("one", Some("echo")).expect("written"), 1);
        assert_eq!(pins.standing("one", &at("/0".into()), &echo), PinStanding::New);
    }

    #[test]
    fn sessions_that_allow_and_deny_at_once_lose_nothing() {
        let top = tempfile::tempdir().expect("a directory");
        let identity = json!({});
        std::thread::scope(|scope| {
            for session in 0..8 {
                let (pins, identity) = (Pins::at(top.path()), &identity);
                scope.spawn(move || {
                    let (own, shared) = (tool(&format!("own{session}"), ""), tool("shared", ""));
                    for _ in 0..10 {
                        pins.allow("one", identity, &[&own, &shared]).expect("written");
                        pins.forget("one", Some("shared")).expect("written");
                    }
                });
            }
        });
        let after = Pins::at(top.path());
        for session in 0..8 {
            let own = tool(&format!("own{session}"), "");
            assert_eq!(after.standing("one", &identity, &own), PinStanding::Pinned, "{session}");
        }
        // The last word was a no.
        assert_eq!(after.standing("one", &identity, &tool("shared", "")), PinStanding::New);
    }

    #[test]
    fn withdrawn_and_unreadable_pins_allow_nothing() {
        let top = tempfile::tempdir().expect("a directory");
        let (pins, identity) = (Pins::at(top.path()), json!({}));
        let (a, b) = (tool("a", ""), tool("b", ""));
        pins.allow("one", &identity, &[&a, &b]).expect("written");
        assert_eq!(pins.forget("one", Some("a")).expect("written"), 1);
        assert_eq!(pins.forget("one", Some("a")).expect("written"), 0);
        assert_eq!(pins.standing("one", &identity, &a), PinStanding::New);
        assert_eq!(pins.standing("one", &identity, &b), PinStanding::Pinned);
        std::fs::write(top.path().join("mcp/pins.json"), "{\"one\": 1}").expect("a file");
        assert_eq!(Pins::at(top.path()).standing("one", &identity, &b), PinStanding::New);
        assert_eq!(pins.forget("one", None).expect("written"), 0);
    }
}
