//! Verdicts on files, links, addresses and the changes of a command.

use super::tests::{risk, rules, verdict};
use super::*;

#[test]
fn a_model_doesnt_raise_the_autonomy_of_another() {
    for raised in [
        "agent --autonomy full -m x",
        "agent -m x --autonomy=full",
        "tool run shell --autonomy full",
        "tool run x --yes",
    ] {
        assert_eq!(risk(&format!("reedclaw {raised}")), Risk::Blocked, "{raised}");
    }
    assert_eq!(risk("reedclaw agent -m x"), Risk::High);
}

#[test]
fn changes_on_a_copy_are_rated_by_their_paths() {
    let rules = rules();
    let rated = |writes: &[&str], deletes: &[&str], directories: &[&str], guarded: &[&str]| {
        let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let action = Action::Keep {
            command: String::new(),
            writes: list(writes),
            deletes: list(deletes),
            directories: list(directories),
            guarded: guarded.iter().map(|path| ((*path).to_owned(), "why")).collect(),
            special: Vec::new(),
            others: Vec::new(),
        };
        judge(&action, &Context { hold: Hold::Copy, ..Context::new(&rules) }).risk
    };
    let keep = |writes: &[&str], deletes: &[&str]| rated(writes, deletes, &[], &[]);
    // Directories alone were judged as no change.
    assert_eq!(rated(&[], &[], &["d", ".git/hooks", ".github/workflows"], &[]), Risk::Medium);
    assert_eq!(rated(&[], &[], &[".git/hooks"], &[".git/hooks"]), Risk::High);
    for blocked in ["../d", "d\u{202e}"] {
        assert_eq!(rated(&[], &[], &[blocked], &[]), Risk::Blocked, "{blocked}");
    }
    assert_eq!(keep(&["a", "b/c"], &["d"]), Risk::Medium);
    assert_eq!(keep(&["a", ".git/hooks/x"], &[]), Risk::High);
    assert_eq!(keep(&[".envrc"], &[]), Risk::High);
    assert_eq!(keep(&["../x"], &[]), Risk::Blocked);
    // A build changes thousands; none of them is overlooked.
    let built: Vec<String> = (0..3000).map(|number| format!("target/{number}.o")).collect();
    let built: Vec<&str> = built.iter().map(String::as_str).collect();
    assert_eq!(keep(&built, &[]), Risk::Medium);
    assert_eq!(keep(&[&built[..], &[".git/hooks/x"]].concat(), &[]), Risk::High);
    let tool = Action::External { name: "t".to_owned() };
    for hold in [Hold::Walls, Hold::Nothing] {
        let full = Rules { autonomy: Autonomy::Full, ..rules.clone() };
        assert_eq!(judge(&tool, &Context { hold, ..Context::new(&full) }).decision, Decision::Ask, "{hold:?}");
    }
}

/// For root, as in most containers, a new directory directly in the home was a system path, which no person could allow.
#[test]
fn roots_home_is_a_home_for_root_and_the_systems_for_others() {
    let as_root = Rules { home: "/root".to_owned(), workspace: "/root/work".to_owned(), ..rules() };
    let risk_for = |rules: &Rules, command: &str| {
        judge(&Action::Shell { command: command.to_owned() }, &Context { can_ask: true, ..Context::new(rules) }).risk
    };
    for asked in ["mkdir ~/new", "cp a /root/notes/b", "echo x > ../x", "ls ~", "cat /root/notes"] {
        assert_eq!(risk_for(&as_root, asked), Risk::High, "{asked}");
    }
    for blocked in
        ["rm -rf /root", "rm -rf ~", "rm -rf /root/*", "echo x >> ~/.bashrc", "cat ~/.ssh/id_rsa", "mkdir /etc/new"]
    {
        assert_eq!(risk_for(&as_root, blocked), Risk::Blocked, "{blocked}");
    }
    let near = Rules { home: "/".to_owned(), ..as_root.clone() };
    for rules in [&rules(), &near, &Rules { home: "/root/u".to_owned(), ..as_root }] {
        assert_eq!(risk_for(rules, "mkdir /root/new"), Risk::Blocked, "{}", rules.home);
    }
}

#[test]
fn a_readable_directory_is_read_and_never_written() {
    let further = vec!["/home/u/lib".to_owned(), "/tmp/build".to_owned()];
    let rules = Rules { readable: further, forbidden_paths: vec!["/home/u/lib/closed".into()], ..rules() };
    let risk = |action: Action| judge(&action, &Context::new(&rules)).risk;
    for path in ["/home/u/lib", "~/lib/a", "/home/u/lib/a/../b", "/tmp/build/x"] {
        assert_eq!(risk(Action::Read { path: path.into() }), Risk::Low, "{path}");
        assert_eq!(risk(Action::Write { path: path.into() }), Risk::Blocked, "{path}");
        assert_eq!(risk(Action::Shell { command: format!("cat {path}") }), Risk::Low, "{path}");
    }
    for path in ["/home/u/library/a", "/home/u/lib/../x", "/home/u/lib/closed/a", "~/.ssh/id_rsa", "~/other"] {
        assert_eq!(risk(Action::Read { path: path.into() }), Risk::Blocked, "{path}");
    }
    assert!(risk(Action::Shell { command: "echo x > /home/u/lib/a".into() }) >= Risk::High);
    assert_eq!(risk(Action::Shell { command: "rm /home/u/lib/a".into() }), Risk::Blocked);
}

/// A workspace in `/dev/shm` was "outside the workspace", and each change there was dropped.
#[test]
fn a_workspace_in_a_directory_for_temporary_files_is_a_workspace() {
    for top in ["/tmp/x", "/var/tmp/x", "/dev/shm/x"] {
        let rules = Rules { autonomy: Autonomy::Full, ..Rules::new(&format!("{top}/proj"), "/home/u") };
        let risk = |action: Action| judge(&action, &Context::new(&rules)).risk;
        assert_eq!(risk(Action::Write { path: "a".into() }), Risk::Medium, "{top}");
        assert_eq!(risk(Action::Write { path: ".git/hooks/x".into() }), Risk::High, "{top}");
        assert_eq!(risk(Action::Write { path: "../a".into() }), Risk::Blocked, "{top}");
        assert_eq!(risk(Action::Shell { command: format!("rm -r {top}") }), Risk::Blocked, "{top}");
    }
    assert_eq!(risk("echo x > /dev/shm/x"), risk("echo x > /tmp/x"));
    assert_eq!(risk("rm -r /dev/shm"), Risk::Blocked);
}

#[test]
fn files_are_judged_component_by_component() {
    let rules = rules();
    let read = |path: &str| judge(&Action::Read { path: path.to_owned() }, &Context::new(&rules)).risk;
    let write = |path: &str| judge(&Action::Write { path: path.to_owned() }, &Context::new(&rules)).risk;
    for path in
        ["a", "./a", "a/../b", "/home/u/proj/a", "~/proj/a", "a b", "..a", "*", "$HOME", "%2e%2e/x", "~/proj/../proj/a"]
    {
        assert_eq!((read(path), write(path)), (Risk::Low, Risk::Medium), "{path}");
    }
    for path in [
        "..",
        "../x",
        "a/../../x",
        "/",
        "/etc/passwd",
        "/home/u/proj-evil/x",
        "/home/u/projx",
        "~",
        "~/.ssh/id_rsa",
        "~bob/x",
        "/home/u",
        "/home/u/proj/../x",
        "",
        "/proc/self/environ",
        "/dev/null",
        "/tmp/x",
        "a\0b",
        "~/.config/reedclaw/config.lua",
        "/home/u/WORK/x",
        "//etc/passwd",
        "/home/u/./proj/../../u/x",
    ] {
        assert_eq!((read(path), write(path)), (Risk::Blocked, Risk::Blocked), "{path:?}");
    }
    for path in [
        ".git/hooks/x",
        ".git/config",
        ".GIT/CONFIG",
        "sub/.git/modules/x/config",
        ".envrc",
        ".ENVRC",
        ".vscode/x",
        ".idea/x",
        ".cursor/rules",
        ".mcp.json",
        ".reedclaw.lua",
    ] {
        assert_eq!((read(path), write(path)), (Risk::Low, Risk::High), "{path}");
    }
    assert_eq!(judge(&Action::Delete { path: "a".into() }, &Context::new(&rules)).risk, Risk::High);
}

#[test]
fn of_several_files_the_strictest_verdict_counts() {
    let rules = rules();
    let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    for (writes, deletes, risk) in [
        (&["a", "b"][..], &[][..], Risk::Medium),
        (&["a"], &["b"], Risk::High),
        (&["a", ".git/hooks/x"], &[], Risk::High),
        (&["a", "../x"], &[], Risk::Blocked),
        (&["a"], &["~/.ssh/id_rsa"], Risk::Blocked),
    ] {
        let action = Action::Edit { writes: list(writes), deletes: list(deletes) };
        let verdict = judge(&action, &Context::new(&rules));
        assert_eq!(verdict.risk, risk, "{action:?}");
        assert_eq!(verdict.effects.len(), writes.len() + deletes.len());
    }
}

#[test]
fn a_link_leads_where_it_leads() {
    struct Links;
    impl Files for Links {
        fn canonical(&self, path: &str) -> Option<String> {
            Some(
                path.replace("/home/u/proj/out", "/etc")
                    .replace("/home/u/proj/tmp/..", "/var")
                    .replace("/home/u/proj/tmp", "/tmp/x"),
            )
        }
    }
    let rules = rules();
    let context = Context { files: &Links, ..Context::new(&rules) };
    assert_eq!(judge(&Action::Write { path: "out/passwd".into() }, &context).risk, Risk::Blocked);
    assert_eq!(judge(&Action::Shell { command: "echo x > out/passwd".into() }, &context).risk, Risk::Blocked);
    assert_eq!(judge(&Action::Write { path: "in/passwd".into() }, &context).risk, Risk::Medium);
    // A directory that every user may write is outside too, and `..` after a link isn't what it seems.
    for path in ["tmp/a", "tmp", "tmp/../a"] {
        assert_eq!(judge(&Action::Read { path: path.into() }, &context).risk, Risk::Blocked, "{path}");
        let among_others = Action::Open { paths: vec!["src/a.rs".into(), path.into()] };
        assert_eq!(judge(&among_others, &context).risk, Risk::Blocked, "{path} with another file");
        assert_eq!(judge(&Action::Write { path: path.into() }, &context).risk, Risk::Blocked, "{path}");
    }
}

#[test]
fn addresses_are_compared_by_labels() {
    let rules =
        Rules { allow_domains: ["docs.rs", ".rust-lang.org", "*.crates.io"].map(str::to_owned).into(), ..rules() };
    let ask = |method: &str, url: &str| {
        judge(&Action::Http { method: method.to_owned(), url: url.to_owned() }, &Context::new(&rules)).risk
    };
    for url in [
        "https://docs.rs/x",
        "https://DOCS.rs./",
        "http://docs.rs:80/",
        "https://doc.rust-lang.org/",
        "https://static.crates.io/x",
    ] {
        assert_eq!(ask("GET", url), Risk::Low, "{url}");
        assert_eq!(ask("POST", url), Risk::High, "{url}");
    }
    for url in [
        "https://docs.rs.evil.example/",
        "https://evildocs.rs/",
        "https://rust-lang.org/",
        "https://evil.example/docs.rs",
    ] {
        assert_eq!(ask("GET", url), Risk::High, "{url}");
    }
    for url in [
        "https://docs.rs@evil.example/",
        "file:///etc/passwd",
        "docs.rs",
        "https://",
        "ftp://docs.rs/",
        "https://docs.rs\\@evil/",
    ] {
        assert_ne!(ask("GET", url), Risk::Low, "{url}");
    }
}

#[test]
fn verdicts_give_reasons_and_effects() {
    let verdict = verdict("cd src && rm -rf ../target && curl http://h/x", &rules());
    let effects: Vec<String> = verdict.effects.iter().map(ToString::to_string).collect();
    assert!(
        effects.contains(&"deletes /home/u/proj/target".to_owned())
            || effects.iter().any(|effect| effect.contains("target")),
        "{effects:?}"
    );
    assert!(effects.contains(&"speaks to h".to_owned()), "{effects:?}");
    assert!(verdict.reasons.iter().all(|reason: &Reason| !reason.text.is_empty()));
    assert!(verdict.reasons.is_sorted_by_key(|reason| std::cmp::Reverse(reason.risk)));
}

/// A disk on which these paths are links.
struct Links(&'static [(&'static str, &'static str)]);

impl Files for Links {
    fn canonical(&self, path: &str) -> Option<String> {
        let real = |(link, target): &(&str, &str)| path.strip_prefix(link).map(|rest| format!("{target}{rest}"));
        self.0.iter().find_map(real).or_else(|| Some(path.to_owned()))
    }
}

#[test]
fn tools_of_the_home_need_nothing_where_the_jail_shows_them() {
    let judged = |command: &str, files: &dyn Files, autonomy: Autonomy| {
        let rules = Rules { autonomy, ..rules() };
        let context = Context { hold: Hold::Copy, files, ..Context::new(&rules) };
        judge(&Action::Shell { command: command.to_owned() }, &context)
    };
    for autonomy in [Autonomy::Readonly, Autonomy::Supervised, Autonomy::Full] {
        for command in [
            "ls ~/.cargo/registry/src/*/ | grep '^tokio-'",
            "sed -n 1,80p ~/.cargo/registry/src/index.crates.io-*/axum-0.7.5/src/lib.rs",
            "ls -t ~/.npm/_logs/*.log | head -1 | xargs -r tail -n 30",
            "cat ~/.gitconfig",
            "cd ~/go/pkg/mod && ls",
            "cat ~/go/pkg/../bin/x",
            "grep -r unsafe /home/u/.cargo/registry",
            "ls ~/.cargo/*",
        ] {
            assert_eq!(judged(command, &NoFiles, autonomy).decision, Decision::Run, "{command} {autonomy}");
        }
        for command in [
            "ls ~",
            "cat ~/.config/app.toml",
            "cat ~/.cargo/../notes.txt",
            "cat ~/.cargo/*/../../notes.txt",
            "cat ~/.c*/notes.txt",
            "cat ~/$x/.cargo/notes.txt",
            "cat ~/.cargo/$(cat x)",
            "cat /home/other/.cargo/registry/x",
            "ls -l ~/.cargo/credentials.toml",
            "ls ~/.m2/settings.xml",
            "ls ~/.ssh",
        ] {
            assert_ne!(judged(command, &NoFiles, autonomy).decision, Decision::Run, "{command} {autonomy}");
        }
    }
    let full = |command: &str| judged(command, &NoFiles, Autonomy::Full);
    for command in [
        "cat ~/.cargo/credentials.toml",
        "cat ~/.cargo/registry/../credentials",
        "cat ~/.m2/settings.xml",
        "cat ~/.npmrc",
        "cat ~/.cargo/../.ssh/id_rsa",
        "cat ~/.cargo/*",
        "rm -rf ~/.cargo",
        "rm ~/.npm/_logs/a.log",
        "mv ~/go ~/gone",
    ] {
        assert_eq!(full(command).risk, Risk::Blocked, "{command}");
    }
    for command in ["echo x >~/.npm/a", "cp tool ~/.local/bin/tool", "touch ~/go/x"] {
        assert_eq!(full(command).decision, Decision::Ask, "{command}");
        assert!(matches!(full(command).needs.as_slice(), [Need::Write { .. }]), "{command}");
    }
    // A jail shows neither a tool that a link of the home leads away from, nor the target of a link in it.
    const LINKS: Links = Links(&[("/home/u/.npm", "/home/u/other/npm"), ("/home/u/go/in", "/home/u/notes")]);
    for command in ["cat ~/.npm/a", "ls ~/.npm/*", "cat ~/go/in/a", "ls ~/go/in/*"] {
        let needs = judged(command, &LINKS, Autonomy::Full).needs;
        assert!(matches!(needs.as_slice(), [Need::Read { .. }]), "{command}: {needs:?}");
    }
    // The home itself may be reached by one.
    let moved = Links(&[("/home/u", "/var/home/u")]);
    for command in ["cat ~/go/a", "ls ~/go/*"] {
        assert_eq!(judged(command, &moved, Autonomy::Full).decision, Decision::Run, "{command}");
    }
    assert_eq!(judged("cat ~/.ssh/id_rsa", &moved, Autonomy::Full).risk, Risk::Blocked);
}

#[test]
fn behind_walls_what_announces_a_look_or_reads_the_system_looks_first() {
    let first = |command: &str| {
        let rules = Rules { autonomy: Autonomy::Supervised, ..rules() };
        looks_first(&judge(&Action::Shell { command: command.to_owned() }, &Context::new(&rules)), Hold::Walls)
    };
    for command in [
        "npx jest --listTests | grep -c integration",
        "npx prettier --check 'src/**/*.ts'",
        "go test -list '.*' ./...",
        "bundle exec rspec --dry-run spec",
        "dotnet test --list-tests",
        "clang-format --dry-run -Werror src/*.cpp",
        "gcc -E a.c",
        "cmake -N build",
        "cat /proc/sys/fs/inotify/max_user_watches",
        "awk '{print $1}' /var/log/nginx/access.log",
        "cat ~/.cargo/registry/src/a/lib.rs",
    ] {
        assert!(first(command), "{command}");
    }
    for command in [
        "npx jest",
        "black .",
        "make",
        "flask run --listen 1",
        "jest --checksum",
        "black --check . && make",
        "black --check . >out.txt",
        "gcc -E a.c -o a.i",
        "clang-format --dry-run src/a.cpp; rm -r build",
        "npm install --dry-run",
        "cat ~/notes.txt",
        "curl localhost",
        "openssl genrsa -out key.pem",
        // Its answer would be that there are none: a jail hides them.
        "gpg --list-secret-keys",
        "git push --dry-run",
        "cat /etc/shadow",
    ] {
        assert!(!first(command), "{command}");
    }
    for command in ["make -n deploy", "make -n install", "unzip -p a.jar META-INF/MANIFEST.MF"] {
        assert_eq!(decided_behind_walls(command), Decision::Run, "{command}");
    }
    // Without a sandbox, too.
    assert_eq!(risk("sqlite3 -readonly a.db 'select 1'"), Risk::Low);
    // They run code of the repository, so without a sandbox they never run unasked.
    for command in ["mix deps", "mix deps.tree", "bundle list", "ctest --test-dir build -N", "rake -T", "gulp --tasks"]
    {
        assert_eq!(decided_behind_walls(command), Decision::Run, "{command}");
        for autonomy in [Autonomy::Readonly, Autonomy::Supervised, Autonomy::Full] {
            let rules = Rules { autonomy, ..rules() };
            let context = Context { hold: Hold::Nothing, ..Context::new(&rules) };
            let decision = judge(&Action::Shell { command: command.to_owned() }, &context).decision;
            assert_ne!(decision, Decision::Run, "{command} {autonomy}");
        }
    }
    assert_ne!(decided_behind_walls("mix deps.get"), Decision::Run);
    assert_eq!(risk("unzip -p a.zip x | sh"), Risk::Blocked);
}

fn decided_behind_walls(command: &str) -> Decision {
    let rules = Rules { autonomy: Autonomy::Supervised, ..rules() };
    judge(&Action::Shell { command: command.to_owned() }, &Context::new(&rules)).decision
}
