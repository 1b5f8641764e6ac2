//! Well-known paths: the places of credentials, the files that a shell or a session starts, and the files of a workspace that
//! other programs run. Data and pure functions; must not know the disk, nor what a caller does with a path.
//!
//! Paths are bytes, relative to what a function names, with `/` between components and no `.` or `..`.
//!
//! ```
//! use reedclaw::proto::known_paths::{is_credential, is_startup, protected};
//!
//! assert!(is_credential(b".aws/credentials") && !is_credential(b".ssh/id_ed25519.pub"));
//! assert!(is_startup(b".bashrc"));
//! assert_eq!(protected(b"vendor/lib/.git/hooks/pre-commit"), Some("git runs this"));
//! assert_eq!(protected(b"src/main.rs"), None);
//! ```

#[cfg(test)]
mod tests;
mod workspace;
mod worktree;

use std::ffi::OsStr;
use std::path::Path;

pub use workspace::{PROTECTED, protected, protected_link, protected_names};
pub use worktree::{View, WorkTree, stays_below};

/// Files and directories below a home that contain keys, tokens, sessions, or histories (which contain text typed by
/// mistake).
pub const CREDENTIALS: &[&str] = &[
    // Keys, password stores, and the files that unlock them.
    ".age",
    ".authinfo",
    ".authinfo.gpg",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/age",
    ".config/keepassxc",
    ".config/op",
    ".config/sops",
    ".credentials",
    ".gnome2/keyrings",
    ".gnupg",
    ".google_authenticator",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/lpass",
    ".lpass",
    ".netrc",
    ".password-store",
    ".pki",
    ".secrets",
    ".ssh",
    ".step",
    ".vault-token",
    ".vnc",
    ".Xauthority",
    // Clouds and hosting.
    ".aliyun",
    ".aws",
    ".azure",
    ".bluemix",
    ".boto",
    ".cloudflared",
    ".config/.wrangler",
    ".config/argocd",
    ".config/doctl",
    ".config/gcloud",
    ".config/hcloud",
    ".config/heroku",
    ".config/linode-cli",
    ".config/netlify",
    ".config/ngrok",
    ".config/rclone",
    ".config/scw",
    ".config/stripe",
    ".databrickscfg",
    ".fly",
    ".kaggle",
    ".local/share/com.vercel.cli",
    ".mc/config.json",
    ".ngrok2",
    ".oci",
    ".ossutilconfig",
    ".pulumi/credentials.json",
    ".railway",
    ".s3cfg",
    ".sentryclirc",
    ".snowsql",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".tsh",
    // Containers and clusters.
    ".config/containers/auth.json",
    ".config/helm/registry",
    ".docker",
    ".kube",
    // Models and agents.
    ".anthropic",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/github-copilot",
    ".config/io.datasette.llm/keys.json",
    ".copilot",
    ".gemini",
    ".huggingface",
    ".local/share/opencode/auth.json",
    ".qwen",
    // Version control, languages and their registries.
    ".bundle/config",
    ".cache/git/credential",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".config/NuGet",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/hub",
    ".config/pypoetry/auth.toml",
    ".config/tea",
    ".gem/credentials",
    ".git-credential-cache",
    ".git-credentials",
    ".gradle/gradle.properties",
    ".ivy2/.credentials",
    ".local/share/uv/credentials",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".npmrc",
    ".nuget/NuGet",
    ".pypirc",
    ".sbt/.credentials",
    ".subversion/auth",
    ".yarnrc.yml",
    // Databases, mail, file servers, messages.
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    ".config/filezilla",
    ".config/msmtp",
    ".config/remmina",
    ".fetchmailrc",
    ".local/share/TelegramDesktop",
    ".local/share/remmina",
    ".mbsyncrc",
    ".msmtprc",
    ".my.cnf",
    ".mylogin.cnf",
    ".offlineimaprc",
    ".pgpass",
    ".smbcredentials",
    ".thunderbird",
    // Browsers.
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/google-chrome-beta",
    ".config/google-chrome-unstable",
    ".config/microsoft-edge",
    ".config/microsoft-edge-beta",
    ".config/microsoft-edge-dev",
    ".config/mozilla",
    ".config/opera",
    ".config/vivaldi",
    ".librewolf",
    ".mozilla",
    ".var/app/com.brave.Browser",
    ".var/app/com.google.Chrome",
    ".var/app/com.microsoft.Edge",
    ".var/app/com.opera.Opera",
    ".var/app/com.vivaldi.Vivaldi",
    ".var/app/io.gitlab.librewolf-community",
    ".var/app/org.chromium.Chromium",
    ".var/app/org.keepassxc.KeePassXC",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/org.mozilla.firefox",
    ".waterfox",
    ".zen",
    "snap/bitwarden",
    "snap/brave",
    "snap/chromium",
    "snap/firefox",
    "snap/keepassxc",
    "snap/opera",
    "snap/thunderbird",
    // Wallets.
    ".bitcoin",
    ".config/solana/id.json",
    ".electrum",
    ".ethereum",
    ".litecoin",
    ".monero",
    // Histories, and sessions of terminals.
    ".bash_history",
    ".config/nushell/history.txt",
    ".dbshell",
    ".irb_history",
    ".local/share/atuin",
    ".local/share/fish/fish_history",
    ".mysql_history",
    ".node_repl_history",
    ".psql_history",
    ".python_history",
    ".rediscli_history",
    ".screen",
    ".sh_history",
    ".sqlite_history",
    ".zhistory",
    ".zsh_history",
];

/// Endings of the names of password files, wherever they are below a home.
pub const CREDENTIAL_SUFFIXES: &[&str] = &[".kdbx"];

/// Files and directories of the machine that contain keys or passwords. Most are readable by root alone, and a root's
/// shell is no exception.
pub const SYSTEM_CREDENTIALS: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/etc/cryptsetup-keys.d",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/mysql/debian.cnf",
    "/etc/netplan",
    "/etc/openvpn",
    "/etc/postfix/sasl_passwd",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/run/NetworkManager/system-connections",
    "/run/secrets",
    "/swap.img",
    "/swapfile",
    "/var/cache/debconf/passwords.dat",
    "/var/lib/bluetooth",
    "/var/lib/iwd",
    "/var/lib/systemd/credential.secret",
    "/var/lib/tailscale",
    // It contains the names of users as they were typed, and some people type their password there.
    "/var/log/btmp",
];

/// Names in a directory for SSH that aren't keys. A name with `*` matches any ending.
const SSH_PUBLIC: &[&str] = &[
    "*.pub",
    "authorized_keys",
    "config",
    "environment",
    "known_hosts",
    "known_hosts.old",
    "moduli",
    "rc",
    "ssh_config",
    "ssh_config.d",
    "sshd_config",
    "sshd_config.d",
];

/// Files and directories below a home from which a shell, a session or a program starts others.
pub const STARTUP: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".config/autostart",
    ".config/autostart-scripts",
    ".config/direnv",
    ".config/emacs",
    ".config/environment.d",
    ".config/fish",
    ".config/git",
    ".config/hypr",
    ".config/i3",
    ".config/mise",
    ".config/nushell",
    ".config/nvim",
    ".config/plasma-workspace",
    ".config/powershell",
    ".config/sway",
    ".config/systemd",
    ".config/tmux",
    ".config/zsh",
    ".cshrc",
    ".emacs",
    ".emacs.d",
    ".gdbinit",
    ".gitconfig",
    ".inputrc",
    ".kshrc",
    ".lldbinit",
    ".local/bin",
    ".local/share/applications",
    ".local/share/systemd",
    ".login",
    ".mkshrc",
    ".pam_environment",
    ".profile",
    ".screenrc",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".ssh/environment",
    ".ssh/rc",
    ".tcshrc",
    ".tmux.conf",
    ".vim",
    ".vimrc",
    ".xinitrc",
    ".xonshrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "bin",
];

/// The parts of a home that contain tools and their settings. The overlay tier, and a first look within bubblewrap and Landlock,
/// show only these of a home, read-only. Credentials in files of their own are masked as everywhere; the settings of git and pip
/// are shown unchanged.
pub const TOOLS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal",
    ".cache/go-build",
    ".cache/pip",
    ".cache/uv",
    ".cargo",
    ".conda",
    ".config/git",
    ".config/pip",
    ".deno",
    ".dotnet",
    ".gem",
    ".ghcup",
    ".gitconfig",
    ".gradle",
    ".julia",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2",
    ".nix-profile",
    ".npm",
    ".npm-global",
    ".nuget",
    ".nvm",
    ".opam",
    ".pnpm-store",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".stack",
    ".terminfo",
    ".volta",
    ".yarn",
    "anaconda3",
    "go",
    "mambaforge",
    "miniconda3",
    "miniforge3",
];

/// Returns whether a path below a home, relative to it, contains keys or passwords. Here and in the other functions except
/// [`is_tool`] case doesn't matter, as on some disks.
#[must_use]
pub fn is_credential(below_home: &[u8]) -> bool {
    holds(CREDENTIALS, below_home) && !is_public_ssh(below_home, b".ssh/")
        || CREDENTIAL_SUFFIXES.iter().any(|suffix| ends_with_folded(below_home, suffix.as_bytes()))
}

/// Returns whether an absolute path of the machine, outside of homes, contains keys or passwords.
#[must_use]
pub fn is_system_credential(absolute: &[u8]) -> bool {
    holds(SYSTEM_CREDENTIALS, absolute) && !is_public_ssh(absolute, b"/etc/ssh/")
}

/// Returns whether a path below a home, relative to it, is read or run when a shell, a session or a program starts.
#[must_use]
pub fn is_startup(below_home: &[u8]) -> bool {
    holds(STARTUP, below_home)
}

/// Returns whether a path below a home, relative to it, belongs to the tools that a jail shows, and contains no keys or
/// passwords.
#[must_use]
pub fn is_tool(below_home: &[u8]) -> bool {
    let is_below =
        |name: &&str| below_home.strip_prefix(name.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
    TOOLS.iter().any(is_below) && !is_credential(below_home)
}

/// Directories that tools fill themselves, with contents that they can make again.
const DERIVED: [&str; 18] = [
    ".cache",
    ".eggs",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// The outermost directory of a path that tools fill by themselves, if there is one.
#[must_use]
pub fn derived(relative: &Path) -> Option<&Path> {
    let is_one = |path: &&Path| path.file_name().and_then(OsStr::to_str).is_some_and(|name| DERIVED.contains(&name));
    relative.ancestors().filter(is_one).last()
}

/// Returns whether a path is one of these names, or below one.
fn holds(names: &[&str], path: &[u8]) -> bool {
    names.iter().any(|name| {
        let (start, rest) = path.split_at(name.len().min(path.len()));
        start.eq_ignore_ascii_case(name.as_bytes()) && rest.first().is_none_or(|byte| *byte == b'/')
    })
}

fn is_public_ssh(path: &[u8], directory: &[u8]) -> bool {
    let Some(below) = path.strip_prefix(directory) else { return false };
    let name = below.split(|byte| *byte == b'/').next().unwrap_or_default();
    SSH_PUBLIC.iter().any(|public| match public.strip_prefix('*') {
        Some(suffix) => below.ends_with(suffix.as_bytes()),
        None => name == public.as_bytes(),
    })
}

fn ends_with_folded(text: &[u8], end: &[u8]) -> bool {
    text.len() >= end.len() && text[text.len() - end.len()..].eq_ignore_ascii_case(end)
}
