//! The workspace of a model's tools: the project around a directory, never the home.

use std::path::{Path, PathBuf};

use crate::config::{Env, Settings};
use crate::proto::Failure;

/// Files that lie at the top of a project.
const PROJECT_FILES: [&str; 12] = [
    "Cargo.toml",
    "CMakeLists.txt",
    "Gemfile",
    "Makefile",
    "build.gradle",
    "composer.json",
    "deno.json",
    "go.mod",
    "mix.exs",
    "package.json",
    "pom.xml",
    "pyproject.toml",
];

/// The workspace outside a project.
#[must_use]
pub fn workspace_dir(settings: &Settings, env: &Env) -> PathBuf {
    let usual = || variable(env, "HOME").map(PathBuf::from).unwrap_or_else(|| "/".into()).join("reedclaw-workspace");
    settings.workspace_dir.clone().unwrap_or_else(usual)
}

/// The workspace for a user in `cwd`: the top of the git repository, else of the project, else that directory if it is
/// the user's own. It is never the home directory or a directory that contains it; the configured workspace replaces
/// those.
#[must_use]
pub fn workspace_for(env: &Env, cwd: &Path, configured: &Path) -> PathBuf {
    let top = project_top(env, cwd);
    top.as_deref().or(Some(cwd)).filter(|path| is_own(env, path)).unwrap_or(configured).to_owned()
}

/// The top of the git repository around a directory, else of the project.
#[must_use]
pub fn project_top(env: &Env, cwd: &Path) -> Option<PathBuf> {
    let holds = |path: &Path, name: &str| path.join(name).symlink_metadata().is_ok();
    let is_project = |path: &&Path| PROJECT_FILES.iter().any(|name| holds(path, name));
    let top = cwd.ancestors().find(|path| holds(path, ".git"));
    let top = top.or_else(|| cwd.ancestors().take_while(|path| is_own(env, path)).find(is_project));
    top.map(Path::to_owned)
}

/// The top of the git repository or project around a directory if it belongs to another user.
#[must_use]
pub fn strangers_top(env: &Env, cwd: &Path) -> Option<PathBuf> {
    project_top(env, cwd).filter(|top| !is_users(top))
}

/// The workspace for a named directory: the top of the git repository or project around it, else that directory.
///
/// # Errors
/// It is the home or contains it: in such a workspace a model could reach everything.
pub fn workspace_named(env: &Env, path: &Path) -> Result<PathBuf, Failure> {
    let top = project_top(env, path).filter(|top| !holds_home(env, top));
    let named = top.unwrap_or_else(|| path.to_owned());
    if holds_home(env, &named) {
        return Err(Failure::user(format!("tools can't work in {}: it is your home, or contains it", named.display()))
            .hint("name a directory of a project"));
    }
    Ok(named)
}

/// Top directories of a system, which are never a project.
const SYSTEM: [&str; 24] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "media",
    "mnt",
    "nix",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// Returns whether a directory is the user's own, neither home nor what contains it, and not the system's.
fn is_own(env: &Env, path: &Path) -> bool {
    let is_systems = path.parent() == Some(Path::new("/"))
        && path.file_name().is_some_and(|name| SYSTEM.iter().any(|system| name == *system));
    is_users(path) && !holds_home(env, path) && !is_systems
}

/// Returns whether a directory belongs to the user.
fn is_users(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.metadata().is_ok_and(|data| data.uid() == nix::unistd::geteuid().as_raw())
}

/// Returns whether a directory is the home or contains it.
fn holds_home(env: &Env, path: &Path) -> bool {
    let home = variable(env, "HOME").map(PathBuf::from).unwrap_or_else(|| "/".into());
    home.starts_with(path) || home.canonicalize().is_ok_and(|home| home.starts_with(path))
}

/// The value of an environment variable, if it is text and not empty.
pub(in crate::app) fn variable<'e>(env: &'e Env, name: &str) -> Option<&'e str> {
    env.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_directory_is_the_workspace_or_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().canonicalize().expect("a path").join("home");
        for path in ["home/plain/sub", "home/repo/.git", "home/repo/src", "other/deep"] {
            std::fs::create_dir_all(home.with_file_name("").join(path)).expect("a directory");
        }
        let env: Env = [("HOME".into(), home.clone().into_os_string())].into();
        let other = home.with_file_name("other");
        for (named, workspace) in [
            (home.join("plain/sub"), home.join("plain/sub")),
            (home.join("repo/src"), home.join("repo")),
            (other.clone(), other),
            ("/usr".into(), "/usr".into()),
        ] {
            assert_eq!(workspace_named(&env, &named), Ok(workspace), "{}", named.display());
        }
        for named in [home.as_path(), home.parent().expect("a parent"), Path::new("/")] {
            let refused = workspace_named(&env, named).expect_err("refused");
            assert!(refused.message.contains("it is your home, or contains it"), "{refused:?}");
        }
        // A repository that is the home itself isn't a workspace for directories in it.
        std::fs::create_dir(home.join(".git")).expect("a directory");
        assert_eq!(workspace_named(&env, &home.join("plain")), Ok(home.join("plain")));
    }

    #[test]
    fn a_directory_right_below_the_root_is_a_workspace_and_a_systems_isnt() {
        let env: Env = [("HOME".into(), "/nonexistent/home".into())].into();
        let configured = Path::new("/configured");
        for path in ["/", "/tmp", "/usr", "/etc", "/root"] {
            assert_eq!(workspace_for(&env, Path::new(path), configured), configured, "{path}");
        }
        // Only root may make one there.
        if let Ok(dir) = tempfile::tempdir_in("/") {
            assert_eq!(workspace_for(&env, dir.path(), configured), dir.path());
        }
    }

    #[test]
    fn a_repository_of_another_user_is_no_workspace_and_is_known_as_theirs() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("a path");
        std::fs::create_dir_all(top.join(".git")).expect("a directory");
        std::fs::create_dir(top.join("src")).expect("a directory");
        let env: Env = [("HOME".into(), "/nonexistent/home".into())].into();
        let (inside, configured) = (top.join("src"), Path::new("/configured"));
        assert_eq!((strangers_top(&env, &inside), workspace_for(&env, &inside, configured)), (None, top.clone()));
        // Only root may change its owner.
        if std::os::unix::fs::chown(&top, Some(65534), None).is_ok() {
            assert_eq!(strangers_top(&env, &inside), Some(top));
            assert_eq!(workspace_for(&env, &inside, configured), configured);
        }
    }
}
