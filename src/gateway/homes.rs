//! The home of each project's agents: its conversations, its receipts and its workspace.
//!
//! The project `default` of the tenant `local` is this machine's own user, so a chat that begins here goes on in the shell. Every
//! other project has directories of its own, named after the database, the tenant and the project: no project sees another's
//! conversations, and gateways with different databases don't share any. It must not know requests and routes.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::http::problem::{Answered, Problem};
use crate::app;
use crate::base::hash;
use crate::config::{Env, Settings, state_directory};
use crate::proto::Failure;
use crate::proto::team::Identity;
use crate::receipts;
use crate::store::Store;

/// Homes that stay open although nobody uses them: each holds a database.
const OPEN_MAX: usize = 32;
/// Projects of a tenant that have a home. A project is any name in a header, so something must end their number.
const PROJECTS_MAX: usize = 1_000;
/// The directory of the homes in the state directory.
const DIRECTORY: &str = "tenants";

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
    /// Cached: when the receipts were checked, whether they hold, and how many do.
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
    open: Mutex<Open>,
}

impl Homes {
    /// The homes of the tenants of a database.
    pub fn new(parts: &Parts, database: &str) -> Self {
        let workspace = app::workspace_dir(&parts.settings, &parts.env);
        let machines = Home::new(parts.settings.clone(), Arc::clone(&parts.store), workspace, true);
        let tenants = state_directory(&parts.env).map(|state| state.join(DIRECTORY).join(name_of(database)));
        let places = tenants.zip(app::team_workspaces(&parts.env));
        Self { machines: Arc::new(machines), places, database: database.to_owned(), open: Mutex::default() }
    }

    /// The home of the caller's project, which is made if it isn't there.
    ///
    /// # Errors
    /// It can't be made or opened, or the tenant has too many.
    pub fn of(&self, parts: &Parts, who: &Identity) -> Answered<Arc<Home>> {
        match self.existing(parts, who)? {
            Some(home) => Ok(home),
            None => {
                let (directory, workspace) = self.places_of(who)?;
                let of_tenant = directory.parent().map_or(0, |tenant| fs::read_dir(tenant).map_or(0, Iterator::count));
                if of_tenant >= PROJECTS_MAX {
                    let message = format!("agents work in {PROJECTS_MAX} projects of this tenant already");
                    return Err(Problem::new(403, "forbidden", message));
                }
                make(&directory)?;
                make(&workspace)?;
                self.opened(parts, who)
            }
        }
    }

    /// The same, and `None` if no agent has worked there yet.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn existing(&self, parts: &Parts, who: &Identity) -> Answered<Option<Arc<Home>>> {
        if is_machines(who) {
            return Ok(Some(Arc::clone(&self.machines)));
        }
        let (directory, workspace) = self.places_of(who)?;
        match directory.is_dir() && workspace.is_dir() {
            true => self.opened(parts, who).map(Some),
            false => Ok(None),
        }
    }

    /// The workspace of the caller's project, whether it is there or not.
    ///
    /// # Errors
    /// There is no home directory.
    pub fn workspace(&self, who: &Identity) -> Answered<PathBuf> {
        match is_machines(who) {
            true => Ok(self.machines.workspace.clone()),
            false => self.places_of(who).map(|(_, workspace)| workspace),
        }
    }

    /// The homes that are open now, the machine's first.
    pub fn open(&self) -> Vec<Arc<Home>> {
        let open = self.open.lock();
        std::iter::once(&self.machines).chain(open.values().map(|(home, _)| home)).cloned().collect()
    }

    fn places_of(&self, who: &Identity) -> Answered<(PathBuf, PathBuf)> {
        let (tenants, workspaces) = self.places.as_ref().ok_or_else(|| failed("no HOME is set"))?;
        // All workspaces lie beside each other, so that a sandbox can cover those of others one by one.
        let name = hash::sha256_hex(format!("{}\0{}\0{}", self.database, who.tenant, who.project).as_bytes());
        let directory = tenants.join(name_of(&who.tenant)).join(name_of(&who.project));
        Ok((directory, workspaces.join(&name[..32])))
    }

    fn opened(&self, parts: &Parts, who: &Identity) -> Answered<Arc<Home>> {
        let (directory, workspace) = self.places_of(who)?;
        let mut open = self.open.lock();
        let key = (who.tenant.clone(), who.project.clone());
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

/// Returns whether the caller works in the project of this machine's own user.
fn is_machines(who: &Identity) -> bool {
    (who.tenant.as_str(), who.project.as_str()) == ("local", "default")
}

/// The name of a directory for an id: an id may be `..`, and begins with `%` never.
fn name_of(id: &str) -> String {
    match id.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => id.to_owned(),
    }
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
            assert_eq!(name_of(id), name);
        }
    }
}
