//! From the value that a config returned to checked values: each key by its row, every problem in one pass. It reads tables raw,
//! so that no metamethod of the user's runs outside the limits; it contains no defaults.

use std::collections::BTreeMap;

use mlua::{Table, Value};

use crate::base::text::is_variable;
use crate::config::hooks::{self, FoundHooks, KeyHook, KeyName, MetaHook};
use crate::config::reading::checked::{Hidden, KeySource, Setting, Tree};
use crate::config::reading::expand::{self, Env};
use crate::config::reading::problem::{Problems, quoted, shorten};
use crate::config::schema::{self, Kind, Place, Row};
use crate::proto::program_rule::ProgramRule;

/// Limit on the entries read of one table; more means that a script has gone wrong.
pub(in crate::config) const ENTRIES_MAX: usize = 1000;
/// Most servers of tools: each has a process and a place in every list.
pub(in crate::config) const SERVERS_MAX: usize = 32;
/// Longest string of a setting, in bytes: a long system prompt is some KiB.
pub(in crate::config) const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Longest name of a model and longest word of a list, in bytes: they are typed and shown.
pub(in crate::config) const WORD_BYTES_MAX: usize = 64;
/// Longest help of an own meta command, in characters: one line of a list.
const HELP_CHARS_MAX: usize = 100;
/// Keys that people put a secret under. The value is never shown.
const SECRET_KEYS: &[&str] = &["key", "api_key", "apikey", "token", "api_token", "secret", "password", "bearer"];

/// The values that a config set, checked.
#[derive(Default)]
pub(in crate::config) struct Checked {
    /// The settings.
    pub(in crate::config) tree: Tree,
    /// The hooks.
    pub(in crate::config) hooks: FoundHooks,
}

/// The input of the checks besides the table.
pub(in crate::config) struct Check<'a> {
    /// For `~` and variables in paths.
    pub(in crate::config) env: &'a Env,
    /// The values that stay if one is refused, for the end of the problem's text; empty while the defaults are read.
    pub(in crate::config) holds: &'a Tree,
    /// `true` if the config is the user's own.
    pub(in crate::config) is_users: bool,
    /// The values that stay if the whole config is wrong.
    pub(in crate::config) otherwise: &'static str,
    /// Collects the problems.
    pub(in crate::config) problems: &'a mut Problems,
    /// `true` if a list that forbids something has entries whose meaning is unknown.
    is_damaged: bool,
}

impl<'a> Check<'a> {
    /// Prepares a check. The pair holds the values in force and whether the config is the user's own.
    pub(in crate::config) fn new(
        env: &'a Env,
        (holds, is_users): (&'a Tree, bool),
        otherwise: &'static str,
        problems: &'a mut Problems,
    ) -> Self {
        Self { env, holds, is_users, otherwise, problems, is_damaged: false }
    }
}

impl Check<'_> {
    /// Checks the value that a config returned.
    pub(in crate::config) fn whole(&mut self, value: Value) -> Checked {
        let mut checked = Checked::default();
        match value {
            Value::Table(table) => self.table(&table, &mut Vec::new(), &mut checked),
            Value::Nil => {
                let message = format!("returns nothing; it must end with `return {{ … }}`; {}", self.otherwise);
                self.problems.file(None, message);
            }
            other => {
                let message = format!("returns {}, not a table; {}", shown(&other), self.otherwise);
                self.problems.file(None, message);
            }
        }
        checked
    }

    fn table(&mut self, table: &Table, key: &mut Vec<String>, checked: &mut Checked) {
        let entries = self.entries(table, key);
        let is_damaged = std::mem::take(&mut self.is_damaged);
        for (name, value) in entries {
            let Some(name) = name else { continue };
            key.push(name);
            if self.hook(key, &value, &mut checked.hooks) {
                key.pop();
                continue;
            }
            match (schema::place(key), value) {
                (Place::Leaf(row), value) => match self.leaf(row, &value, key) {
                    Ok(setting) => {
                        checked.tree.insert(key.clone(), setting);
                        if std::mem::take(&mut self.is_damaged) {
                            self.damaged(key, checked);
                        }
                    }
                    Err(why) => {
                        self.is_damaged = false;
                        let outcome = match schema::strictest(key) {
                            Some((meant, strict)) => {
                                let other = if meant == *key { String::new() } else { format!("{} ", meant.join(".")) };
                                let outcome = format!("using {other}{}, the strictest", strict.in_words());
                                checked.tree.insert(meant, strict);
                                outcome
                            }
                            None => self.outcome(row, key),
                        };
                        self.problems.key(key, format!("{why}; {outcome}"));
                    }
                },
                (Place::Table | Place::Names, Value::Table(inner)) => {
                    if self.name_fits(key) {
                        self.table(&inner, key, checked);
                        self.model_holds(&inner, key, checked);
                        self.server_is_reached(&inner, key);
                    }
                }
                (Place::Table, other) if key.as_slice() == ["security"] => {
                    let message = format!("{} is not a table; using the strictest of its settings", shown(&other));
                    self.problems.key(key, message);
                    checked.tree.extend(schema::strictest_in(key));
                }
                (Place::Table | Place::Names, other) => {
                    self.problems.key(key, format!("{} is not a table; ignored", shown(&other)));
                }
                (Place::Unknown, _) => {
                    self.unknown(key);
                    self.tighten_meant(key, checked);
                }
            }
            key.pop();
        }
        if is_damaged {
            self.damaged(&["security".to_owned(), "autonomy".to_owned()], checked);
        }
    }

    /// Sets what a misspelt name probably means to the strictest value: the mistake must not loosen it.
    fn tighten_meant(&mut self, key: &[String], checked: &mut Checked) {
        let Some(meant) = schema::suggest(key) else { return };
        let meant = match meant.split_once('.') {
            Some((table, name)) => vec![table.to_owned(), name.to_owned()],
            None => [&key[..key.len() - 1], &[meant]].concat(),
        };
        if let Some((meant, strict)) = schema::strictest(&meant) {
            let consequence =
                format!("using {} {}, the strictest, until it is mended", meant.join("."), strict.in_words());
            self.problems.key(key, consequence);
            checked.tree.insert(meant, strict);
            return;
        }
        let strictest = schema::strictest_in(&meant);
        if !strictest.is_empty() {
            let consequence = format!("using the strictest settings of {} until it is mended", meant.join("."));
            self.problems.key(key, consequence);
            checked.tree.extend(strictest);
        }
    }

    /// Applies the strictest autonomy because a list has unknown entries, and reports it.
    fn damaged(&mut self, key: &[String], checked: &mut Checked) {
        if let Some((meant, strict)) = schema::strictest(key) {
            let consequence =
                format!("using {} {}, the strictest, until it is mended", meant.join("."), strict.in_words());
            self.problems.key(key, consequence);
            checked.tree.insert(meant, strict);
        }
    }

    /// Reads a table raw, in the order of its keys, so that the same config produces the same report. A key that isn't text is
    /// reported here and left out.
    fn entries(&mut self, table: &Table, key: &[String]) -> Vec<(Option<String>, Value)> {
        let mut named = BTreeMap::new();
        let mut odd: Option<String> = None;
        for (count, pair) in table.pairs::<Value, Value>().enumerate() {
            let Ok((name, value)) = pair else { continue };
            if count == ENTRIES_MAX {
                self.problems.key(key, format!("has more than {ENTRIES_MAX} entries; the rest is ignored"));
                break;
            }
            match &name {
                Value::String(text) if text.to_str().is_ok() => {
                    named.insert(text.to_string_lossy(), value);
                }
                other => odd = Some(shown(other)),
            }
        }
        if let Some(odd) = odd {
            self.problems.key(key, format!("has the entry {odd}, which is not a name; ignored"));
            // It may have been meant to forbid something.
            self.is_damaged |= matches!(key, [security] if security == "security");
        }
        if matches!(key, [mcp, servers] if mcp == "mcp" && servers == "servers") && named.len() > SERVERS_MAX {
            let rest: Vec<String> = named.keys().skip(SERVERS_MAX).cloned().collect();
            rest.iter().for_each(|name| drop(named.remove(name)));
            self.problems.key(key, format!("has more than {SERVERS_MAX} servers; left out: {}", rest.join(", ")));
        }
        named.into_iter().map(|(name, value)| (Some(name), value)).collect()
    }

    /// Checks the name of a model or a server, if the key is one.
    fn name_fits(&mut self, key: &[String]) -> bool {
        if let [mcp, servers, name] = key
            && mcp == "mcp"
            && servers == "servers"
            && !is_server_name(name)
        {
            let message =
                "the name of a server has 1 to 20 small letters, digits and hyphens, a letter first; left out";
            self.problems.key(key, message.to_owned());
            return false;
        }
        let [parent, name] = key else { return true };
        let bad = |c: char| c.is_whitespace() || c.is_control();
        if parent != "models" || !(name.is_empty() || name.len() > WORD_BYTES_MAX || name.contains(bad)) {
            return true;
        }
        let message = format!("the name of a model has 1 to {WORD_BYTES_MAX} bytes and no white space; left out");
        self.problems.key(key, message);
        false
    }

    /// Removes a model that lacks something its kind needs. A model with a wrong address or kind is removed too:
    /// without that key the question would go to a place that the config doesn't name.
    fn model_holds(&mut self, table: &Table, key: &[String], checked: &mut Checked) {
        if !matches!(key, [parent, _] if parent == "models") {
            return;
        }
        let is_set = |name: &str| !matches!(table.raw_get(name), Ok(Value::Nil));
        let held = |name: &str| checked.tree.get(&[key, &[name.to_owned()]].concat());
        let is_wrong = ["kind", "endpoint"].iter().any(|name| is_set(name) && held(name).is_none());
        let needed = match held("kind") {
            Some(Setting::Text(kind)) => schema::needed_key(kind),
            _ => schema::needed_key(""),
        };
        let lacks =
            needed.filter(|name| !is_wrong && !is_set(name) && !self.holds.keys().any(|it| it.starts_with(key)));
        if let Some(name) = lacks {
            self.problems.key(key, format!("has no {name}; this model is left out"));
        }
        if is_wrong || lacks.is_some() {
            checked.tree.retain(|it, _| !it.starts_with(key));
        }
    }

    /// Reports a server in the user's config that has no address and no program, or both. A project says how a server is used,
    /// not where it is.
    fn server_is_reached(&mut self, table: &Table, key: &[String]) {
        if !self.is_users || !matches!(key, [mcp, servers, _] if mcp == "mcp" && servers == "servers") {
            return;
        }
        let is_set = |name: &str| !matches!(table.raw_get(name), Ok(Value::Nil));
        match (is_set("command"), is_set("url")) {
            (true, true) => self.problems.key(key, "has both command and url; using command".to_owned()),
            (false, false) => self.problems.key(key, "has neither command nor url; left out".to_owned()),
            _ => {}
        }
        let url = table.raw_get::<String>("url").unwrap_or_default();
        let is_open = url.get(..7).is_some_and(|it| it.eq_ignore_ascii_case("http://")) && !is_loopback(&url);
        if is_open && ["key_env", "key_command", "key_file", "headers"].into_iter().any(is_set) {
            let why = "its key or headers would go unencrypted to another machine; nothing is sent there without https";
            self.problems.key(key, why.to_owned());
        }
    }

    fn unknown(&mut self, key: &[String]) {
        let word = key.last().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        let message = if SECRET_KEYS.contains(&word.as_str()) {
            "a key does not belong here; models.NAME.key_env, key_command or key_file say where it is; ignored"
                .to_owned()
        } else if let Some(meant) = schema::suggest(key) {
            format!("unknown key; did you mean {meant}?")
        } else {
            "unknown key; ignored".to_owned()
        };
        self.problems.key(key, message);
    }

    /// Describes the value that applies instead of a refused one.
    fn outcome(&self, row: &Row, key: &[String]) -> String {
        let default = match key {
            [models, _, last] if models == "models" => {
                if last == "endpoint" || last == "kind" {
                    return "this model is left out".into();
                }
                self.holds.get(&vec!["model_defaults".to_owned(), last.clone()])
            }
            _ => self.holds.get(key),
        };
        match (default, row.kind) {
            (_, Kind::AlwaysTrue(_)) => "using true".into(),
            (Some(Setting::Text(text)), Kind::Choice(_)) => format!("using {}", quoted(text)),
            (Some(Setting::Path(path)), _) => format!("using {}", quoted(&path.to_string_lossy())),
            (Some(Setting::Integer(number)), _) => format!("using {number}"),
            (Some(Setting::Number(number)), _) => format!("using {number}"),
            (Some(Setting::Bool(value)), _) => format!("using {value}"),
            (Some(Setting::Text(_) | Setting::Ports(_)), _) => "using the default".into(),
            _ => "ignored".into(),
        }
    }

    fn leaf(&mut self, row: &Row, value: &Value, key: &[String]) -> Result<Setting, String> {
        let allowed = row.kind;
        let wrong = || format!("{} is not {allowed}", shown(value));
        match allowed {
            Kind::Text { empty } => {
                let text = text(value, &wrong)?;
                if text.is_empty() && !empty { Err(wrong()) } else { Ok(Setting::Text(text)) }
            }
            Kind::Times => match text(value, &wrong)? {
                text if text.is_empty() || crate::config::tools::quiet_minutes(&text).is_some() => {
                    Ok(Setting::Text(text))
                }
                _ => Err(wrong()),
            },
            Kind::Address => address(&text(value, &wrong)?),
            Kind::VariableName => variable_name(value, allowed),
            Kind::Path => self.path(value, &wrong),
            Kind::Choice(words) => match text(value, &wrong)? {
                text if words.contains(&text.as_str()) => Ok(Setting::Text(text)),
                _ => Err(wrong()),
            },
            Kind::ChoiceOrInteger(words, least, most) => match value {
                Value::String(_) => match text(value, &wrong)? {
                    text if words.contains(&text.as_str()) => Ok(Setting::Text(text)),
                    _ => Err(wrong()),
                },
                Value::Integer(_) | Value::Number(_) => integer(value, least, most),
                _ => Err(wrong()),
            },
            Kind::Integer(least, most) => integer(value, least, most),
            Kind::Number(least, most) => {
                let number = number(value).ok_or_else(wrong)?;
                // A NaN is in no range.
                if (least..=most).contains(&number) {
                    Ok(Setting::Number(number))
                } else {
                    Err(format!("{number} is out of range ({least} to {most})"))
                }
            }
            Kind::Bool => value.as_boolean().map(Setting::Bool).ok_or_else(wrong),
            Kind::AlwaysTrue(why) => match value {
                Value::Boolean(true) => Ok(Setting::Bool(true)),
                Value::Boolean(false) => Err(format!("false is refused: {why}")),
                _ => Err(wrong()),
            },
            Kind::Words => self.words(value, key).ok_or_else(wrong).map(Setting::Words),
            Kind::Lines => self.list(value, key, "a string of one line", line).ok_or_else(wrong).map(Setting::Words),
            Kind::Program => self.list(value, key, "a string of one line", line).ok_or_else(wrong).map(Setting::Argv),
            Kind::Programs => self.programs(value, key).ok_or_else(wrong).map(Setting::Words),
            Kind::Paths => self.paths(value, key).ok_or_else(wrong).map(Setting::Words),
            Kind::WordMap => self.word_map(value, key).ok_or_else(wrong).map(Setting::WordMap),
            Kind::Rules(rules) => self.rules(value, key, rules).ok_or_else(wrong).map(Setting::WordMap),
            // The value may be a secret: it isn't repeated in the message.
            Kind::Sources => {
                let wrong = || format!("the value is not {allowed}");
                self.sources(value, key).ok_or_else(wrong).map(Setting::Sources)
            }
            Kind::Argv => argv(value).ok_or_else(|| format!("the value is not {allowed}")).map(Setting::Argv),
            Kind::Ports => ports(value).ok_or_else(wrong).map(Setting::Ports),
            Kind::Secret => self.secret(value, allowed, key),
        }
    }

    fn path(&self, value: &Value, wrong: &dyn Fn() -> String) -> Result<Setting, String> {
        let Value::String(path) = value else { return Err(wrong()) };
        let bytes: &[u8] = &path.as_bytes();
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(too_long(bytes.len()));
        }
        expand::path(bytes, self.env).map(Setting::Path).map_err(|why| format!("{} {why}", shown(value)))
    }

    fn secret(&mut self, value: &Value, allowed: Kind, key: &[String]) -> Result<Setting, String> {
        // The value is probably a key, or a part of one: it isn't repeated in the message.
        let wrong = || format!("the value is not {allowed}");
        let text = text(value, &wrong).map_err(|_| wrong())?;
        if text.trim().is_empty() {
            return Err(wrong());
        }
        let message =
            "a key in a config is read by whoever sees the config; key_env, key_command or key_file keep it out";
        self.problems.warning(key, message.into());
        Ok(Setting::Secret(Hidden::new(text)))
    }

    /// Reads the value of a hook's key; returns whether the key belongs to a hook.
    fn hook(&mut self, key: &[String], value: &Value, found: &mut FoundHooks) -> bool {
        if key.len() > 1 && key[0] != "hooks" {
            return false;
        }
        let parts: Vec<&str> = key.iter().map(String::as_str).collect();
        match (&parts[..], value) {
            ([name] | ["hooks", name], Value::Function(run)) if let Some(row) = hooks::function_hook(name) => {
                found.functions.insert(row.name, run.clone());
            }
            (["hooks", name], other) => match hooks::function_hook(name) {
                Some(row) => self.problems.key(key, format!("{} is not {}; ignored", shown(other), row.usage)),
                None => self.problems.key(key, format!("there is no such hook ({}); ignored", hooks::names())),
            },
            (["hooks" | "keys" | "meta"], Value::Table(inner)) => {
                for (name, value) in self.entries(inner, key) {
                    let Some(name) = name else { continue };
                    let inner_key = [key, std::slice::from_ref(&name)].concat();
                    match parts[0] {
                        "hooks" => {
                            self.hook(&inner_key, &value, found);
                        }
                        "keys" => self.key_hook(&inner_key, &name, &value, found),
                        _ => self.meta_hook(&inner_key, name, &value, found),
                    }
                }
            }
            (["hooks" | "keys" | "meta"], other) => {
                self.problems.key(key, format!("{} is not a table; ignored", shown(other)));
            }
            ([name], other) if schema::place(key).is_unknown() && hooks::function_hook(name).is_some() => {
                self.problems.key(key, format!("{} is not a function; ignored", shown(other)));
            }
            _ => return false,
        }
        true
    }

    fn key_hook(&mut self, key: &[String], name: &str, value: &Value, found: &mut FoundHooks) {
        let parsed = match KeyName::parse(name) {
            Ok(parsed) => parsed,
            Err(why) => return self.problems.key(key, format!("{why}; ignored")),
        };
        let field = |name: &str| match value {
            Value::Table(table) => table.raw_get::<Value>(name).ok().filter(|value| !value.is_nil()),
            _ => None,
        };
        let own = |value: &Value| text(value, &String::new).ok().filter(|text| !text.is_empty());
        let hook = match (value, field("insert"), field("meta"), field("shell")) {
            (Value::Function(run), ..) => Some(KeyHook::Call(run.clone())),
            (_, Some(text), None, None) => own(&text).map(KeyHook::Insert),
            (_, None, Some(line), None) => own(&line).filter(|line| line.starts_with(':')).map(KeyHook::Meta),
            (_, None, None, Some(command)) => own(&command).map(KeyHook::Shell),
            _ => None,
        };
        match hook {
            Some(hook) => {
                found.keys.insert(parsed, hook);
            }
            None => {
                let allowed = "{ insert = \"text\" }, { meta = \":command\" }, { shell = \"function\" } or a function";
                self.problems.key(key, format!("{} is not {allowed}; ignored", shown(value)));
            }
        }
    }

    fn meta_hook(&mut self, key: &[String], name: String, value: &Value, found: &mut FoundHooks) {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty()
            || name.len() > WORD_BYTES_MAX
            || !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !name.chars().all(fits)
        {
            return self.problems.key(key, "is not a name of letters, digits, - and _; ignored".into());
        }
        let (run, help) = match value {
            Value::Function(run) => (Some(run.clone()), None),
            Value::Table(table) => {
                (table.raw_get("run").ok().as_ref().and_then(hooks::function), table.raw_get::<Value>("help").ok())
            }
            _ => (None, None),
        };
        let Some(run) = run else {
            let allowed = "{ help = \"…\", run = function(args) … end }";
            return self.problems.key(key, format!("{} is not {allowed}; ignored", shown(value)));
        };
        let help = help.and_then(|help| text(&help, &String::new).ok()).filter(|help| !help.trim().is_empty());
        let help = help.map_or_else(|| "your own".to_owned(), |help| shorten(help.trim(), HELP_CHARS_MAX));
        found.metas.insert(name, MetaHook { help, run });
    }

    /// Reads a list of words.
    fn words(&mut self, value: &Value, key: &[String]) -> Option<Vec<String>> {
        self.list(value, key, "a word", word)
    }

    /// Reads a list of rules about programs. If a rule is wrong, the program that it names never runs.
    fn programs(&mut self, value: &Value, key: &[String]) -> Option<Vec<String>> {
        let lines = self.list(value, key, "a rule such as \"deploy: ask\"", |value| text(value, &String::new).ok())?;
        let mut rules = Vec::new();
        for line in lines {
            match (line.parse::<ProgramRule>(), ProgramRule::strictest(&line)) {
                (Ok(rule), _) => rules.push(rule.to_string()),
                (Err(()), strictest) => {
                    let outcome = strictest.as_ref().map_or(String::new(), |rule| format!("; using \"{rule}\""));
                    let shown = quoted(&line);
                    self.problems.key(key, format!("{shown} is not a rule such as \"deploy: ask\"{outcome}"));
                    // It names programs in a form that isn't understood, such as `deploy*`.
                    self.is_damaged |= strictest.is_none();
                    rules.extend(strictest.map(|rule| rule.to_string()));
                }
            }
        }
        Some(rules)
    }

    /// Reads a list of absolute paths.
    fn paths(&mut self, value: &Value, key: &[String]) -> Option<Vec<String>> {
        self.list(value, key, "an absolute path", path)
    }

    /// Reads a list; an entry that isn't `what` is reported and doesn't affect the others.
    fn list(
        &mut self,
        value: &Value,
        key: &[String],
        what: &str,
        read: fn(&Value) -> Option<String>,
    ) -> Option<Vec<String>> {
        let strictest = schema::strictest(key);
        let is_restricting = strictest.is_some();
        // If a part of a forbidding list is unreadable, it is unknown what it forbids; a list that allows something just becomes
        // shorter.
        let is_forbidding = strictest.is_some_and(|(meant, _)| meant != key);
        let Value::Table(table) = value else {
            // Words that the user has forbidden stay forbidden, even if other words are wrong.
            let only = read(value).filter(|_| is_restricting)?;
            self.problems.key(key, format!("{} is not a list; used as its only entry", shown(value)));
            return Some(vec![only]);
        };
        let mut words = BTreeMap::new();
        for (count, pair) in table.pairs::<Value, Value>().enumerate() {
            let Ok((index, entry)) = pair else { continue };
            if count == ENTRIES_MAX {
                self.problems.key(key, format!("has more than {ENTRIES_MAX} entries; the rest is ignored"));
                break;
            }
            match (&index, read(&entry)) {
                (Value::Integer(index), Some(word)) => {
                    words.insert(*index, word);
                }
                (Value::Integer(_), None) => {
                    self.problems.key(key, format!("{} is not {what}; ignored", shown(&entry)));
                }
                _ if is_forbidding => {
                    self.is_damaged = true;
                    self.problems.key(key, format!("the entry {} is not part of a list", shown(&index)));
                }
                _ => self.problems.key(key, format!("the entry {} is not part of a list; ignored", shown(&index))),
            }
        }
        // A list without a readable entry must not count as empty, which would forbid nothing.
        let is_lost = is_forbidding && words.is_empty() && !table.is_empty();
        (!is_lost).then(|| words.into_values().collect())
    }

    fn word_map(&mut self, value: &Value, key: &[String]) -> Option<BTreeMap<String, String>> {
        self.map_of(value, key, |entry| text(entry, &|| format!("{} is not a string", shown(entry))))
    }

    /// Reads a table whose values are words from a fixed set; a wrong one counts as the first, the strictest.
    fn rules(&mut self, value: &Value, key: &[String], rules: &'static [&str]) -> Option<BTreeMap<String, String>> {
        let is_rule = |rule: &String| rules.contains(&rule.as_str());
        let found = self.map_of(value, key, |entry| {
            let rule = text(entry, &String::new).ok().filter(is_rule);
            Ok(rule.ok_or_else(|| shown(entry)))
        })?;
        let rule = |(name, rule): (String, Result<String, String>)| {
            let rule = rule.unwrap_or_else(|shown| {
                let inner = [key, std::slice::from_ref(&name)].concat();
                let message = format!("{shown} is not {}; using {}", Kind::Choice(rules), quoted(rules[0]));
                self.problems.key(&inner, message);
                rules[0].to_owned()
            });
            (name, rule)
        };
        Some(found.into_iter().map(rule).collect())
    }

    fn sources(&mut self, value: &Value, key: &[String]) -> Option<BTreeMap<String, KeySource>> {
        self.map_of(value, key, source)
    }

    /// Reads a table with `read` for its values; each value that can't be read is a problem of its own.
    fn map_of<T>(
        &mut self,
        value: &Value,
        key: &[String],
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Option<BTreeMap<String, T>> {
        let Value::Table(table) = value else { return None };
        let mut map = BTreeMap::new();
        for (name, entry) in self.entries(table, key) {
            let Some(name) = name else { continue };
            let mut inner = key.to_vec();
            inner.push(name.clone());
            if name.is_empty() || name.len() > WORD_BYTES_MAX || name.contains(|c: char| !printable_word(c)) {
                self.problems.key(&inner, "is not a word; ignored".into());
                continue;
            }
            match read(&entry) {
                Ok(entry) => {
                    map.insert(name, entry);
                }
                Err(why) => self.problems.key(&inner, format!("{why}; ignored")),
            }
        }
        Some(map)
    }
}

/// Returns whether a server of tools may have this name, which becomes part of the names of its tools.
fn is_server_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 20 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_plain)
}

fn text(value: &Value, wrong: &dyn Fn() -> String) -> Result<String, String> {
    let Value::String(text) = value else { return Err(wrong()) };
    let bytes = text.as_bytes().len();
    if bytes > TEXT_BYTES_MAX {
        return Err(too_long(bytes));
    }
    let text = text.to_str().map_err(|_| format!("{} is not UTF-8 text", shown(value)))?;
    Ok(text.to_owned())
}

fn line(value: &Value) -> Option<String> {
    let line = text(value, &String::new).ok()?;
    (!line.trim().is_empty() && !line.contains(char::is_control)).then_some(line)
}

fn path(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return None };
    let text = text.to_str().ok()?;
    let is_whole = text.starts_with('/') || *text == *"~" || text.starts_with("~/");
    let fits = is_whole && text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control);
    fits.then(|| text.to_owned())
}

/// Reads a text, `{ from = "VARIABLE" }`, or `{ command = { … } }`.
fn source(value: &Value) -> Result<KeySource, String> {
    let wrong = || "it is neither a string, { from = \"VARIABLE\" } nor { command = { … } }".to_owned();
    let Value::Table(table) = value else {
        return text(value, &wrong).map(|text| KeySource::Literal(Hidden::new(text)));
    };
    let get = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let is_single = table.pairs::<Value, Value>().take(2).count() == 1;
    match (get("from"), get("command")) {
        (from @ Value::String(_), Value::Nil) if is_single => match text(&from, &wrong)? {
            name if is_variable_name(&name) => Ok(KeySource::Variable(name)),
            _ => Err("`from` isn't the name of a variable".into()),
        },
        (Value::Nil, command) if is_single => argv(&command).map(KeySource::Command).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn argv(value: &Value) -> Option<Vec<String>> {
    let Value::Table(table) = value else { return None };
    let mut words = Vec::new();
    for index in 1..=ENTRIES_MAX {
        match table.raw_get::<Value>(index).ok()? {
            Value::Nil => break,
            word => words.push(text(&word, &String::new).ok().filter(|word| !word.contains('\0'))?),
        }
    }
    words.first().is_some_and(|program| !program.is_empty()).then_some(words)
}

fn ports(value: &Value) -> Option<Vec<u16>> {
    let Value::Table(table) = value else { return None };
    let entries = table.pairs::<Value, Value>().take(ENTRIES_MAX);
    let port = |pair: mlua::Result<(Value, Value)>| match pair {
        Ok((Value::Integer(_), Value::Integer(port))) => u16::try_from(port).ok().filter(|port| *port > 0),
        _ => None,
    };
    entries.map(port).collect()
}

fn too_long(bytes: usize) -> String {
    format!("a string of {bytes} bytes is too long (at most {TEXT_BYTES_MAX})")
}

fn word(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return None };
    let text = text.to_str().ok()?;
    let fits = !text.is_empty() && text.len() <= WORD_BYTES_MAX && text.chars().all(printable_word);
    fits.then(|| text.to_owned())
}

fn printable_word(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

fn number(value: &Value) -> Option<f64> {
    match value {
        // Luau's numbers are doubles, so nothing is lost on the way back.
        #[allow(clippy::cast_precision_loss)]
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn integer(value: &Value, least: u64, most: u64) -> Result<Setting, String> {
    match value {
        Value::Integer(number) => match u64::try_from(*number) {
            Ok(number) if (least..=most).contains(&number) => Ok(Setting::Integer(number)),
            _ => Err(format!("{number} is out of range ({least} to {most})")),
        },
        Value::Number(number) if number.is_finite() && number.fract() != 0.0 => {
            Err(format!("{number} is not a whole number ({least} to {most})"))
        }
        Value::Number(number) => Err(format!("{number} is out of range ({least} to {most})")),
        other => Err(format!("{} is not a number ({least} to {most})", shown(other))),
    }
}

/// Checks an address as far as possible without the network. An address with a password in it is not echoed.
fn address(text: &str) -> Result<Setting, String> {
    let host = host(text);
    if host.is_some_and(|host| host.contains('@')) {
        return Err("an address with a user name or password in it does not belong in the config; use key_env".into());
    }
    let clean = text.chars().all(printable_word);
    match host {
        Some(host) if clean && !host.is_empty() && !host.starts_with(':') => Ok(Setting::Text(text.to_owned())),
        _ => Err(format!("{} is not {}", quoted(text), Kind::Address)),
    }
}

/// The host, with its port, of an address; `None` if it isn't an http address.
fn host(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    rest.split(['/', '?', '#', '\\']).next()
}

/// Returns whether an address is on this machine.
pub(in crate::config) fn is_loopback(address: &str) -> bool {
    let Some(host) = host(address) else { return false };
    let bare = if let Some(inner) = host.strip_prefix('[') {
        inner.split(']').next().unwrap_or_default()
    } else {
        host.split(':').next().unwrap_or_default()
    };
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn variable_name(value: &Value, allowed: Kind) -> Result<Setting, String> {
    // A value that isn't a name is probably a key: it isn't repeated in the message.
    let wrong = || format!("the value is not {allowed}");
    let name = text(value, &wrong).map_err(|_| wrong())?;
    if is_variable_name(&name) { Ok(Setting::Text(name)) } else { Err(wrong()) }
}

fn is_variable_name(name: &str) -> bool {
    name.len() <= 255 && is_variable(name)
}

/// Shows a Lua value in a problem.
fn shown(value: &Value) -> String {
    match value {
        Value::Nil => "nil".into(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(&text.to_string_lossy()),
        other => format!("a {}", other.type_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for (address, local) in [
            ("http://127.0.0.1:8080", true),
            ("http://LOCALHOST/v1", true),
            ("https://[::1]:8080/v1", true),
            ("http://127.0.0.1.evil.example/", false),
            ("http://localhost.evil.example", false),
            ("https://api.openai.com/127.0.0.1", false),
            ("http://evil.example#127.0.0.1", false),
            ("http://192.168.0.1", false),
            ("ftp://127.0.0.1", false),
        ] {
            assert_eq!(is_loopback(address), local, "{address}");
        }
    }
}
