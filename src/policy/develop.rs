//! Programs of a developer's day: git, builds, package managers.

use std::rc::Rc;

use super::exec::output;
use super::options::Options;
use super::run::{Run, Value};
use super::text::{self, NAME};
use crate::proto::action::{Risk, WriteKind};

/// Programs that build, test, format and check what is in the workspace.
const BUILDERS: &str = " make gmake ninja cmake ctest meson bazel bazelisk buck scons gcc g++ cc c++ clang clang++ gfortran ld ar \
    as nasm ranlib strip objcopy rustc rustfmt clippy-driver cargo go gofmt goimports golangci-lint javac java kotlinc scalac \
    mvn gradle sbt ant lein tsc tsx esbuild vite webpack rollup parcel eslint prettier jest vitest mocha karma cypress \
    playwright npm yarn pnpm bun node-gyp pytest py.test tox nox mypy black ruff flake8 isort pylint pyright coverage poetry \
    pipenv pdm hatch uv sphinx-build mkdocs rake bundle rspec rubocop mix dotnet msbuild swift xcodebuild flutter dart ghc \
    cabal stack zig nim crystal dune opam-exec ocamlfind protoc flex bison yacc lex autoconf automake autoreconf configure \
    libtool pkg-config gcov lcov clang-format clang-tidy cppcheck ctags cscope shfmt stylua buf sqlc wasm-pack \
    trunk just task invoke pre-commit commitlint hugo jekyll zola tsdoc typedoc jsdoc storybook next nuxt astro turbo nx \
    lerna rushx ts-node ";
/// Package managers of the system and of languages.
const INSTALLERS: &str = " apt apt-get aptitude dpkg dnf yum rpm pacman yay paru zypper apk emerge xbps-install brew port snap \
    flatpak nix nix-env nix-shell guix pip pip3 gem cpan cpanm luarocks conda mamba micromamba rustup sdkman nvm fnm volta \
    asdf mise composer go-install cargo-binstall ghcup pkg pkgin slackpkg eopkg opkg appimage apt-key add-apt-repository ";
/// Words of git that only tell.
const GIT_TELLS: &str = " status log diff show blame shortlog describe rev-parse rev-list ls-files ls-tree cat-file grep reflog \
    whatchanged name-rev merge-base for-each-ref count-objects fsck help version var check-ignore check-attr show-ref \
    diff-tree diff-index diff-files range-diff cherry show-branch bugreport annotate verify-commit verify-tag ls-remote ";
/// Words of git that put other files in place of those that it finds.
const GIT_WRITES_TREE: &str =
    " checkout clean reset restore switch stash apply am rm mv merge pull rebase read-tree checkout-index ";
/// Words of git that change what is in the workspace.
const GIT_CHANGES: &str = " add commit mv restore checkout switch stash merge rebase cherry-pick revert tag branch notes am \
    apply bisect worktree init gc repack prune maintenance sparse-checkout read-tree write-tree update-index format-patch \
    archive bundle rerere commit-tree update-ref symbolic-ref pack-refs mergetool difftool ";

impl Run<'_, '_> {
    /// Runs a developer's program; `None` where it isn't one.
    pub(super) fn developer_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        let always =
            text::listed("register-python-argcomplete dircolors lesspipe keychain ssh-agent resize tset", name);
        let prints = super::strings::prints_settings(name) && (name != "just" || !words.is_empty());
        if always || prints && prints_settings(words) {
            self.note(Risk::High, "settings", format!("{name} prints settings for the shell"));
            self.scan_commands(words);
            return Some(super::strings::settings());
        }
        match name {
            "git" => return Some(self.git(words)),
            "cmake" if words.first().is_some_and(|word| word == "-E") => return Some(self.cmake_tool(&words[1..])),
            "make" | "gmake" | "just" | "rake" | "ninja" => self.make(name, words),
            "cargo" | "go" | "npm" | "yarn" | "pnpm" | "bun" | "uv" | "poetry" | "bundle" | "dotnet" | "mix"
            | "pipenv" | "pdm" | "stack" | "cabal" | "gradle" | "mvn" => self.build_tool(name, words),
            _ if text::listed(BUILDERS, name) => {
                self.works_here(name);
                self.note(Risk::Medium, "build", format!("{name} builds or checks"));
                self.builds_known(name, words);
                if name == "cmake" {
                    self.cmake(words);
                }
                self.scan_commands(words);
                self.output_options(words);
            }
            _ if text::listed(INSTALLERS, name) => self.installer(name, words),
            "history" => return Some(output()),
            _ => return None,
        }
        Some(output())
    }

    /// Files that `-o` and its like name.
    fn output_options(&mut self, words: &[String]) {
        let options = Options::read(
            words,
            "oIDLlWfmCUx",
            "output out outdir output-dir target-dir output-file prefix outfile out-dir outDir destination",
        );
        let names = [
            "output",
            "out",
            "outdir",
            "output-dir",
            "target-dir",
            "output-file",
            "outfile",
            "out-dir",
            "outDir",
            "destination",
        ];
        let mut targets: Vec<String> = options.values("o", "output").map(str::to_owned).collect();
        for name in names {
            targets.extend(options.given.iter().filter(|(own, _)| own == name).filter_map(|(_, value)| value.clone()));
        }
        targets.dedup();
        targets.iter().filter(|path| *path != "-").for_each(|path| self.writes(path, WriteKind::Write));
    }

    /// A program works on what is in the working directory: that should be the workspace.
    fn works_here(&mut self, name: &str) {
        let cwd = self.cwd();
        if self.zone_of(&format!("{cwd}/{NAME}")) > super::place::Zone::Protected {
            self.note(Risk::High, "outside", format!("{name} works outside the workspace, in {cwd}"));
        }
    }

    fn make(&mut self, name: &str, words: &[String]) {
        self.works_here(name);
        self.note(Risk::Medium, "build", format!("{name} builds"));
        self.scan_commands(words);
        let options = Options::read(words, "fCjloWI", "file directory makefile eval jobs justfile working-directory");
        for code in options.values("E", "eval").map(str::to_owned).collect::<Vec<_>>() {
            self.makefile(&code, &options.operands);
        }
        for file in
            options.values("f", "file").chain(options.values("", "makefile")).map(str::to_owned).collect::<Vec<_>>()
        {
            self.reads(&file);
            for text in self.content(&file) {
                if text.contains(text::NET) {
                    self.block("fed-code", "make runs what came over the network");
                }
                self.makefile(&text, &options.operands);
            }
        }
        if options.values("f", "file").next().is_none() {
            for file in ["Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile"] {
                let data = self.content(file);
                if data.iter().any(|text| text.contains(text::NET)) {
                    self.block("fed-code", "make runs what came over the network");
                }
                for text in data.iter().filter(|text| !text.chars().all(text::is_open)) {
                    match file.ends_with("justfile") || file == "Justfile" {
                        true => self.justfile(text, &options.operands),
                        false => self.makefile(text, &options.operands),
                    }
                }
            }
        }
        let stage = options.operands.iter().rev().find_map(|word| word.strip_prefix("DESTDIR="));
        let stage = stage.map(str::to_owned).or_else(|| self.variable("DESTDIR")).filter(|path| !path.is_empty());
        for word in &options.operands {
            if let Some((name, value)) = word.split_once('=') {
                if value.contains("$(shell") {
                    self.embedded_command(value);
                }
                self.environment_rules(name, &[value.to_owned()], false);
                if text::listed("SHELL CC CXX LD AR MAKE RM INSTALL PYTHON", name) {
                    self.embedded_command(value);
                }
                // By custom, all is put below `DESTDIR` where that is set.
                let stage = stage.as_deref().filter(|_| name != "DESTDIR").unwrap_or_default();
                if matches!(name, "DESTDIR" | "PREFIX" | "prefix") {
                    self.writes(&format!("{stage}{value}/{NAME}"), WriteKind::Write);
                }
            }
        }
        for directory in options.values("C", "directory").map(str::to_owned).collect::<Vec<_>>() {
            self.lists(&directory);
        }
        if options.operands.iter().any(|word| matches!(word.as_str(), "install" | "uninstall" | "publish" | "deploy")) {
            self.note(Risk::High, "install", "may write outside the workspace");
        }
    }

    /// Text that is a command for certain, though where it runs isn't.
    pub(super) fn embedded_command(&mut self, code: &str) {
        if code.contains("$(shell ") {
            let inner = code.replace("$(shell ", "$(");
            self.code_elsewhere(&inner);
        } else {
            self.code_elsewhere(code);
        }
    }

    fn build_tool(&mut self, name: &str, words: &[String]) {
        self.works_here(name);
        let verb = words.iter().find(|word| !word.starts_with(['-', '+'])).map(String::as_str).unwrap_or_default();
        let at = words.iter().position(|word| word == verb).map_or(words.len(), |at| at + 1);
        let rest = &words[at.min(words.len())..];
        let risk = match (name, verb) {
            (
                _,
                "install" | "i" | "add" | "ci" | "update" | "upgrade" | "sync" | "lock" | "remove" | "uninstall"
                | "get" | "fetch" | "restore" | "tool" | "self" | "self-update" | "python" | "pip",
            ) => Risk::High,
            (
                _,
                "publish" | "login" | "logout" | "adduser" | "deploy" | "owner" | "yank" | "unpublish" | "push"
                | "release",
            ) => Risk::High,
            (_, "exec" | "x" | "dlx" | "create" | "init" | "generate")
                if matches!(name, "npm" | "yarn" | "pnpm" | "bun" | "go") =>
            {
                Risk::High
            }
            _ => Risk::Medium,
        };
        let rule = if risk == Risk::High { "install" } else { "build" };
        self.note(risk, rule, format!("{name} {verb} builds, or works on packages"));
        self.builds_known(name, rest);
        if starts_another(name, verb) {
            let rest = super::wrap::leading(rest, "pw", "package python with project").to_vec();
            if let Some(at) = words.iter().position(|word| matches!(word.as_str(), "-c" | "--call")) {
                let code = words.get(at + 1).cloned().unwrap_or_default();
                self.code_elsewhere(&code);
            }
            self.exec_program(rest);
        }
        self.watches(name, verb, rest);
        if name == "go" && verb == "generate" {
            self.note(Risk::High, "script", "go generate runs what the files ask for");
        }
        for (at, word) in words.iter().enumerate() {
            for option in ["-exec", "-toolexec", "--exec", "--config", "--script-shell", "-vettool"] {
                let inline = word.strip_prefix(option).and_then(|value| value.strip_prefix('='));
                let value = inline
                    .map(str::to_owned)
                    .or_else(|| (word == option).then(|| words.get(at + 1).cloned().unwrap_or_default()));
                if let Some(value) = value {
                    self.note(Risk::High, "wrapper", format!("{option} says what is run"));
                    let code = value
                        .split_once("=")
                        .filter(|_| option == "--config")
                        .map_or(value.clone(), |(_, code)| code.trim_matches(['"', '\'', '[', ']']).to_owned());
                    self.embedded_command(&code);
                }
            }
        }
        self.keeps_setting(name, verb, rest);
        self.output_options(rest);
    }

    /// `npm config set`.
    fn keeps_setting(&mut self, name: &str, verb: &str, rest: &[String]) {
        if let ("npm" | "pnpm" | "yarn", "config", [set, key, value, ..]) = (name, verb, rest)
            && set == "set"
        {
            self.note(Risk::High, "environment", format!("{name} keeps another setting"));
            if text::listed("script-shell shell editor viewer git", key) {
                self.embedded_command(value);
            }
            let files = Options::read(rest, "", "globalconfig userconfig");
            for path in files.given.iter().filter(|(name, _)| text::listed("globalconfig userconfig", name)) {
                path.1.iter().for_each(|path| self.writes(path, WriteKind::Write));
            }
        }
    }

    /// `cargo watch -s`: a line for the shell, each time that a file changes.
    fn watches(&mut self, name: &str, verb: &str, rest: &[String]) {
        if (name, verb) != ("cargo", "watch") {
            return;
        }
        let options = Options::read(rest, "sxwide", "shell exec watch ignore delay");
        for code in options.values("s", "shell").map(str::to_owned).collect::<Vec<_>>() {
            self.code_elsewhere(&code);
        }
    }

    fn installer(&mut self, name: &str, words: &[String]) {
        let verb = words.iter().find(|word| !word.starts_with('-')).map(String::as_str).unwrap_or_default();
        let tells = text::listed(
            "list search show info policy freeze check query depends outdated config help which history rdepends madison changelog",
            verb,
        ) || words
            .first()
            .is_some_and(|word| text::listed("-l -L -s -S -Q -Qi -qa -qi -ql -V --version -Ss --list -Qs -Ql", word));
        self.installer_runs(name, words);
        let essential = "systemd libc6 bash coreutils sudo linux-image glibc apt dpkg base init login";
        if (matches!(verb, "remove" | "purge" | "autoremove" | "erase" | "del")
            || words.iter().any(|word| {
                word.starts_with("-R") && name == "pacman"
                    || matches!(word.as_str(), "--purge" | "--force-all" | "-P" | "-r" if name == "dpkg")
            }))
            && words.iter().any(|word| text::listed(essential, word) || word == "*" || word.starts_with("linux-image"))
        {
            self.block("system-path", format!("{name} removes what the system needs"));
        }
        if tells {
            self.note(Risk::Low, "looks", format!("{name} tells about packages"));
            return;
        }
        self.note(Risk::High, "install", format!("{name} installs or removes packages"));
        for option in ["-t", "--target", "--prefix", "--root", "--install-dir"] {
            if let Some(at) = words.iter().position(|word| word == option)
                && let Some(path) = words.get(at + 1).filter(|path| path.contains('/') && name.starts_with("pip"))
            {
                self.writes(&path.clone(), WriteKind::Write);
            }
        }
    }

    /// Scripts of a manifest that this very script wrote: which one is run is its own affair.
    pub(super) fn known_scripts(&mut self, file: &str) {
        for text in self.content(file).into_iter().filter(|text| text::is_known(text)) {
            let scripts = super::code::literals(&text, "node", &self.map.rules.home);
            scripts.iter().for_each(|script| _ = self.embedded(&script.text, true));
        }
    }

    /// What options of package managers run.
    fn installer_runs(&mut self, name: &str, words: &[String]) {
        if name == "composer" {
            self.known_scripts("composer.json");
        }
        if text::listed("rpm gem apt apt-get aptitude", name) {
            self.scan_commands(words);
        }
        for (key, code) in words.iter().filter_map(|word| word.split_once('=')) {
            if key.starts_with("Dir::Bin") || key.contains("::Options") || key.contains("::Pager") {
                self.code_elsewhere(code);
            }
        }
        for word in words {
            for hook in [
                "DPkg::Pre-Invoke::=",
                "APT::Update::Pre-Invoke::=",
                "Dpkg::Pre-Invoke::=",
                "DPkg::Post-Invoke::=",
                "APT::Update::Post-Invoke::=",
            ] {
                if let Some(code) = word.strip_prefix(hook) {
                    self.code_elsewhere(code);
                }
            }
        }
        if name == "guix"
            && let Some(at) = words.iter().position(|word| word == "--")
        {
            self.exec_program(words[at + 1..].to_vec());
        }
        if matches!(name, "nix-shell" | "nix" | "guix")
            && let Some(at) = words.iter().position(|word| matches!(word.as_str(), "--run" | "--command" | "-c"))
        {
            let code = words[at + 1..].join(" ");
            self.code_elsewhere(&code);
        }
    }

    fn git(&mut self, words: &[String]) -> Value {
        const GLOBAL: &str = "git-dir work-tree namespace exec-path super-prefix config-env attr-source";
        let rest = super::wrap::leading(words, "Cc", GLOBAL);
        let globals = &words[..words.len() - rest.len()];
        let options = Options::read(globals, "Cc", GLOBAL);
        for pair in options.values("c", "").map(str::to_owned).collect::<Vec<_>>() {
            let (key, value) = pair.split_once('=').unwrap_or((&pair, ""));
            self.git_config(key, value);
        }
        if options.values("", "exec-path").next().is_some() || options.has("", "config-env") {
            self.note(Risk::High, "environment", "git takes its programs or settings from elsewhere");
        }
        for path in options.values("", "work-tree").map(str::to_owned).collect::<Vec<_>>() {
            self.writes(&format!("{path}/{NAME}"), WriteKind::Write);
        }
        let directory = options.values("C", "").last().unwrap_or(".").to_owned();
        if directory != "." {
            self.lists(&directory);
        }
        let Some((verb, rest)) = rest.split_first() else { return output() };
        for path in options.values("", "git-dir").filter(|_| !text::listed(GIT_TELLS, verb)) {
            if self.zone_of(path) > super::place::Zone::Outside {
                self.writes(path, WriteKind::Write);
            }
        }
        if text::listed(GIT_WRITES_TREE, verb)
            && let Some(path) = self.variable("GIT_WORK_TREE")
        {
            self.writes(&format!("{path}/{NAME}"), WriteKind::Write);
        }
        let before = self.state.cwd.clone();
        if directory != "." {
            self.state.cwd = self.absolute(&directory);
        }
        let printed = self.git_alias(verb, rest).unwrap_or_else(|| self.git_verb(verb, rest));
        self.state.cwd = before;
        printed
    }

    /// A setting of git: some are commands.
    fn git_config(&mut self, key: &str, value: &str) {
        let key = key.to_ascii_lowercase();
        let runs = [
            "pager",
            "editor",
            "fsmonitor",
            "sshcommand",
            "askpass",
            "external",
            "command",
            "helper",
            "process",
            "clean",
            "smudge",
            "textconv",
            "cmd",
            "driver",
            "program",
            "gitproxy",
            "path",
            "packobjectshook",
            "uploadpack",
        ];
        let is_pager_off = matches!(
            value,
            "cat"
                | "less"
                | ""
                | "false"
                | "true"
                | "delta"
                | "vim"
                | "nano"
                | "code --wait"
                | "vi"
                | "nvim"
                | "store"
                | "cache"
                | "manager"
        );
        if key.starts_with("pager.") && !is_pager_off {
            self.code_elsewhere(value);
        } else if let Some(alias) = key.strip_prefix("alias.") {
            self.note(Risk::High, "git-config", format!("git gets the alias {key}"));
            let name = format!("git {alias}");
            Rc::make_mut(&mut self.state.aliases).insert(name, vec![value.to_owned()]);
            match value.strip_prefix('!') {
                Some(code) => _ = self.code_elsewhere(code),
                None => _ = self.code_elsewhere(&format!("git {value}")),
            }
        } else if key.ends_with("hookspath") {
            self.note(Risk::High, "git-config", "git takes its hooks from another directory");
            self.takes_hooks(value);
        } else if runs.iter().any(|end| key.ends_with(end)) && !is_pager_off {
            self.note(Risk::High, "git-config", format!("git runs what {key} says"));
            if !value.is_empty() {
                let code = value.trim_start_matches('!');
                self.code_elsewhere(code);
            }
        }
    }

    /// Runs an alias that this very script gave git, with the words behind it.
    fn git_alias(&mut self, verb: &str, rest: &[String]) -> Option<Value> {
        let name = format!("git {verb}");
        let ways = self.state.aliases.get(&name).filter(|_| !self.called.contains(&name)).cloned()?;
        self.called.push(name);
        let rest = Self::line_of(rest);
        let mut printed = Value::new();
        for way in &ways {
            let code =
                way.strip_prefix('!').map_or_else(|| format!("git {way} {rest}"), |code| format!("{code} {rest}"));
            printed.extend(self.code_elsewhere(&code));
        }
        self.called.pop();
        Some(printed)
    }

    /// Another directory for git's hooks: what this very script wrote there runs, and what it writes there yet.
    fn takes_hooks(&mut self, directory: &str) {
        for directory in self.absolute(directory) {
            let below = format!("{directory}/");
            let written = self.written.iter().filter(|(path, _)| path.starts_with(&below));
            let found: Vec<Value> = written.map(|(_, data)| data.clone()).collect();
            found.iter().for_each(|data| _ = self.script_text(None, data, &[]));
            self.hooks.push(below);
        }
    }

    fn git_verb(&mut self, verb: &str, rest: &[String]) -> Value {
        let options = Options::read(
            rest,
            "oxmFCcubnOSt",
            "output exec config upload-pack receive-pack extcmd open-files-in-pager template message file output-directory ext-diff tool",
        );
        self.git_options(verb, &options);
        match verb {
            "rev-parse" if rest.iter().any(|word| word == "--show-toplevel") => {
                return vec![format!("{}\n", self.map.rules.workspace)];
            }
            "rev-parse" | "describe" | "log"
                if rest.iter().any(|word| {
                    matches!(
                        word.as_str(),
                        "--short" | "HEAD" | "--abbrev-ref" | "--tags" | "--format=%h" | "--format=%H"
                    )
                }) =>
            {
                return vec![format!("{NAME}\n")];
            }
            _ if text::listed(GIT_TELLS, verb) => {
                for path in rest.iter().filter(|word| word.starts_with('/')) {
                    self.reads(path);
                }
                if verb == "ls-remote" {
                    self.git_remote(&options.operands);
                }
            }
            "clone" | "fetch" | "pull" | "push" | "submodule" | "remote" | "lfs" | "svn" | "send-email"
            | "request-pull" | "daemon" => self.git_far(verb, &options, rest),
            "config" => self.git_set(&options, rest),
            "clean" => self.git_clean(&Options::read(rest, "e", "exclude")),
            "rm" => {
                let tree = options.has("r", "");
                for path in options.operands.iter().filter(|_| {
                    !options.has("", "cached") && !rest.iter().any(|word| word == "-n" || word == "--dry-run")
                }) {
                    if tree {
                        self.whole_tree(path, WriteKind::DeleteTree)
                    } else {
                        self.writes(path, WriteKind::Delete)
                    }
                }
            }
            _ => self.git_changes(verb, rest, &options),
        }
        output()
    }

    /// Words of git that change the repository.
    fn git_changes(&mut self, verb: &str, rest: &[String], options: &Options) {
        self.works_here("git");
        let here = format!("{}/{NAME}", self.cwd());
        if self.zone_of(&here) > super::place::Zone::Outside {
            self.writes(&here, WriteKind::Write);
        }
        match verb {
            "reset" => {
                let risk = if options.has("", "hard") { Risk::High } else { Risk::Medium };
                self.note(risk, "git", "git reset takes changes back");
            }
            "filter-branch" | "filter-repo" => {
                self.note(Risk::High, "git", "rewrites the history");
                for word in rest.iter().filter(|word| word.contains(' ')) {
                    self.code_elsewhere(word);
                }
            }
            "bisect" if rest.first().is_some_and(|word| word == "run") => {
                self.exec_program(rest[1..].to_vec());
            }
            "worktree" if rest.first().is_some_and(|word| word == "add") => {
                if let Some(path) = options.operands.get(1) {
                    self.writes(path, WriteKind::Write);
                }
            }
            "apply" if options.has("", "directory") => {
                self.note(Risk::Medium, "git", "git apply changes files of a directory");
                let directory = options.values("", "directory").next().map(|path| format!("{path}/{NAME}"));
                directory.into_iter().for_each(|path| self.writes(&path, WriteKind::Write));
            }
            "hook" | "credential" | "credential-store" => {
                self.note(Risk::High, "git", format!("git {verb} runs hooks or gives keys"))
            }
            _ if text::listed(GIT_CHANGES, verb) => {
                let is_forced =
                    rest.iter().any(|word| matches!(word.as_str(), "-D" | "--force" | "-f" | "drop" | "clear"));
                self.note(
                    if is_forced { Risk::High } else { Risk::Medium },
                    "git",
                    format!("git {verb} changes the repository"),
                );
                if verb == "init" {
                    options.operands.iter().for_each(|path| self.writes(path, WriteKind::Write));
                }
                if matches!(verb, "mv") {
                    options.operands.iter().for_each(|path| self.writes(path, WriteKind::Move));
                }
            }
            _ => {
                self.scan_secrets(rest);
                self.note(Risk::High, "git", format!("git {verb} isn't known"));
            }
        }
    }

    /// Files that options of git name, and programs that they run.
    fn git_options(&mut self, verb: &str, options: &Options) {
        for path in options
            .given
            .iter()
            .filter(|(name, _)| matches!(name.as_str(), "output" | "output-directory"))
            .filter_map(|(_, value)| value.clone())
        {
            self.writes(&path, WriteKind::Write);
        }
        if verb == "bundle" && options.operands.first().is_some_and(|word| word == "create") {
            options.operands.iter().skip(1).take(1).for_each(|path| self.writes(path, WriteKind::Write));
        }
        if matches!(verb, "archive" | "format-patch" | "bundle") {
            for path in options.values("o", "").map(str::to_owned).collect::<Vec<_>>() {
                self.writes(&path, WriteKind::Write);
            }
        }
        for name in ["exec", "upload-pack", "receive-pack", "extcmd", "open-files-in-pager"] {
            for code in options
                .given
                .iter()
                .filter(|(own, _)| own == name)
                .filter_map(|(_, value)| value.clone())
                .collect::<Vec<_>>()
            {
                self.code_elsewhere(&code);
            }
        }
        if verb == "rebase" || verb == "difftool" {
            for code in options.values("x", "").map(str::to_owned).collect::<Vec<_>>() {
                self.code_elsewhere(&code);
            }
        }
        if verb == "grep"
            && let Some(code) = options.values("O", "").next().map(str::to_owned)
        {
            self.code_elsewhere(&code);
        }
    }

    fn git_far(&mut self, verb: &str, options: &Options, rest: &[String]) {
        if verb == "submodule" || verb == "lfs" {
            self.note(Risk::High, "network", format!("git {verb} may use the network"));
            if let Some(at) = rest.iter().position(|word| word == "foreach") {
                let code =
                    rest[at + 1..].iter().filter(|word| *word != "--recursive").cloned().collect::<Vec<_>>().join(" ");
                self.code_elsewhere(&code);
            }
            return;
        }
        if verb == "remote" && rest.first().is_none_or(|word| matches!(word.as_str(), "-v" | "show" | "get-url")) {
            return self.note(Risk::Low, "looks", "git tells about remotes");
        }
        self.git_remote(&options.operands);
        let config = options.given.iter().filter(|(name, _)| name == "c" || name == "config");
        for pair in config.filter_map(|(_, value)| value.clone()).collect::<Vec<_>>() {
            let (key, value) = pair.split_once('=').unwrap_or((&pair, ""));
            self.git_config(key, value);
        }
        if verb == "clone" {
            if let Some(path) = options.operands.get(1) {
                self.writes(path, WriteKind::Write);
            }
            for code in options.values("u", "").map(str::to_owned).collect::<Vec<_>>() {
                self.note(Risk::High, "git-config", "git runs another program at the far end");
                self.code_elsewhere(&code);
            }
        }
    }

    fn git_remote(&mut self, operands: &[String]) {
        let mut is_told = false;
        for word in operands {
            // A blank that isn't between words is `% `.
            if let Some(code) = word.strip_prefix("ext::").map(|code| code.replace("% ", "\\ ")) {
                self.code_elsewhere(&code);
            }
            if word.contains("://") || word.contains('@') {
                let host = word.split_once("://").map_or(word.as_str(), |(_, rest)| rest);
                let host =
                    host.split(['/', ':']).next().unwrap_or_default().rsplit('@').next().unwrap_or_default().to_owned();
                self.net(&host);
                is_told = true;
            }
        }
        if !is_told {
            self.net("");
        }
    }

    fn git_set(&mut self, options: &Options, rest: &[String]) {
        let words: Vec<&String> =
            options.operands.iter().filter(|word| !matches!(word.as_str(), "set" | "get" | "unset" | "list")).collect();
        let tells = rest.iter().any(|word| text::listed("-l --list --get --get-all --get-regexp get list", word));
        for (at, word) in rest.iter().enumerate() {
            if matches!(word.as_str(), "-f" | "--file")
                && let Some(path) = rest.get(at + 1).filter(|_| !tells && words.len() > 1)
            {
                self.writes(&path.clone(), WriteKind::Write);
            }
        }
        if tells
            || words.len() < 2
                && !rest.iter().any(|word| {
                    word.starts_with("--unset") || word.starts_with("--remove") || word == "-e" || word == "--edit"
                })
        {
            return;
        }
        self.note(Risk::High, "git-config", "changes settings of git");
        if options.has("", "system") {
            self.writes("/etc/gitconfig", WriteKind::Write);
        }
        if let [key, value, ..] = words.as_slice() {
            let before = self.reasons.len();
            self.git_config(key, value);
            // What a model can write would run in each repository of the user.
            let is_made = |zone| matches!(zone, super::place::Zone::Temporary | super::place::Zone::Workspace);
            let hooks = key.to_ascii_lowercase().ends_with("hookspath") && is_made(self.zone_of(value));
            let runs_made =
                self.reasons[before..].iter().any(|reason| matches!(reason.rule, "local-program" | "script"));
            if options.has("", "global") && (hooks || runs_made) {
                self.block("persistence", "makes git run a file of the workspace in every repository");
            }
        }
    }

    fn git_clean(&mut self, options: &Options) {
        if options.has("n", "dry-run") {
            return;
        }
        self.note(Risk::High, "delete", "git clean deletes what git doesn't know");
        if options.operands.is_empty() {
            let inside =
                self.state.cwd.iter().all(|cwd| {
                    matches!(self.map.zone(cwd), super::place::Zone::Workspace | super::place::Zone::Temporary)
                });
            if !inside {
                self.block("outside-workspace", "git clean outside the workspace");
            }
        }
        for path in &options.operands {
            self.writes(&format!("{path}/{NAME}"), WriteKind::Delete);
        }
    }
}

/// Whether behind this word of a package manager stands a command.
fn starts_another(name: &str, verb: &str) -> bool {
    matches!(
        (name, verb),
        ("uv" | "poetry" | "pipenv" | "pdm" | "hatch", "run")
            | ("bundle" | "pnpm" | "yarn" | "npm" | "mise", "exec")
            | ("npm" | "bun", "x")
            | ("pnpm" | "yarn", "dlx")
            | ("mix", "cmd")
            | ("stack" | "cabal", "exec")
    )
}

/// Whether such a program is asked to print settings.
fn prints_settings(words: &[String]) -> bool {
    words.first().is_none_or(|word| matches!(word.as_str(), "-s" | "-b" | "-c" | "-" | "-k"))
        || words.iter().any(|word| {
            text::listed("init hook env export shellenv docker-env completion completions activate shell.bash virtualenv-init --path shell --init --alias --eval --start setup-completion gen-completions --shell daemon", word) || word.starts_with("--bash")
                || word.starts_with("--completion")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_whole_words() {
        assert!(text::listed(BUILDERS, "cargo") && text::listed(GIT_TELLS, "status"));
        assert!(!text::listed(BUILDERS, "carg") && !text::listed(BUILDERS, "") && !text::listed(INSTALLERS, "ap"));
        assert!(!prints_settings(&["install".to_owned()]));
    }
}
