//! Files of a workspace that other programs run: their names, and the comparison of a path with them.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::{DERIVED, ends_with_folded};

/// Names in a workspace that make other programs act, each with the reason in a few words. They count at any depth, because each
/// repository, package and directory may have its own; `*` at one end of a last component matches anything.
///
/// The rule: a file is here if a person runs it without starting the project's build, test, check or program: by entering the
/// directory, by opening it in an editor or for an agent, by starting a debugger, an interpreter or a package manager in it, by
/// using version control, or by pushing it to a machine that does. So `Makefile`, `build.rs`, `conftest.py`, `package.json` and
/// `eslint.config.js` aren't: a person who starts a build expects the project's code to run, and each edit of such a file would
/// raise a question. A bare repository's `config` has no distinctive name, but the `HEAD` beside it has.
pub const PROTECTED: &[(&str, &[&str])] = &[
    (
        "git runs this",
        &[
            // A link or a file instead of the directory leads git to another one.
            ".git$",
            // `branches` and `remotes` are older places of remotes: they determine the destination of a push.
            ".git/branches",
            ".git/commondir",
            ".git/config",
            ".git/config.worktree",
            ".git/hooks",
            ".git/info/attributes",
            ".git/lazygit.yml",
            ".git/modules",
            // Their lines with `exec` run when the operation continues, and a strategy is a program that runs then.
            ".git/rebase-merge/git-rebase-todo",
            ".git/rebase-merge/strategy",
            ".git/rebase-merge/strategy_opts",
            ".git/remotes",
            ".git/sequencer/opts",
            ".git/worktrees/*",
            ".gitattributes",
            // Repositories include it as `../.gitconfig`.
            ".gitconfig",
            ".githooks",
            ".gitmodules",
            ".lazygit.yml",
            // Here git-lfs finds the destination of pushed files.
            ".lfsconfig",
        ],
    ),
    ("Mercurial runs this", &[".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath"]),
    ("version control runs this", &[".git/sl/config", ".pijul/config", ".sl/config", "_darcs/prefs/defaults"]),
    ("Jujutsu runs this", &[".jj/repo$", ".jj/repo/config.toml", ".jj/workspace-config.toml"]),
    (
        "commit hooks run this",
        &[
            ".config/lefthook*",
            ".husky",
            ".lefthook*",
            ".overcommit.yml",
            ".pre-commit-config.yaml",
            ".pre-commit-config.yml",
            "lefthook-local.*",
            "lefthook.json",
            "lefthook.toml",
            "lefthook.yaml",
            "lefthook.yml",
        ],
    ),
    (
        "CI runs this",
        &[
            ".appveyor.yml",
            ".azure-pipelines",
            ".build.yml",
            ".buildkite",
            ".builds",
            ".circleci",
            ".cirrus.yml",
            ".drone.yml",
            ".forgejo/workflows",
            ".gitea/workflows",
            ".github/actions",
            ".github/workflows",
            ".gitlab-ci.yaml",
            ".gitlab-ci.yml",
            ".semaphore",
            ".tekton",
            ".travis.yml",
            ".woodpecker",
            ".woodpecker.yml",
            "Jenkinsfile",
            "appveyor.yml",
            "azure-pipelines.yaml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            "buildspec.yml",
            "cloudbuild.yaml",
        ],
    ),
    (
        "your editor runs this",
        &[
            "*.code-workspace",
            "*.sublime-project",
            ".bsp",
            ".devcontainer",
            ".devcontainer.json",
            ".dir-locals-2.el",
            ".dir-locals.el",
            ".exrc",
            ".externalToolBuilders",
            ".fleet",
            ".gitpod.yml",
            ".gvimrc",
            ".helix",
            ".idea",
            ".kateproject*",
            ".lvimrc",
            ".merlin",
            ".nvim",
            ".nvim.lua",
            ".nvimrc",
            // Rope runs `config.py` in it for an editor.
            ".ropeproject",
            ".vim",
            ".vimrc",
            ".vs",
            ".vscode",
            ".yarn/sdks",
            ".ycm_extra_conf.py",
            ".zed",
            "hie.yaml",
            // It names the commands of builds and checks, which the server runs when a file is opened.
            "rust-analyzer.toml",
        ],
    ),
    (
        "your shell runs this",
        &[
            ".autoenv*",
            ".config/mise",
            // A flake's environment is stored there, and is read whenever a person enters the directory.
            ".direnv",
            ".envrc",
            // `source_env` loads these, and direnv doesn't ask about them.
            ".envrc.*",
            ".flox",
            ".mise",
            ".mise.*",
            // uv reads the path of an interpreter there.
            ".python-version",
            ".python-versions",
            ".rtx.toml",
            ".rvmrc",
            ".tool-versions",
            // A file that `.envrc` loads is loaded again after each change, and direnv doesn't ask.
            "devbox.json",
            "devenv.nix",
            "devenv.yaml",
            "flake.nix",
            "mise.*toml",
            "mise/config.toml",
            "shell.nix",
        ],
    ),
    (
        "your debugger or interpreter runs this",
        &[
            // An object in it may be a function that R calls at its start.
            ".RData",
            ".Renviron",
            ".Rprofile",
            ".byebugrc",
            ".erlang",
            ".gdbinit",
            ".ghci",
            ".iex.exs",
            ".irbrc",
            ".jdbrc",
            ".lldbinit",
            ".ocamlinit",
            ".octaverc",
            ".pdbrc",
            ".perldb",
            ".pryrc",
            ".psysh.php",
            ".rdbgrc*",
            "jdb.ini",
            "jupyter_config.*",
            "jupyter_lab_config.*",
            "jupyter_notebook_config.*",
            "jupyter_server_config.*",
            // `.Rprofile` loads it.
            "renv/activate.R",
        ],
    ),
    (
        "your package manager runs this",
        &[
            ".bundle/config",
            ".bundle/plugin",
            ".cargo/config",
            ".cargo/config.toml",
            ".npmrc",
            ".pnp.*js",
            ".pnpmfile.cjs",
            ".pnpmfile.mjs",
            ".yarn/plugins",
            ".yarn/releases",
            ".yarnrc*",
            "bunfig.toml",
            // Both can name a directory with other tools.
            "global.json",
            "nuget.config",
            "rust-toolchain",
            "rust-toolchain.toml",
            "uv.toml",
        ],
    ),
    (
        "agents run this or read it as instructions",
        &[
            ".agents",
            ".aiassistant",
            ".aider.conf.yml",
            ".amazonq",
            ".amp",
            ".augment*",
            ".claude",
            ".clinerules",
            ".codex",
            ".continue",
            ".crush",
            ".crush.json",
            ".cursor",
            ".cursorrules",
            ".factory",
            ".gemini",
            ".github/agents",
            ".github/chatmodes",
            ".github/copilot-instructions.md",
            ".github/hooks",
            ".github/instructions",
            ".github/prompts",
            ".github/skills",
            ".goose",
            ".goosehints",
            ".grok",
            ".junie",
            ".kilocode",
            ".kilocodemodes",
            ".kiro",
            ".mcp.json",
            ".opencode",
            ".openhands",
            ".qwen",
            ".reedclaw.lua",
            ".roo",
            ".roomodes",
            ".roorules*",
            ".rules",
            ".trae",
            ".windsurf",
            ".windsurfrules",
            "AGENT.md",
            "AGENTS.md",
            "AGENTS.override.md",
            "CLAUDE.local.md",
            "CLAUDE.md",
            "CRUSH.local.md",
            "CRUSH.md",
            "GEMINI.md",
            "QWEN.md",
            "SOP.toml",
            "WARP.md",
            "crush.json",
            "opencode.json",
            "opencode.jsonc",
            "replit.md",
        ],
    ),
];

/// Names of git's hooks: wherever `core.hooksPath` leads, a hook has one of these names.
const HOOKS: [&str; 21] = [
    "applypatch-msg",
    "commit-msg",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
];

/// Names of hooks that other files have too: they are hooks only in a directory named `hooks`, as in a bare repository.
const HOOKS_OF_BARE: [&str; 2] = ["post-update", "update"];

/// The reason why a file of a workspace is protected, by its path relative to the workspace; `None` if it isn't.
#[must_use]
pub fn protected(relative: &[u8]) -> Option<&'static str> {
    let folded = fold(relative);
    let parts = as_of_main(parts_of(&folded));
    // Git puts examples of hooks into each new repository, and never runs a file with such a name.
    if parts.last().is_some_and(|name| name.ends_with(b".sample")) && parts.iter().rev().nth(1) == Some(&&b"hooks"[..])
    {
        return None;
    }
    reason(&parts, begins_with).or_else(|| is_hook(&parts).then_some("git may run this as a hook")).or_else(|| {
        is_bare_head(&parts).then_some("makes its directory a repository for git, which runs what its config says")
    })
}

/// The reason for a link, which may also replace a directory with protected files: `.cargo`, `.git/info`. Directories that tools
/// fill have links to packages of any name.
#[must_use]
pub fn protected_link(relative: &[u8]) -> Option<&'static str> {
    protected(relative).or_else(|| {
        let folded = fold(relative);
        let parts = parts_of(&folded);
        let is_derived = |part: &&[u8]| DERIVED.iter().any(|name| part.eq_ignore_ascii_case(name.as_bytes()));
        if parts.iter().any(is_derived) {
            return None;
        }
        let holds_hooks = || parts.last().is_some_and(|name| name.eq_ignore_ascii_case(b"hooks"));
        reason(&parts, is_begun_by).or_else(|| holds_hooks().then_some("git may run what is in it as hooks"))
    })
}

/// The file of the main work tree's repository that corresponds to a file of a linked work tree, such as `.git/HEAD` for
/// `.git/worktrees/x/HEAD`. `gitdir`, and that directory itself, have no such file.
fn as_of_main(mut parts: Vec<&[u8]>) -> Vec<&[u8]> {
    let is_one =
        |three: &[&[u8]]| three[0].eq_ignore_ascii_case(b".git") && three[1].eq_ignore_ascii_case(b"worktrees");
    if let Some(at) = parts.windows(4).position(is_one)
        && !parts[at + 3].eq_ignore_ascii_case(b"gitdir")
    {
        parts.drain(at + 1..at + 3);
    }
    parts
}

fn parts_of(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect()
}

/// The reason of the first group with a name that matches some last components of a path.
fn reason(parts: &[&[u8]], matches: impl Fn(&[&[u8]], &str) -> bool) -> Option<&'static str> {
    let found = (0..parts.len()).filter_map(|at| {
        let letter = usize::from(parts[at][0].to_ascii_lowercase());
        let named = [letter, usize::from(b'*')].into_iter().flat_map(|first| &by_first_letter()[first]);
        named.filter(|(_, name)| matches(&parts[at..], name)).map(|(group, _)| *group).min()
    });
    found.min().map(|group| PROTECTED[group].0)
}

/// Returns whether a file makes any directory a bare repository: git looks for it in each directory in which it is started, and
/// uses the configuration beside it. Logs and branches of a moved repository may have that name, too.
fn is_bare_head(parts: &[&[u8]]) -> bool {
    let (name, above) = parts.split_last().map_or((&b""[..], &[][..]), |(name, above)| (*name, above));
    let is_of_git = |part: &&[u8]| part.eq_ignore_ascii_case(b".git");
    name == b"HEAD" && !above.iter().any(is_of_git) && above.last() != Some(&&b"logs"[..])
}

/// Returns whether a file has the name of a hook. Programs of that name, such as `.venv/bin/pre-commit`, lie in
/// directories that tools fill.
fn is_hook(parts: &[&[u8]]) -> bool {
    let is_one_of = |names: &[&str], part: &[u8]| names.iter().any(|name| part.eq_ignore_ascii_case(name.as_bytes()));
    // A branch may have such a name, too.
    let is_apart = |part: &&[u8]| is_one_of(&DERIVED, part) || is_one_of(&[".git"], part);
    let is_hook = match parts {
        [.., directory, name] if is_one_of(&["hooks"], directory) => {
            is_one_of(&HOOKS, name) || is_one_of(&HOOKS_OF_BARE, name)
        }
        [.., name] => is_one_of(&HOOKS, name),
        [] => false,
    };
    is_hook && !parts.iter().any(is_apart)
}

/// The protected names by their first letter, in small letters, each with the number of its group.
fn by_first_letter() -> &'static [Vec<(usize, &'static str)>] {
    static READ: OnceLock<Vec<Vec<(usize, &'static str)>>> = OnceLock::new();
    READ.get_or_init(|| {
        let mut letters = vec![Vec::new(); 256];
        for (group, (_, names)) in PROTECTED.iter().enumerate() {
            for name in *names {
                letters[usize::from(name.as_bytes()[0].to_ascii_lowercase())].push((group, *name));
            }
        }
        letters
    })
}

/// The protected names that can be joined to a directory: without those that have a `*`, and without `.git` itself.
pub fn protected_names() -> impl Iterator<Item = &'static str> {
    let names = PROTECTED.iter().flat_map(|(_, names)| names.iter().copied());
    names.filter(|name| !name.contains(['*', '$']))
}

/// Returns whether components begin with those of a name. `$` at its end means that nothing comes after them.
fn begins_with(parts: &[&[u8]], name: &str) -> bool {
    let (name, is_last) = name.strip_suffix('$').map_or((name, false), |name| (name, true));
    let mut count = 0;
    let is_same = name.split('/').enumerate().all(|(at, wanted)| {
        count = at + 1;
        parts.get(at).is_some_and(|part| is_like(part, wanted.as_bytes()))
    });
    is_same && (!is_last || parts.len() == count)
}

/// Returns whether components are the first ones of a name, and not all of them.
fn is_begun_by(parts: &[&[u8]], name: &str) -> bool {
    let mut wanted = name.split('/');
    parts.iter().all(|part| wanted.next().is_some_and(|wanted| is_like(part, wanted.as_bytes())))
        && wanted.next().is_some()
}

/// Returns whether a folded component matches a pattern with at most one `*`.
fn is_like(part: &[u8], pattern: &[u8]) -> bool {
    match pattern.iter().position(|byte| *byte == b'*') {
        None => part.eq_ignore_ascii_case(pattern),
        Some(star) => {
            let (start, end) = (&pattern[..star], &pattern[star + 1..]);
            part.len() >= start.len() + end.len()
                && part[..start.len()].eq_ignore_ascii_case(start)
                && ends_with_folded(part, end)
        }
    }
}

/// Folds characters that a case-insensitive disk treats as equal, such as the Kelvin sign; and removes invisible characters,
/// which such a disk ignores.
fn fold(path: &[u8]) -> Cow<'_, [u8]> {
    if path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let text = String::from_utf8_lossy(path);
    // Of the characters of `base::text::is_invisible`, those that the disk of macOS ignores in a name; any other one makes
    // another file.
    let seen = text.chars().filter(|c| {
        !matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
    });
    let folded: String = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    Cow::Owned(folded.into_bytes())
}
