//! `reedclaw tool`: a model's tools as anyone can call them, through the gate. A table of paths, each tested in a fresh workspace
//! with every known trick for bending a path.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::{command, run};
use crate::pty::{Key, Session, Spawn, program, status_code};
use crate::server::{Server, Step};

/// Text that must not be seen from inside the workspace.
pub const SECRET: &str = "s3cr3t-value";

/// A home with a workspace `ws` and, beside it, files that must stay unchanged.
pub fn home() -> TempDir {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let at = |path: &str| home.path().join(path);
    for directory in ["ws/sub", "ws/.git/hooks", "ws-evil", "private"] {
        fs::create_dir_all(at(directory)).expect("directories");
    }
    for (path, text) in [
        ("ws/a.txt", "alpha"),
        ("ws/sub/b.txt", "beta"),
        ("ws/with space.txt", "space"),
        ("ws/ünï.txt", "umlaut"),
        ("ws/-dash", "dash"),
        ("ws/*", "star"),
        ("ws/$HOME", "dollar"),
        ("ws/%2e%2e", "percent"),
        ("ws/~tilde", "tilde"),
        ("ws/empty", ""),
        ("ws/.git/config", "[core]"),
        ("ws-evil/x.txt", SECRET),
        ("private/p.txt", SECRET),
        ("secret.txt", SECRET),
    ] {
        fs::write(at(path), text).expect("a file");
    }
    fs::write(at("ws/binary"), b"\xff\xfe\xfd").expect("a file");
    for (link, to) in [
        ("ws/link-in", PathBuf::from("a.txt")),
        ("ws/link-dir", "sub".into()),
        ("ws/link-up", "../secret.txt".into()),
        ("ws/link-abs-out", at("secret.txt")),
        ("ws/link-abs-in", at("ws/a.txt")),
        ("ws/link-loop", "link-loop".into()),
        ("ws/link-out-dir", "../private".into()),
        ("ws/link-root", "/".into()),
        ("ws/link-proc", "/proc/self/root".into()),
        ("ws/dangling", "nowhere".into()),
        ("ws/dangling-out", "../new.txt".into()),
    ] {
        symlink(to, at(link)).expect("a link");
    }
    fs::hard_link(at("secret.txt"), at("ws/hard")).expect("a hard link");
    fs::hard_link(at("ws/a.txt"), at("ws/hard-in")).expect("a hard link");
    nix::unistd::mkfifo(&at("ws/fifo"), Mode::S_IRWXU).expect("a pipe");
    home
}

/// Calls a tool in the workspace; returns the exit status and the result.
pub fn call(home: &Path, tool: &str, arguments: &Value, more: &[&str]) -> (Option<i32>, Value) {
    let (workspace, arguments) = (home.join("ws").display().to_string(), arguments.to_string());
    let args = ["tool", "run", tool, "--json", &arguments, "--workspace", &workspace];
    let (code, out, err) = run(home, &[&args, more].concat());
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{tool} {arguments}: {error}\n{out}\n{err}"));
    (code, value)
}

/// There is no person to ask about a command's changes here, and `readonly` allows no change.
#[test]
fn a_command_whose_changes_are_dropped_ends_as_refused() {
    let home = home();
    for more in [&[][..], &["--autonomy", "readonly"]] {
        let (code, result) = call(home.path(), "shell", &json!({"command": "touch zz"}), more);
        assert_eq!((code, &result["error"]["code"]), (Some(3), &json!("changes-dropped")), "{more:?} {result}");
    }
    let (code, _) = call(home.path(), "shell", &json!({"command": "exit 5"}), &[]);
    assert_eq!(code, Some(1), "a command that fails isn't refused");
}

/// Returns the path that an entry of the table means: `{ws}` and `{home}` are replaced by the real directories.
fn meant(path: &str, home: &Path) -> String {
    path.replace("{ws}", &home.join("ws").display().to_string()).replace("{home}", &home.display().to_string())
}

/// Fails if something outside the workspace has changed.
#[track_caller]
fn untouched(home: &Path, case: &str) {
    for path in ["secret.txt", "private/p.txt", "ws-evil/x.txt"] {
        assert_eq!(fs::read_to_string(home.join(path)).ok().as_deref(), Some(SECRET), "{case}: {path}");
    }
    let mut names: Vec<String> = Vec::new();
    for directory in [home.to_owned(), home.join("private"), home.join("ws-evil")] {
        let entries = fs::read_dir(directory).expect("a directory").flatten();
        names.extend(entries.map(|it| it.file_name().to_string_lossy().into_owned()));
    }
    names.sort();
    assert_eq!(names, [".local", "p.txt", "private", "secret.txt", "ws", "ws-evil", "x.txt"], "{case}");
}

/// Paths that are read, and their contents.
const READ: &[(&str, &str)] = &[
    ("a.txt", "alpha"),
    ("./a.txt", "alpha"),
    ("sub/b.txt", "beta"),
    ("sub//b.txt", "beta"),
    ("sub/./b.txt", "beta"),
    ("sub/../a.txt", "alpha"),
    ("{ws}/a.txt", "alpha"),
    ("{ws}//sub/b.txt", "beta"),
    ("{ws}/sub/../a.txt", "alpha"),
    ("{home}/./ws/a.txt", "alpha"),
    ("~/ws/a.txt", "alpha"),
    ("with space.txt", "space"),
    ("ünï.txt", "umlaut"),
    ("-dash", "dash"),
    ("*", "star"),
    ("$HOME", "dollar"),
    ("%2e%2e", "percent"),
    ("./~tilde", "tilde"),
    ("empty", ""),
    ("link-in", "alpha"),
    ("link-dir/b.txt", "beta"),
    ("hard-in", "alpha"),
    (".git/config", "[core]"),
];

/// Paths that are never read: the policy refuses them or, if it doesn't see through them, the kernel does.
const NOT_READ: &[&str] = &[
    "",
    ".",
    "..",
    "sub",
    "../secret.txt",
    "./../secret.txt",
    "sub/../../secret.txt",
    "sub/b.txt/../../../secret.txt",
    "link-dir/../../secret.txt",
    "missing/../../secret.txt",
    "{home}/secret.txt",
    "{ws}/../secret.txt",
    "{ws}/./../private/p.txt",
    "{ws}-evil/x.txt",
    "../ws-evil/x.txt",
    "~/secret.txt",
    "~",
    "~/",
    "~//secret.txt",
    "~root/x",
    "~tilde",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/cwd/../secret.txt",
    "/dev/zero",
    "/dev/stdin",
    "link-up",
    "link-abs-out",
    "link-abs-in",
    "link-loop",
    "link-out-dir/p.txt",
    "link-root/etc/passwd",
    "link-proc/etc/passwd",
    "dangling",
    "dangling-out",
    "fifo",
    "hard",
    "binary",
    "missing",
    "a.txt/",
    "a.txt/.",
    "a.txt/x",
    "a.txt\0",
    "a.txt\0/../../secret.txt",
    "\0",
    "a.txt ",
    " a.txt",
    "a.txt\n",
    "A.TXT",
    "file:///etc/passwd",
    "%2e%2e/secret.txt",
    "..\\secret.txt",
    "${HOME}/secret.txt",
];

/// Paths that are written.
const WRITTEN: &[(&str, &str)] = &[
    ("new.txt", "new.txt"),
    ("a.txt", "a.txt"),
    ("sub/new.txt", "sub/new.txt"),
    ("made/deep/new.txt", "made/deep/new.txt"),
    ("{ws}/new.txt", "new.txt"),
    ("~/ws/new.txt", "new.txt"),
    ("link-in", "a.txt"),
    ("link-dir/new.txt", "sub/new.txt"),
    ("hard-in", "hard-in"),
    ("-new", "-new"),
    ("new *?.txt", "new *?.txt"),
    (".envrc", ".envrc"),
];

/// Paths that are never written.
const NOT_WRITTEN: &[&str] = &[
    "",
    ".",
    "..",
    "sub",
    "sub/",
    "new/",
    "../new.txt",
    "sub/../../new.txt",
    "made/../../new.txt",
    "{home}/new.txt",
    "{ws}/../new.txt",
    "{ws}-evil/new.txt",
    "~/new.txt",
    "~x/new.txt",
    "/etc/reedclaw-test",
    "/dev/null",
    "/proc/self/mem",
    "link-up",
    "link-abs-out",
    "link-abs-in",
    "link-loop",
    "link-out-dir/new.txt",
    "link-out-dir/p.txt",
    "dangling-out",
    "fifo",
    "hard",
    "a.txt/x",
    "a\0b",
    "\0",
];

/// Directories that are listed, and a name in each; those that aren't listed have none.
const LISTED: &[(&str, Option<&str>)] = &[
    (".", Some("a.txt")),
    ("", Some("a.txt")),
    ("sub", Some("b.txt")),
    ("./sub/", Some("b.txt")),
    ("{ws}", Some("a.txt")),
    ("~/ws/sub", Some("b.txt")),
    ("link-dir", Some("b.txt")),
    ("..", None),
    ("../private", None),
    ("{home}", None),
    ("~", None),
    ("/", None),
    ("/etc", None),
    ("link-out-dir", None),
    ("link-root", None),
    ("link-root/etc", None),
    ("a.txt", None),
    ("fifo", None),
    ("missing", None),
    ("\0", None),
];

pub fn is_refused(code: Option<i32>, result: &Value) -> bool {
    matches!(code, Some(1 | 3)) && result["success"] == false && !result.to_string().contains(SECRET)
}

#[test]
fn files_of_the_workspace_are_read_and_no_others() {
    let home = home();
    for (path, text) in READ {
        let (code, result) = call(home.path(), "file_read", &json!({"path": meant(path, home.path())}), &["--yes"]);
        assert_eq!((code, result["output"].as_str()), (Some(0), Some(*text)), "{path:?} {result}");
    }
    let long = ["x".repeat(256), "x/".repeat(2500)];
    for path in NOT_READ.iter().copied().chain(long.iter().map(String::as_str)) {
        let (code, result) = call(home.path(), "file_read", &json!({"path": meant(path, home.path())}), &["--yes"]);
        assert!(is_refused(code, &result), "{path:?} {code:?} {result}");
    }
    untouched(home.path(), "reading");
}

#[test]
fn files_of_the_workspace_are_written_and_no_others() {
    for (path, at) in WRITTEN {
        let home = home();
        let arguments = json!({"path": meant(path, home.path()), "content": "new"});
        let (code, result) = call(home.path(), "file_write", &arguments, &["--yes"]);
        assert_eq!(code, Some(0), "{path:?} {result}");
        assert_eq!(fs::read_to_string(home.path().join("ws").join(at)).expect(at), "new", "{path:?}");
        untouched(home.path(), path);
    }
    // A hard link isn't followed, so its other name still has the old content.
    let home = home();
    call(home.path(), "file_write", &json!({"path": "hard-in", "content": "new"}), &["--yes"]);
    assert_eq!(fs::read_to_string(home.path().join("ws/a.txt")).expect("a file"), "alpha");
    let long = ["x".repeat(256), "x/".repeat(2500)];
    for path in NOT_WRITTEN.iter().copied().chain(long.iter().map(String::as_str)) {
        let arguments = json!({"path": meant(path, home.path()), "content": "new"});
        let (code, result) = call(home.path(), "file_write", &arguments, &["--yes"]);
        assert!(is_refused(code, &result), "{path:?} {code:?} {result}");
        untouched(home.path(), path);
    }
}

#[test]
fn directories_of_the_workspace_are_listed_and_no_others() {
    let home = home();
    for (path, name) in LISTED {
        let (code, result) = call(home.path(), "file_list", &json!({"path": meant(path, home.path())}), &["--yes"]);
        match name {
            Some(name) => {
                assert_eq!(code, Some(0), "{path:?} {result}");
                assert!(result["output"].as_str().is_some_and(|text| text.contains(name)), "{path:?} {result}");
            }
            None => assert!(is_refused(code, &result), "{path:?} {code:?} {result}"),
        }
    }
    untouched(home.path(), "listing");
}

/// Uses the real policy.
#[test]
fn the_policy_denies_forbidden_paths_and_asks_about_protected_ones() {
    let home = home();
    fs::create_dir_all(home.path().join(".ssh")).expect("a directory");
    fs::write(home.path().join(".ssh/id_ed25519"), SECRET).expect("a file");
    for path in ["/etc/passwd", "/etc/../etc/passwd", "~/.ssh/id_ed25519", "../.ssh/id_ed25519", "/proc/self/environ"] {
        let (code, result) = call(home.path(), "file_read", &json!({"path": path}), &["--yes"]);
        assert_eq!(code, Some(3), "{path} {result}");
        assert!(result["error"]["code"] == "denied" && result["receipt_id"].is_string(), "{path} {result}");
    }
    for path in ["/etc/reedclaw-test", "~/.bashrc", "~/.ssh/authorized_keys", "~/.local/state/reedclaw/ESTOP"] {
        let (code, result) = call(home.path(), "file_write", &json!({"path": path, "content": "x"}), &["--yes"]);
        assert_eq!(code, Some(3), "{path} {result}");
    }
    // Reading runs without a question; writing needs a yes, and there is no person here.
    assert_eq!(call(home.path(), "file_read", &json!({"path": "a.txt"}), &[]).0, Some(0));
    assert_eq!(call(home.path(), "file_write", &json!({"path": "a.txt", "content": "x"}), &[]).0, Some(3));
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    let config = "return {security = {autonomy = \"full\"}}";
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    assert_eq!(call(home.path(), "file_write", &json!({"path": "a.txt", "content": "x"}), &[]).0, Some(0));
    for path in
        [".git/hooks/pre-commit", ".GIT/Hooks/x", ".git/config", ".envrc", ".ENVRC", ".vscode/tasks.json", ".mcp.json"]
    {
        let (code, result) = call(home.path(), "file_write", &json!({"path": path, "content": "x"}), &[]);
        assert_eq!(code, Some(3), "{path} {result}");
    }
}

#[test]
fn the_result_is_json_and_the_exit_status_says_how_it_went() {
    let home = home();
    let (code, result) = call(home.path(), "time", &json!({"zone": "UTC"}), &[]);
    assert_eq!((code, &result["success"]), (Some(0), &json!(true)), "{result}");
    assert!(result["receipt_id"].as_str().is_some_and(|id| id.starts_with("receipt-")), "{result}");
    let error = |tool: &str, arguments: Value| {
        let (code, result) = call(home.path(), tool, &arguments, &["--yes"]);
        (code, result["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(error("no_such", json!({})), (Some(1), "no-such-tool".into()));
    assert_eq!(error("file_read", json!({})), (Some(1), "bad-arguments".into()));
    assert_eq!(error("file_read", json!({"path": ["a.txt"]})), (Some(1), "bad-arguments".into()));
    let (_, result) = call(home.path(), "file_list", &json!({"surprise": 1}), &[]);
    assert_eq!(result["metadata"]["unknown_arguments_ignored"], "surprise", "{result}");
    // A model can't send a person's revision of a proposal.
    let revised = json!({"path": "a.txt", "content": "x", "revised": [{"path": "b.txt", "bytes": "x", "basis": ""}]});
    let (_, result) = call(home.path(), "file_write", &revised, &["--yes"]);
    assert_eq!(result["metadata"]["unknown_arguments_ignored"], "revised", "{result}");
    assert!(!home.path().join("reedclaw-workspace/b.txt").exists());
    assert_eq!(error("project_check", json!({})), (Some(1), "no-such-tool".into()));
    assert_eq!(error("file_read", json!([])), (Some(1), "bad-arguments".into()));
    let workspace = home.path().join("ws").display().to_string();
    let (code, out, _) = run(home.path(), &["tool", "run", "time", "--json", "{", "--workspace", &workspace]);
    assert!(code == Some(1) && out.contains("bad-arguments"), "{out}");
    let (code, out, err) = run(home.path(), &["tool", "run", "time", "--workspace", "/nonexistent"]);
    assert!(code == Some(2) && out.is_empty() && err.contains("/nonexistent"), "{out} {err}");
    assert_eq!(run(home.path(), &["tool", "run"]).0, Some(2));
    // A call that needs a question is denied without a person, and the receipts record that too.
    let (code, result) = call(home.path(), "file_write", &json!({"path": "a.txt", "content": "x"}), &[]);
    assert_eq!((code, &result["error"]["code"]), (Some(3), &json!("denied")), "{result}");
    let receipts = fs::read_to_string(home.path().join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    let kinds: Vec<Value> = receipts.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(kinds.iter().any(|it| it["tool"] == "file_write" && it["status"] == "denied"), "{receipts}");
    // A long output is printed completely, since the rest can't be read later.
    fs::write(home.path().join("ws/long.txt"), "line\n".repeat(20_000)).expect("a file");
    let (_, result) = call(home.path(), "file_read", &json!({"path": "long.txt"}), &["--yes"]);
    assert_eq!(result["output"].as_str().map(str::len), Some(100_000));
    // The same as in `agent`.
    assert_eq!(run(home.path(), &["--config", "/none", "tool", "run", "time"]).0, Some(2));
}

#[test]
fn tools_are_listed_with_where_they_may_be_used() {
    let home = home();
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    let config = "return {tools_allow = {acp = {}, gateway = {}, serve = {}, service = {}, agent = {\"time\"}, shell = {\"http_request\", \"time\"}}}";
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    let (code, out, err) = run(home.path(), &["tool", "list", "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let tools: Vec<Value> = serde_json::from_str(&out).expect("JSON");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in [
        "ask_user",
        "detect_languages",
        "edit_apply_batch",
        "edit_create_file",
        "edit_delete_file",
        "edit_insert_at_line",
        "edit_replace_exact",
        "file_list",
        "file_read",
        "file_write",
        "find_files",
        "hotfiles",
        "http",
        "memory_search",
        "pdf_extract",
        "read_readme",
        "search_text",
        "shell",
        "symbols",
        "time",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let channels = |name: &str| tools.iter().find(|tool| tool["name"] == name).expect(name)["channels"].clone();
    assert_eq!(channels("time"), json!(["shell", "agent"]));
    assert_eq!(channels("http"), json!(["shell"]), "by its other name");
    assert_eq!(channels("shell"), json!([]));
    assert!(tools.iter().all(|tool| tool["schema"]["type"] == "object" && tool["description"].is_string()));
    let (code, out, _) = run(home.path(), &["tool", "list"]);
    assert!(code == Some(0) && out.contains("http, http_request") && out.contains("nowhere"), "{out}");
}

#[test]
fn edits_are_all_made_or_none() {
    let home = home();
    let (at, read) = (
        |path: &str| home.path().join("ws").join(path),
        |path: &str| fs::read_to_string(home.path().join("ws").join(path)).ok(),
    );
    let replace = |path: &str, old: &str, new: &str| json!({"toolName": "edit_replace_exact", "args": {"path": path, "old": old, "new": new}});
    let batch = |edits: &[Value], more: &[&str]| call(home.path(), "edit_apply_batch", &json!({"edits": edits}), more);
    let made = json!({"toolName": "edit_create_file", "args": {"path": "new/n.txt", "content": "n\n"}});
    let edits = [replace("a.txt", "alpha", "omega"), replace("sub/b.txt", "eta", "ee"), made];
    let (code, result) = batch(&edits, &[]);
    assert_eq!((code, &result["error"]["code"]), (Some(3), &json!("denied")), "nobody was asked: {result}");
    let (code, result) = batch(&edits, &["--yes"]);
    assert_eq!((code, &result["metadata"]["canApply"]), (Some(0), &json!(true)), "{result}");
    let stats = json!({"files": 3, "edits": 3, "linesAdded": 3, "linesRemoved": 2});
    assert_eq!(result["metadata"]["stats"], stats, "{result}");
    assert!(result["metadata"]["diff"].as_str().is_some_and(|diff| diff.contains("-alpha\n")), "{result}");
    let now = |paths: [&str; 3]| paths.map(|path| read(path).unwrap_or_default());
    let all = ["a.txt", "sub/b.txt", "new/n.txt"];
    assert_eq!(now(all), ["omega", "bee", "n\n"]);
    // One edit doesn't fit, and one file may not be written: neither is edited, and the second one's content isn't shown.
    let (code, result) = batch(&[replace("a.txt", "omega", "x"), replace("sub/b.txt", "beta", "x")], &["--yes"]);
    assert_eq!(
        (code, &result["error"]["code"], &result["metadata"]["canApply"]),
        (Some(1), &json!("no-match"), &json!(false))
    );
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    let config = format!("return {{security = {{forbidden_paths = {{{:?}}}}}}}", at("closed").display().to_string());
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    fs::create_dir(at("closed")).expect("a directory");
    fs::write(at("closed/key"), SECRET).expect("a file");
    for old in [SECRET, "no such text"] {
        let (code, result) = batch(&[replace("a.txt", "omega", "x"), replace("closed/key", old, "x")], &["--yes"]);
        assert_eq!((code, &result["error"]["code"]), (Some(3), &json!("denied")), "{result}");
        assert!(!result.to_string().contains(SECRET), "{result}");
    }
    assert_eq!(now(all), ["omega", "bee", "n\n"]);
    assert_eq!(read("closed/key").as_deref(), Some(SECRET));
    let single = |tool: &str, args: Value| call(home.path(), tool, &args, &["--yes"]).0;
    assert_eq!(single("edit_insert_at_line", json!({"path": "new/n.txt", "line": 2, "content": "m"})), Some(0));
    assert_eq!(read("new/n.txt").as_deref(), Some("n\nm\n"));
    assert_eq!(single("edit_delete_file", json!({"path": "new/n.txt"})), Some(0));
    assert_eq!(read("new/n.txt"), None);
    untouched_but_config(home.path());
}

/// The same as [`untouched`], with a config that the test writes.
fn untouched_but_config(home: &Path) {
    fs::remove_dir_all(home.join(".config")).expect("the config");
    untouched(home, "edits");
}

#[test]
fn a_change_interrupted_by_a_crash_is_finished_and_reported() {
    let home = home();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = |text: &str| reedclaw::base::hash::sha256_hex(text.as_bytes());
    let ws = home.path().join("ws").canonicalize().expect("a path").display().to_string();
    // The first file is new already, the second is stored beside the old one.
    fs::write(home.path().join("ws/sub/.reedclaw-1.tmp"), "new").expect("a file");
    let journal = format!(
        "reedclaw-edits 1\nroot {}\nfile {} .reedclaw-0.tmp {} {}\nfile {} .reedclaw-1.tmp {} {}\nend\n",
        hex(&ws),
        hex("a.txt"),
        hash("before"),
        hash("alpha"),
        hex("sub/b.txt"),
        hash("beta"),
        hash("new"),
    );
    let edits = home.path().join(".local/state/reedclaw/edits");
    fs::create_dir_all(&edits).expect("a directory");
    fs::write(edits.join(format!("{}.committed", &hash(&ws)[..32])), journal).expect("a journal");
    let (code, _, err) = run(home.path(), &["tool", "run", "time", "--workspace", &ws]);
    assert!(code == Some(0) && err.contains("it is finished now: a.txt, sub/b.txt"), "{err}");
    assert_eq!(fs::read_to_string(home.path().join("ws/sub/b.txt")).expect("a file"), "new");
    let (_, _, err) = run(home.path(), &["tool", "run", "time", "--workspace", &ws]);
    assert!(!err.contains("cut off") && !home.path().join("ws/sub/.reedclaw-1.tmp").exists(), "{err}");
}

#[test]
fn before_an_edit_the_person_sees_its_difference_and_size() {
    let home = home();
    fs::write(home.path().join("ws/a.txt"), "one\ntwo\nthree\n").expect("a file");
    let workspace = home.path().join("ws").display().to_string();
    let arguments = json!({"path": "a.txt", "old": "two", "new": "2"}).to_string();
    let args = ["tool", "run", "edit_replace_exact", "--json", &arguments, "--workspace", &workspace];
    let session = Session::spawn(Spawn::new(program()).args(&args).home(home.path()).size(40, 120));
    session.expect_text("accept [y]");
    session.expect("the summary, and the difference with its line numbers", |screen| {
        let text = screen.contents();
        text.contains("a.txt  +1 −1") && text.contains("  2     - two") && text.contains("      2 + 2")
    });
    session.send(b"y");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert_eq!(fs::read_to_string(home.path().join("ws/a.txt")).expect("a file"), "one\n2\nthree\n");
}

#[test]
fn at_a_terminal_hunks_are_accepted_one_by_one() {
    let home = home();
    let old: String = (1..30).map(|line| format!("line {line}\n")).collect();
    fs::write(home.path().join("ws/a.txt"), &old).expect("a file");
    let workspace = home.path().join("ws").display().to_string();
    let new = old.replace("line 3\n", "three\n").replace("line 20\n", "twenty\n");
    let arguments = json!({"path": "a.txt", "content": new}).to_string();
    let args = ["tool", "run", "file_write", "--json", &arguments, "--workspace", &workspace];
    let session = Session::spawn(Spawn::new(program()).args(&args).home(home.path()).size(50, 120));
    session.expect_text("by hunk [h]");
    session.send(b"h");
    crate::changes::expect_hunk(&session, "hunk 1 of 2");
    session.send(b"n");
    crate::changes::expect_hunk(&session, "hunk 2 of 2");
    session.send(b"y");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert_eq!(fs::read_to_string(home.path().join("ws/a.txt")).expect("a file"), old.replace("line 20\n", "twenty\n"));
}

#[test]
fn at_a_terminal_the_person_is_asked() {
    let home = home();
    let workspace = home.path().join("ws").display().to_string();
    let ask = || {
        let arguments = json!({"path": "a.txt", "content": "omega\n"}).to_string();
        let args = ["tool", "run", "file_write", "--json", &arguments, "--workspace", &workspace];
        let session = Session::spawn(Spawn::new(program()).args(&args).home(home.path()).size(40, 120));
        session.expect_text("accept [y]");
        session.expect("the difference", |screen| {
            let text = screen.contents();
            text.contains("- alpha") && text.contains("+ omega")
        });
        session
    };
    let session = ask();
    session.press(Key::Enter);
    assert_eq!(status_code(session.expect_exit()), 3);
    assert_eq!(fs::read_to_string(home.path().join("ws/a.txt")).expect("a file"), "alpha");
    let session = ask();
    session.send(b"y");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert_eq!(fs::read_to_string(home.path().join("ws/a.txt")).expect("a file"), "omega\n");
}

#[test]
fn init_makes_what_is_missing_and_overwrites_nothing() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let (code, out, err) = run(home.path(), &["init"]);
    assert_eq!((code, err.as_str(), out.matches(": made").count()), (Some(0), "", 4), "{out}");
    let config = home.path().join(".config/reedclaw/config.lua");
    let text = fs::read_to_string(&config).expect("a config");
    assert!(text.lines().filter(|line| line.trim().starts_with("--")).count() > 5, "{text}");
    assert_eq!(fs::metadata(&config).expect("a config").permissions().mode() & 0o777, 0o600);
    assert!(home.path().join(".local/share/reedclaw/reedclaw.db").is_file());
    assert!(home.path().join("reedclaw-workspace").is_dir());
    assert_eq!(run(home.path(), &["config", "validate"]).0, Some(0));
    // It changes nothing: the same settings apply as without it.
    let shown = run(home.path(), &["config", "show"]).1;
    fs::write(&config, "return {default_model = nil} -- mine\n").expect("written");
    assert_eq!(run(home.path(), &["config", "show"]).1, shown);
    fs::write(home.path().join("reedclaw-workspace/mine"), "mine").expect("written");
    let (code, out, _) = run(home.path(), &["init"]);
    assert_eq!((code, out.matches("is there already").count()), (Some(0), 4), "{out}");
    assert!(fs::read_to_string(&config).expect("a config").contains("mine"));
    assert!(home.path().join("reedclaw-workspace/mine").is_file());
    // A dangling link counts as an existing file, and isn't followed.
    fs::remove_file(&config).expect("removed");
    symlink(home.path().join("elsewhere"), &config).expect("a link");
    run(home.path(), &["init"]);
    assert!(!home.path().join("elsewhere").exists());
    let other = home.path().join("other.lua").display().to_string();
    assert!(run(home.path(), &["--config", &other, "init"]).1.contains("other.lua: made"));
}

#[test]
fn this_machine_is_requested_only_where_the_config_says_so() {
    let home = home();
    let server = Server::start();
    let address = server.endpoint();
    let port = address.rsplit(':').next().expect("a port");
    for url in [address.clone(), format!("http://localhost:{port}/"), format!("http://0x7f.1:{port}/")] {
        let (code, result) = call(home.path(), "http", &json!({"url": url}), &["--yes"]);
        assert!(is_refused(code, &result), "{url} {result}");
    }
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    let config = |tools: &str| {
        let text = format!("return {{tools = {{{tools}}}}}");
        fs::write(home.path().join(".config/reedclaw/config.lua"), text).expect("a config");
    };
    config(&format!("http_ports = {{{port}}}"));
    let (code, result) = call(home.path(), "http", &json!({"url": address}), &["--yes"]);
    assert!(is_refused(code, &result) && result["error"]["code"] == "refused", "{result}");
    assert_eq!(server.requests(), 0, "nothing was dialled");
    config(&format!("http_ports = {{{port}}}, http_allow_private = true"));
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 12\r\n\r\n<p>hello</p>";
    server.reply(vec![Step::Raw(page.into())]);
    let (code, result) = call(home.path(), "http_request", &json!({"url": format!("{address}/x")}), &["--yes"]);
    assert_eq!((code, result["output"].as_str(), &result["metadata"]["status"]), (Some(0), Some("hello"), &json!(200)));
    let (code, result) = call(home.path(), "http", &json!({"url": address, "method": "POST"}), &["--yes"]);
    assert_eq!((code, &result["error"]["code"]), (Some(1), &json!("bad-arguments")), "POST is off");
    // A proxy of the environment isn't asked.
    server.reply(vec![Step::Raw(page.into())]);
    let arguments = json!({"url": address}).to_string();
    let workspace = home.path().join("ws").display().to_string();
    let args = ["tool", "run", "http", "--json", &arguments, "--workspace", &workspace, "--yes"];
    let mut proxied = command(home.path(), &args);
    proxied.env("http_proxy", "http://127.0.0.1:1").env("ALL_PROXY", "http://127.0.0.1:1");
    assert!(proxied.output().expect("it runs").status.success());
}

#[test]
fn the_command_line_says_for_one_run_what_is_done_unasked() {
    let home = home();
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    let ws = home.path().join("ws").display().to_string();
    let write = |autonomy: &[&str], name: &str| {
        let arguments = json!({"path": name, "content": "x"}).to_string();
        let args = ["tool", "run", "file_write", "--workspace", &ws, "--json", &arguments];
        (run(home.path(), &[&args[..], autonomy].concat()).0, home.path().join("ws").join(name).exists())
    };
    let config = |autonomy: &str| {
        let text = format!("return {{security = {{autonomy = \"{autonomy}\"}}}}");
        fs::write(home.path().join(".config/reedclaw/config.lua"), text).expect("a config");
    };
    assert_eq!(write(&[], "asked"), (Some(3), false), "no one can be asked");
    assert_eq!(write(&["--autonomy", "full"], "unasked"), (Some(0), true));
    assert_eq!(write(&[], "again"), (Some(3), false), "only that run");
    config("full");
    assert_eq!(write(&["--autonomy", "readonly"], "closed"), (Some(3), false));
    config("readonly");
    assert_eq!(write(&["--autonomy=full"], "open"), (Some(0), true), "the person has the last word");
    assert_eq!(write(&["--autonomy", "whole"], "wrong").0, Some(2));
    // A model in `agent` has it too, and a file of the repository doesn't raise it.
    let script = |name: &str| {
        let call = json!([{"tool_call": {"name": "file_write", "arguments": {"path": name, "content": "x"}}}]);
        fs::write(home.path().join("script.jsonl"), json!({"rounds": [call, [{"text": "done"}]]}).to_string())
            .expect("a script");
    };
    let model = format!(
        "return {{models = {{m = {{kind = \"mock\", script = {:?}}}}}}}",
        home.path().join("script.jsonl").display().to_string()
    );
    fs::write(home.path().join(".config/reedclaw/config.lua"), model).expect("a config");
    fs::write(home.path().join("ws/.reedclaw.lua"), "return {security = {autonomy = \"full\"}}").expect("a file");
    for (autonomy, name, is_there) in [(&[][..], "by-model", false), (&["--autonomy", "full"], "by-model-too", true)] {
        script(name);
        let (code, _, err) = run(home.path(), &[&["agent", "--path", &ws, "-m", "write it"], autonomy].concat());
        assert_eq!((code, home.path().join("ws").join(name).exists()), (Some(0), is_there), "{err}");
    }
}

#[test]
fn the_config_says_how_far_a_question_goes_and_with_which_tools() {
    let home = home();
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    let config = |more: &str| {
        let text = format!(
            "return {{models = {{m = {{kind = \"mock\", script = {:?}}}}}, {more}}}",
            home.path().join("script.jsonl").display().to_string()
        );
        fs::write(home.path().join(".config/reedclaw/config.lua"), text).expect("a config");
    };
    // A model that calls a tool in each round, so that it would never answer.
    let zones = (1..=12).flat_map(|hours| [format!("Etc/GMT+{hours}"), format!("Etc/GMT-{hours}")]);
    let rounds: Vec<Value> = zones
        .map(|zone| json!([{"tool_call": {"name": "time", "arguments": {"zone": zone}}}]))
        .chain([json!([{"text": "done"}])])
        .collect();
    fs::write(home.path().join("script.jsonl"), json!({"rounds": rounds}).to_string()).expect("a script");
    let ask = || run(home.path(), &["agent", "-m", "what time is it?"]);
    config("limits = {tool_rounds_once = 2}");
    let (_, _, err) = ask();
    assert!(err.contains("2 rounds of tools are the limit"), "{err}");
    config("limits = {tool_rounds = 1}");
    let (code, out, err) = ask();
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "done\n"),
        "25 rounds are enough for 24, and the session's limit isn't this one's: {err}"
    );
    let same = json!({"rounds": [[{"tool_call": {"name": "file_list", "arguments": {}}}]]});
    fs::write(home.path().join("script.jsonl"), same.to_string()).expect("a script");
    config("limits = {repeats = 2}");
    let (code, _, err) = ask();
    assert!(code == Some(1) && err.contains("the same call 5 times with the same result"), "{err}");
    let shouts: Vec<Value> =
        (0..10).flat_map(|_| [json!({"text": "x".repeat(500)}), json!({"delay_ms": 10})]).collect();
    fs::write(home.path().join("script.jsonl"), json!({"steps": shouts}).to_string()).expect("a script");
    config("limits = {response_bytes = 1024}");
    let (code, _, err) = ask();
    assert!(code == Some(1) && err.contains("longer than 1024 bytes"), "{err}");
    // A text that arrives whole in one piece is also cut, between two characters.
    fs::write(home.path().join("script.jsonl"), json!({"steps": [{"text": "é".repeat(3000)}]}).to_string())
        .expect("a script");
    config("limits = {response_bytes = 1025}");
    let (code, out, err) = ask();
    assert!(code == Some(1) && err.contains("longer than 1025 bytes"), "{err}");
    assert_eq!(out.matches('é').count(), 512, "{out}");
    // A tool that the channel doesn't have isn't there, and an unknown name is reported.
    let other = json!({"rounds": [[{"tool_call": {"name": "time", "arguments": {}}}], [{"text": "done"}]]});
    fs::write(home.path().join("script.jsonl"), other.to_string()).expect("a script");
    config("tools_allow = {agent = {\"file_list\", \"no_such\"}}");
    let (_, _, err) = ask();
    assert!(err.contains("there is no tool called time"), "{err}");
    assert!(err.contains("tools_allow names no_such, and there is no such tool"), "{err}");
}

#[test]
fn a_path_that_begins_with_a_variable_is_refused_and_makes_no_directory() {
    let home = home();
    for path in ["${HOME}/x", "$HOME/x"] {
        let (_, result) = call(home.path(), "file_write", &json!({"path": path, "content": "x"}), &["--yes"]);
        let message = result["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("begins with a variable of the shell"), "{result}");
    }
    assert!(!home.path().join("ws/${HOME}").exists() && home.path().join("ws/$HOME").is_file());
}

/// The path to the workspace may contain a link, as `/home` does on some machines. A shell variable in a path is refused, because
/// it would become a directory of that name.
#[test]
fn a_path_through_another_name_of_the_workspace_is_in_it_and_a_variable_is_refused() {
    let home = crate::home::TestHome::for_commands().file("work/a.txt", "here\n").done();
    symlink("work", home.path().join("alias")).expect("a link");
    let workspace = home.path().join("work").display().to_string();
    let call = |tool: &str, arguments: Value| -> Value {
        let arguments = arguments.to_string();
        let args = ["tool", "run", tool, "--workspace", &workspace, "--json", &arguments];
        let output = crate::home::command(home.path(), &args).output().expect("it runs");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let read = call("file_read", json!({"path": home.path().join("alias/a.txt")}));
    assert_eq!((&read["success"], &read["output"]), (&json!(true), &json!("here\n")), "{read}");
    for path in ["${HOME}/x", "$HOME/x"] {
        let written = call("file_write", json!({"path": path, "content": "y"}));
        let hint = written["error"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("variables aren't expanded here"), "{written}");
    }
    assert_eq!(std::fs::read_dir(home.path().join("work")).expect("a directory").count(), 1);
}
