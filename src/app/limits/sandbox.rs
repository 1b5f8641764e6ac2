//! The sandbox of a model's programs: its mode, its place, the variables and paths that a program gets, and its start.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::app::tooling::workspace::variable;
use crate::base::hash;
use crate::base::program::SearchPath;
use crate::config::{Env, SandboxChoice, Settings, config_directory, data_directory, state_directory};
use crate::files::replace_private;
use crate::project::Repository;
use crate::proto::Failure;
use crate::proto::action::Hold;
use crate::sandbox::{self, Grant, Mode, Sandbox, Tier};
use crate::tools::{Launcher, Terms, WholeBench};
use crate::tree::{Bench, Shown};

/// Directories of the system that no mask may cover: without them nothing runs.
const SYSTEM_DIRECTORIES: [&str; 7] = ["/etc", "/usr", "/bin", "/lib", "/lib64", "/sys", "/proc"];
/// Variables that a model's commands see, if they are set.
const PASSED_ON: [&str; 13] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "LOGNAME",
    "PATH",
    "SHELL",
    // Only its path; the socket itself needs a question.
    "SSH_AUTH_SOCK",
    "TMPDIR",
    "TZ",
    "USER",
];
/// Variables set for them, so that nothing waits for a person, and nothing looks for a newer version of itself, which would
/// ask for the network.
const SET: [(&str, &str); 26] = [
    ("CHECKPOINT_DISABLE", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("DENO_NO_UPDATE_CHECK", "1"),
    ("DOTNET_CLI_TELEMETRY_OPTOUT", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    // A repository's own settings start no program of its choice, and a look takes no lock.
    ("GIT_CONFIG_COUNT", "3"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_1", "explicit"),
    ("GIT_CONFIG_KEY_2", "log.showSignature"),
    ("GIT_CONFIG_VALUE_2", "false"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("MANPAGER", "cat"),
    ("NEXT_TELEMETRY_DISABLED", "1"),
    ("NO_UPDATE_NOTIFIER", "1"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("PAGER", "cat"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
    ("SYSTEMD_PAGER", ""),
    ("TERM", "dumb"),
];

/// A sandbox that is chosen when the first program is to be judged, since the choice takes some milliseconds.
#[derive(Clone)]
pub(in crate::app) struct Chosen {
    mode: Mode,
    place: Arc<sandbox::Place>,
    sandbox: Arc<OnceLock<Arc<Sandbox>>>,
}

impl Chosen {
    pub(in crate::app) fn for_workspace(settings: &Settings, env: &Env, workspace: &Path) -> Self {
        let place = sandbox_place(settings, env, workspace);
        Self { mode: sandbox_mode(settings), place: Arc::new(place), sandbox: Arc::default() }
    }

    /// The same place without a sandbox.
    pub(in crate::app) fn without_sandbox(&self) -> Self {
        Self { mode: Mode::Off, place: Arc::clone(&self.place), sandbox: Arc::default() }
    }

    pub(in crate::app) fn get(&self) -> &Arc<Sandbox> {
        self.sandbox.get_or_init(|| Arc::new(Sandbox::detect(self.mode, "/proc/self/exe".into(), &self.place)))
    }

    /// The confinement of a command.
    pub(in crate::app) fn hold(&self) -> Hold {
        match self.get().tier() {
            Tier::Overlay => Hold::Copy,
            Tier::None if self.mode == Mode::Off => Hold::Off,
            Tier::None => Hold::Nothing,
            Tier::Landlock | Tier::Bubblewrap => Hold::Walls,
        }
    }

    /// Returns the confinement by which a session's command is judged: the command works on a bench, whose files are
    /// copies. Landlock can't protect the modes and times of other files, so under Landlock the policy asks as in the
    /// checkout. The call also notes in the bench how the sandbox can show its files.
    pub(in crate::app) fn judged_on(&self, bench: &Bench) -> Hold {
        bench.show_as(match self.get().tier() {
            Tier::Overlay | Tier::None => Shown::Layers,
            Tier::Bubblewrap => Shown::Bound,
            Tier::Landlock => Shown::Apart,
        });
        if self.get().tier() == Tier::Bubblewrap { Hold::Copy } else { self.hold() }
    }

    /// The confinement of a command of a session while it runs.
    fn hold_on(&self, bench: &Bench) -> Hold {
        let hold = self.judged_on(bench);
        if hold == Hold::Walls { Hold::Copy } else { hold }
    }

    /// The directory in which commands work on a bench whose layers the sandbox can't show.
    fn whole(&self, bench: &Bench, workspace: &Path) -> Option<WholeBench> {
        let tier = self.get().tier();
        let directory = bench.whole_dir().to_owned();
        let apart_from = (tier == Tier::Landlock).then(|| workspace.to_owned());
        matches!(tier, Tier::Landlock | Tier::Bubblewrap).then_some(WholeBench { directory, apart_from })
    }
}

/// The place and the strength of the confinement of a model's programs.
#[must_use]
pub fn sandbox_place(settings: &Settings, env: &Env, workspace: &Path) -> sandbox::Place {
    sandbox::Place {
        state: state_directory(env).map(|state| state.join("wall")),
        workspace: Some(workspace.to_owned()),
        strongest: Tier::of(&settings.security.tier),
    }
}

/// The config's choice of the sandbox.
#[must_use]
pub fn sandbox_mode(settings: &Settings) -> Mode {
    match settings.security.sandbox {
        SandboxChoice::Require => Mode::Require,
        SandboxChoice::Prefer => Mode::Prefer,
        SandboxChoice::Off => Mode::Off,
    }
}

/// The name of the sandbox that a model's commands run in, and how it holds them.
#[must_use]
pub fn sandbox_in_use(settings: &Settings, env: &Env, workspace: &Path) -> (&'static str, Hold) {
    let chosen = Chosen::for_workspace(settings, env, workspace);
    (chosen.get().tier().name(), chosen.hold())
}

/// Checks that the sandbox keeps tenants of a gateway apart, which needs namespaces of the kernel.
///
/// # Errors
/// The sandbox that there is instead, and why it isn't a better one.
pub fn keeps_tenants_apart(settings: &Settings, env: &Env, workspace: &Path) -> Result<(), String> {
    let chosen = Chosen::for_workspace(settings, env, workspace);
    match chosen.get().tier() {
        Tier::Overlay | Tier::Bubblewrap => Ok(()),
        tier => Err(format!("the sandbox is {} ({})", tier.name(), chosen.get().notes().join("; "))),
    }
}

/// The way to start a model's programs.
pub(in crate::app) fn launcher(
    (settings, env, path): (&Settings, &Env, &SearchPath),
    workspace: &Path,
    chosen: &Chosen,
    bench: Option<&Arc<Bench>>,
    readable: &[PathBuf],
) -> Launcher {
    let copied = bench.map_or(workspace, |bench| bench.dir()).to_owned();
    let shown = bench.map(Arc::clone);
    let (held, of_layer, whole) = (shown.clone(), shown.clone(), shown.clone());
    let mut grant = grant(settings, env, workspace);
    grant.readable.extend(readable.iter().cloned());
    if bench.is_some() {
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let own = settings.sessions.env.iter().filter(|(name, _)| is_name(name));
        grant.env.extend(own.map(|(name, value)| (name.into(), value.into())));
    }
    let grant = Arc::new(grant);
    let (seen, path, seen_path) = (Arc::clone(&grant), path.clone(), path.clone());
    let (start, hold, layer, whole_of) = (chosen.clone(), chosen.clone(), chosen.clone(), chosen.clone());
    let (env, place) = (env.clone(), workspace.to_owned());
    let apart_from = place.clone();
    let (made, homes) = (chosen.clone(), grant.homes.clone());
    let failed = |error: sandbox::SandboxError| format!("{}; {}", error.message, error.hint);
    Launcher::new(
        move |program, arguments, terms: &Terms| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            let mut grant = Grant {
                network: terms.network,
                view: terms.view.clone(),
                // Known only when the bench is ready.
                shown_instead: shown.as_ref().map(|bench| bench.layers()).unwrap_or_default(),
                shown_at: shown.as_ref().and_then(|bench| bench.shown_at()).into_iter().collect(),
                whole: shown.as_ref().and_then(|bench| bench.in_whole()).map(|(directory, _)| directory),
                network_of: terms.network_of,
                area: if terms.is_wide() { sandbox::Area::Agreed } else { terms.area },
                ..Grant::clone(&grant)
            };
            // Other projects may have begun since.
            grant.masked.extend(others_workspaces(&env, &place));
            grant = as_now(grant, start.get().tier() != Tier::None, &path);
            grant.readable.extend(terms.readable.iter().cloned());
            grant.writable.extend(terms.writable.iter().cloned());
            grant.new_in_home.clone_from(&terms.new_in_home);
            grant.env.extend(terms.variables.iter().map(|(name, value)| (name.into(), value.clone())));
            if start.get().tier() == Tier::Landlock && grant.whole.is_some() {
                // Nothing is mounted in the directory, so git finds them where they are.
                let objects = grant.shown_at.iter().map(|(objects, _)| objects.clone().into_os_string());
                grant.env.extend(objects.map(|it| ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), it)));
            }
            start.get().command(program.as_ref(), &arguments, &grant).map_err(failed)
        },
        move || held.as_ref().map_or_else(|| hold.hold(), |bench| hold.hold_on(bench)),
        move |command| {
            let bench = of_layer.as_ref();
            let whole = bench.and_then(|bench| bench.in_whole()).map(|(directory, _)| directory);
            let folder = bench.map(|bench| bench.copies());
            let layer = layer.get().layer_in(&copied, whole, folder.as_deref()).map_err(failed)?;
            if let Some((command, bench)) = command.zip(bench) {
                let unnoted = |error: std::io::Error| format!("{command:?} can't be noted: {error}");
                layer.note(&bench.note(command, None)).map_err(unnoted)?;
            }
            Ok(layer)
        },
    )
    .in_whole(move || whole_of.whole(whole.as_ref()?, &apart_from))
    .with_outside(move |path| sandbox::outside(&as_now(Grant::clone(&seen), true, &seen_path), path))
    .with_homes(move |path| made.get().made_in_home(path, &homes))
    .on_bench(bench.is_some())
}

/// Brings in what may have changed since the session's start: the live shell's `PATH`, and git's directories.
fn as_now(mut grant: Grant, is_held: bool, path: &SearchPath) -> Grant {
    grant.env.insert("PATH".into(), path.text(is_held).into());
    with_git_s_own(grant)
}

/// Lets programs read git's own directories of a workspace that is a linked work tree or a submodule: they lie outside of
/// it, and without them git finds no repository there. A session on git has its own.
fn with_git_s_own(mut grant: Grant) -> Grant {
    let repository = Repository::find(&grant.workspace).filter(|repository| repository.root == grant.workspace);
    let repository = repository.filter(|_| grant.shown_instead.is_empty() && grant.whole.is_none());
    let outside = repository.map(|repository| repository.outside()).unwrap_or_default();
    let open: Vec<PathBuf> = outside.into_iter().filter(|path| sandbox::outside(&grant, path).is_some()).collect();
    grant.readable.extend(open);
    grant
}

/// Returns whether a directory outside the workspace can be opened to a model's tools for reading. One that holds the
/// home, or anything that is closed to every program, can't.
///
/// # Errors
/// It can't be.
pub(in crate::app) fn may_be_readable(
    settings: &Settings,
    env: &Env,
    workspace: &Path,
    directory: &Path,
) -> Result<(), Failure> {
    let is_free = sandbox::outside(&grant(settings, env, workspace), directory).is_some();
    is_free.then_some(()).ok_or_else(|| {
        Failure::user(format!(
            "{} can't be read as a whole: it holds your home, keys, or forbidden paths",
            directory.display()
        ))
        .hint("name a directory of a project")
    })
}

/// The directory with the workspaces of the gateway's projects, one for each.
#[must_use]
pub fn team_workspaces(env: &Env) -> Option<PathBuf> {
    // Beside our own directory, since no tool works in that.
    data_directory(env).map(|data| data.with_file_name("reedclaw-workspaces"))
}

/// Workspaces of other projects than this one.
fn others_workspaces(env: &Env, workspace: &Path) -> Vec<PathBuf> {
    let Some(all) = team_workspaces(env) else { return Vec::new() };
    if !workspace.starts_with(&all) {
        return vec![all];
    }
    sandbox::entries_without(&all, workspace)
}

/// The grant of every program of a model: its workspace, no network, no credentials, none of our directories.
pub(in crate::app) fn grant(settings: &Settings, env: &Env, workspace: &Path) -> Grant {
    let passed = PASSED_ON.iter().filter_map(|name| {
        let name = std::ffi::OsStr::new(name);
        env.get(name).map(|value| (name.to_owned(), value.clone()))
    });
    let mut variables: Env = passed.chain(SET.map(|(name, value)| (name.into(), value.into()))).collect();
    let home = variable(env, "HOME").map(PathBuf::from).unwrap_or_else(|| "/".into());
    let own = [config_directory(env), data_directory(env), state_directory(env)].into_iter().flatten();
    let forbidden = settings.security.forbidden_paths.iter().map(|path| match path.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(path),
    });
    // Programs need the system's own directories; the secret parts of these are among the credentials.
    let forbidden = forbidden.filter(|path| !SYSTEM_DIRECTORIES.iter().any(|system| path.starts_with(system)));
    let forbidden: Vec<PathBuf> = forbidden.collect();
    let attributes = attributes_of(&forbidden).and_then(|text| stored_attributes(env, &text));
    if let Some(path) = &attributes {
        for (name, value) in [("COUNT", "4".into()), ("KEY_3", "core.attributesFile".into()), ("VALUE_3", path.into())]
        {
            variables.insert(format!("GIT_CONFIG_{name}").into(), value);
        }
    }
    let masked = sandbox::credentials(&home).into_iter().chain(own).chain(forbidden);
    let masked = masked.chain(others_workspaces(env, workspace)).collect();
    let read_only = sandbox::protected(workspace);
    // The programs of plugins and our own, which reads PDFs, wherever they lie.
    let plugins = data_directory(env).map(|data| data.join("plugins"));
    let readable = plugins.into_iter().chain([crate::host::executable()]).chain(attributes);
    let readable = readable.filter(|path| path.exists()).collect();
    let homes = std::iter::once(home).chain(sandbox::home_of_user()).collect();
    Grant { env: variables, masked, read_only, readable, homes, ..Grant::new(workspace.to_owned()) }
}

/// Returns git's attributes for forbidden paths in repositories, as gitattributes(5) has them: differences, searches and archives
/// of old versions leave their contents out. `None` if there are no such paths.
fn attributes_of(forbidden: &[PathBuf]) -> Option<String> {
    let mut text = String::new();
    for path in forbidden {
        let tops = path.ancestors().skip(1).filter(|above| above.join(".git").symlink_metadata().is_ok());
        for below in tops.filter_map(|top| path.strip_prefix(top).ok()) {
            let pattern = quoted_pattern(below.as_os_str().as_bytes());
            text.push_str(&format!("\"/{pattern}\" -diff export-ignore\n\"/{pattern}/**\" -diff export-ignore\n"));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Writes a path as a pattern of gitattributes(5), without the quotes around it: no byte is a wildcard.
fn quoted_pattern(path: &[u8]) -> String {
    let mut pattern = String::new();
    for &byte in path {
        match byte {
            b'*' | b'?' | b'[' => pattern.push_str(&format!("\\\\{}", char::from(byte))),
            b'\\' => pattern.push_str("\\\\\\\\"),
            b'"' => pattern.push_str("\\\""),
            b' '..=b'~' => pattern.push(char::from(byte)),
            _ => pattern.push_str(&format!("\\{byte:03o}")),
        }
    }
    pattern
}

/// Stores attributes for git where programs may read them; returns the file. `None` if that can't be written: the files
/// themselves stay hidden.
fn stored_attributes(env: &Env, text: &str) -> Option<PathBuf> {
    // Beside our own directory, which stays closed to programs as a whole.
    let folder = state_directory(env)?.with_file_name("reedclaw-attributes");
    let path = folder.join(format!("attributes-{}", &hash::sha256_hex(text.as_bytes())[..16]));
    if crate::host::read_text(&path).is_ok_and(|there| there == text) {
        return Some(path);
    }
    replace_private(&path, text.as_bytes()).ok()?;
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_paths_of_a_repository_become_attributes_of_git() {
        let home = tempfile::tempdir().expect("a home");
        std::fs::create_dir_all(home.path().join("work/.git")).expect("a repository");
        let inside = |name: &str| home.path().join("work").join(name);
        assert_eq!(attributes_of(&[home.path().join("private"), inside("")]), None, "no repository holds them");
        let text = attributes_of(&[inside("closed"), inside("a [b]*\"\\\u{e9}")]).expect("attributes");
        let expected = "\"/closed\" -diff export-ignore\n\"/closed/**\" -diff export-ignore\n\
                        \"/a \\\\[b]\\\\*\\\"\\\\\\\\\\303\\251\" -diff export-ignore\n\
                        \"/a \\\\[b]\\\\*\\\"\\\\\\\\\\303\\251/**\" -diff export-ignore\n";
        assert_eq!(text, expected);
        // Git itself reads the attributes this way.
        std::fs::write(home.path().join("attributes"), text).expect("a file");
        let mut git = std::process::Command::new("git");
        git.args(["init", "-q"]).arg(home.path().join("work"));
        assert!(git.status().expect("git runs").success());
        for (name, is_closed) in [("closed/x", true), ("a [b]*\"\\\u{e9}", true), ("a b", false), ("other", false)] {
            let mut git = std::process::Command::new("git");
            git.arg("-C").arg(home.path().join("work")).arg("-c");
            git.arg(format!("core.attributesFile={}", home.path().join("attributes").display()));
            let output = git.args(["check-attr", "diff", "--", name]).output().expect("git runs");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(printed.trim_end().ends_with(": unset"), is_closed, "{printed}");
        }
    }
}
