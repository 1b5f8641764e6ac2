//! The policy as tables and properties. `tests/data/policy` holds command lines, each with the verdict that it had when
//! the tables were frozen; they are parsed, never run.

use super::*;

/// The rules that the tables are judged by: the effect of a command decides, not its name.
pub(super) fn rules() -> Rules {
    Rules {
        autonomy: Autonomy::Full,
        forbidden_paths: ["/etc", "/sys", "/boot", "~/.ssh"].map(str::to_owned).into(),
        own_paths: ["config", "local/state", "local/share"].map(|part| format!("/home/u/.{part}/reedclaw")).into(),
        ..Rules::new("/home/u/proj", "/home/u")
    }
}

pub(super) fn verdict(command: &str, rules: &Rules) -> PolicyVerdict {
    judge(&Action::Shell { command: command.to_owned() }, &Context::new(rules))
}

pub(super) fn risk(command: &str) -> Risk {
    verdict(command, &rules()).risk
}

/// A line of a table.
pub(super) struct Line {
    /// The verdict that it had when the tables were frozen.
    rule: &'static str,
    pub(super) category: &'static str,
    pub(super) text: String,
}

fn lines(table: &'static str) -> Vec<Line> {
    let mut category = "";
    let mut found = Vec::new();
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            category = name;
        } else if let Some((verdict, text)) = line.split_once('\t')
            && !category.is_empty()
        {
            let rule = verdict.split_once(' ').map_or("", |(_, rule)| rule);
            found.push(Line { rule, category, text: text.replace('␤', "\n") });
        }
    }
    found
}

pub(super) fn blocked() -> Vec<Line> {
    lines(include_str!("../../tests/data/policy/blocked.txt"))
}

pub(super) fn benign() -> Vec<Line> {
    lines(include_str!("../../tests/data/policy/benign.txt"))
}

/// The share of its lines that each rule still blocks, in percent. The rest runs code that isn't followed: coreutils
/// that make text, other languages, Makefiles. It is high, and a private copy of the workspace holds it.
const STILL_BLOCKED: &[(&str, usize)] = &[
    ("accounts", 100),
    ("credentials", 90),
    ("delete-tree", 87),
    ("device", 80),
    ("disk", 98),
    ("fed-code", 86),
    ("forbidden-path", 89),
    ("fork-bomb", 65),
    ("kill-all", 98),
    ("mode-tree", 97),
    ("move-tree", 70),
    ("network-shell", 70),
    // A file that is named outright is asked about.
    ("outside-workspace", 50),
    ("own-files", 94),
    ("persistence", 90),
    ("power", 93),
    ("read-credentials", 97),
    ("setuid", 88),
    // The file of the history isn't followed: the copy protects files of the home.
    ("startup-file", 87),
    ("system-path", 90),
    // The command or path isn't known: that alone is no longer enough to refuse it.
    ("unknown-code", 0),
    ("unknown-command", 0),
    ("unknown-tree", 0),
];

#[test]
fn destructive_commands_are_blocked_or_unknown_and_never_harmless() {
    let lines = blocked();
    assert!(lines.len() >= 4600, "{}", lines.len());
    let rules = rules();
    let mut shares: std::collections::BTreeMap<&str, (usize, usize)> = std::collections::BTreeMap::new();
    for line in &lines {
        let risk = verdict(&line.text, &rules).risk;
        assert!(risk >= Risk::High, "{risk}: {}", line.text);
        let share = shares.entry(line.rule).or_default();
        share.0 += usize::from(risk == Risk::Blocked);
        share.1 += 1;
    }
    let least: Vec<&str> = STILL_BLOCKED.iter().map(|(rule, _)| *rule).collect();
    assert!(shares.keys().all(|rule| least.contains(rule)), "{shares:?}");
    for (rule, percent) in STILL_BLOCKED {
        let (blocked, all) = shares[rule];
        assert!(blocked * 100 >= all * percent, "{rule}: {blocked} of {all}");
    }
}

/// The first lines of the table are those that people would write without a disguise, or with a common one.
#[test]
fn plain_catastrophes_are_blocked() {
    let plain = [
        "delete",
        "quoting",
        "shells",
        "wrappers",
        "writes",
        "disks",
        "modes",
        "power",
        "processes",
        "credentials",
        "own",
    ];
    let rules = rules();
    let lines: Vec<Line> = blocked()
        .into_iter()
        .filter(|line| plain.contains(&line.category) && !line.rule.starts_with("unknown-"))
        .collect();
    let missed: Vec<&str> = lines
        .iter()
        .filter(|line| verdict(&line.text, &rules).risk != Risk::Blocked)
        .map(|line| line.text.as_str())
        .collect();
    assert!(
        lines.len() > 900 && missed.len() * 100 <= lines.len() * 5,
        "{} of {}: {missed:#?}",
        missed.len(),
        lines.len()
    );
}

#[test]
fn harmless_look_alikes_of_destructive_commands_are_not_blocked() {
    let lines = benign();
    assert!(lines.len() >= 4400, "{}", lines.len());
    let rules = rules();
    let wrong: Vec<_> = lines
        .iter()
        .map(|line| (&line.text, verdict(&line.text, &rules)))
        .filter(|(_, verdict)| verdict.risk == Risk::Blocked)
        .map(|(text, verdict)| (text, verdict.reasons))
        .collect();
    assert!(wrong.len() * 500 <= lines.len(), "{} of {}: {wrong:#?}", wrong.len(), lines.len());
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
        ("cat /etc/passwd", Risk::High),
        ("cat /etc/hosts", Risk::Low),
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

/// Bash warns of such names and continues; the end depends on the length of the cycle.
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
        ("echo \u{202e}x".to_owned(), "odd-character"),
        ("echo a\0b".to_owned(), "odd-character"),
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
fn git_objects_at_forbidden_paths_are_refused_by_name() {
    let own = rules();
    let rules = Rules { forbidden_paths: [format!("{}/secret.txt", own.workspace)].into(), ..own };
    let is_blocked = |line: &str| {
        let verdict = judge(&Action::Shell { command: line.to_owned() }, &Context::new(&rules));
        verdict.reasons.iter().any(|reason| reason.rule == "forbidden-path" && reason.risk == Risk::Blocked)
    };
    for line in [
        "git show HEAD:secret.txt",
        "git show HEAD~3:./secret.txt",
        "git cat-file -p main:secret.txt",
        "git log -p -- secret.txt",
        "git diff HEAD~1 -- secret.txt",
        "git stash show stash@{0}:secret.txt",
    ] {
        assert!(is_blocked(line), "{line}");
    }
    for line in ["git show HEAD:other.txt", "git log -p", "git log --format=%h:%s", "git show v1:src/secret.txt"] {
        assert!(!is_blocked(line), "{line}");
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

/// The decision about a command that something holds.
fn decision(command: &str, hold: Hold, autonomy: Autonomy, can_ask: bool) -> Decision {
    let rules = Rules { autonomy, ..rules() };
    judge(&Action::Shell { command: command.to_owned() }, &Context { hold, can_ask, ..Context::new(&rules) }).decision
}

#[test]
fn on_a_copy_only_what_it_needs_beyond_it_is_asked() {
    use Autonomy::{Full, Readonly, Supervised};
    for command in ["ls", "rm -rf target", "python3 x.py", "./a.out", "make", "no-such-program", "echo x > .git/config"]
    {
        for autonomy in [Readonly, Supervised, Full] {
            assert_eq!(decision(command, Hold::Copy, autonomy, false), Decision::Run, "{command} {autonomy}");
        }
    }
    for command in
        ["npm install", "git push", "curl https://example.com", "docker ps", "cat ~/notes", "systemctl restart x"]
    {
        assert_eq!(decision(command, Hold::Copy, Supervised, true), Decision::Ask, "{command}");
        assert_eq!(decision(command, Hold::Copy, Full, true), Decision::Ask, "{command}");
        assert_eq!(decision(command, Hold::Copy, Full, false), Decision::Deny, "{command}");
        assert_eq!(decision(command, Hold::Copy, Readonly, true), Decision::Deny, "{command}");
    }
    assert_eq!(decision("rm -rf /", Hold::Copy, Full, true), Decision::Deny);
}

#[test]
fn behind_walls_full_autonomy_works_in_the_workspace() {
    for command in ["ls", "rm -rf target", "python3 x.py", "./a.out", "make", "sleep 9 &"] {
        assert_eq!(decision(command, Hold::Walls, Autonomy::Full, false), Decision::Run, "{command}");
    }
    assert_eq!(decision("python3 x.py", Hold::Walls, Autonomy::Supervised, true), Decision::Ask);
    assert_eq!(decision("ls", Hold::Walls, Autonomy::Readonly, false), Decision::Run);
    assert_eq!(decision("npm install", Hold::Walls, Autonomy::Full, true), Decision::Ask);
    assert_eq!(decision("npm install", Hold::Walls, Autonomy::Full, false), Decision::Deny);
}

#[test]
fn without_a_sandbox_only_what_is_proved_harmless_runs() {
    let decide = |command: &str| decision(command, Hold::Nothing, Autonomy::Full, true);
    assert_eq!(decide("ls"), Decision::Run);
    assert_eq!(decide("make"), Decision::Ask);
    assert_eq!(decide("python3 x.py"), Decision::Deny);
    let rules = rules();
    let action = Action::Shell { command: "python3 x.py".to_owned() };
    let verdict = judge(&action, &Context { hold: Hold::Nothing, ..Context::new(&rules) });
    assert!(verdict.reasons.iter().any(|reason| reason.rule == "no-sandbox"), "{verdict:?}");
}

#[test]
fn a_search_through_what_is_forbidden_needs_walls() {
    let rules = Rules { forbidden_paths: vec![format!("{}/closed", rules().workspace)], ..rules() };
    for command in ["grep -r x .", "rg x", "cd src; grep -r x ..", "tar cf - ."] {
        let decide = |hold| {
            let action = Action::Shell { command: command.to_owned() };
            judge(&action, &Context { hold, ..Context::new(&rules) }).decision
        };
        assert_ne!(decide(Hold::Off), Decision::Run, "{command}");
        assert_eq!(decide(Hold::Nothing), Decision::Deny, "{command}");
        assert_eq!(decide(Hold::Walls), Decision::Run, "{command}");
    }
}

/// The review ran a repository's code outside every sandbox, in `full` with the sandbox switched off. A checker, which runs such
/// code in a read-only place, ran there in `readonly`, too.
#[test]
fn with_the_sandbox_switched_off_whatever_runs_code_is_asked_about() {
    let decide = |command: &str, autonomy| decision(command, Hold::Off, autonomy, true);
    for command in ["make evil", "cargo build", "eslint .", "make -n", "sed -f x.sed a", "python3 x.py", "rm a.txt"] {
        assert_eq!(decide(command, Autonomy::Full), Decision::Ask, "{command}");
        assert_eq!(decide(command, Autonomy::Supervised), Decision::Ask, "{command}");
        assert_eq!(decide(command, Autonomy::Readonly), Decision::Deny, "{command}");
        assert_eq!(decision(command, Hold::Off, Autonomy::Full, false), Decision::Deny, "{command}");
    }
    for command in ["ls", "echo x > a.txt", "mkdir a"] {
        assert_eq!(decide(command, Autonomy::Full), Decision::Run, "{command}");
    }
}

/// On a copy, reading and working in the workspace start unasked, and further needs are known before.
#[test]
fn a_developers_day_is_hardly_ever_asked_about() {
    for (kind, unasked_least, unasked_most) in [("look", 97, 100), ("work", 97, 100), ("need", 0, 3)] {
        let table = include_str!("../../tests/data/policy/day.txt").lines().filter_map(|line| line.split_once('\t'));
        let lines: Vec<String> =
            table.filter(|(own, _)| *own == kind).map(|(_, line)| line.replace('␤', "\n")).collect();
        let runs = |line: &&String| decision(line, Hold::Copy, Autonomy::Supervised, true) == Decision::Run;
        let unasked: Vec<&String> = lines.iter().filter(runs).collect();
        let percent = unasked.len() * 100 / lines.len();
        assert!(
            (unasked_least..=unasked_most).contains(&percent),
            "{kind}: {percent} % of {}: {unasked:?}",
            lines.len()
        );
    }
}

#[test]
fn needs_are_told_before_the_run() {
    let needs = |command: &str| {
        let mut words: Vec<&str> = verdict(command, &rules()).needs.iter().map(Need::word).collect();
        words.sort_unstable();
        words.dedup();
        words.join(" ")
    };
    for (command, expected) in [
        ("ls -la && git status", ""),
        ("cargo build", ""),
        ("cargo test", ""),
        ("npm run build", ""),
        ("npm test", ""),
        ("make install", ""),
        ("cat /usr/include/stdio.h", ""),
        ("echo x > /tmp/y", ""),
        ("curl http://localhost:8080/health", ""),
        ("curl -s http://127.0.0.1:3000", ""),
        ("curl http://[::1]:80/", ""),
        ("git clone ./a b", ""),
        ("kill %1", ""),
        ("sleep 9 & kill $!", ""),
        ("go run .", ""),
        ("npm install", "network"),
        ("npm ci", "network"),
        ("npx -y cowsay x", "network"),
        ("npx --yes --package=cowsay cowsay x", "network"),
        ("pnpm dlx cowsay x", "network"),
        ("npm x cowsay", ""),
        ("pnpm exec tsc --noEmit", ""),
        ("npx tsc --noEmit", ""),
        ("git diff --name-only | xargs -r npx --no-install eslint", ""),
        ("npx --no-install tsc --noEmit -p tsconfig.json 2>&1 | wc -l", ""),
        ("pip install x", "network"),
        ("python3 -m pip install x", "network"),
        ("uv sync", "network"),
        ("cargo add serde", "network"),
        ("cargo install x", "network"),
        ("go get x", "network"),
        ("go run x.example/cmd@latest", "network"),
        ("git push", "network"),
        ("git pull --rebase", "network"),
        ("git fetch origin", "network"),
        ("git clone https://example.com/x", "network"),
        ("git submodule update --init", "network"),
        ("curl https://example.com", "network"),
        ("wget https://example.com/x", "network"),
        ("ssh host ls", "network"),
        ("rsync -a . host:x", "network"),
        ("gh pr list", "network"),
        ("terraform plan", "network"),
        ("docker ps", "host"),
        ("docker compose config --services", ""),
        ("docker compose logs", "host"),
        ("systemctl is-enabled cron", ""),
        ("systemctl -H other is-enabled cron", "network"),
        ("systemctl is-active cron", "host"),
        ("kubectl get pods", "host"),
        ("systemctl status nginx", "host"),
        ("sudo ls", "host"),
        ("kill 1234", "host"),
        ("pkill node", "host"),
        ("mount /dev/sdb1 /mnt", "host"),
        ("apt install x", "host"),
        ("cat ~/notes", "path"),
        ("cd ~/other && ls", "path"),
        ("cd .. && cat x", "path"),
        ("grep -r x ../other", "path"),
        ("git -C ~/other commit -m x", "path"),
    ] {
        assert_eq!(needs(command), expected, "{command}");
    }
    assert!(matches!(verdict("echo x > ~/notes", &rules()).needs.as_slice(), [Need::Write { .. }]));
}

#[test]
fn a_named_file_outside_is_asked_about_and_what_may_be_many_is_refused() {
    for command in
        ["echo x >> ~/notes", "cp a ~/bin/tool", "cp a ~/.vimrc", "tar -czf /mnt/backup/x.tgz .", "cp x ../y"]
    {
        for autonomy in [Autonomy::Supervised, Autonomy::Full] {
            assert_eq!(decision(command, Hold::Copy, autonomy, true), Decision::Ask, "{command}");
            assert_eq!(decision(command, Hold::Copy, autonomy, false), Decision::Deny, "{command}");
        }
        assert_eq!(decision(command, Hold::Copy, Autonomy::Readonly, true), Decision::Deny, "{command}");
        assert_eq!(decision(command, Hold::Nothing, Autonomy::Full, true), Decision::Deny, "{command}");
    }
    for command in [
        "rm ~/notes",
        "mv ~/notes .",
        "cp a ~/bin/ls",
        "cp a ~/.profile",
        "rm ~/.vimrc",
        "find / -exec chmod 777 {} +",
        "find / -name passwd -exec cp /dev/null {} \\;",
        "find ~ -type f -exec truncate -s 0 {} +",
        "tar xf x.tar -C /",
    ] {
        assert_eq!(risk(command), Risk::Blocked, "{command}");
    }
}

#[test]
fn disks_in_files_of_the_workspace_may_be_made() {
    for command in ["mkfs.ext4 disk.img", "mkfs.ext4 -F disk.img", "mkfs.fat -F 32 -C esp.img 65536", "mkfs.ext4 -V"] {
        assert_eq!(decision(command, Hold::Copy, Autonomy::Supervised, true), Decision::Run, "{command}");
    }
    assert_eq!(decision("parted -s ./d.img mklabel gpt", Hold::Copy, Autonomy::Supervised, true), Decision::Run);
    for command in ["mkfs.ext4 /dev/sda1", "mkfs", "parted -s /dev/sda mklabel gpt", "mkfs.ext4 ~/disk"] {
        assert_ne!(decision(command, Hold::Copy, Autonomy::Full, true), Decision::Run, "{command}");
    }
    assert_eq!(risk("mkfs.ext4 /dev/sda1"), Risk::Blocked);
}

#[test]
fn searches_for_keys_and_ways_around_are_refused() {
    for command in [
        "find ~ -name 'id_rsa' -exec cat {} \\;",
        "find / -path '*ssh*' -name '*.pem' | xargs cat",
        "zip -rm all.zip ~/",
        "docker run --privileged debian dd if=/dev/zero of=/dev/sda",
        "docker run -v ~/.ssh:/k alpine cat /k/id",
        "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done",
        "sudo iptables -F",
        "sudo iptables -P INPUT DROP",
        "nft flush ruleset",
        "ip link set eth0 down",
        "systemctl disable --now sshd",
    ] {
        assert_eq!(risk(command), Risk::Blocked, "{command}");
    }
    for command in [
        "find ~ -name '*.md'",
        "find ~ -maxdepth 2 -type d",
        "find . -name 'id_rsa*'",
        "docker run -v /home/u/proj:/app debian ls /app",
        "sudo iptables -L",
        "ip link show",
        "systemctl status sshd",
        "apt-get -s remove systemd",
        "shutdown --help",
    ] {
        assert!(risk(command) < Risk::Blocked, "{command}");
    }
}

#[test]
fn rules_of_the_user_tighten_and_never_loosen() {
    let programs =
        ["deploy: network", "terraform apply: deny", "git push -f: deny", "ls: ask", "mytool: host", "rm: ask"];
    let rules = Rules { programs: programs.iter().map(|rule| rule.parse().expect("a rule")).collect(), ..rules() };
    let decided = |command: &str, hold| {
        let context = Context { hold, ..Context::new(&rules) };
        judge(&Action::Shell { command: command.to_owned() }, &context).decision
    };
    for hold in [Hold::Copy, Hold::Walls] {
        for command in
            ["deploy prod", "x=ls; $x -la", "sh -c 'ls'", "echo a | xargs ls", "mytool", "./mytool x", "rm x"]
        {
            assert_eq!(decided(command, hold), Decision::Ask, "{command}");
        }
        for command in [
            "terraform apply",
            "terraform -chdir=x apply",
            "sudo terraform apply",
            "git push -qf",
            "rm -rf ~",
            "git push $x",
        ] {
            assert_eq!(decided(command, hold), Decision::Deny, "{command}");
        }
    }
    assert_eq!(decided("deploy prod", Hold::Nothing), Decision::Deny);
    assert_eq!(decided("ls", Hold::Nothing), Decision::Deny);
    assert_eq!(decided("terraform plan", Hold::Copy), decision("terraform plan", Hold::Copy, Autonomy::Full, true));
    assert_eq!(decided("echo ls; cat x", Hold::Copy), Decision::Run);
    let needs = judge(&Action::Shell { command: "deploy".into() }, &Context::new(&rules)).needs;
    assert!(matches!(needs.as_slice(), [Need::Network { .. }]));
    for table in [blocked(), benign()] {
        for line in table.iter().step_by(7) {
            let with = verdict(&line.text, &rules);
            let without = verdict(&line.text, &self::rules());
            assert!(with.risk >= without.risk, "{}", line.text);
        }
    }
    let readonly = Rules { autonomy: Autonomy::Readonly, ..rules.clone() };
    assert_eq!(judge(&Action::Shell { command: "ls".into() }, &Context::new(&readonly)).decision, Decision::Deny);
}

/// Lines of an author who hadn't seen the policy. Judged once before any fix for them: 95.0 % of the catastrophes were blocked,
/// 2.6 % of the other lines denied, 3.7 % of the reads asked about. Since then they are no longer unseen.
#[test]
fn the_second_authors_lines_keep_their_figures() {
    let table = include_str!("../../tests/data/policy/seen.txt");
    let lines = |kind: &str| -> Vec<String> {
        let own = table.lines().filter_map(|line| line.split_once('\t')).filter(|(own, _)| *own == kind);
        own.map(|(_, line)| line.replace('␤', "\n")).collect()
    };
    let rules = Rules { autonomy: Autonomy::Supervised, ..rules() };
    let count = |lines: &[String], is: &dyn Fn(&PolicyVerdict) -> bool| {
        let context = Context { hold: Hold::Copy, ..Context::new(&rules) };
        lines.iter().filter(|line| is(&judge(&Action::Shell { command: (*line).clone() }, &context))).count()
    };
    let bad = lines("catastrophe");
    let others = [lines("look"), lines("work"), lines("near")].concat();
    let looks = lines("look");
    assert!((bad.len(), others.len(), looks.len()) == (200, 650, 300));
    assert!(count(&bad, &|verdict| verdict.risk == Risk::Blocked) >= 198);
    assert!(count(&bad, &|verdict| verdict.decision == Decision::Run) == 0);
    assert!(count(&others, &|verdict| verdict.decision == Decision::Deny) <= 1);
    assert!(count(&looks, &|verdict| verdict.decision != Decision::Run) <= 9);
}

/// The review's lines that ran code, read elsewhere or destroyed something although they passed as read-only.
#[test]
fn options_that_run_read_or_destroy_are_no_looks() {
    for command in [
        "sed -f x.sed a.txt",
        "sed 's/a/b/e' x",
        "sed 'w y' x",
        "XDG_CONFIG_HOME=. git status --short",
        "ZDOTDIR=. zsh -c true",
        "strace -o '|sh ./evil.sh' true",
        "GCONV_PATH=. iconv -f EVIL -t UTF-8 a.txt",
        "RIPGREP_CONFIG_PATH=./rc rg x",
        "export RIPGREP_CONFIG_PATH=./rc",
        "rg --hostname-bin ./evil x",
        "rg --pre ./evil x",
        "BAT_PAGER=./evil bat x",
        "gawk -l ./evil.so 1",
        "awk '@include \"x\"'",
        "awk -f x.awk y",
        "awk 'BEGIN { getline l < \"/etc/hosts\"; print l }'",
        "cloc --extract-with='sh evil >FILE<' .",
        "cloc --config evil .",
        "cloc --out x .",
        "scc --output x",
        "git diff --ext-diff",
        "git show --textconv",
        "git log --show-signature",
        "git verify-commit HEAD",
        "git -C docs/example status --short",
        "git --git-dir=docs/example status",
        "git --work-tree=x status",
        "git -c core.fsmonitor=./x status",
        "git diff --no-index /dev/null ../other/x",
        "git blame --contents ../x y",
        "git grep --no-index x ../y",
        "git config -f ~/.gitconfig --list",
        "git reflog expire --expire=now --all",
        "git reflog delete HEAD@{1}",
        "git bugreport -o ../x",
        "git update-ref -d HEAD",
        "grep -f ~/.aws/credentials x",
        "rg -f patterns x",
        "date -f x",
        "date 0101000020",
        "file -f x",
        "wc --files0-from=x",
        "sort --files0-from=x",
        "diff --from-file=a b",
        "man -l x",
        "jq 'import \"/home/u/x\" as $x; $x'",
        "xmllint --noent x",
        "ss -K dst 1.2.3.4",
        "tree -o x",
        "xargs -a ../x echo",
        "python3 -m json.tool ../x",
        "apt-get -q install x",
        "yum -q install x",
        "pacman -S x",
        "gcc -v -o x y.c",
        "black -l 100 src",
        "ruff check --fix .",
        "terraform fmt",
        "cd ~/other; grep -r x",
        "cd ~/other; git grep --no-index x",
    ] {
        assert!(risk(command) > Risk::Low, "{command}");
    }
    for command in ["cd ~/.ssh; grep -r PRIV", "cat ../.ssh/id_ed25519", "git diff --no-index /dev/null ../.ssh/id_rsa"]
    {
        assert_eq!(risk(command), Risk::Blocked, "{command}");
    }
}

#[test]
fn looks_of_everyday_tools_are_harmless() {
    for command in [
        "node -v",
        "node --version",
        "python3 --version",
        "python3 -V",
        "rustc -V",
        "cargo --version",
        "go version",
        "gcc --version",
        "docker --version",
        "sbt --script-version",
        "ghc --numeric-version",
        "npm -v",
        "git branch",
        "git branch -a",
        "git branch --show-current",
        "git stash list",
        "git tag --list",
        "git tag",
        "git remote -v",
        "git worktree list",
        "git log --oneline -5",
        "git diff HEAD~1 -- src",
        "git config --get user.name",
        "git reflog",
        "cargo tree",
        "cargo metadata --format-version 1",
        "npm ls",
        "pip list",
        "pip show x",
        "terraform fmt -check",
        "sqlite3 app.db '.tables'",
        "sed -n '/a/,/b/p' x",
        "sed 's/a/b/g; s/c/d/' x",
        "awk '{print $1}' x",
        "awk -F: '$3 > 1000 {print $1}' x",
        "tar tf x.tar",
        "unzip -l x.zip",
        "jq .name package.json",
        "rg -n 'fn main' src",
        "find . -name '*.rs' -newer x",
        "ps aux | grep node",
        "LC_ALL=C sort x",
        "RUST_BACKTRACE=1 ls",
        "date +%F",
        "while IFS= read -r l; do echo \"$l\"; done < x",
    ] {
        let verdict = verdict(command, &rules());
        assert_eq!(verdict.risk, Risk::Low, "{command}: {:?}", verdict.reasons);
    }
}

/// The config decides, in `full` as well and in each sandbox of the server.
#[test]
fn a_servers_tool_that_is_to_be_asked_about_never_runs_unasked() {
    let judged = |is_asked: bool, can_ask: bool, reach: Reach| {
        let action = Action::Served {
            server: "one".into(),
            tool: "act".into(),
            standing: PinStanding::Pinned,
            pin: String::new(),
            reach,
            may_write: true,
            is_destructive: false,
            is_granted: false,
            is_asked,
        };
        let rules = rules();
        judge(&action, &Context { can_ask, ..Context::new(&rules) })
    };
    assert_eq!(judged(false, true, Reach::Held).decision, Decision::Run);
    let asked = judged(true, true, Reach::Held);
    assert_eq!((asked.decision, asked.risk), (Decision::Ask, Risk::Medium));
    assert!(asked.reasons.iter().any(|reason| reason.text.contains("mcp.servers.one.tools")), "{asked:?}");
    assert_eq!(judged(true, false, Reach::Held).decision, Decision::Deny);
    assert_eq!(judged(true, true, Reach::Remote).decision, Decision::Ask);
}
