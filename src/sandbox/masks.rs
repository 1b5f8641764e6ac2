//! What no tool may see, wherever it runs: credentials by their usual places. Tables, and how a path becomes free of links.

use std::path::{Path, PathBuf};

/// Below a home: keys, tokens, sessions of browsers and terminals, histories (which hold what was typed by mistake).
const OF_HOME: &[&str] = &[
    ".Xauthority",
    ".authinfo",
    ".authinfo.gpg",
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/BraveSoftware",
    ".config/age",
    ".config/chromium",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".docker",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/fish/fish_history",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pki",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".screen",
    ".ssh",
    ".terraform.d/credentials.tfrc.json",
    ".thunderbird",
    ".vault-token",
    ".zsh_history",
];

/// Of the machine. Most are root's alone, and a root's shell is no exception.
const OF_MACHINE: &[&str] =
    &["/etc/gshadow", "/etc/gshadow-", "/etc/shadow", "/etc/shadow-", "/etc/ssh", "/etc/ssl/private"];

/// Below a project: what makes other programs, outside, run what it says.
const OF_PROJECT: &[&str] = &[
    ".cargo/config.toml",
    ".cursor",
    ".envrc",
    ".git/config",
    ".git/hooks",
    ".git/info/attributes",
    ".idea",
    ".mcp.json",
    ".reedclaw.lua",
    ".vscode",
];

/// Where credentials usually are, for the user with this home.
#[must_use]
pub fn credentials(home: &Path) -> Vec<PathBuf> {
    OF_HOME.iter().map(|name| home.join(name)).chain(OF_MACHINE.iter().map(PathBuf::from)).collect()
}

/// What of a project makes other programs run what it says: to be read-only in its sandbox.
#[must_use]
pub fn protected(project: &Path) -> Vec<PathBuf> {
    OF_PROJECT.iter().map(|name| project.join(name)).collect()
}

/// A path without links, as far as it is there.
pub(super) fn resolve(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(mut found) = at.canonicalize() {
            found.extend(rest.iter().rev());
            return found;
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name);
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

/// The paths of which none lies in another one.
pub(super) fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|outer| path.starts_with(outer)) {
            kept.push(path);
        }
    }
    kept
}
