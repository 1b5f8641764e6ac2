//! Settings to servers of tools: what each may reach, how its program is started, and what identifies it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Uri;

use crate::app::limits::sandbox::{Chosen, grant};
use crate::app::tooling::workspace::variable;
use crate::base::directories::{self, Kind};
use crate::base::program::find_program;
use crate::config::{
    Env, Hidden, KeySource, McpSettings, ServerSandbox, ServerSettings, ServerStart, Settings, state_directory,
};
use crate::estop::Estop;
use crate::host::{self, Authorities};
use crate::mcp::{self, Era, Launch, Mcp, Place, Server, ServerLimits, Web};
use crate::proto::served::Reach;
use crate::receipts;
use crate::sandbox::{self, Area, Grant, Tier, View};
use crate::tools::served::{Added, Adding, Configured, LAUNCHERS, Rule, Servers, Start};
use crate::tools::{OWN_TOOLS, Registry, judged_client};

/// Variables of the user that every server gets, if they are set.
const PASSED_ON: [&str; 9] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "USER", "LOGNAME"];
/// Variables that name a proxy. A server that has the network gets them, without the user's name and password.
const PROXIES: [&str; 8] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];
/// Variables that point programs at a server's own directory, for files that they would store in the home.
const OWN_DIRECTORY: [&str; 3] = ["XDG_CACHE_HOME", "npm_config_cache", "UV_TOOL_DIR"];
/// The variable of uv's cache and its place below a server's own directory, since uv doesn't work inside its cache.
const UV_CACHE: (&str, &str) = ("UV_CACHE_DIR", "uv");

/// Longest file among a server's arguments that is identified by its content, in bytes; a longer one by its length and time.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Time for a request to an address that a server names.
const DIAL: Duration = Duration::from_secs(10);
/// Directories in which a program is looked for without `PATH`, as the C library has them.
const USUAL_PATH: &str = "/bin:/usr/bin";
/// Variables that stop launchers of packages from waiting for a network that they don't have.
const OFFLINE: [(&str, &str); 2] = [("npm_config_offline", "true"), ("UV_OFFLINE", "1")];

/// The servers of the user's configuration, for a workspace; none if they are switched off, or if there are none and a session
/// may not add its own.
#[must_use]
pub fn servers(settings: &Settings, env: &Env, workspace: &Path, may_add: bool) -> Option<Arc<Servers>> {
    servers_in(settings, env, workspace, &Chosen::for_workspace(settings, env, workspace), may_add)
}

/// Returns the servers with a sandbox that is chosen elsewhere. With `may_add` there are servers even if none is configured.
pub(in crate::app) fn servers_in(
    settings: &Settings,
    env: &Env,
    workspace: &Path,
    chosen: &Chosen,
    may_add: bool,
) -> Option<Arc<Servers>> {
    let McpSettings { enabled, start, wait_ms, tools_tokens, servers, .. } = &settings.mcp;
    let state = state_directory(env)?;
    if !enabled || (servers.is_empty() && !may_add) {
        return None;
    }
    let own = directories::of(env, Kind::Cache).map(|cache| cache.join("reedclaw").join("mcp"));
    let rows = Arc::new(Mutex::new(BTreeMap::clone(servers)));
    let web = web(settings, env, &rows);
    let parts = Arc::new(Parts {
        grant: grant(settings, env, workspace),
        chosen: chosen.clone(),
        unheld: chosen.without_sandbox(),
        servers: rows,
        env: env.clone(),
        own,
        hashes: Mutex::default(),
        started: Mutex::default(),
    });
    let adding = adding(&parts, chosen);
    let configured: Vec<Configured> = servers.iter().map(|(name, row)| configured(name, row, &parts, chosen)).collect();
    let launch: Launch = Arc::new(move |server: &Server| parts.command(server));
    let estop = Estop::new(state.clone());
    let options = mcp::Options {
        servers: configured.iter().map(|row| row.server.clone()).collect(),
        launch,
        end: Arc::new(sandbox::end_all),
        web,
        halted: Arc::new(move || estop.check().err().map(|stopped| stopped.why)),
        state: Some(state.join("mcp")),
    };
    let start = match start {
        ServerStart::Never => Start::Never,
        ServerStart::Lazy => Start::Lazy,
        ServerStart::Eager => Start::Eager,
    };
    let wait = Duration::from_millis(*wait_ms);
    let servers = Servers::new(Mcp::new(options), configured, adding, &state, start, wait, *tools_tokens);
    Some(Arc::new(servers.beside(built_in)))
}

/// Names of the built-in tools.
fn built_in() -> Vec<String> {
    Registry::new().specs().map(|spec| spec.name.clone()).chain(OWN_TOOLS.map(str::to_owned)).collect()
}

fn configured(name: &str, row: &Arc<ServerSettings>, parts: &Arc<Parts>, chosen: &Chosen) -> Configured {
    let [start, call, call_max, idle] = row.times_ms.map(Duration::from_millis);
    let era = match row.era.as_str() {
        "2025-11-25" => Era::Initialize,
        "2026-07-28" => Era::Discover,
        _ => Era::Auto,
    };
    let rules = row.tools.iter().map(|(tool, word)| {
        let rule = match word.as_str() {
            "run" => Rule::Run,
            "deny" => Rule::Deny,
            // A word that isn't known must not let anything run.
            _ => Rule::Ask,
        };
        (tool.clone(), rule)
    });
    let is_remote = row.command.is_empty() && row.url.is_some();
    let is_held = row.sandbox != ServerSandbox::Off;
    let chosen = chosen.clone();
    let network = row.network;
    let (of_now, now) = (Arc::clone(parts), Arc::clone(row));
    let (of_place, place) = (Arc::clone(parts), Arc::clone(row));
    let (of_start, known, own_name) = (Arc::clone(parts), Arc::clone(row), name.to_owned());
    Configured {
        server: Server {
            name: name.to_owned(),
            place: match &row.url {
                Some(url) if row.command.is_empty() => Place::Url(url.clone()),
                _ => Place::Program(row.command.clone()),
            },
            oauth: row.oauth.clone(),
            may_ask: row.may_ask,
            is_sse: row.is_sse,
            has_resources: row.has_resources,
            has_prompts: row.has_prompts,
            is_fetching: false,
            era,
            limits: ServerLimits { start, call, call_max, idle },
        },
        identity: Arc::new(move || of_now.identity(&now)),
        is_of_workspace: Arc::new(move || of_place.is_of_workspace(&place)),
        is_replaced: Arc::new(move || of_start.is_replaced(&own_name, &known)),
        values: match is_remote {
            true => ("headers", row.headers.keys().cloned().collect()),
            false => ("variables", row.env.keys().chain(&row.pass).cloned().collect()),
        },
        reach: Arc::new(move || match (is_held && chosen.get().tier() > Tier::None, network) {
            _ if is_remote => Reach::Remote,
            (false, _) => Reach::Free,
            (true, true) => Reach::Network,
            (true, false) => Reach::Held,
        }),
        grant: if is_remote { Vec::new() } else { grant_lines(row) },
        may_write: row.sandbox != ServerSandbox::Read || !row.writable.is_empty(),
        only: row.only.clone(),
        without: row.without.clone(),
        load: row.load.clone(),
        pin: row.pin.clone(),
        rules: rules.collect(),
    }
}

/// The rights of a server's program on this machine, each with its kind, for a person.
fn grant_lines(row: &ServerSettings) -> Vec<(&'static str, String)> {
    let workspace = match row.sandbox {
        ServerSandbox::Read => "read",
        ServerSandbox::Workspace => "read and written",
        ServerSandbox::Off => "as everything else, whatever you may do",
    };
    let mut lines = vec![("workspace", workspace.to_owned())];
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    for (what, which) in [
        ("starts in", row.cwd.as_ref().map(|path| path.display().to_string()).unwrap_or_default()),
        ("may read", paths(&row.readable)),
        ("may write", paths(&row.writable)),
    ] {
        lines.extend((!which.is_empty()).then_some((what, which)));
    }
    lines
}

/// The parts for servers that are reached by an address. Nothing is read before a server is needed.
fn web(settings: &Settings, env: &Env, all: &Arc<Mutex<BTreeMap<String, Arc<ServerSettings>>>>) -> Web {
    let authorities = Authorities::of(env);
    let (rows, own) = (Arc::clone(all), env.clone());
    let headers = move |name: &str| {
        let row = rows.lock().get(name).cloned();
        let Some(row) = row else { return Ok(Vec::new()) };
        let mut headers = Vec::new();
        for (name, source) in &row.headers {
            let value = value_of(source, &own).map_err(|why| format!("its header {name}: {why}"))?;
            headers.push((name.clone(), value));
        }
        if let Some(source) = &row.key {
            let key = value_of(source, &own).map_err(|why| format!("its key: {why}"))?;
            headers.push(("Authorization".into(), format!("Bearer {}", key.trim())));
        }
        Ok(headers)
    };
    let (vouchers, is_open) = (authorities.clone(), settings.tools.http_allow_private);
    let dial = move |server: &str, url: &Uri| judged_client(server, url, is_open, &vouchers, DIAL);
    let (of_logins, own) = (Arc::clone(all), env.clone());
    let secret = move |name: &str| {
        let row = of_logins.lock().get(name).cloned();
        let Some(source) = row.as_ref().and_then(|row| row.client_secret.as_ref()) else { return Ok(None) };
        let secret = value_of(source, &own).map_err(|why| format!("the secret of its registration: {why}"))?;
        Ok(Some(secret.trim().to_owned()))
    };
    Web { authorities, headers: Arc::new(headers), dial: Arc::new(dial), secret: Arc::new(secret) }
}

/// Returns the value of a key, a variable or a header that the user has for a server.
fn value_of(source: &KeySource, env: &Env) -> Result<String, String> {
    match source {
        KeySource::Variable(name) => {
            variable(env, name).map(str::to_owned).ok_or_else(|| format!("the variable {name} isn't set"))
        }
        KeySource::Literal(value) => Ok(value.reveal().to_owned()),
        KeySource::File(path) => host::key_from_file(path),
        KeySource::Command(words) => host::key_from_command(words, env, &|| false),
    }
}

/// Configures servers that are added for one session: in the sandbox, without the network. Their values come from
/// outside and may decide which code runs, so they are part of the server's identity.
fn adding(parts: &Arc<Parts>, chosen: &Chosen) -> Adding {
    let (parts, chosen) = (Arc::clone(parts), chosen.clone());
    Box::new(move |name, Added { place, env: variables, headers }| {
        let literal = |map: &BTreeMap<String, String>| {
            map.iter().map(|(name, text)| (name.clone(), KeySource::Literal(Hidden::new(text.clone())))).collect()
        };
        let mut row =
            ServerSettings { env: literal(variables), headers: literal(headers), ..ServerSettings::default() };
        match place {
            Place::Program(argv) => row.command.clone_from(argv),
            Place::Url(url) => row.url = Some(url.clone()),
        }
        let row = Arc::new(row);
        let mut made = configured(name, &row, &parts, &chosen);
        if !variables.is_empty() || !headers.is_empty() {
            let values = receipts::hash(json!({"env": variables, "headers": headers}).to_string().as_bytes());
            let plain = Arc::clone(&made.identity);
            made.identity = Arc::new(move || {
                let mut identity = plain()?;
                identity["values"] = values.clone().into();
                Some(identity)
            });
        }
        parts.servers.lock().insert(name.to_owned(), row);
        made
    })
}

/// A file as it was when its hash was made: device, inode, length, and the times of its last changes.
type FileKey = (u64, u64, u64, [i64; 4]);

/// The parts from which a server's program is started.
struct Parts {
    grant: Grant,
    chosen: Chosen,
    /// For servers that the user wants outside any sandbox.
    unheld: Chosen,
    servers: Arc<Mutex<BTreeMap<String, Arc<ServerSettings>>>>,
    env: Env,
    /// The parent of each server's own directory.
    own: Option<PathBuf>,
    /// The hashes of programs.
    hashes: Mutex<BTreeMap<PathBuf, (FileKey, String)>>,
    /// The identities of servers at their last starts.
    started: Mutex<BTreeMap<String, Option<Value>>>,
}

impl Parts {
    /// Returns the identity of a server: its program, how and where it is started, and how it is held. A program that root owns
    /// is identified by its path, any other also by its content, and so is each file that an argument names: an interpreter may
    /// run it. Without the program there is no identity, since it isn't known which program it will be.
    fn identity(&self, row: &ServerSettings) -> Option<Value> {
        if let (Some(url), true) = (&row.url, row.command.is_empty()) {
            return Some(json!({"url": url, "headers": row.headers.keys().collect::<Vec<_>>()}));
        }
        let cwd = row.cwd.as_ref().unwrap_or(&self.grant.cwd);
        let program = self.program(row, row.command.first()?, cwd)?.canonicalize().ok()?;
        let data = program.metadata().ok()?;
        Some(json!({
            "program": program.display().to_string(),
            "sha256": if data.uid() == 0 { None } else { Some(self.hash(&program, &data)?) },
            "argv": row.command,
            "files": self.files(row, cwd).map(|file| self.file(&file)).collect::<Vec<_>>(),
            "cwd": cwd.canonicalize().as_ref().unwrap_or(cwd).display().to_string(),
            "env": row.env.keys().chain(&row.pass).collect::<Vec<_>>(),
            "sandbox": format!("{:?}", row.sandbox),
            "network": row.network,
        }))
    }

    /// Returns the files that a server's arguments name, except those that the config lets the server write: these are its data.
    fn files<'a>(&self, row: &'a ServerSettings, cwd: &'a Path) -> impl Iterator<Item = PathBuf> + use<'a> {
        let real = |path: PathBuf| path.canonicalize().ok();
        let writable: Vec<PathBuf> = row.writable.iter().cloned().filter_map(real).collect();
        let found = named(&row.command, cwd).into_iter().filter(|path| path.is_file()).filter_map(real);
        found.filter(move |path| !writable.iter().any(|writable| path.starts_with(writable)))
    }

    /// Identifies a file among a server's arguments.
    fn file(&self, path: &Path) -> Value {
        let data = path.metadata().ok();
        let hash = data.as_ref().filter(|data| data.len() <= FILE_BYTES_MAX).and_then(|data| self.hash(path, data));
        let is = hash.or_else(|| data.map(|data| format!("{} {} {}", data.len(), data.mtime(), data.mtime_nsec())));
        json!([path.display().to_string(), is])
    }

    /// Returns whether a program, a script or a package of the workspace may start: a launcher prefers an installed
    /// package of the workspace. A `cwd` in the config decides where everything is.
    fn is_of_workspace(&self, row: &ServerSettings) -> bool {
        let (Some(word), None) = (row.command.first(), &row.cwd) else { return false };
        let cwd = &self.grant.cwd;
        let Ok(workspace) = cwd.canonicalize() else { return false };
        let program = self.program(row, word, cwd).and_then(|program| program.canonicalize().ok());
        let is_launcher = word.rsplit('/').next().is_some_and(|name| LAUNCHERS.contains(&name));
        let named = named(&row.command, cwd).into_iter().filter_map(|path| path.canonicalize().ok());
        is_launcher || program.into_iter().chain(named).any(|path| path.starts_with(&workspace))
    }

    /// The hash of a program's content. A file that hasn't changed isn't read again.
    fn hash(&self, program: &Path, data: &std::fs::Metadata) -> Option<String> {
        let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
        let key = (data.dev(), data.ino(), data.len(), times);
        let known = self.hashes.lock().get(program).cloned();
        if let Some((_, hash)) = known.filter(|(known, _)| *known == key) {
            return Some(hash);
        }
        let hash = receipts::hash(&host::read_program(program)?);
        self.hashes.lock().insert(program.to_owned(), (key, hash.clone()));
        Some(hash)
    }

    /// Finds the program that a server's word starts in a directory, with the server's `PATH`.
    fn program(&self, row: &ServerSettings, word: &str, cwd: &Path) -> Option<PathBuf> {
        let own = row.env.get("PATH").filter(|source| !matches!(source, KeySource::Command(_) | KeySource::File(_)));
        let own = own.and_then(|source| value_of(source, &self.env).ok());
        let path = own.as_deref().or_else(|| variable(&self.env, "PATH")).unwrap_or(USUAL_PATH);
        find_program(word, path, cwd)
    }

    /// Returns whether a server's program was replaced since its start.
    fn is_replaced(&self, name: &str, row: &ServerSettings) -> bool {
        let started = self.started.lock().get(name).cloned();
        started.is_some_and(|started| started != self.identity(row))
    }

    fn command(&self, server: &Server) -> Result<std::process::Command, String> {
        let row = self.servers.lock().get(&server.name).cloned();
        let row = &row.ok_or("it isn't configured")?;
        let Place::Program(argv) = &server.place else { return Err("it has no program".into()) };
        let (program, arguments) = argv.split_first().ok_or("it has no program")?;
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let own = self.own.as_ref().map(|own| own.join(&server.name));
        if let Some(own) = &own {
            crate::files::make_private(own).map_err(|error| format!("{}: {error}", own.display()))?;
        }
        let mut grant = Grant {
            env: self.variables(row, own.as_deref(), row.network || server.is_fetching)?,
            network: row.network || server.is_fetching,
            view: if row.sandbox == ServerSandbox::Read { View::Look } else { View::Work },
            area: Area::Own,
            ..self.grant.clone()
        };
        if let (true, Some(own)) = (server.is_fetching, &own) {
            grant.workspace.clone_from(own);
            grant.cwd.clone_from(own);
            grant.read_only.clear();
        }
        if let (Some(cwd), false) = (&row.cwd, server.is_fetching) {
            grant.cwd.clone_from(cwd);
        }
        grant.readable.extend(row.readable.iter().cloned());
        grant.writable.extend(row.writable.iter().cloned().chain(own));
        // The sandbox would report this too, but only by an exit status.
        if self.program(row, program, &grant.cwd).is_none() {
            return Err(match program.contains('/') {
                true => format!("there is no program {program}"),
                false => format!("there is no program {program} in PATH"),
            });
        }
        let chosen = if row.sandbox == ServerSandbox::Off { &self.unheld } else { &self.chosen };
        if chosen.get().tier() > Tier::None && is_hidden(&grant) {
            let cwd = grant.cwd.display();
            return Err(format!(
                "its cwd, {cwd}, isn't in its sandbox; mcp.servers.{}.readable can name it",
                server.name
            ));
        }
        let identity = self.identity(row);
        self.started.lock().insert(server.name.clone(), identity);
        let command = chosen.get().command(OsStr::new(program), &arguments, &grant);
        command.map_err(|error| format!("{}; {}", error.message, error.hint))
    }

    /// The variables of a server: a few of the user's, those that the configuration names, and its own directory.
    ///
    /// # Errors
    /// Reason why one of them has no value.
    fn variables(
        &self,
        row: &ServerSettings,
        own: Option<&Path>,
        has_network: bool,
    ) -> Result<BTreeMap<OsString, OsString>, String> {
        let names = PASSED_ON.into_iter().chain(row.pass.iter().map(String::as_str));
        let passed = names.filter_map(|name| Some((name.into(), self.env.get(OsStr::new(name))?.clone())));
        let uv = own.map(|own| (UV_CACHE.0.into(), own.join(UV_CACHE.1).into()));
        let own = OWN_DIRECTORY.into_iter().filter_map(|name| Some((name.into(), own?.as_os_str().to_owned())));
        let own = own.chain(uv);
        let mut set = Vec::new();
        for (name, source) in &row.env {
            let value = value_of(source, &self.env).map_err(|why| format!("its variable {name}: {why}"))?;
            set.push((OsString::from(name), OsString::from(value)));
        }
        let offline = OFFLINE.into_iter().filter(|_| !has_network).map(|(name, value)| (name.into(), value.into()));
        let has_proxies = has_network || row.sandbox == ServerSandbox::Off;
        let proxies = PROXIES.into_iter().filter(|_| has_proxies);
        let proxies = proxies.filter_map(|name| Some((name.into(), without_login(variable(&self.env, name)?).into())));
        Ok(own.chain(offline).chain(proxies).chain(passed).chain(set).collect())
    }
}

/// Returns the files and directories in the program's directory that its arguments name: by their paths or, like
/// modules, by a name without its ending.
#[allow(clippy::disallowed_methods, reason = "the names in the directory of a server")]
fn named(argv: &[String], cwd: &Path) -> Vec<PathBuf> {
    let (mut found, mut entries) = (Vec::new(), None);
    for word in argv.iter().skip(1).filter(|word| !word.is_empty()) {
        let path = cwd.join(word);
        let module =
            word.split('.').next().filter(|name| !name.is_empty() && !name.starts_with('-') && !name.contains('/'));
        match module {
            _ if path.exists() => found.push(path),
            Some(module) => {
                let entries: &Vec<PathBuf> = entries.get_or_insert_with(|| {
                    let read = std::fs::read_dir(cwd).into_iter().flatten().flatten();
                    let mut paths: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
                    paths.sort();
                    paths
                });
                found.extend(entries.iter().filter(|path| path.file_stem() == Some(OsStr::new(module))).cloned());
            }
            None => {}
        }
    }
    found
}

/// Returns whether the sandbox puts a home or a directory for temporary files of its own in the place of a server's
/// directory.
fn is_hidden(grant: &Grant) -> bool {
    let Grant { cwd, workspace, readable, writable, homes, .. } = grant;
    let is_shown = std::iter::once(workspace).chain(readable).chain(writable).any(|shown| cwd.starts_with(shown));
    let replaced = homes.iter().map(PathBuf::as_path).chain(["/tmp", "/var/tmp"].map(Path::new));
    !is_shown && replaced.into_iter().any(|place| cwd.starts_with(place) && cwd != place)
}

/// The address of a proxy without the name and the password in it.
fn without_login(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    // A password may hold characters that no address has, so all text up to the last `@` counts as the login.
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

#[cfg(test)]
mod tests {
    use super::without_login;

    #[test]
    fn a_proxys_password_is_left_out() {
        for (address, expected) in [
            ("http://proxy:3128", "http://proxy:3128"),
            ("http://ann:secret@proxy:3128/", "http://proxy:3128/"),
            ("http://ann:se/cr@t@proxy:3128", "http://proxy:3128"),
            ("ann:secret@proxy:3128", "proxy:3128"),
            ("localhost,.corp", "localhost,.corp"),
        ] {
            assert_eq!(without_login(address), expected);
        }
    }
}
