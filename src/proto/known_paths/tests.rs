//! Tests of the known paths.

use super::*;

#[test]
fn credentials_are_known_by_their_place_and_public_halves_are_not() {
    for path in [
        ".ssh",
        ".ssh/id_rsa",
        ".aws/credentials",
        ".docker/config.json",
        ".claude/.credentials.json",
        ".codex/auth.json",
        ".gemini/oauth_creds.json",
        ".config/github-copilot/hosts.json",
        ".cache/huggingface/token",
        ".m2/settings.xml",
        ".gradle/gradle.properties",
        ".config/containers/auth.json",
        ".fly/config.yml",
        ".oci/config",
        ".config/doctl/config.yaml",
        ".psql_history",
        ".node_repl_history",
        "snap/firefox/common/x",
        ".config/microsoft-edge/Default",
        ".bitcoin/wallet.dat",
        "Documents/mine.kdbx",
        "deep/er/Mine.KDBX",
        ".local/share/keyrings/login.keyring",
    ] {
        assert!(is_credential(path.as_bytes()), "{path}");
    }
    for path in [
        "",
        ".sshd",
        ".ssh/id_rsa.pub",
        ".ssh/known_hosts",
        ".ssh/config",
        ".claude/settings.json",
        ".codex",
        ".cache/huggingface/hub/model",
        ".m2/repository/x.jar",
        "src/.aws",
        "kdbx",
        "notes/ssh",
    ] {
        assert!(!is_credential(path.as_bytes()), "{path}");
    }
    for path in ["/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "/etc/sudoers.d/me", "/run/secrets/db"] {
        assert!(is_system_credential(path.as_bytes()), "{path}");
    }
    for path in ["/etc/passwd", "/etc/ssh/ssh_config", "/etc/ssh/ssh_host_rsa_key.pub", "/etc/shadows"] {
        assert!(!is_system_credential(path.as_bytes()), "{path}");
    }
}

#[test]
fn tools_of_a_home_are_known_and_their_credentials_are_none() {
    for path in
        [".cargo", ".cargo/registry/src/x/lib.rs", ".npm/_logs/a.log", ".gitconfig", "go/pkg/mod", ".config/git/ignore"]
    {
        assert!(is_tool(path.as_bytes()), "{path}");
    }
    for path in [
        "",
        ".config",
        ".npmrc",
        ".Cargo/bin",
        ".cargo2",
        "gopher",
        "work/.cargo",
        ".cargo/credentials.toml",
        ".CARGO/credentials.toml",
        ".config/git/credentials",
        ".gem/credentials",
        ".gradle/gradle.properties",
        ".m2/settings.xml",
        ".local/share/uv/credentials/a",
        ".nuget/NuGet/NuGet.Config",
        "go/mine.kdbx",
    ] {
        assert!(!is_tool(path.as_bytes()), "{path}");
    }
}

#[test]
fn startup_files_are_known() {
    for path in [".bashrc", ".BashRC", ".config/systemd/user/x.service", ".local/bin/ls", ".ssh/authorized_keys"] {
        assert!(is_startup(path.as_bytes()), "{path}");
    }
    for path in ["bashrc", ".bashrc.d.txt", ".config/app.toml", ".local/share/x"] {
        assert!(!is_startup(path.as_bytes()), "{path}");
    }
}

#[test]
fn protected_names_match_at_any_depth_and_in_any_case() {
    for (reason, paths) in [
        (
            "git runs this",
            &[
                ".git",
                ".git/config",
                ".GIT/Hooks/pre-commit",
                "a/b/.git/config",
                ".git/modules/x/config",
                ".git/worktrees/w/gitdir",
                "sub/.git",
                "./.git//config",
                ".gitattributes",
                "x/.gitmodules",
                ".git/info/attributes",
                ".git/rebase-merge/git-rebase-todo",
                ".git/rebase-merge/strategy",
                ".git/sequencer/opts",
                ".git/branches/origin",
                ".gitconfig",
                ".git/hoo\u{212a}s",
                ".g\u{200c}it/config",
            ][..],
        ),
        ("CI runs this", &[".github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml"]),
        (
            "commit hooks run this",
            &[".husky/pre-commit", ".pre-commit-config.yaml", "lefthook-local.yml", ".config/lefthook.yml"],
        ),
        (
            "git may run this as a hook",
            &[
                "hooks/pre-commit",
                "scripts/git/Commit-Msg",
                "post-checkout",
                "srv.git/hooks/update",
                "hooks/Post-Update",
            ],
        ),
        ("Mercurial runs this", &[".hg/hgrc", ".hg/sharedpath"]),
        ("Jujutsu runs this", &[".jj/repo/config.toml", ".jj/repo"]),
        ("your editor runs this", &[".vscode/tasks.json", ".idea", ".zed/tasks.json", "x.code-workspace", ".exrc"]),
        (
            "your shell runs this",
            &[".envrc", "deep/down/.ENVRC", "mise.toml", "mise.local.toml", ".mise.toml", ".direnv/flake-profile.rc"],
        ),
        ("your package manager runs this", &[".cargo/config", "a/.cargo/config.toml", ".npmrc", ".yarnrc.yml"]),
        (
            "agents run this or read it as instructions",
            &[
                "AGENTS.md",
                "src/deep/agents.md",
                "CLAUDE.md",
                ".claude/settings.json",
                ".reedclaw.lua",
                ".mcp.json",
                "sops/daily/SOP.toml",
            ],
        ),
    ] {
        for path in paths {
            assert_eq!(protected(path.as_bytes()), Some(reason), "{path}");
        }
    }
    for path in [
        "",
        "src/main.rs",
        "build.rs",
        "tests/conftest.py",
        ".git/HEAD",
        ".git/index",
        ".git/objects/ab/cd",
        ".git/refs/heads/main",
        ".git/info/exclude",
        ".gitignore",
        ".github/dependabot.yml",
        ".github",
        "AGENTS.md.txt",
        "git/config",
        ".venv/bin/pre-commit",
        ".git/refs/heads/pre-commit",
        "hooks/pre-commit/README.md",
        "update",
        "bin/post-update",
        "hooks/update.sample",
        "hooks/update/index.ts",
        "hooks/pre-commit.sample",
        "src/lefthook.go",
        ".jj/repo/store/type",
        ".cargo/registry/x",
        "premise.toml",
        "mise.rs",
        "config",
        ".mcp.json.bak",
    ] {
        assert_eq!(protected(path.as_bytes()), None, "{path}");
    }
    // A name in bytes that aren't UTF-8 hides nothing after it.
    assert_eq!(protected(b"\xff/.git/config"), Some("git runs this"));
}

#[test]
fn a_file_is_protected_if_it_runs_before_a_build_is_started() {
    // Entering a directory, opening it, starting an interpreter or a debugger there, version control, CI.
    let asked = ".envrc .direnv/x .mise.toml .tool-versions flake.nix shell.nix devenv.nix devbox.json .autoenv.zsh .python-version \
                 .vscode/settings.json .vscode/tasks.json .idea/workspace.xml .devcontainer/devcontainer.json .exrc .nvim.lua \
                 .dir-locals.el x.code-workspace .zed/settings.json .vim/coc-settings.json .bsp/sbt.json hie.yaml .merlin .ycm_extra_conf.py .helix/languages.toml .gitpod.yml \
                 .gdbinit .lldbinit .pdbrc .perldb .rdbgrc.rb .byebugrc \
                 .Rprofile .Renviron .RData .ghci .iex.exs .irbrc .ocamlinit .octaverc .psysh.php jupyter_lab_config.py \
                 .npmrc .yarnrc.yml .yarn/releases/yarn.cjs .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs bunfig.toml \
                 .cargo/config.toml rust-toolchain.toml global.json .bundle/config \
                 .envrc.local .rvmrc rust-analyzer.toml .ropeproject/config.py .yarn/sdks/typescript/lib/tsserver.js .jdbrc renv/activate.R \
                 uv.toml NuGet.Config .bundle/plugin/index .git/remotes/origin .builds/ci.yml .openhands/setup.sh AGENT.md .roorules-code \
                 HEAD docs/x/HEAD .sl/config _darcs/prefs/defaults \
                 .git/hooks/pre-commit .gitattributes .gitmodules .husky/pre-push .pre-commit-config.yaml lefthook.yml \
                 .github/workflows/ci.yml .gitlab-ci.yml Jenkinsfile \
                 AGENTS.md CLAUDE.md .mcp.json .cursor/rules/a.mdc .claude/settings.json .reedclaw.lua \
                 CRUSH.md Crush.local.md .crush/init WARP.md replit.md .aiassistant/rules/a.md .lfsconfig";
    for path in asked.split_whitespace() {
        assert!(protected(path.as_bytes()).is_some(), "{path}");
    }
    // A build, a test, a check, the program itself.
    let sources = "Makefile justfile build.rs Cargo.toml src/main.rs package.json webpack.config.js vite.config.ts \
                   eslint.config.js eslint.config.mjs .eslintrc.js .prettierrc.js prettier.config.cjs .babelrc.js jest.config.ts \
                   conftest.py tests/conftest.py setup.py pyproject.toml noxfile.py tox.ini sitecustomize.py a.pth \
                   Rakefile Gemfile .rspec .rubocop.yml CMakeLists.txt meson.build build.gradle gradlew pom.xml .mvn/jvm.config \
                   .bazelrc default.nix Dockerfile compose.yaml .latexmkrc Taskfile.yml .editorconfig \
                   .git/HEAD a/.git/logs/HEAD .git/refs/remotes/origin/HEAD src/head HEAD.md \
                   .env a/.env .env.example .env.local .nvmrc .venv/bin/activate node_modules/a/index.js index.pnp.js";
    for path in sources.split_whitespace() {
        assert_eq!(protected(path.as_bytes()), None, "{path}");
    }
}

/// `.cargo -> k` beside a new `k/config.toml` didn't count as a change of a protected file, and neither did `.git/rebase-merge`.
#[test]
fn a_link_in_place_of_a_directory_with_protected_files_is_protected() {
    let links = ".cargo a/.Cargo .hg .bundle .yarn renv .github .github/workflows .git/info .git/rebase-merge .jj .jj/repo .sl \
                 .config mise _darcs/prefs src/hooks AGENTS.md .vscode .git";
    for path in links.split_whitespace() {
        assert!(protected_link(path.as_bytes()).is_some(), "{path}");
    }
    for path in ["", "a", ".cargo/bin", ".git/objects", ".git/logs/HEAD", "node_modules/mise", ".venv/renv", "cargo"] {
        assert_eq!(protected_link(path.as_bytes()), None, "{path}");
    }
    assert_eq!(protected(b".cargo"), None, "a directory of that name runs nothing");
}

#[test]
fn tables_are_well_formed() {
    let names = CREDENTIALS.iter().chain(STARTUP).copied().chain(protected_names());
    for name in names {
        assert!(!name.is_empty() && !name.starts_with('/') && !name.ends_with('/') && !name.contains("//"), "{name}");
    }
    assert!(SYSTEM_CREDENTIALS.iter().all(|path| path.starts_with('/') && !path.ends_with('/')));
    for (_, names) in PROTECTED {
        assert!(names.is_sorted(), "{names:?}");
    }
}
