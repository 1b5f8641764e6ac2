//! The jail of programs that ReedClaw starts in a repository by its own decision: they may read, but not write.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use crate::app::limits::sandbox::{Chosen, sandbox_mode};
use crate::base::directories::{self, Kind};
use crate::config::{Env, Settings, config_directory, data_directory, state_directory};
use crate::manual;
use crate::project::{GitOptions, Jail};
use crate::sandbox::{Grant, Limits, Tier, View, credentials, home_of_user};

/// Git's files in its config directory. Not the directory as a whole, which holds credentials too.
const OF_GIT: [&str; 3] = ["git/config", "git/ignore", "git/attributes"];

/// The sandboxes of programs that ReedClaw starts by its own decision, one for each repository. Each is chosen when its
/// first program starts, and lasts as long as this value.
#[derive(Clone, Default)]
pub struct Jails(Arc<Mutex<BTreeMap<(u8, PathBuf), Chosen>>>);

impl std::fmt::Debug for Jails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jails").finish_non_exhaustive()
    }
}

impl Jails {
    /// The way to start git.
    #[must_use]
    pub fn git_options(&self, settings: &Settings, env: &Env) -> GitOptions {
        let variables = env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        GitOptions { env: variables, jail: self.jail(settings, env) }
    }

    /// Returns the best jail that works on this machine; without one, only limits and a session of the program's own.
    fn jail(&self, settings: &Settings, env: &Env) -> Jail {
        let home = directories::absolute(env, "HOME").unwrap_or_else(|| "/".into());
        let own = [config_directory(env), data_directory(env), state_directory(env)];
        let config = directories::of(env, Kind::Config).unwrap_or_else(|| home.join(Kind::Config.names().1));
        let mut of_git: Vec<PathBuf> = OF_GIT.iter().map(|name| config.join(name)).collect();
        of_git.push(home.join(".gitconfig"));
        let (jails, settings, whole_env) = (self.clone(), settings.clone(), env.clone());
        // Finding them requires a look at some directories, so it happens when git starts. Git runs for milliseconds,
        // so only existing paths count; each further path costs time.
        let masked: OnceLock<Vec<PathBuf>> = OnceLock::new();
        Arc::new(move |command, reads| {
            let cwd = command.get_current_dir().ok_or("it has no directory")?.to_owned();
            let set = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
            let env: BTreeMap<_, _> = command.get_envs().filter_map(set).collect();
            let arguments: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
            let present = || {
                let all = credentials(&home).into_iter().chain(own.iter().flatten().cloned());
                all.filter(|path| path.symlink_metadata().is_ok()).collect()
            };
            let chosen = jails.of(&settings, &whole_env, &cwd);
            let grant = Grant {
                view: View::Look,
                env,
                masked: masked.get_or_init(present).clone(),
                readable: of_git.iter().filter(|path| path.exists()).chain(reads).cloned().collect(),
                homes: std::iter::once(home.clone()).chain(home_of_user()).collect(),
                ..Grant::new(cwd)
            };
            chosen.get().command(command.get_program(), &arguments, &grant).map_err(|error| error.message)
        })
    }

    /// Returns the programs outside the homes and the jail in which their help is read: they see no home and can't
    /// change anything.
    #[must_use]
    pub fn programs(&self, settings: &Settings, env: &Env) -> manual::Programs {
        let homes: Vec<PathBuf> = directories::absolute(env, "HOME").into_iter().chain(home_of_user()).collect();
        let own = [config_directory(env), data_directory(env), state_directory(env)];
        let masked: Vec<PathBuf> = homes.iter().cloned().chain(own.into_iter().flatten()).collect();
        let (jails, settings, env) = (self.clone(), settings.clone(), env.clone());
        let named = env.get(OsStr::new("PATH")).map(std::env::split_paths).into_iter().flatten();
        let is_outside = |directory: &PathBuf| !homes.iter().any(|home| directory.starts_with(home));
        let directories = named.filter(|it| it.is_absolute() && is_outside(it)).collect();
        let jail = move |command: Command| {
            let cwd = command.get_current_dir().ok_or("it has no directory")?.to_owned();
            let chosen = jails.of(&settings, &env, &cwd);
            // Landlock can't hide a whole home, and it lets programs see each other.
            if !matches!(chosen.get().tier(), Tier::Overlay | Tier::Bubblewrap) {
                return Err("it needs another sandbox".to_owned());
            }
            let set = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
            let grant = Grant {
                view: View::Look,
                env: command.get_envs().filter_map(set).collect(),
                masked: masked.clone(),
                homes: homes.clone(),
                limits: Limits { file_bytes: 16 << 20, cpu_seconds: Some(5), ..Limits::default() },
                ..Grant::new(cwd)
            };
            let arguments: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
            chosen.get().command(command.get_program(), &arguments, &grant).map_err(|error| error.message)
        };
        manual::Programs { directories, jail: Arc::new(jail) }
    }

    fn of(&self, settings: &Settings, env: &Env, root: &Path) -> Chosen {
        let key = (sandbox_mode(settings) as u8, root.to_owned());
        let mut jails = self.0.lock();
        jails.entry(key).or_insert_with(|| Chosen::for_workspace(settings, env, root)).clone()
    }
}

/// `security.forbidden_paths` as paths: absolute ones, and those below the home.
#[must_use]
pub fn forbidden_paths(settings: &Settings, env: &Env) -> Vec<PathBuf> {
    let home = directories::absolute(env, "HOME");
    let path = |named: &String| match named.strip_prefix('~') {
        Some(rest) => Some(home.as_ref()?.join(rest.trim_start_matches('/'))),
        None => Some(PathBuf::from(named)).filter(|path| path.is_absolute()),
    };
    settings.security.forbidden_paths.iter().filter_map(path).collect()
}
