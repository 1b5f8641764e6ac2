//! The home of each project's agents: its conversations, its receipts and its workspace.
//!
//! The project `default` of the tenant `local` belongs to this machine's own user, so a chat that begins here continues in the
//! shell. Every other project has directories of its own, named after the database, the tenant and the project: no project sees
//! another's conversations, and gateways with different databases don't share any. It must not know requests and routes.
//!
//! Each machine counts its conversations from one. Machines that share a database have numbers of their own, and the id of a
//! conversation has that of its machine in front, so that it never means another one's. The first machine's ids are those that its
//! shell knows.

use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::http::problem::{Answered, Problem};
use crate::app;
use crate::base::hash;
use crate::config::{Env, Settings, state_directory};
use crate::ledger::{Ledger, LedgerError, Put};
use crate::proto::team::Identity;
use crate::proto::{Failure, Role};
use crate::receipts;
use crate::store::{ConversationId, Store};

/// Unused homes that stay open: each holds a database.
const OPEN_MAX: usize = 32;
/// Limit on the projects of a tenant that have a home: a project is any name in a header.
const PROJECTS_MAX: usize = 1_000;
/// The directory of the homes in the state directory.
const DIRECTORY: &str = "tenants";
/// The beginning of the name of the file with the number of a machine, which ends with the database's id.
const MACHINE: &str = "gateway-machine-";
/// The number that means all machines, if they share the workspaces.
const ALL_MACHINES: i64 = -1;
/// Limit on the conversations of a machine: the next machine's ids begin here.
const CONVERSATIONS_MAX: i64 = 1_000_000_000;

/// The parts of a runtime that requests use.
pub struct Parts {
    /// The settings.
    pub settings: Settings,
    /// The environment.
    pub env: Env,
    /// History and conversations of this machine's user.
    pub store: Arc<Mutex<Store>>,
    /// The config's file, if one was read.
    pub config: Option<PathBuf>,
}

impl Parts {
    /// The parts for a command that serves nothing.
    ///
    /// # Errors
    /// There is no state directory, or the store can't be opened.
    pub fn at_rest(settings: Settings, env: Env) -> Result<Self, Failure> {
        let directory = state_directory(&env).ok_or_else(|| Failure::unavailable("no HOME is set".to_owned()))?;
        let store = Store::open(&directory).map_err(|error| Failure::unavailable(error.to_string()))?;
        Ok(Self { settings, env, store: Arc::new(Mutex::new(store)), config: None })
    }
}

/// The home of a project's agents.
pub struct Home {
    /// The settings, with the project's own place of receipts.
    pub settings: Settings,
    /// Conversations and memories.
    pub store: Arc<Mutex<Store>>,
    /// The directory that its tools work in.
    pub workspace: PathBuf,
    /// `true` if it is that of this machine's user.
    pub is_machines: bool,
    /// Cached result of the last check of the receipts: its time, whether the chain is valid, and the number of receipts.
    pub checked: Mutex<Option<(Instant, bool, u64)>>,
    /// The time when the end of the receipts was written into a log, and its number.
    pub anchored: Mutex<Option<(Instant, u64)>>,
}

impl Home {
    fn new(settings: Settings, store: Arc<Mutex<Store>>, workspace: PathBuf, is_machines: bool) -> Self {
        let (checked, anchored) = (Mutex::new(None), Mutex::new(None));
        Self { settings, store, workspace, is_machines, checked, anchored }
    }

    /// The place of its receipts; `None` if the config switches them off.
    ///
    /// # Errors
    /// There is no state directory.
    pub fn receipts(&self, parts: &Parts) -> Result<Option<receipts::Options>, Failure> {
        app::receipt_options(&self.settings, &parts.env)
    }
}

/// Open homes by tenant and project, each with the time of its last use.
type Open = BTreeMap<(String, String), (Arc<Home>, Instant)>;

/// The homes that are open.
pub struct Homes {
    machines: Arc<Home>,
    /// The directory of this database's tenants, and of all workspaces; none without a home directory.
    places: Option<(PathBuf, PathBuf)>,
    database: String,
    /// The number of this machine among those that share the database.
    machine: i64,
    /// `true` if all machines have the workspaces of projects on one file system.
    shares_workspaces: bool,
    open: Mutex<Open>,
}

impl Homes {
    /// The homes of the tenants of a database.
    pub fn new(parts: &Parts, database: &str) -> Self {
        let workspace = app::workspace_dir(&parts.settings, &parts.env);
        let machines = Home::new(parts.settings.clone(), Arc::clone(&parts.store), workspace, true);
        let tenants = state_directory(&parts.env).map(|state| state.join(DIRECTORY).join(name_of(database)));
        let places = tenants.zip(app::team_workspaces(&parts.env));
        let (machines, database) = (Arc::new(machines), database.to_owned());
        let shares_workspaces = parts.settings.gateway.shares_workspaces;
        let mut homes = Self { machines, places, database, machine: 0, shares_workspaces, open: Mutex::default() };
        homes.machine = homes.known_machine().unwrap_or(0);
        homes
    }

    /// The file in the state directory with the number of this machine for the database.
    fn machine_file(&self) -> Option<PathBuf> {
        let (tenants, _) = self.places.as_ref()?;
        Some(tenants.parent()?.parent()?.join(format!("{MACHINE}{}", name_of(&self.database))))
    }

    fn known_machine(&self) -> Option<i64> {
        fs::read_to_string(self.machine_file()?).ok()?.trim().parse::<u32>().ok().map(i64::from)
    }

    /// Assigns a number to this machine if it has none yet, and registers this gateway.
    ///
    /// # Errors
    /// The database fails, or the number can't be written down.
    pub fn on_machine(mut self, ledger: &Ledger) -> Result<Self, Failure> {
        let failed =
            |why: &dyn ToString| Failure::unavailable(format!("the number of this machine: {}", why.to_string()));
        let Some(file) = self.machine_file().filter(|_| ledger.engine() != "sqlite") else { return Ok(self) };
        let known = self.known_machine();
        self.machine = ledger.nodes().machine(known).map_err(|error| failed(&error))?;
        if known != Some(self.machine) {
            fs::write(&file, self.machine.to_string()).map_err(|error| failed(&error))?;
        }
        Ok(self)
    }

    /// The id of a conversation of this machine for callers, which may ask any gateway of the database.
    #[must_use]
    pub fn id_outside(&self, conversation: i64) -> i64 {
        self.machine * CONVERSATIONS_MAX + conversation
    }

    /// The conversation of this machine that has such an id.
    ///
    /// # Errors
    /// The number of the machine that has the conversation, if it is another machine.
    pub fn id_here(&self, id: i64) -> Result<i64, i64> {
        let (machine, conversation) = (id / CONVERSATIONS_MAX, id % CONVERSATIONS_MAX);
        if machine == self.machine { Ok(conversation) } else { Err(machine) }
    }

    /// Returns the number of the machine that has the workspace of the caller's project, or the number that means all machines.
    /// The workspace of a machine's own user is always on that machine.
    #[must_use]
    pub fn machine_of(&self, who: &Identity) -> i64 {
        match self.shares_workspaces && !is_machines((&who.tenant, &who.project)) {
            true => ALL_MACHINES,
            false => self.machine,
        }
    }

    /// Returns the home of the caller's project, and makes it if it doesn't exist.
    ///
    /// # Errors
    /// It can't be made or opened, or the tenant has too many.
    pub fn of(&self, parts: &Parts, who: &Identity) -> Answered<Arc<Home>> {
        match self.existing(parts, who)? {
            Some(home) => Ok(home),
            None => {
                let place = (who.tenant.as_str(), who.project.as_str());
                let (directory, workspace) = self.places_of(place)?;
                let of_tenant = directory.parent().map_or(0, |tenant| fs::read_dir(tenant).map_or(0, Iterator::count));
                if of_tenant >= PROJECTS_MAX {
                    let message = format!("agents work in {PROJECTS_MAX} projects of this tenant already");
                    return Err(Problem::new(403, "forbidden", message));
                }
                make(&directory)?;
                make(&workspace)?;
                self.opened(parts, place)
            }
        }
    }

    /// The same, and `None` if no agent has worked there yet.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn existing(&self, parts: &Parts, who: &Identity) -> Answered<Option<Arc<Home>>> {
        self.existing_in(parts, (&who.tenant, &who.project))
    }

    fn existing_in(&self, parts: &Parts, place: (&str, &str)) -> Answered<Option<Arc<Home>>> {
        if is_machines(place) {
            return Ok(Some(Arc::clone(&self.machines)));
        }
        let (directory, workspace) = self.places_of(place)?;
        match directory.is_dir() && workspace.is_dir() {
            true => self.opened(parts, place).map(Some),
            false => Ok(None),
        }
    }

    /// Deletes the conversations on this machine in which a user of a tenant asked something, and returns their number. An id may
    /// belong to another machine that shares the database, so only a conversation that has the question is deleted.
    ///
    /// # Errors
    /// The database fails, or a home can't be opened.
    pub fn erase(&self, parts: &Parts, ledger: &Ledger, tenant: &str, user: &str) -> Answered<usize> {
        let mut meant: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for (project, id, question) in ledger.runs().asked(tenant, user)? {
            let Some(home) = self.existing_in(parts, (tenant, &project))? else { continue };
            let id = match self.id_here(id) {
                Ok(id) => id,
                // Ids from before the machines had numbers are like those of the first one.
                Err(0) => id,
                Err(_) => continue,
            };
            let record = home.store.lock().record(ConversationId(id)).map_err(|error| failed(&error.to_string()))?;
            let is_asked = record.iter().any(|it| it.message.role == Role::User && it.message.content == question);
            if is_asked {
                meant.entry(project).or_default().insert(id);
            }
        }
        let mut count = 0;
        for (project, ids) in meant {
            let Some(home) = self.existing_in(parts, (tenant, &project))? else { continue };
            let ids: Vec<ConversationId> = ids.into_iter().map(ConversationId).collect();
            let deleted = home.store.lock().delete_conversations(&ids);
            count += deleted.map_err(|error| failed(&error.to_string()))?;
        }
        Ok(count)
    }

    /// Exports the data of a tenant's agents on this machine: conversations and memories. The data of this machine's own user
    /// belongs to no tenant.
    ///
    /// # Errors
    /// A home can't be opened, or `put` fails.
    pub fn export(&self, parts: &Parts, tenant: &str, put: Put<'_>) -> Result<(), LedgerError> {
        let unread = |why: &dyn ToString| LedgerError::Invalid(format!("a home can't be read: {}", why.to_string()));
        let Some((tenants, _)) = &self.places else { return Ok(()) };
        let Ok(entries) = fs::read_dir(tenants.join(name_of(tenant))) else { return Ok(()) };
        let mut projects: Vec<String> = entries.filter_map(|it| Some(id_of(it.ok()?.file_name().to_str()?))).collect();
        projects.sort();
        for project in projects {
            let found = self.existing_in(parts, (tenant, &project)).map_err(|problem| unread(&problem.message))?;
            let Some(home) = found else { continue };
            let store = home.store.lock();
            for conversation in store.conversations(usize::MAX).map_err(|error| unread(&error))? {
                let record = store.record(conversation.id).map_err(|error| unread(&error))?;
                let messages = record.iter().map(|it| {
                    let role = if it.message.role == Role::User { "user" } else { "assistant" };
                    json!({"role": role, "at_ms": it.time, "text": it.message.content})
                });
                put(&json!({"type": "conversation", "project": project, "id": self.id_outside(conversation.id.0),
                    "title": conversation.title, "messages": messages.collect::<Vec<_>>()}))?;
            }
            for memory in store.memories(true).map_err(|error| unread(&error))? {
                put(&json!({"type": "remembered", "project": project, "text": memory.text}))?;
            }
        }
        Ok(())
    }

    /// Returns the workspace of the caller's project, whether it exists or not.
    ///
    /// # Errors
    /// There is no home directory.
    pub fn workspace(&self, who: &Identity) -> Answered<PathBuf> {
        let place = (who.tenant.as_str(), who.project.as_str());
        match is_machines(place) {
            true => Ok(self.machines.workspace.clone()),
            false => self.places_of(place).map(|(_, workspace)| workspace),
        }
    }

    /// The homes that are open now, the machine's first.
    pub fn open(&self) -> Vec<Arc<Home>> {
        let open = self.open.lock();
        std::iter::once(&self.machines).chain(open.values().map(|(home, _)| home)).cloned().collect()
    }

    fn places_of(&self, (tenant, project): (&str, &str)) -> Answered<(PathBuf, PathBuf)> {
        let (tenants, workspaces) = self.places.as_ref().ok_or_else(|| failed("no HOME is set"))?;
        // All workspaces are in one directory, so that a sandbox can hide those of others one by one.
        let name = hash::sha256_hex(format!("{}\0{tenant}\0{project}", self.database).as_bytes());
        let directory = tenants.join(name_of(tenant)).join(name_of(project));
        Ok((directory, workspaces.join(&name[..32])))
    }

    fn opened(&self, parts: &Parts, place: (&str, &str)) -> Answered<Arc<Home>> {
        let (directory, workspace) = self.places_of(place)?;
        let mut open = self.open.lock();
        let key = (place.0.to_owned(), place.1.to_owned());
        if let Some((home, used)) = open.get_mut(&key) {
            *used = Instant::now();
            return Ok(Arc::clone(home));
        }
        let store = Store::open(&directory).map_err(|error| failed(&error.to_string()))?;
        let mut settings = parts.settings.clone();
        settings.receipts.path = Some(directory.join(receipts::FILE_NAME));
        settings.receipts.anchors = Some(directory);
        let home = Arc::new(Home::new(settings, Arc::new(Mutex::new(store)), workspace, false));
        while open.len() >= OPEN_MAX {
            let unused = open.iter().filter(|(_, (home, _))| Arc::strong_count(home) == 1);
            let Some(oldest) = unused.min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone()) else { break };
            open.remove(&oldest);
        }
        open.insert(key, (Arc::clone(&home), Instant::now()));
        Ok(home)
    }
}

/// Returns whether a tenant's project is that of this machine's own user.
fn is_machines(place: (&str, &str)) -> bool {
    place == ("local", "default")
}

/// Returns the name of the directory for an id. An id may be `..`, and never begins with `%`.
fn name_of(id: &str) -> String {
    match id.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => id.to_owned(),
    }
}

/// The id that a directory's name is for.
fn id_of(name: &str) -> String {
    name.strip_prefix("%2E").map_or_else(|| name.to_owned(), |rest| format!(".{rest}"))
}

fn make(directory: &Path) -> Answered<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| failed(&format!("{}: {error}", directory.display())))
}

fn failed(why: &str) -> Problem {
    let message = "the place of this project's agents can't be used; the log of the gateway says why";
    tracing::error!(event = "home_failed", why);
    Problem::new(503, "database_unavailable", message).header("Retry-After", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directorys_name_never_leads_elsewhere() {
        for (id, name) in [("acme", "acme"), ("..", "%2E."), (".", "%2E"), (".a", "%2Ea"), ("a.b", "a.b")] {
            assert_eq!((name_of(id).as_str(), id_of(name).as_str()), (name, id));
        }
    }
}
