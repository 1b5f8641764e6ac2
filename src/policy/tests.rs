//! The policy as tables and properties. `tests/data/policy` holds command lines, each with the verdict that it had when
//! the tables were frozen; they are parsed, never run.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::proto::action::{Hold, Reason};

/// The rules that the tables are judged by: what a command would do decides, not its name.
fn rules() -> Rules {
    Rules {
        autonomy: Autonomy::Full,
        forbidden_paths: ["/etc", "/sys", "/boot", "~/.ssh"].map(str::to_owned).into(),
        own_paths: ["config", "local/state", "local/share"].map(|part| format!("/home/u/.{part}/reedclaw")).into(),
        ..Rules::new("/home/u/proj", "/home/u")
    }
}

fn verdict(command: &str, rules: &Rules) -> Verdict {
    judge(&Action::Shell { command: command.to_owned() }, &Context::new(rules))
}

fn risk(command: &str) -> Risk {
    verdict(command, &rules()).risk
}

/// The lines of a table with their categories.
fn lines(table: &'static str) -> Vec<(&'static str, String)> {
    let mut category = "";
    let mut found = Vec::new();
    for line in table.lines() {
        match line.strip_prefix("## ") {
            Some(name) => category = name,
            None if line.is_empty() || category.is_empty() => {}
            None => found.extend(line.split_once('\t').map(|(_, line)| (category, line.replace('␤', "\n")))),
        }
    }
    found
}

fn blocked() -> Vec<(&'static str, String)> {
    lines(include_str!("../../tests/data/policy/blocked.txt"))
}

fn benign() -> Vec<(&'static str, String)> {
    lines(include_str!("../../tests/data/policy/benign.txt"))
}

#[test]
fn what_destroys_is_blocked_in_every_disguise() {
    let lines = blocked();
    assert!(lines.len() >= 3850, "{}", lines.len());
    let rules = rules();
    let missed: Vec<_> = lines.iter().filter(|(_, line)| verdict(line, &rules).risk != Risk::Blocked).collect();
    assert!(missed.is_empty(), "{} of {}: {missed:#?}", missed.len(), lines.len());
}

#[test]
fn what_only_looks_like_it_is_not() {
    let lines = benign();
    assert!(lines.len() >= 3650, "{}", lines.len());
    let rules = rules();
    let wrong: Vec<_> = lines
        .iter()
        .map(|(category, line)| (category, line, verdict(line, &rules)))
        .filter(|(.., verdict)| verdict.risk == Risk::Blocked)
        .map(|(category, line, verdict)| (category, line, verdict.reasons))
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), lines.len());
}

#[test]
fn risks_are_what_they_should_be() {
    for (command, expected) in [
        ("ls -la", Risk::Low),
        ("cat src/main.rs | grep -n fn | head", Risk::Low),
        ("git status && git diff", Risk::Low),
        ("find . -name '*.rs' | xargs wc -l", Risk::Low),
        ("echo hi > /dev/null", Risk::Low),
        ("sed -n 1,5p x", Risk::Low),
        ("[ -f x ] && cat x", Risk::Low),
        ("echo hi > x", Risk::Medium),
        ("cargo build", Risk::Medium),
        ("make -j8 test", Risk::Medium),
        ("git add -A && git commit -m x", Risk::Medium),
        ("mkdir -p a/b && touch a/b/c", Risk::Medium),
        ("sed -i s/a/b/ x", Risk::Medium),
        ("cd ~/other && make", Risk::High),
        ("git -C ~/other commit -m x", Risk::High),
        ("cd /tmp/x && make", Risk::Medium),
        ("rm x", Risk::High),
        ("rm -rf target", Risk::High),
        ("curl https://example.com", Risk::High),
        ("sudo ls", Risk::High),
        ("cargo install x", Risk::High),
        ("cat /etc/hosts", Risk::High),
        ("some-program", Risk::High),
        ("./script.sh", Risk::High),
        ("PATH=.:$PATH ls", Risk::High),
        ("echo x > .git/hooks/pre-commit", Risk::High),
        ("echo x > .GIT/Hooks/pre-commit", Risk::High),
        ("echo x > .envrc", Risk::High),
        ("echo x > sub/.vscode/tasks.json", Risk::High),
        ("git config alias.x status", Risk::High),
        ("echo 'unclosed", Risk::High),
        ("if then fi", Risk::High),
        ("python3 -c 'print(1)'", Risk::High),
    ] {
        let verdict = verdict(command, &rules());
        assert_eq!(verdict.risk, expected, "{command}: {:?}", verdict.reasons);
    }
}

#[test]
fn a_mistake_in_the_grammar_hides_nothing() {
    for command in [
        "rm -rf / ; if",
        "rm -rf / ; )",
        "( rm -rf /",
        "{ rm -rf /",
        ") ; rm -rf /",
        "}; rm -rf ~",
        "fi; rm -rf /",
        ";; rm -rf /",
        "| rm -rf /",
        "&& rm -rf /",
        "echo $(rm -rf /",
        "echo \"$(rm -rf /)",
        "cat <<EOF\n$(rm -rf /)",
        "for x in; rm -rf /",
        "rm -rf / 'unclosed",
        "case x in rm -rf /",
        "[[ x == ( ]] ; rm -rf /",
        "echo ${x!y}; rm -rf /",
    ] {
        assert_eq!(risk(command), Risk::Blocked, "{command}");
    }
}

/// Bash warns of such names and goes on; each length of the circle ends elsewhere.
#[test]
fn names_that_go_round_in_a_circle_end_and_hide_nothing() {
    for length in 1..12 {
        let names: Vec<String> = (0..length).map(|at| format!("declare -n n{at}=n{}", (at + 1) % length)).collect();
        let circle = names.join("; ");
        for use_of_it in
            ["n0=1", "n0+=(1 2)", "n0[3]=x", "read n0", "printf -v n0 x", "unset n0", "echo ${n0:=x} ${!n0}"]
        {
            let command = format!("{circle}; {use_of_it}; rm -rf /etc");
            assert_eq!(verdict(&command, &rules()).risk, Risk::Blocked, "{command}");
        }
    }
}

#[test]
fn limits_block() {
    let deep = format!("{}rm x{}", "$(".repeat(200), ")".repeat(200));
    for (command, rule) in [
        ("a".repeat(SCRIPT_BYTES_MAX + 1), "too-long"),
        (format!("echo {deep}"), "too-deep"),
        ("ls; ".repeat(5000), "too-complex"),
        (format!("x='#{}'; {}", "x".repeat(4000), "eval \"$x\"; ".repeat(60)), "too-complex"),
        (format!("python3 -c '{}'", ";".repeat(40_000)), "too-complex"),
        ("npx nodemon ".repeat(340), "too-complex"),
        ("perf -- ".repeat(500), "too-complex"),
        ("echo \u{202e}x".to_owned(), "odd-character"),
        ("echo a\0b".to_owned(), "odd-character"),
        ("echo \u{fdd0}".to_owned(), "odd-character"),
        ("l\u{200b}s".to_owned(), "odd-character"),
    ] {
        let verdict = verdict(&command, &rules());
        assert_eq!(
            (verdict.risk, verdict.reasons[0].rule),
            (Risk::Blocked, rule),
            "{}",
            &command[..command.len().min(20)]
        );
    }
}

#[test]
fn forbidden_commands_count_by_name_in_every_disguise() {
    let rules = Rules { forbidden_commands: ["rm", "dd", "mkfs"].map(str::to_owned).into(), ..rules() };
    for command in [
        "rm x",
        "/bin/rm x",
        "sudo rm x",
        "r''m x",
        "x=rm; $x y",
        "sh -c 'rm x'",
        "echo x | xargs rm",
        "find . -name x -exec rm {} +",
        "$(echo rm) x",
        "echo rm x | sh",
        "python3 -c 'import os; os.system(\"rm x\")'",
        "mkfs.ext4 disk.img",
        "git config alias.y '!rm x'",
        "nice env rm --help",
        "busybox rm x",
        "f() { rm x; }; f",
        "dd if=a of=b",
    ] {
        let verdict = verdict(command, &rules);
        assert_eq!(verdict.risk, Risk::Blocked, "{command}");
        assert!(verdict.reasons.iter().any(|reason| reason.rule == "forbidden-command"), "{command}: {verdict:?}");
    }
    for command in
        ["echo rm", "git rm x", "cargo rm x", "ls rm", "grep rm x", "docker rm x", "rmdir x", "cat <<E\nrm x\nE"]
    {
        assert_ne!(verdict(command, &rules).risk, Risk::Blocked, "{command}");
    }
}

#[test]
fn decisions_follow_the_table() {
    let table = [
        (Autonomy::Readonly, [Decision::Run, Decision::Deny, Decision::Deny, Decision::Deny]),
        (Autonomy::Supervised, [Decision::Run, Decision::Ask, Decision::Ask, Decision::Deny]),
        (Autonomy::Full, [Decision::Run, Decision::Run, Decision::Ask, Decision::Deny]),
    ];
    for (autonomy, decisions) in table {
        let mut rules = Rules { autonomy, ..rules() };
        for (risk, expected) in Risk::ALL.into_iter().zip(decisions) {
            assert_eq!(decide(risk, &Context::new(&rules)), expected, "{autonomy} {risk}");
            let alone = decide(risk, &Context { can_ask: false, ..Context::new(&rules) });
            assert_eq!(
                alone,
                if expected == Decision::Ask { Decision::Deny } else { expected },
                "{autonomy} {risk} alone"
            );
        }
        rules.high = High::Deny;
        let high = decide(Risk::High, &Context::new(&rules));
        assert_eq!(high, if autonomy == Autonomy::Full { Decision::Ask } else { Decision::Deny }, "{autonomy}");
    }
}

#[test]
fn a_weak_sandbox_is_one_step_more_risk() {
    let rules = rules();
    let weak = |command: &str| {
        let action = Action::Shell { command: command.to_owned() };
        judge(&action, &Context { hold: Hold::Nothing, ..Context::new(&rules) })
    };
    assert_eq!((weak("ls").risk, weak("ls").reasons[0].rule), (Risk::Medium, "weak-sandbox"));
    let read = Action::Read { path: "a.txt".to_owned() };
    let weak_context = Context { hold: Hold::Nothing, ..Context::new(&rules) };
    assert_eq!(judge(&read, &weak_context).risk, Risk::Low, "nothing is started");
    assert_eq!((weak("make").risk, weak("make").reasons[0].rule), (Risk::High, "weak-sandbox"));
    assert_eq!(weak("curl http://x").risk, Risk::High);
    assert_eq!(weak("rm -rf /").risk, Risk::Blocked);
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
    // A directory that anybody may write is outside too, and `..` behind a link isn't where it seems to be.
    for path in ["tmp/a", "tmp", "tmp/../a"] {
        assert_eq!(judge(&Action::Read { path: path.into() }, &context).risk, Risk::Blocked, "{path}");
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

#[test]
fn no_disguise_lowers_a_verdict() {
    let rules = rules();
    let wrap = |line: &str| format!("'{}'", line.replace('\'', "'\\''"));
    // What is handed no arguments has none: a line about `$1` is another one there.
    for (category, line) in blocked()
        .into_iter()
        .filter(|(_, line)| !line.contains(['$']) || !["$1", "$@", "$*"].iter().any(|it| line.contains(it)))
    {
        for disguised in [
            format!("true; {line}"),
            format!("{line}\nls"),
            format!("ls\n{line}"),
            format!("eval {}", wrap(&line)),
            format!("bash -c {}", wrap(&line)),
            format!("env nice sh -c {}", wrap(&line)),
            format!("{{ {line}\n}}"),
            format!("( {line}\n)"),
            format!("if true; then {line}\nfi"),
            format!("f() {{ {line}\n}}; f"),
            format!("x=$({line}\n)"),
            format!("cat <<'E' | bash\n{line}\nE"),
        ] {
            assert_eq!(verdict(&disguised, &rules).risk, Risk::Blocked, "{category}: {disguised}");
        }
    }
}

#[test]
fn quotes_in_words_lower_no_verdict() {
    // Lines of one plain command: each word may be quoted letter by letter.
    let rules = rules();
    for (_, line) in blocked().iter().filter(|(category, _)| matches!(*category, "delete" | "power" | "modes")) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '/' | '-' | '.' | ',');
        if !line.chars().all(plain) {
            continue;
        }
        for quote in ["''", "\"\"", "\\", "$nothing_at_all", "$(true)", "``"] {
            let first = line.chars().next().map_or(0, char::len_utf8);
            let disguised = format!("{}{quote}{}", &line[..first], &line[first..]);
            assert_eq!(verdict(&disguised, &rules).risk, Risk::Blocked, "{disguised}");
        }
    }
}

#[test]
fn a_home_in_a_temporary_directory_is_no_scratch() {
    let rules = Rules { autonomy: Autonomy::Full, ..Rules::new("/tmp/x/home/proj", "/tmp/x/home") };
    for command in
        ["echo x >> ~/.bashrc", "echo x > ~/.aws/credentials", "cd ..; rm -rf proj", "rm ~/notes", "rm ../../y"]
    {
        assert_eq!(verdict(command, &rules).risk, Risk::Blocked, "{command}");
    }
    for command in
        ["echo x > notes.md", "rm -rf build", "echo x > /tmp/y", "rm -rf /tmp/y/z", "rm -rf \"$(mktemp -d)\""]
    {
        assert_ne!(verdict(command, &rules).risk, Risk::Blocked, "{command}");
    }
}

#[test]
fn nothing_takes_long() {
    let rules = rules();
    let pieces = [
        "((",
        "$((",
        "$(",
        "`",
        "${",
        "{a,b}",
        "<<E\n",
        "[[ ",
        "case x in ",
        "a[",
        "@(",
        "\"$(",
        "<(",
        "$[",
        "if ",
        "f(){ ",
        "'",
        "x=$x$x;",
        "for i in 1 2 3 4; do ",
        "while read a; do ",
        "eval \"",
        "|",
        "${x:-",
        "{1..99}",
        "*",
        "f(){ f|f& };f;",
        "{{{",
        "}}}",
    ];
    for piece in pieces {
        for length in [4096, 60_000] {
            let command = piece.repeat(length / piece.len());
            let began = Instant::now();
            let _ = verdict(&command, &rules);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(8), "{piece:?} × {length} bytes: {took:?}");
        }
    }
}

#[test]
fn no_code_of_another_language_takes_long() {
    let rules = rules();
    let pieces = [
        "\"a\"+",
        "a=f\"{a}{a}{a}\";",
        "[",
        "os.system(",
        "\"ab\"*99;",
        "\"a\".join([\"b\",\"c\"]);",
        "x=\"rm -rf /\";os.system(x);",
        "chr(",
        "exec(\"",
        "eval(\"exec(1)\")\n",
        "\"%s\"%\"%s\"%",
        "getattr(a,\"b\")(",
        "# x\n",
        "{[(",
    ];
    for piece in pieces {
        for (length, most) in [(4096, 2), (60_000, 8)] {
            let command = format!("python3 -c '{}'", piece.repeat(length / piece.len()));
            let began = Instant::now();
            let _ = verdict(&command, &rules);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(most), "{piece:?} × {length} bytes: {took:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_line_has_one_risk_and_an_unknown_one_lowers_nothing(
        text in "[a-z $(){}|;&<>'\"`\\\\*?\\[\\]/~=#!:,.\n-]{0,80}"
    ) {
        let alone = risk(&text);
        prop_assert_eq!(alone, risk(&text));
        // What stands behind a blocked line doesn't unblock it.
        prop_assert!(risk(&format!("mkfs /dev/sda\n{text}")) >= Risk::High, "{:?}", text);
    }

    #[test]
    fn any_characters_have_one_risk(text in "\\PC{0,60}") {
        prop_assert_eq!(risk(&text), risk(&text));
    }

    #[test]
    fn a_blocked_line_stays_blocked_between_benign_ones(
        at in 0..10_000_usize, before in 0..10_000_usize, behind in 0..10_000_usize
    ) {
        let (blocked, benign) = (blocked(), benign());
        let plain = |at: usize| {
            // What ends or redirects the session changes what comes behind.
            let (category, line) = &benign[at % benign.len()];
            if *category == "text in quotes" { line.clone() } else { "ls".to_owned() }
        };
        let line = &blocked[at % blocked.len()].1;
        let command = format!("{}\n{line}\n{}", plain(before), plain(behind));
        prop_assert_eq!(risk(&command), Risk::Blocked, "{}", command);
    }

    #[test]
    fn pieces_of_blocked_lines_have_one_risk(at in 0..10_000_usize, from in 0..60_usize, length in 0..60_usize) {
        let blocked = blocked();
        let piece: String = blocked[at % blocked.len()].1.chars().skip(from).take(length).collect();
        prop_assert_eq!(risk(&piece), risk(&piece));
    }
}

#[test]
fn another_parser_finds_the_same_commands() {
    use brush_parser::{ParserOptions, uncached_tokenize_str};
    // Both count simple commands outside quotes: what one sees as text and the other as a command is a mistake.
    fn words(command: &str) -> Option<usize> {
        let options = ParserOptions::default();
        let tokens = uncached_tokenize_str(command, &options.tokenizer_options()).ok()?;
        brush_parser::parse_tokens(&tokens, &options).ok().map(|program| program.complete_commands.len())
    }
    let (mut both, mut one) = (0, Vec::new());
    for (_, line) in blocked().into_iter().chain(benign()) {
        let ours = crate::bash::parse(&line, 0).1.is_none();
        match (ours, words(&line).is_some()) {
            (true, true) | (false, false) => both += 1,
            _ => one.push(line),
        }
    }
    assert!(one.len() * 100 < both, "{} of {both}: {one:#?}", one.len());
}
