//! The tools of servers (Model Context Protocol): which of them a model may be offered, and calling them. A tool is offered
//! only while it is, byte for byte, the one that a person allowed.

mod asked;
mod browser;
mod changes;
mod command;
mod find;
mod import;
mod instructions;
mod names;
mod resource;
mod shown;
mod tool;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Tool;
use crate::gate::{PinError, Pins, PinsVersion, whole_pin};
use crate::mcp::{Fault, Mcp, Place, Server, Standing};
use crate::proto::served::{Definition, Manifest, PinStanding, PromptSpec, Reach};

pub use asked::Asked;
pub use changes::Changed;
pub use command::{
    Done, Face, LAUNCHERS, MCP_WORDS, TestEnd, allow_tools, ask_to_allow_started, import_file, mcp_command,
    usage as mcp_usage, words_of,
};
use find::{AT_ONCE_MAX, tokens};
use instructions::INSTRUCTIONS;
use names::RESOURCES;
pub use resource::{resources_like, words_after};
use shown::Missed;
pub use tool::{NO_NETWORK, ServedTool};

/// Tools of all servers that are offered. More of them would make every search and every list long.
const TOOLS_MAX: usize = 2_000;
/// The schemas of servers' tools may have one part in this number of a model's window.
const WINDOW_SHARE: usize = 10;
/// The schemas may have one part in this number of all that a request may have.
const BUDGET_SHARE: usize = 4;

/// A server with what the user's configuration says of its tools.
#[derive(Clone)]
pub struct Configured {
    /// Its program or address, and its environment.
    pub server: Server,
    /// Says what the server is now: program, arguments, directory, names of variables, sandbox. Nothing of it is allowed without
    /// an answer.
    pub identity: Arc<dyn Fn() -> Option<Value> + Send + Sync>,
    /// Returns whether the program that starts may come from the workspace (a program, a script or a package), instead of from a
    /// place that the config names.
    pub is_of_workspace: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Returns whether its program differs from the one that was last started.
    pub is_replaced: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The names of its variables or headers, with the word for them.
    pub values: (&'static str, Vec<String>),
    /// Says how far its tools reach. It may start programs to find out.
    pub reach: Arc<dyn Fn() -> Reach + Send + Sync>,
    /// Its rights here, each with its kind, for a person.
    pub grant: Vec<(&'static str, String)>,
    /// True if the sandbox lets its program write in the workspace, or elsewhere but in its own directory.
    pub may_write: bool,
    /// The only tools that may be offered; `None` for all.
    pub only: Option<Vec<String>>,
    /// Tools that aren't offered.
    pub without: Vec<String>,
    /// Tools that are sent even if there are too many for all.
    pub load: Vec<String>,
    /// The hash of all that it offers, if the config allows that without a person.
    pub pin: Option<String>,
    /// Rules for single tools.
    pub rules: BTreeMap<String, Rule>,
}

impl Configured {
    /// Its reach, and whether a call may change files here. Only a sandbox keeps a program from that.
    fn reach(&self) -> (Reach, bool) {
        let reach = (self.reach)();
        let may_write = match reach {
            Reach::Held | Reach::Network => self.may_write,
            Reach::Free => true,
            Reach::Remote => false,
        };
        (reach, may_write)
    }
}

/// The user's rule for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Runs without a question, as long as it is the tool that was allowed.
    Run,
    /// The person is asked, whatever else would let it run.
    Ask,
    /// Not offered.
    Deny,
}

/// Moment at which servers are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the first question.
    #[default]
    Lazy,
    /// With the first line of a session.
    Eager,
    /// Only on a person's request.
    Never,
}

/// A server that is added for one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its address or program.
    pub place: Place,
    /// Variables that are set for its program.
    pub env: BTreeMap<String, String>,
    /// Headers that it is sent, if it is reached by an address.
    pub headers: BTreeMap<String, String>,
}

/// Makes the configuration of a server that is added for one session, by its name.
pub type Adding = Box<dyn Fn(&str, &Added) -> Configured + Send + Sync>;

/// All servers of the user, and what a person has allowed of them.
pub struct Servers {
    mcp: Mcp,
    pins: Pins,
    configured: Mutex<BTreeMap<String, Configured>>,
    /// Configures a server that is added for one session.
    adding: Adding,
    start: Start,
    wait: Duration,
    /// Tokens of schemas that are sent at once; of more, only the tools that were found.
    tokens_max: usize,
    /// The share of the model's window that schemas may have, if that is less.
    window_share: AtomicUsize,
    /// Tools that were found in this session, in the order of finding.
    loaded: Mutex<Vec<String>>,
    /// The sources of the last list of tools.
    made_from: Mutex<Option<Source>>,
    /// The tools that models may be offered, until a manifest or a pin changes.
    offered: Mutex<Option<Arc<Offered>>>,
    /// The hashes of whole servers, by name.
    whole_pins: Mutex<BTreeMap<String, WholePin>>,
    /// Lines for the person that haven't been shown.
    notices: Mutex<Vec<String>>,
    /// The failures that the person has seen, by server.
    reported: Mutex<BTreeMap<String, (String, u32)>>,
    /// The parts that the person knows to be off, by server.
    missed: Mutex<BTreeMap<String, Missed>>,
    /// The offers that the person knows about, by server; `None` for one that needs a login.
    offers: Mutex<BTreeMap<String, Option<Arc<Manifest>>>>,
    /// Names the built-in tools.
    own: fn() -> Vec<String>,
}

/// The hash of a whole server, and what it was made from.
struct WholePin {
    identity: Value,
    manifest: Arc<Manifest>,
    pin: String,
}

/// The sources of a list of tools.
#[derive(PartialEq)]
struct Source {
    listed: Arc<Offered>,
    loaded: Vec<String>,
    tokens_max: usize,
}

/// The tools that models may be offered, and what they were made of.
struct Offered {
    pins: PinsVersion,
    manifests: Vec<Option<Arc<Manifest>>>,
    /// The identities of the servers whose manifests are known, as they were.
    identities: BTreeMap<String, Value>,
    rows: Vec<Listed>,
    /// The parts that a person may miss, by server.
    missed: BTreeMap<String, Missed>,
    /// About how many tokens their schemas cost in each request.
    tokens: usize,
    /// Their words, from the first search on.
    index: OnceLock<find::Index>,
}

impl Offered {
    fn is_of(&self, pins: &PinsVersion, manifests: &Vec<Option<Arc<Manifest>>>) -> bool {
        // A manifest is never modified, only replaced.
        let is_same = |(one, other): (&Option<Arc<Manifest>>, &Option<Arc<Manifest>>)| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        self.pins == *pins
            && self.manifests.len() == manifests.len()
            && self.manifests.iter().zip(manifests).all(is_same)
    }

    /// Returns whether there are too many to send all of them.
    fn is_much(&self, tokens_max: usize) -> bool {
        self.tokens > tokens_max || self.rows.len() > AT_ONCE_MAX
    }

    /// The tools that fit a query best, the best first. A tool whose name is the query comes first.
    fn search(&self, query: &str, limit: usize) -> Vec<&Listed> {
        find::search(&self.rows, self.index.get_or_init(|| find::Index::of(&self.rows)), query, limit)
    }
}

impl PartialEq for Offered {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(&other.pins, &other.manifests) && self.identities == other.identities
    }
}

/// A tool of a server, for lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The server.
    pub server: String,
    /// The definition as it is now.
    pub tool: Arc<Definition>,
    /// The name under which a model sees it.
    pub name: String,
    /// True if it is the one that was allowed.
    pub standing: PinStanding,
    /// The user's configuration leaves it out.
    pub is_left_out: bool,
}

impl Servers {
    /// Combines the parts. Nothing is started.
    #[must_use]
    pub fn new(
        mcp: Mcp,
        configured: Vec<Configured>,
        adding: Adding,
        state: &Path,
        start: Start,
        wait: Duration,
        tokens_max: usize,
    ) -> Self {
        let configured = configured.into_iter().map(|row| (row.server.name.clone(), row)).collect();
        Self {
            mcp,
            pins: Pins::at(state),
            configured: Mutex::new(configured),
            adding,
            start,
            wait,
            tokens_max,
            window_share: AtomicUsize::new(usize::MAX),
            loaded: Mutex::default(),
            made_from: Mutex::default(),
            offered: Mutex::default(),
            whole_pins: Mutex::default(),
            notices: Mutex::default(),
            reported: Mutex::default(),
            missed: Mutex::default(),
            offers: Mutex::default(),
            own: Vec::new,
        }
    }

    /// Returns the same servers with these built-in tools: a person is warned of a text that names one of them.
    #[must_use]
    pub fn beside(self, own: fn() -> Vec<String>) -> Self {
        Self { own, ..self }
    }

    /// The names of tools that aren't a server's own: built-in ones and those of other servers.
    fn others(&self, server: &str) -> Vec<String> {
        let of = |name: &String| {
            let manifest = self.mcp.manifest(name);
            let tools = manifest.iter().flat_map(|manifest| &manifest.tools);
            tools.map(|tool| tool.name.clone()).collect::<Vec<_>>()
        };
        let (own, servers) = (of(&server.to_owned()), self.names());
        let all = (self.own)().into_iter().chain(servers.iter().filter(|name| *name != server).flat_map(of));
        all.filter(|name| !own.contains(name)).collect()
    }

    /// The client.
    #[must_use]
    pub fn mcp(&self) -> &Mcp {
        &self.mcp
    }

    /// The names of the servers.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.rows().keys().cloned().collect()
    }

    /// The prompts of all servers, each with its server's name, as far as they are known; nothing is started.
    #[must_use]
    pub fn prompts(&self) -> Vec<(String, PromptSpec)> {
        let of = |server: String| -> Vec<(String, PromptSpec)> {
            let manifest = self.mcp.manifest(&server);
            let prompts = manifest.map(|manifest| manifest.prompts.clone()).unwrap_or_default();
            prompts.into_iter().map(|prompt| (server.clone(), prompt)).collect()
        };
        self.names().into_iter().flat_map(of).collect()
    }

    /// A server with its rules.
    #[must_use]
    pub fn configured(&self, name: &str) -> Option<Configured> {
        self.rows().get(name).cloned()
    }

    /// Starts servers of which nothing is known, for a question that could use them, and waits a short while for them. Their
    /// tools are offered from the next request on.
    pub fn prepare(&self, stop: &(dyn Fn() -> bool + Sync)) {
        self.look_again();
        if self.start == Start::Never {
            return;
        }
        let is_new = |standing: &Standing| *standing == Standing::Asleep { is_known: false };
        let new = self.mcp.standings().into_iter().filter(|(_, standing)| is_new(standing));
        let new: Vec<String> = new.map(|(name, _)| name).filter(|name| self.may_start(name)).collect();
        new.iter().for_each(|name| self.mcp.wake(name));
        if new.is_empty() {
            return;
        }
        // The allowed tools are read while they start.
        drop(self.pins.version());
        for name in self.wait_for_start(&new, stop) {
            self.notice(Some(format!("{name}: still starting; the question continues without it")));
        }
    }

    /// Starts a server in the background, unless it is running.
    pub fn begin(&self, name: &str) {
        self.renew(name);
        self.mcp.wake(name);
    }

    /// Waits for servers that start, as long as a question does. Returns those that still start.
    pub fn wait_for_start(&self, names: &[String], stop: &(dyn Fn() -> bool + Sync)) -> Vec<String> {
        self.mcp.wait(names, Instant::now() + self.wait, stop)
    }

    /// Returns whether a server is being started.
    #[must_use]
    pub fn is_starting(&self, name: &str) -> bool {
        !self.mcp.wait(&[name.to_owned()], Instant::now(), &|| true).is_empty()
    }

    /// Forgets the list of tools if a server has changed since the list was made, such as after an update.
    fn look_again(&self) {
        let mut list = self.offered.lock();
        let is_same = |(name, identity): (&String, &Value)| {
            self.configured(name).is_some_and(|row| row.known_identity() == *identity)
        };
        if list.as_ref().is_some_and(|offered| !offered.identities.iter().all(is_same)) {
            *list = None;
        }
    }

    /// Returns whether a server may be started to find out what it offers. If the workspace has its program, a person
    /// starts it first: a repository must not run anything by being opened.
    fn may_start(&self, name: &str) -> bool {
        let Some(row) = self.configured(name) else { return false };
        if row.pin.is_some() || !(row.is_of_workspace)() || self.pins.knows(name, &row.known_identity()) {
            return true;
        }
        let why = format!("its program may be one of this directory; :mcp allow {name} starts it, and asks");
        let fault = Fault { why, at: Instant::now(), runs: 0 };
        self.notice(self.is_news(name, &fault).then(|| format!("{name}: {}", fault.why)));
        false
    }

    /// Starts all servers in the background, if the config wants them before the first question.
    pub fn start_early(&self) {
        if self.start == Start::Eager {
            self.names().iter().filter(|name| self.may_start(name)).for_each(|name| self.mcp.wake(name));
        }
    }

    /// The hash of everything that a server offers, for a config that allows it.
    #[must_use]
    pub fn whole_pin(&self, server: &str) -> Option<String> {
        self.whole_pin_of(&self.configured(server)?, &self.mcp.manifest(server)?)
    }

    /// Reports to servers from now on that there is no person to answer their questions.
    pub fn ask_nobody(&self) {
        self.mcp.ask_nobody();
    }

    /// Ends a server whose program was replaced since its start, so that the program that runs is the one that is judged.
    fn renew(&self, name: &str) {
        if self.configured(name).is_some_and(|row| (row.is_replaced)()) {
            self.mcp.close(name);
        }
    }

    /// Adds a server for this session, and returns its name.
    fn add(&self, place: &Place) -> String {
        let added = Added { place: place.clone(), env: BTreeMap::new(), headers: BTreeMap::new() };
        let names = (1..).map(|number| format!("session-{number}"));
        names.into_iter().find(|name| self.add_named(name, &added)).unwrap_or_default()
    }

    /// Adds a server for this session under a name; `false` if there is one of that name. Nothing is started.
    pub fn add_named(&self, name: &str, added: &Added) -> bool {
        let mut rows = self.rows();
        if rows.contains_key(name) {
            return false;
        }
        let row = (self.adding)(name, added);
        self.mcp.add(row.server.clone());
        rows.insert(name.to_owned(), row);
        true
    }

    /// Takes a server out of this session.
    pub fn remove(&self, name: &str) {
        self.rows().remove(name);
        self.whole_pins.lock().remove(name);
        self.mcp.remove(name);
    }

    fn notice(&self, line: Option<String>) {
        self.notices.lock().extend(line.map(|line| format!("[mcp] {line}")));
    }

    /// Returns whether a failure is new to the person, and marks it as reported.
    fn is_news(&self, server: &str, fault: &Fault) -> bool {
        // The server's own words, in brackets, may hold a time or the number of a process. Ours hold its exit status.
        let (ours, theirs) = fault.why.split_at(fault.why.find(" (").unwrap_or(fault.why.len()));
        let why = format!("{ours}{}", theirs.replace(|c: char| c.is_ascii_digit(), ""));
        let mut reported = self.reported.lock();
        let report = (why, fault.runs);
        reported.insert(server.to_owned(), report.clone()) != Some(report)
    }

    /// The tools of a server as it offers them now or did at its last run.
    #[must_use]
    pub fn list(&self, server: &str) -> Vec<Listed> {
        match (self.configured(server), self.mcp.manifest(server)) {
            (Some(row), Some(manifest)) => self.list_of(&row, &manifest, &row.known_identity()),
            _ => Vec::new(),
        }
    }

    /// Returns the tools of a server as it is configured now.
    fn list_of(&self, row: &Configured, manifest: &Arc<Manifest>, identity: &Value) -> Vec<Listed> {
        let server = row.server.name.as_str();
        let pairs: Vec<(&str, &str)> = manifest.tools.iter().map(|tool| (server, tool.name.as_str())).collect();
        let names = names::names(&pairs);
        let standings = match self.is_pinned_whole(row, manifest) {
            true => vec![PinStanding::Pinned; manifest.tools.len()],
            false => self.pins.standings(server, identity, &manifest.tools),
        };
        let listed = |((tool, name), standing): ((&Arc<Definition>, String), PinStanding)| Listed {
            server: server.to_owned(),
            standing,
            is_left_out: row.leaves_out(&tool.name),
            tool: Arc::clone(tool),
            name,
        };
        manifest.tools.iter().zip(names).zip(standings).map(listed).collect()
    }

    /// Returns the tools that a model may be offered. Comparing thousands of definitions with their pins takes a while, so it is
    /// done only if either has changed.
    fn offered(&self) -> Arc<Offered> {
        let names = self.names();
        let manifests: Vec<_> = names.iter().map(|name| self.mcp.manifest(name)).collect();
        let (pins, mut cached) = (self.pins.version(), self.offered.lock());
        if let Some(offered) = cached.as_ref().filter(|offered| offered.is_of(&pins, &manifests)) {
            return Arc::clone(offered);
        }
        let (mut rows, mut identities, mut missed) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (name, manifest) in names.into_iter().zip(&manifests) {
            let (Some(row), Some(manifest)) = (self.configured(&name), manifest) else { continue };
            let identity = row.known_identity();
            let all = self.list_of(&row, manifest, &identity);
            for row in all.iter().filter(|row| row.standing == PinStanding::Changed) {
                tracing::info!(event = "pin_changed", server = %row.server, tool = %row.name);
            }
            let mut count = Missed::default();
            all.iter().filter(|row| !row.is_left_out).for_each(|row| {
                count.add(&row.tool.name, row.standing, pins.has(&name, &row.tool.name), pins.has_any(&name));
            });
            for (part, standing) in self.other_parts(&row, manifest) {
                count.add(part, standing, pins.has(&name, part), pins.has_any(&name));
            }
            missed.insert(name.clone(), count);
            identities.insert(name, identity);
            rows.extend(all.into_iter().filter(|row| row.standing == PinStanding::Pinned && !row.is_left_out));
        }
        let over = rows.len().saturating_sub(TOOLS_MAX);
        self.notice((over > 0).then(|| format!("{over} tools aren't offered, since {TOOLS_MAX} are the most")));
        rows.truncate(TOOLS_MAX);
        let tokens = rows.iter().map(tokens).sum();
        let offered = Arc::new(Offered { pins, manifests, identities, rows, missed, tokens, index: OnceLock::new() });
        *cached = Some(Arc::clone(&offered));
        offered
    }

    /// Limits schemas to a tenth of the model's window, if that is less than the config allows, and in any case to a quarter of a
    /// request's limit. If the window is unknown, the limit is used in its place.
    pub fn fit_window(&self, window: Option<usize>, budget: usize) {
        let share = window.map_or(budget / WINDOW_SHARE, |window| (window / WINDOW_SHARE).min(budget / BUDGET_SHARE));
        self.window_share.store(share, Ordering::Relaxed);
    }

    /// Offers a tool from the next request on, by the name under which models see it.
    pub fn offer(&self, name: &str) {
        self.load(std::iter::once(name.to_owned()));
    }

    /// Offers tools from the next request on, the last one longest.
    fn load(&self, names: impl Iterator<Item = String>) {
        let mut loaded = self.loaded.lock();
        for name in names {
            if !loaded.contains(&name) {
                loaded.push(name);
            }
        }
    }

    /// The tools that a model is offered now, if they differ from those of the last time: all that a person allowed, or, if
    /// these are too many, a search and those that were found.
    ///
    /// Tools that were found come last, in the order of finding, and nothing before them changes: a server that caches the
    /// beginning of a request needs to read only the new part. Tools that no longer fit are removed in the same order, the oldest
    /// first, and are found again when they are needed.
    pub fn changed_tools(self: &Arc<Self>) -> Option<Vec<Box<dyn Tool>>> {
        let (offered, tokens_max, mut loaded) = (self.offered(), self.tokens_max(), self.loaded.lock());
        let source = Source { tokens_max, listed: Arc::clone(&offered), loaded: loaded.clone() };
        let mut made_from = self.made_from.lock();
        if made_from.as_ref() == Some(&source) {
            return None;
        }
        let is_much = offered.is_much(tokens_max);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut tools: Vec<Box<dyn Tool>> = Vec::new();
        let (mut found, mut sent_tokens): (Vec<(usize, &Listed)>, usize) = (Vec::new(), 0);
        let made = |row: &Listed| {
            let Listed { server, name, tool, .. } = row.clone();
            Box::new(ServedTool::new(Arc::clone(self), server, name, tool)) as Box<dyn Tool>
        };
        for row in &offered.rows {
            if !is_much || tools.len() < AT_ONCE_MAX && self.is_always_sent(&row.server, &row.tool) {
                sent_tokens += tokens(row);
                tools.push(made(row));
                continue;
            }
            *counts.entry(row.server.clone()).or_default() += 1;
            found.extend(loaded.iter().position(|it| *it == row.name).map(|at| (at, row)));
        }
        if !self.with_resources().is_empty() {
            tools.push(Box::new(resource::ResourceFind(Arc::clone(self))));
            tools.push(Box::new(resource::ResourceRead(Arc::clone(self))));
        }
        if !counts.is_empty() {
            tools.insert(0, Box::new(find::ToolSearch::new(Arc::clone(self), counts)));
        }
        found.sort_by_key(|(at, _)| *at);
        let costs: Vec<usize> = found.iter().map(|(_, row)| tokens(row)).collect();
        let room = (tokens_max.saturating_sub(sent_tokens), AT_ONCE_MAX.saturating_sub(tools.len()));
        let gone = found.drain(..costs.len() - find::fitting(&costs, room)).map(|(_, row)| row.name.clone());
        let gone: Vec<String> = gone.collect();
        loaded.retain(|name| !gone.contains(name));
        tools.extend(found.into_iter().map(|(_, row)| made(row)));
        *made_from = Some(Source { loaded: loaded.clone(), ..source });
        Some(tools)
    }

    fn tokens_max(&self) -> usize {
        self.tokens_max.min(self.window_share.load(Ordering::Relaxed))
    }

    /// Returns whether the configuration wants a tool to be sent with each request.
    fn is_always_sent(&self, server: &str, tool: &Definition) -> bool {
        self.rows().get(server).is_some_and(|row| row.load.contains(&tool.name))
    }

    /// The names of the tools whose schemas are sent with each request now; models find the other ones by a search.
    fn sent(&self) -> Vec<String> {
        let offered = self.offered();
        let is_much = offered.is_much(self.tokens_max());
        let loaded = self.loaded.lock().clone();
        let is_sent =
            |row: &Listed| !is_much || self.is_always_sent(&row.server, &row.tool) || loaded.contains(&row.name);
        offered.rows.iter().filter(|row| is_sent(row)).map(|row| row.name.clone()).collect()
    }

    /// A tool that models may call, by the name under which they see it.
    #[must_use]
    pub fn tool(self: &Arc<Self>, name: &str) -> Option<Box<dyn Tool>> {
        let offered = self.offered();
        let Listed { server, name, tool, .. } = offered.rows.iter().find(|row| row.name == name)?.clone();
        Some(Box::new(ServedTool::new(Arc::clone(self), server, name, tool)))
    }

    /// All tools that a person allowed, also those that a model has to find. Nothing is started.
    #[must_use]
    pub fn allowed_tools(self: &Arc<Self>) -> Vec<Box<dyn Tool>> {
        let made = |row: &Listed| {
            let Listed { server, name, tool, .. } = row.clone();
            Box::new(ServedTool::new(Arc::clone(self), server, name, tool)) as Box<dyn Tool>
        };
        self.offered().rows.iter().map(made).collect()
    }

    /// Returns whether a tool is, as its server offers it now, the one that a person allowed.
    #[must_use]
    pub fn standing(&self, server: &str, tool: &str) -> PinStanding {
        self.standing_with_mark(server, tool).0
    }

    /// The same, with the mark of a tool that is allowed as it is now: another one after each new yes.
    #[must_use]
    fn standing_with_mark(&self, server: &str, tool: &str) -> (PinStanding, String) {
        let nothing = (PinStanding::New, String::new());
        let (Some(row), Some(manifest)) = (self.configured(server), self.mcp.manifest(server)) else {
            return nothing;
        };
        let found = manifest.tools.iter().find(|it| it.name == tool && !row.leaves_out(tool));
        found.map_or(nothing, |tool| match self.is_pinned_whole(&row, &manifest) {
            true => (PinStanding::Pinned, row.pin.clone().unwrap_or_default()),
            false => self.pins.standing_with_mark(server, &row.known_identity(), tool),
        })
    }

    /// Returns whether a person has allowed models to read a server's resources, as it is started now.
    #[must_use]
    fn resources_standing(&self, server: &str) -> PinStanding {
        let Some(row) = self.configured(server) else { return PinStanding::New };
        if row.pin.is_some() && row.pin == self.whole_pin(server) {
            return PinStanding::Pinned;
        }
        match row.leaves_out(RESOURCES) {
            true => PinStanding::New,
            false => self.pins.standing(server, &row.known_identity(), &resources_definition()),
        }
    }

    /// Returns whether a person has allowed models to read a server's instructions as they are now.
    fn instructions_standing(&self, server: &str) -> PinStanding {
        let (Some(row), Some(manifest)) = (self.configured(server), self.mcp.manifest(server)) else {
            return PinStanding::New;
        };
        match instructions::definition(&manifest) {
            Some(definition) if !row.leaves_out(INSTRUCTIONS) => {
                self.pins.standing(server, &row.known_identity(), &definition)
            }
            _ => PinStanding::New,
        }
    }

    /// Returns the parts of a server besides its tools that it has and the config offers, each with its standing.
    fn other_parts(&self, row: &Configured, manifest: &Manifest) -> Vec<(&'static str, PinStanding)> {
        let name = &row.server.name;
        let resources = (!manifest.resources.is_empty()).then(|| (RESOURCES, self.resources_standing(name)));
        let definition = instructions::definition(manifest);
        let instructions = definition.map(|_| (INSTRUCTIONS, self.instructions_standing(name)));
        resources.into_iter().chain(instructions).filter(|(part, _)| !row.leaves_out(part)).collect()
    }

    /// Returns the allowed instructions of all servers, as a note before a question.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        let is_allowed = |name: &String| self.instructions_standing(name) == PinStanding::Pinned;
        let text = |name: String| self.mcp.manifest(&name).map(|manifest| (name, manifest.instructions.clone()));
        instructions::note(self.names().into_iter().filter(is_allowed).filter_map(text))
    }

    /// The tools that a person allowed, as a note for a model that can only propose commands. Nothing is started.
    #[must_use]
    pub fn by_command(&self) -> Option<String> {
        instructions::by_command(self.offered().rows.iter().map(|row| (row.server.as_str(), &*row.tool)))
    }

    /// The servers that have resources and whose resources a person has allowed.
    fn with_resources(&self) -> Vec<String> {
        let has = |name: &String| self.mcp.manifest(name).is_some_and(|manifest| !manifest.resources.is_empty());
        let is_allowed = |name: &String| self.resources_standing(name) == PinStanding::Pinned;
        self.names().into_iter().filter(|name| has(name) && is_allowed(name)).collect()
    }

    /// The definition of a tool as it was allowed.
    #[must_use]
    pub fn allowed_definition(&self, server: &str, tool: &str) -> Option<Value> {
        self.pins.allowed(server, &self.configured(server)?.known_identity(), tool)
    }

    /// Allows tools of a server as they were shown.
    ///
    /// # Errors
    /// The pins can't be written, or the server's program isn't there: nothing has changed.
    pub fn allow(&self, server: &str, tools: &[&Definition]) -> Result<(), PinError> {
        let Some(row) = self.configured(server) else { return Ok(()) };
        let Some(identity) = (row.identity)() else {
            let program = row.program().and_then(<[String]>::first).map(Into::into).unwrap_or_default();
            return Err(PinError { path: program, why: "there is no such program that can be read".into() });
        };
        self.pins.allow(server, &identity, tools)
    }

    /// Revokes what was allowed of a server, or of one of its tools. Returns the number of revoked tools, and the names of the
    /// other revoked parts.
    ///
    /// # Errors
    /// The pins can't be written: nothing has changed.
    fn forget(&self, server: &str, tool: Option<&str>) -> Result<(usize, Vec<&'static str>), PinError> {
        let is_had = |name: &&str| tool.is_none_or(|tool| tool == *name) && self.pins.has(server, name);
        let others: Vec<&str> = [RESOURCES, INSTRUCTIONS].into_iter().filter(is_had).collect();
        Ok((self.pins.forget(server, tool)?.saturating_sub(others.len()), others))
    }

    /// Returns whether the configuration has the hash of all tools as they are now. Such a hash allows a whole server or nothing.
    fn is_pinned_whole(&self, row: &Configured, manifest: &Arc<Manifest>) -> bool {
        row.pin.is_some() && row.pin == self.whole_pin_of(row, manifest)
    }

    /// Returns the hash of everything that a server offers. A manifest is never modified, only replaced, so one hash for each is
    /// enough.
    fn whole_pin_of(&self, row: &Configured, manifest: &Arc<Manifest>) -> Option<String> {
        let identity = (row.identity)()?;
        let mut known = self.whole_pins.lock();
        match known.get(&row.server.name) {
            Some(of) if of.identity == identity && Arc::ptr_eq(&of.manifest, manifest) => Some(of.pin.clone()),
            _ => {
                let manifest = Arc::clone(manifest);
                let pin = whole_pin(&identity, &manifest.tools);
                known.insert(row.server.name.clone(), WholePin { identity, manifest, pin: pin.clone() });
                Some(pin)
            }
        }
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Configured>> {
        self.configured.lock()
    }
}

impl Configured {
    /// The program and its arguments, unless the server is reached by an address.
    #[must_use]
    pub fn program(&self) -> Option<&[String]> {
        match &self.server.place {
            Place::Program(argv) => Some(argv),
            Place::Url(_) => None,
        }
    }

    /// The identity, or a value that no pin has.
    fn known_identity(&self) -> Value {
        (self.identity)().unwrap_or_default()
    }

    fn leaves_out(&self, tool: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == tool);
        self.only.as_deref().is_some_and(|only| !is_in(only))
            || is_in(&self.without)
            || self.rules.get(tool) == Some(&Rule::Deny)
    }
}

/// A server's resources, in the form in which tools are allowed.
fn resources_definition() -> Definition {
    Definition {
        name: RESOURCES.into(),
        description: "A model may search and read the server's resources.".into(),
        ..Definition::default()
    }
}

/// Says why nothing of a kind is listed; the config may leave the kind out.
fn none_of(server: &str, kind: &str, is_used: bool) -> String {
    if is_used {
        format!("{server} has no {kind}")
    } else {
        format!("{kind} of {server} are left out by the config: mcp.servers.{server}.{kind}")
    }
}
