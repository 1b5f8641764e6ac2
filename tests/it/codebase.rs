//! The facts that a model finds out about a repository, through the tools that anyone can call.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::run;
use crate::tool::call;

/// A text in files outside of the workspace and in closed ones, which must not appear.
const SECRET: &str = "needle-s3cr3t";

/// A home with a repository `ws` in it.
fn home() -> TempDir {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let write = |path: &str, text: &[u8]| {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    };
    write("ws/src/app.rs", b"fn main() {\n    let needle = 1;\n}\n// a needle in a needle\n");
    write("ws/src/deep/lib.rs", b"// no thing here\n");
    write("ws/src/deep/lib.c", "/* äöü needle */\n".as_bytes());
    write("ws/README.md", b"needle.*\nNEEDLE\n");
    write("ws/.gitignore", b"/out\n*.log\n");
    write("ws/out/made.rs", b"needle\n");
    write("ws/build.log", b"needle\n");
    write("ws/.hidden/x.rs", b"needle\n");
    write("ws/binary.rs", b"\0\x01needle\n");
    write("ws/wide.rs", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0");
    write("ws/closed/key.rs", SECRET.as_bytes());
    write("ws/.git/HEAD", b"ref: refs/heads/main\n");
    write("outside/secret.rs", SECRET.as_bytes());
    for (link, to) in [("ws/link.rs", "../outside/secret.rs"), ("ws/out-dir", "../outside"), ("ws/in-dir", "src")] {
        symlink(to, home.path().join(link)).expect("a link");
    }
    fs::hard_link(home.path().join("outside/secret.rs"), home.path().join("ws/hard.rs")).expect("a hard link");
    fs::hard_link(home.path().join("ws/src/deep/lib.rs"), home.path().join("ws/src/twin.rs")).expect("a hard link");
    let closed = home.path().join("ws/closed").display().to_string();
    write(
        ".config/reedclaw/config.lua",
        format!("return {{security = {{forbidden_paths = {{\"{closed}\"}}}}}}").as_bytes(),
    );
    home
}

/// Returns the output's lines of a call that must succeed unasked, and the facts.
#[track_caller]
fn lines(home: &Path, tool: &str, arguments: &Value) -> (Vec<String>, Value) {
    let (code, result) = call(home, tool, arguments, &[]);
    assert_eq!(code, Some(0), "{arguments} {result}");
    assert!(!result.to_string().contains("s3cr3t"), "{arguments} {result}");
    let output = result["output"].as_str().unwrap_or_default();
    (output.lines().map(str::to_owned).collect(), result["metadata"].clone())
}

#[test]
fn files_are_found_by_globs() {
    let home = home();
    let all = ["README.md", "binary.rs", "src/app.rs", "src/deep/lib.c", "src/deep/lib.rs", "src/twin.rs", "wide.rs"];
    let only = |end: &str| all.into_iter().filter(|path| path.ends_with(end)).collect::<Vec<_>>();
    // A name isn't content: the existence of a hard link may be shown.
    for (pattern, found) in [
        ("lib.*", vec!["src/deep/lib.c", "src/deep/lib.rs"]),
        ("src/*.rs", vec!["src/app.rs", "src/twin.rs"]),
        ("./src/**", vec!["src/app.rs", "src/deep/lib.c", "src/deep/lib.rs", "src/twin.rs"]),
        ("/src/**/*.{c,md}", vec!["src/deep/lib.c"]),
        ("*.[cm]*", vec!["README.md", "src/deep/lib.c"]),
        ("**/deep/*", vec!["src/deep/lib.c", "src/deep/lib.rs"]),
        ("README.md", only(".md")),
    ] {
        assert_eq!(lines(home.path(), "find_files", &json!({"pattern": pattern})).0, found, "{pattern}");
    }
    let rust = lines(home.path(), "find_files", &json!({"pattern": "*.rs", "limit": null})).0;
    assert_eq!(rust[..2], ["binary.rs", "hard.rs"]);
    assert!(
        !rust.iter().any(|path| path.contains("closed") || path.contains("out") || path.contains("link")),
        "{rust:?}"
    );
    let (some, facts) = lines(home.path(), "find_files", &json!({"pattern": "src/**", "limit": 2}));
    assert_eq!(some, ["src/app.rs", "src/deep/lib.c", "[2 of 4 files]"]);
    assert_eq!(facts, json!({"results": 2, "is_all": false}));
    for pattern in ["*.log", "../**", "../outside/*", "out/**", "made.rs", "closed/*", "out-dir/*", "SRC/*"] {
        let (none, facts) = lines(home.path(), "find_files", &json!({"pattern": pattern}));
        assert!(none.len() == 1 && none[0].starts_with("[no file has such a name"), "{pattern} {none:?}");
        assert_eq!(facts["results"], 0, "{pattern}");
    }
    let (code, result) = call(home.path(), "find_files", &json!({"pattern": "a[b"}), &[]);
    assert_eq!((code, &result["error"]["code"]), (Some(1), &json!("bad-pattern")), "{result}");
}

#[test]
fn lines_are_found_by_texts_and_expressions() {
    let home = home();
    let search = |arguments: Value| -> Vec<(String, u64, u64)> {
        let (lines, _) = lines(home.path(), "search_text", &arguments);
        let fields = |line: &String| {
            let (place, _) = line.split_once(": ")?;
            let [path, line, column] = place.split(':').collect::<Vec<_>>()[..] else { return None };
            Some((path.to_owned(), line.parse().ok()?, column.parse().ok()?))
        };
        lines.iter().filter_map(fields).collect()
    };
    let at = |found: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        found.iter().map(|(path, line, column)| ((*path).to_owned(), *line, *column)).collect()
    };
    let app = [("src/app.rs", 2, 9), ("src/app.rs", 4, 6)];
    let everywhere = [&[("README.md", 1, 1)], &app[..], &[("src/deep/lib.c", 1, 11), ("wide.rs", 1, 1)]].concat();
    assert_eq!(search(json!({"query": "needle"})), at(&everywhere));
    assert_eq!(search(json!({"query": "needle", "path": "src/app.rs", "regex": null})), at(&app));
    assert_eq!(search(json!({"query": "needle", "path": "in-dir"})), at(&everywhere[1..4]));
    assert_eq!(search(json!({"query": "needle.*"})), at(&[("README.md", 1, 1)]));
    assert_eq!(search(json!({"query": "^n.*\\*$", "regex": true})), at(&[("README.md", 1, 1)]));
    assert_eq!(search(json!({"query": "(?i)^needle$", "regex": true})), at(&[("README.md", 2, 1), ("wide.rs", 1, 1)]));
    assert_eq!(search(json!({"query": "no thing"})), at(&[("src/deep/lib.rs", 1, 4), ("src/twin.rs", 1, 4)]));
    // A path that is named is searched, although it is hidden or ignored.
    assert_eq!(search(json!({"query": "needle", "path": ".hidden"})), at(&[(".hidden/x.rs", 1, 1)]));
    assert_eq!(search(json!({"query": "needle", "path": "build.log"})), at(&[("build.log", 1, 1)]));
    assert_eq!(search(json!({"query": "needle", "path": "out"})), at(&[("out/made.rs", 1, 1)]));
    assert_eq!(search(json!({"query": "needle", "limit": 2})), at(&everywhere[..2]));
    let (some, facts) = lines(home.path(), "search_text", &json!({"query": "needle", "limit": 4}));
    let first = json!({"path": "README.md", "line": 1, "column": 1, "preview": "needle.*"});
    assert_eq!(some[0], "README.md:1:1: needle.*");
    assert!(some[4].starts_with("[4 of "), "{some:?}");
    assert_eq!((&facts["results"], &facts["is_all"], &facts["binary_files"]), (&json!(4), &json!(false), &json!(1)));
    assert_eq!((&facts["matches"][0], facts["matches"].as_array().map(Vec::len)), (&first, Some(4)));
    let (none, _) = lines(home.path(), "search_text", &json!({"query": "no such words"}));
    assert!(none.len() == 1 && none[0].starts_with("[no line matches"), "{none:?}");
}

#[test]
fn a_search_never_leaves_the_workspace() {
    let home = home();
    for path in ["..", "../outside", "out-dir", "link.rs", "/etc", "/", "~", "closed", "closed/key.rs"] {
        let (code, result) = call(home.path(), "search_text", &json!({"query": "needle", "path": path}), &["--yes"]);
        let is_refused = matches!(code, Some(1 | 3)) && result["success"] == false;
        assert!(is_refused && !result.to_string().contains("s3cr3t"), "{path} {code:?} {result}");
    }
    // Under its own name, a hard link to a file outside is no more accessible than otherwise.
    let (hard, _) = lines(home.path(), "search_text", &json!({"query": "needle", "path": "hard.rs"}));
    assert!(hard[0].starts_with("[no line matches"), "{hard:?}");
    for (query, regex) in [("a(", true), ("a\nb", false), ("*a", true), ("\\n", true)] {
        let (code, result) = call(home.path(), "search_text", &json!({"query": query, "regex": regex}), &[]);
        assert_eq!((code, &result["error"]["code"]), (Some(1), &json!("bad-query")), "{query:?} {result}");
    }
}

#[test]
fn a_search_ends_where_there_is_too_much() {
    let home = home();
    for file in 0..12 {
        fs::write(home.path().join(format!("ws/many{file}.txt")), "haystack\n".repeat(1_000)).expect("a file");
    }
    let (some, facts) = lines(home.path(), "search_text", &json!({"query": "haystack", "limit": 3}));
    assert_eq!(some[3], "[3 of more than 10000 lines; ask for less, or below a directory]");
    assert_eq!(facts["is_all"], false);
    // A line without end is cut around its match.
    fs::write(home.path().join("ws/long.txt"), format!("{}pin{}", "x".repeat(50_000), "y".repeat(50_000)))
        .expect("a file");
    let (long, _) = lines(home.path(), "search_text", &json!({"query": "pin"}));
    assert!(long[0].len() < 400 && long[0].contains("xpiny") && long[0].contains("50001"), "{long:?}");
}

#[test]
fn a_directory_is_listed_without_what_is_ignored() {
    let home = home();
    let at = |name: &str| home.path().join("ws").join(name);
    fs::create_dir_all(at(".git")).expect("a directory");
    fs::create_dir_all(at("target/deep")).expect("a directory");
    fs::write(at(".gitignore"), "target/\n*.log\n").expect("a file");
    fs::write(at("x.log"), "x").expect("a file");
    let (code, result) = call(home.path(), "list_root", &json!({}), &[]);
    assert_eq!(code, Some(0), "{result}");
    let entries = result["metadata"]["entries"].as_array().expect("entries");
    let names: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert!(names.contains(&"src") && names.contains(&".gitignore"), "{names:?}");
    assert!(!names.iter().any(|name| ["target", "x.log", ".git"].contains(name)), "{names:?}");
    assert_eq!(entries[0]["type"], "directory");
    let file = entries.iter().find(|entry| entry["name"] == ".gitignore").expect("a file");
    assert_eq!((&file["type"], &file["size"]), (&json!("file"), &json!(14)));
    let output = result["output"].as_str().expect("text");
    assert!(output.ends_with("[4 ignored: .git, target, build.log, x.log]"), "{output}");
    let (_, result) = call(home.path(), "file_list", &json!({"path": "target"}), &[]);
    assert_eq!(result["output"], "deep/", "a directory that is named is listed");
}

#[test]
fn lines_of_a_file_are_read_by_range() {
    let home = home();
    let app = fs::read_to_string(home.path().join("ws/src/app.rs")).expect("a file");
    let all: Vec<&str> = app.split_inclusive('\n').collect();
    for (arguments, from, to) in [
        (json!({"range": null}), 1, 4),
        (json!({"range": "2-3"}), 2, 3),
        (json!({"range": "2-"}), 2, 4),
        (json!({"range": "4"}), 4, 4),
        (json!({"range": "3-900"}), 3, 4),
        (json!({"start_line": 2, "end_line": 2}), 2, 2),
        (json!({"range": {"start": 2, "end": 3}}), 2, 3),
        (json!({"range": {"start": 3, "end": null}}), 3, 4),
        (json!({"range": {}}), 1, 4),
    ] {
        let mut asked = arguments.clone();
        asked["path"] = json!("src/app.rs");
        for name in ["file_read", "read_file"] {
            let (code, result) = call(home.path(), name, &asked, &[]);
            assert_eq!((code, result["output"].as_str()), (Some(0), Some(&*all[from - 1..to].concat())), "{arguments}");
            let facts = json!({"path": "src/app.rs", "startLine": from, "endLine": to, "lines": 4});
            assert_eq!(result["metadata"], facts, "{arguments}");
        }
    }
    for range in ["0-3", "a", "-3", "-", "3-2", "9-", "1-2-3", " 1"] {
        let (_, result) = call(home.path(), "file_read", &json!({"path": "src/app.rs", "range": range}), &[]);
        assert_eq!(result["error"]["code"], "bad-range", "{range} {result}");
    }
    let (_, result) = call(home.path(), "file_read", &json!({"path": "src/app.rs", "range": "20-30"}), &[]);
    assert_eq!(result["error"]["message"], "src/app.rs has 4 lines; 20 to 30 is no range of them");
    let both = json!({"path": "src/app.rs", "range": "2", "end_line": 3});
    assert_eq!(call(home.path(), "file_read", &both, &[]).1["error"]["code"], "bad-range");
    let wrong = json!({"path": "src/app.rs", "range": {"start": 0}});
    assert_eq!(call(home.path(), "file_read", &wrong, &[]).1["error"]["code"], "bad-range");
    assert!(lines(home.path(), "list_root", &json!({})).0.contains(&"src/".to_owned()));
}

#[test]
fn the_readme_is_found_under_any_of_its_names() {
    let home = home();
    let readme = || call(home.path(), "read_readme", &json!({}), &[]).1;
    assert_eq!(readme()["metadata"], json!({"path": "README.md", "startLine": 1, "endLine": 2, "lines": 2}));
    let at = |name: &str| home.path().join("ws").join(name);
    fs::rename(at("README.md"), at("Readme.txt")).expect("another name");
    fs::write(at("readme.rst"), "rst").expect("a file");
    fs::write(at("README.exe"), "exe").expect("a file");
    assert_eq!(readme()["output"], "rst");
    fs::remove_file(at("readme.rst")).expect("it goes");
    assert_eq!(readme()["output"], "needle.*\nNEEDLE\n");
    fs::remove_file(at("Readme.txt")).expect("it goes");
    assert_eq!(readme()["error"]["code"], "not-found");
    symlink("../outside/secret.rs", at("README")).expect("a link");
    let (code, result) = call(home.path(), "read_readme", &json!({}), &["--yes"]);
    assert!(matches!(code, Some(1 | 3)) && !result.to_string().contains("s3cr3t"), "{code:?} {result}");
}

/// The output's lines as JSON.
#[track_caller]
fn values(home: &Path, tool: &str, arguments: &Value) -> Vec<Value> {
    let (lines, _) = lines(home, tool, arguments);
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn languages_are_counted_by_bytes_without_vendored_files() {
    let home = home();
    let write = |path: &str, text: &str| {
        let path = home.path().join("ws").join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    };
    for gone in ["hard.rs", "binary.rs", "wide.rs", "closed/key.rs", "src/twin.rs", "src/deep/lib.rs"] {
        fs::remove_file(home.path().join("ws").join(gone)).expect("it goes");
    }
    write("src/app.rs", &"x".repeat(600));
    write("src/deep/lib.c", &"x".repeat(300));
    write("tool", &format!("#!/usr/bin/env python3\n{}", "x".repeat(77)));
    write("vendor/big.go", &"x".repeat(5_000));
    write("web/app.min.js", &"x".repeat(5_000));
    write("plain", "no first line");
    let wanted = [("Rust", 600, 60.0), ("C", 300, 30.0), ("Python", 100, 10.0)];
    let wanted = wanted.map(|(name, bytes, percent)| json!({"language": name, "bytes": bytes, "percent": percent}));
    assert_eq!(values(home.path(), "detect_languages", &json!({})), wanted);
}

#[test]
fn symbols_are_listed_by_file_by_name_and_as_a_map_and_follow_changes() {
    let home = home();
    let write = |path: &str, text: &str| {
        let path = home.path().join("ws").join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    };
    write("src/core.rs", "pub struct Engine;\nimpl Engine {\n    pub fn start_engine(&self) {}\n}\n");
    write("tools/run.py", "def run_all(x):\n    start_engine(Engine)\n");
    write("web/a.ts", "export function draw(e: Engine): void {}\n");
    write("closed/key.rs", "pub fn closed_one() {}\n");
    write("ignored.rs", "pub fn ignored_one() {}\n");
    write(".gitignore", "ignored.rs\n");
    let told = |arguments: &Value| lines(home.path(), "symbols", arguments).0.join("\n");
    let map = told(&json!({}));
    let place = |what: &str| map.find(what).unwrap_or_else(|| panic!("{what} is not in\n{map}"));
    assert!(place("1: pub struct Engine") < place("1: def run_all(x)"), "{map}");
    for absent in ["closed_one", "ignored_one"] {
        assert!(!map.contains(absent), "{map}");
    }
    let outline = "src/core.rs\n  1: pub struct Engine\n    3: pub fn start_engine(&self)";
    assert_eq!(told(&json!({"path": "src/core.rs"})), outline);
    assert_eq!(told(&json!({"query": "start_engine"})), "src/core.rs\n    3: pub fn start_engine(&self)");
    assert_eq!(told(&json!({"path": "web", "query": "draw"})), "web/a.ts\n  1: export function draw(e: Engine): void");
    assert!(told(&json!({"query": "nowhere_to_be_found"})).starts_with("[nothing is defined"));
    write("src/core.rs", "pub struct Motor;\n");
    assert_eq!(told(&json!({"path": "src/core.rs"})), "src/core.rs\n  1: pub struct Motor");
    fs::remove_file(home.path().join("ws/web/a.ts")).expect("it goes");
    assert!(told(&json!({"query": "draw"})).starts_with("[nothing is defined"));
    let kept = fs::read_dir(home.path().join(".local/state/reedclaw/symbols")).expect("what is kept").count();
    assert_eq!(kept, 1);
}

#[test]
fn hot_files_are_ranked_by_history_or_else_by_size() {
    let home = home();
    let paths = |arguments: &Value| -> Vec<String> {
        let told = values(home.path(), "hotfiles", arguments);
        told.iter().map(|it| it["path"].as_str().expect("a path").to_owned()).collect()
    };
    fs::remove_file(home.path().join("ws/src/twin.rs")).expect("it goes");
    // A directory that looks like a repository has no history yet.
    let largest = paths(&json!({"limit": 3}));
    assert_eq!(largest, ["src/app.rs", "src/deep/lib.c", "src/deep/lib.rs"]);
    fs::remove_dir_all(home.path().join("ws/.git")).expect("it goes");
    assert_eq!(paths(&json!({"limit": 3})), largest);
    let git = |day: u32, words: &[&str]| {
        let date = format!("2026-01-{day:02}T12:00:00Z");
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(words).current_dir(home.path().join("ws"));
        command.env_clear().env("PATH", crate::need::TEST_PATH).env("HOME", home.path());
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        assert!(command.output().expect("git").status.success(), "{words:?}");
    };
    git(1, &["init", "-q"]);
    git(1, &["add", "src", "README.md", "closed"]);
    git(1, &["commit", "-qm", "first"]);
    for day in 2..6 {
        for path in ["src/deep/lib.rs", "closed/key.rs", "gone.rs", "Cargo.lock"] {
            fs::write(home.path().join("ws").join(path), format!("{day}\n")).expect("a file");
        }
        git(day, &["add", "."]);
        git(day, &["commit", "-qm", "more"]);
    }
    git(6, &["rm", "-q", "gone.rs"]);
    git(6, &["commit", "-qm", "gone"]);
    // Files that are closed, gone or generated aren't included.
    let told = values(home.path(), "hotfiles", &json!({}));
    assert_eq!(told[0]["path"], "src/deep/lib.rs", "{told:?}");
    let reason = "5 commits, the last on 2026-01-05, 9 lines changed in the newest 50 commits";
    assert_eq!(told[0]["reason"], reason, "{told:?}");
    assert!(told[0]["score"].as_f64() > told[1]["score"].as_f64(), "{told:?}");
    let paths = paths(&json!({}));
    for absent in ["closed/key.rs", "gone.rs", "Cargo.lock"] {
        assert!(!paths.iter().any(|path| path == absent), "{absent} {paths:?}");
    }
    assert!(paths.contains(&"README.md".to_owned()), "{paths:?}");
}

#[test]
fn a_line_says_what_the_model_is_about_to_look_at() {
    let home = home();
    let workspace = home.path().join("ws").display().to_string();
    let script = home.path().join("script.jsonl").display().to_string();
    let calls = [
        ("search_text", json!({"query": "ne\u{1b}[31m", "path": "src/"}), "Searching `ne\\x1b[31m` in `src/`"),
        ("search_text", json!({"query": "needle", "path": null}), "Searching `needle`\n"),
        ("find_files", json!({"pattern": "*.rs", "limit": 1}), "Finding `*.rs`"),
        ("read_file", json!({"path": "src/app.rs", "range": "2-3"}), "Reading `src/app.rs`, lines 2 to 3"),
        ("read_file", json!({"path": "src/app.rs", "range": null}), "Reading `src/app.rs`\n"),
        ("list_root", json!({}), "Listing `.`"),
        ("read_readme", json!({}), "Reading `README.md`"),
        ("detect_languages", json!({}), "Looking which languages are used"),
        ("hotfiles", json!({}), "Looking which files are worked on most"),
        ("symbols", json!({"path": null, "query": "go"}), "Looking for definitions of `go`"),
    ];
    let mut rounds = Vec::new();
    for (tool, arguments, _) in &calls {
        rounds.push(json!([{"tool_call": {"name": tool, "arguments": arguments}}]));
    }
    rounds.push(json!([{"text": "done"}]));
    fs::write(&script, json!({"rounds": rounds}).to_string()).expect("a script");
    let config = format!(
        "return {{models = {{m = {{kind = \"mock\", script = {script:?}}}}}, workspace_dir = {workspace:?}, \
         limits = {{tool_rounds_once = 20}}}}"
    );
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    let (code, out, err) = run(home.path(), &["agent", "-m", "what is here?"]);
    assert_eq!((code, out.as_str()), (Some(0), "done\n"), "{err}");
    for (tool, _, intent) in calls {
        assert!(err.contains(&format!("[tool] {intent}")), "{tool} {intent}\n{err}");
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_read_as_it_can_be_edited() {
    let home = home();
    let latin = home.path().join("ws/latin");
    fs::write(&latin, b"caf\xe9 one\nna\xefve\n").expect("a file");
    let (code, result) = call(home.path(), "read_file", &json!({"path": "latin", "range": "1"}), &[]);
    assert_eq!((code, &result["output"]), (Some(0), &json!("caf\\xe9 one\n")), "{result}");
    assert!(result["metadata"]["encoding"].as_str().is_some_and(|it| it.starts_with("not UTF-8")), "{result}");
    let edit = json!({"path": "latin", "old": "one", "new": "two"});
    assert_eq!(call(home.path(), "edit_replace_exact", &edit, &["--yes"]).0, Some(0));
    assert_eq!(fs::read(&latin).expect("the file"), b"caf\xe9 two\nna\xefve\n");
    for (content, said) in [(&b"\xff\xfeh\0i\0"[..], "UTF-16"), (b"\x7fELF\0", "the shell has")] {
        fs::write(&latin, content).expect("a file");
        let (code, result) = call(home.path(), "read_file", &json!({"path": "latin"}), &[]);
        assert_eq!((code, &result["error"]["code"]), (Some(1), &json!("not-text")), "{result}");
        assert!(result["error"]["hint"].as_str().is_some_and(|it| it.contains(said)), "{result}");
    }
}

#[test]
fn a_command_s_result_has_its_status_and_its_time() {
    let home = home();
    let arguments = json!({"command": "echo out; echo err >&2; false", "cwd": null, "timeoutMs": null});
    let (_, result) = call(home.path(), "shell_run", &arguments, &["--yes"]);
    assert_eq!(result["output"], "out\n[stderr]\nerr", "{result}");
    assert_eq!(result["metadata"]["exitCode"], 1, "{result}");
    assert!(result["metadata"]["durationMs"].is_u64(), "{result}");
}
