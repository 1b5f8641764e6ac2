//! Receipts of several processes, of killed ones and of a full disk, and `reedclaw receipt` on them. The children are this same
//! test executable, which runs only the test `child_writes`, with an order in the environment.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use reedclaw::receipts::{Check, Entry, Log, Options, Outcome, ReceiptErrorKind, Verdict, hash, newest, verify};

use crate::need::{TEST_PATH, require};
use crate::pty::program;

/// The order to a child: the task, the number of calls, the directory.
const ORDER: &str = "REEDCLAW_TEST_RECEIPTS";

fn options(dir: &Path) -> Options {
    Options::new(dir.join("receipts.jsonl"), dir.to_owned())
}

/// Writes one settled call.
fn call(log: &Log, risk: &str) {
    let opened = log.intent(&Entry::new("file_list", hash(b"{}"), risk)).expect("an intent");
    log.settle(opened, &Outcome::done(hash(b"done"))).expect("an outcome");
}

/// Without an order this does nothing: it is the child's part of the tests below.
#[test]
fn child_writes() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let mut words = order.splitn(3, ' ');
    let (what, count, dir) =
        (words.next().expect("what"), words.next().expect("how many"), words.next().expect("where"));
    let count: usize = count.parse().expect("a number");
    let log = Log::open(options(Path::new(dir))).expect("the log opens");
    match what {
        "calls" => (0..count).for_each(|_| call(&log, "low")),
        // Each call is printed, so that the parent can kill the child in the middle of any.
        "told" => loop {
            let opened = log.intent(&Entry::new("shell", hash(b"{}"), "high")).expect("an intent");
            println!("intent {}", opened.id());
            let id = opened.id().to_string();
            log.settle(opened, &Outcome::done(hash(b"done"))).expect("an outcome");
            println!("settled {id}");
        },
        "until-full" => {
            let refused = loop {
                match log.intent(&Entry::new("shell", hash(b"{}"), "high")) {
                    Ok(opened) => drop(log.settle(opened, &Outcome::failed(None))),
                    Err(error) => break error,
                }
            };
            assert_eq!(refused.kind, ReceiptErrorKind::Full, "{refused:?}");
            println!("refused");
        }
        "read-only" => {
            let refused = log.intent(&Entry::new("shell", hash(b"{}"), "high")).expect_err("a refusal");
            assert_eq!(refused.kind, ReceiptErrorKind::Access, "{refused:?}");
            println!("refused");
        }
        other => panic!("{other}"),
    }
}

/// A command that runs the child with an order, after other words (a shell that sets limits).
fn child(before: &[&str], what: &str, count: usize, dir: &Path) -> Command {
    let own = std::env::current_exe().expect("this executable");
    let own = own.to_str().expect("a path in UTF-8");
    let words: Vec<&str> =
        before.iter().copied().chain([own, "--exact", "receipts::child_writes", "--nocapture"]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env(ORDER, format!("{what} {count} {}", dir.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[track_caller]
fn succeeded(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn eight_processes_write_one_chain() {
    let dir = tempfile::tempdir().expect("a directory");
    let children: Vec<Child> = (0..8).map(|_| child(&[], "calls", 500, dir.path()).spawn().expect("a child")).collect();
    for child in children {
        succeeded(child.wait_with_output().expect("its output"));
    }
    let report = verify(&options(dir.path()), &Check::default()).expect("a report");
    assert_eq!((&report.verdict, report.receipts), (&Verdict::Whole, 8_000), "{report:?}");
    assert!(report.unknown.is_empty() && report.notes.is_empty(), "{report:?}");
    let text = fs::read_to_string(dir.path().join("receipts.jsonl")).expect("the log");
    for (number, line) in text.lines().enumerate() {
        assert!(line.contains(&format!("\"seq\":{},", number + 1)), "line {} is {line}", number + 1);
    }
}

#[test]
fn a_kill_anywhere_leaves_a_log_that_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = options(dir.path());
    let mut before = 0;
    for round in 0..200_usize {
        let mut child = child(&[], "told", 0, dir.path()).spawn().expect("a child");
        let mut told = BufReader::new(child.stdout.take().expect("its output"));
        // The number of lines differs each time; the machine's timing decides where in the next call the kill comes.
        let wanted = 1 + round * 7 % 12;
        let mut last = String::new();
        let mut seen = 0;
        while seen < wanted {
            let mut line = String::new();
            assert!(told.read_line(&mut line).expect("a line") > 0, "the child ended by itself");
            if let Some(at) = line.find("intent ").or_else(|| line.find("settled ")) {
                last = line[at..].trim().to_owned();
                seen += 1;
            }
        }
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let report = verify(&options, &Check::default()).expect("a report");
        assert!(matches!(report.verdict, Verdict::Whole | Verdict::Torn { .. }), "{round}: {report:?}");
        assert!(report.receipts > before, "{round}");
        // A printed call is in the log.
        let id = last.split_once(' ').expect("an id").1;
        let text = fs::read_to_string(&options.path).expect("the log");
        assert!(text.contains(id), "{round}: {last}");
        // Each round leaves at most one call with an unknown outcome, since calls run one at a time.
        let unknown = report.unknown.len();
        assert!(unknown <= round + 1, "{round}: {unknown}");
        before = report.receipts;
    }
    call(&Log::open(options.clone()).expect("the log"), "high");
    let report = verify(&options, &Check::default()).expect("a report");
    assert_eq!(report.verdict, Verdict::Whole, "{report:?}");
}

#[test]
fn a_full_disk_stops_the_call_and_tears_nothing() {
    if !require(&["bash"]) {
        return;
    }
    // The maximum size of a file, in KiB, simulates a full disk.
    for kib in [1, 2, 5, 8] {
        let dir = tempfile::tempdir().expect("a directory");
        let limit = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
        let output = child(&["bash", "-c", &limit, "bash"], "until-full", 0, dir.path()).output().expect("a child");
        assert!(succeeded(output).contains("refused"));
        let report = verify(&options(dir.path()), &Check::default()).expect("a report");
        assert_eq!(report.verdict, Verdict::Whole, "{kib}: {report:?}");
        call(&Log::open(options(dir.path())).expect("the log"), "high");
        assert_eq!(verify(&options(dir.path()), &Check::default()).expect("a report").verdict, Verdict::Whole);
    }
}

#[test]
fn a_disk_that_cannot_be_written_stops_the_call() {
    if !require(&["bash", "unshare", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    call(&Log::open(options(dir.path())).expect("the log"), "high");
    let before = fs::read(dir.path().join("receipts.jsonl")).expect("the log");
    // Its locks are elsewhere, in a separate mount; only the log is read-only.
    let path = dir.path().join("receipts.jsonl");
    let mount =
        format!("mount --bind -o ro '{0}' '{0}' && mount -o remount,bind,ro '{0}' && exec \"$@\"", path.display());
    let words = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", &mount, "bash"];
    let output = child(&words, "read-only", 0, dir.path()).output().expect("a child");
    assert!(succeeded(output).contains("refused"));
    assert_eq!(fs::read(&path).expect("the log"), before);
}

/// Runs `reedclaw` in a home.
fn reedclaw(home: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(program());
    command.args(words).env_clear().env("HOME", home).env("PATH", TEST_PATH).current_dir(home);
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("a code"), text(&output.stdout), text(&output.stderr))
}

/// A home with this number of calls in its log.
fn home(calls: usize) -> (tempfile::TempDir, Options) {
    let home = tempfile::tempdir().expect("a home");
    let options = options(&home.path().join(".local/state/reedclaw"));
    let log = Log::open(options.clone()).expect("the log");
    (0..calls).for_each(|_| call(&log, "high"));
    drop(log);
    (home, options)
}

#[test]
fn verify_says_how_the_log_is_by_its_exit_code() {
    let (home, options) = home(2);
    let whole = fs::read_to_string(&options.path).expect("the log");
    let verify = |extra: &[&str]| {
        let words: Vec<&str> = ["receipt", "verify"].iter().chain(extra).copied().collect();
        let (code, out, _) = reedclaw(home.path(), &words);
        (code, out)
    };
    let (code, out) = verify(&[]);
    assert!(code == 0 && out.contains("4 receipts in") && out.contains("all hold"), "{code} {out}");
    let head = out.lines().find_map(|line| line.strip_prefix("head ")).expect("a head").to_owned();
    assert_eq!(verify(&["--expect-head", &head]).0, 0);
    let (code, out) = verify(&["--expect-head", &head.replace(|_| true, "0")]);
    assert!(code == 9 && out.contains("no receipt has the hash 0000") && !out.contains("moved"), "{code} {out}");
    let edited =
        whole.replacen("\"risk\":\"high\"", "\"risk\":\"low\"", 2).replacen("\"risk\":\"low\"", "\"risk\":\"high\"", 1);
    fs::write(&options.path, edited).expect("written");
    let (code, out) = verify(&[]);
    assert!(code == 1 && out.starts_with("receipt 2: "), "{code} {out}");
    let (code, out) = verify(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &told["verdict"], &told["receipt"]), (1, &"broken".into(), &2.into()));
    assert_eq!(reedclaw(home.path(), &["doctor"]).0, 1);
    fs::write(&options.path, &whole[..whole.len() - 9]).expect("written");
    let (code, out) = verify(&[]);
    assert!(code == 8 && out.contains("not written to its end"), "{code} {out}");
    let two: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(&options.path, two).expect("written");
    let (code, out) = verify(&[]);
    assert!(code == 9 && out.contains("it had 4 receipts and has 2"), "{code} {out}");
    for name in [".local/state/reedclaw/receipts.jsonl.head.json", ".local/state/reedclaw/receipts-anchors.jsonl"] {
        fs::remove_file(home.path().join(name)).expect("removed");
    }
    let (code, out) = verify(&[]);
    assert!(code == 9 && out.contains("warning: ") && !out.contains("all hold"), "{code} {out}");
    let (code, out) = verify(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &told["verdict"]), (9, &"unconfirmed".into()));
    assert_eq!(told["missing"], serde_json::json!(["head", "anchors"]));
}

/// Once, a mistyped key, or that of another log, checked nothing, and a rewritten log counted as valid.
#[test]
fn a_named_key_that_checks_nothing_is_no_proof() {
    let (home, options) = home(0);
    let sealing = Options { hmac: true, ..options.clone() };
    call(&Log::open(sealing).expect("the log"), "high");
    let verify = |key: &Path| reedclaw(home.path(), &["receipt", "verify", "--key", key.to_str().expect("UTF-8")]);
    let keys = home.path().join(".local/state/reedclaw/receipts-keys");
    let is_key = |path: &Path| path.to_string_lossy().ends_with(".verify.json");
    let keys = fs::read_dir(keys).expect("keys").flatten().map(|it| it.path());
    let usual = keys.into_iter().find(|path| is_key(path)).expect("the key");
    let key = home.path().join("key.json");
    fs::rename(usual, &key).expect("moved away");
    assert_eq!(verify(&key).0, 0);
    let (code, out, _) = reedclaw(home.path(), &["receipt", "verify"]);
    assert!(code == 0 && out.contains("warning: the seals were not checked"), "{code} {out}");
    let (code, out, _) = reedclaw(home.path(), &["doctor"]);
    assert!(code == 0 && out.contains("warning: the seals were not checked"), "{code} {out}");
    for wrong in ["none.json", ".local/state/reedclaw/receipts.jsonl"] {
        let (code, out, err) = verify(&home.path().join(wrong));
        assert!(code == 2 && err.contains("can't be used") && !out.contains("hold"), "{code} {out} {err}");
    }
    // Another log in its place, without seals.
    for name in ["receipts.jsonl", "receipts.jsonl.head.json", "receipts-anchors.jsonl"] {
        fs::remove_file(home.path().join(".local/state/reedclaw").join(name)).expect("removed");
    }
    call(&Log::open(options).expect("the log"), "low");
    let (code, out, _) = verify(&key);
    assert!(code == 9 && out.contains("is the key of another log"), "{code} {out}");
}

/// The program in docs/receipts.md verifies a log that begins in the older form and continues in today's, and so do we.
#[test]
fn the_documented_python_verifies_a_log_of_both_forms() {
    if !require(&["python3"]) {
        return;
    }
    let document = include_str!("../../docs/receipts.md");
    let python = document.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("a program").0;
    let (home, options) = home(3);
    // The same receipts, hashed after a zero byte.
    let mut previous = "0".repeat(64);
    let mut older = String::new();
    for line in fs::read_to_string(&options.path).expect("the log").lines() {
        let mut receipt: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let fields = receipt.as_object_mut().expect("an object");
        fields.remove("receipt_hash");
        fields.insert("previous_hash".into(), previous.into());
        fields.insert("rule".into(), "né \"a\\b\"\n\u{1}\u{7f}\u{2028}".into());
        previous = hash(format!("\0{receipt}").as_bytes());
        receipt.as_object_mut().expect("an object").insert("receipt_hash".into(), previous.clone().into());
        older += &format!("{receipt}\n");
    }
    fs::write(&options.path, older).expect("the older log");
    for name in [".local/state/reedclaw/receipts.jsonl.head.json", ".local/state/reedclaw/receipts-anchors.jsonl"] {
        fs::remove_file(home.path().join(name)).expect("removed");
    }
    call(&Log::open(options.clone()).expect("the log"), "high");
    let verified = |path: &Path| {
        let output = Command::new("python3").args(["-c", python]).arg(path).output().expect("python3");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let report = verify(&options, &Check::default()).expect("a report");
    assert_eq!((&report.verdict, report.receipts), (&Verdict::Whole, 9), "{report:?}");
    let (code, told) = verified(&options.path);
    assert_eq!((code, told), (Some(0), format!("9 receipts hold, head {}\n", report.head.expect("a head"))));
    let log = fs::read_to_string(&options.path).expect("the log");
    for (written, instead) in [
        ("allowed", "denied"),
        ("\"risk\":\"high\"", "\"risk\":\"blocked\",\"risk\":\"high\""),
        ("\"risk\":", "\"risk\": "),
        ("\"high\"", "\"\\u0068igh\""),
        ("}\n", "}\r\n"),
    ] {
        let changed = log.replacen(written, instead, 1);
        assert_ne!(changed, log);
        fs::write(&options.path, changed).expect("written");
        assert_eq!(verified(&options.path).0, Some(1), "{instead}");
    }
}

#[test]
fn receipts_are_listed_and_shown() {
    let (home, options) = home(30);
    let log = Log::open(options.clone()).expect("the log");
    drop(log.intent(&Entry::new("http", hash(b"{}"), "high")).expect("an intent"));
    drop(log);
    let (code, out, _) = reedclaw(home.path(), &["receipt", "list", "--limit", "3"]);
    assert_eq!((code, out.lines().count()), (0, 3), "{out}");
    assert!(out.lines().last().expect("a line").contains("    61  20"), "{out}");
    let (_, out, _) = reedclaw(home.path(), &["receipt", "list"]);
    assert_eq!(out.lines().count(), 50);
    let (_, out, _) = reedclaw(home.path(), &["receipt", "list", "--json", "--limit", "100"]);
    assert_eq!(out, fs::read_to_string(&options.path).expect("the log"));
    let last = newest(&options, 1).expect("lines").remove(0);
    let id = last.record.expect("a receipt").id.into_owned();
    let (code, by_id, _) = reedclaw(home.path(), &["receipt", "show", &id]);
    assert!(code == 0 && by_id.contains("http") && by_id.contains(&id));
    assert_eq!(reedclaw(home.path(), &["receipt", "show", "61"]).1, by_id);
    let (code, _, err) = reedclaw(home.path(), &["receipt", "show", "62"]);
    assert!(code == 2 && err.contains("no receipt is called 62"), "{err}");
    let (code, out, _) = reedclaw(home.path(), &["doctor"]);
    assert!(code == 0 && out.contains("receipts: 61 receipts in") && out.contains("unknown outcome: http"), "{out}");
    assert!(out.contains("tools may run"), "{out}");
}

#[test]
fn a_config_says_where_receipts_are_and_a_project_cannot() {
    let (home, usual) = home(0);
    let log = home.path().join("elsewhere.jsonl");
    call(&Log::open(Options::new(log, usual.state)).expect("the log"), "low");
    let config = home.path().join(".config/reedclaw/config.lua");
    fs::create_dir_all(config.parent().expect("a parent")).expect("a folder");
    fs::write(&config, "return { receipts = { path = \"~/elsewhere.jsonl\" } }").expect("a config");
    let (code, out, err) = reedclaw(home.path(), &["receipt", "verify"]);
    assert!(code == 0 && out.contains("2 receipts in"), "{code} {out} {err}");
    // A config that is merely in the directory is a project's: without trust none of it applies.
    fs::remove_file(&config).expect("removed");
    let untrusted = "return { receipts = { path = \"/x\", enabled = false } }";
    fs::write(home.path().join("config.lua"), untrusted).expect("a config");
    let (code, out, err) = reedclaw(home.path(), &["config", "show"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("receipts.enabled = true") && !out.contains("\"/x\""), "{out}");
}
