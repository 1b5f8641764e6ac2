//! Real builds and tests of real projects as commands of a model, on a copy of the workspace and without a network: they end as
//! in a plain shell, and their results exist afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::changes::{home, read, rounds, work};
use crate::need::{TEST_PATH, require, require_that};
use crate::pty::program;
use crate::story::rustc;

/// A home whose workspace has these files, and whose model runs these commands.
fn scene(files: &[(&str, &str)], commands: &[&str]) -> TempDir {
    let calls: Vec<_> = commands.iter().map(|it| ("shell", json!({"command": it}))).collect();
    let home = home(&[rounds("please", &calls, "that was it")], "security = {autonomy = \"full\"}");
    for (name, text) in files {
        let path = work(home.path(), name);
        fs::create_dir_all(path.parent().expect("a parent")).and_then(|()| fs::write(&path, text)).expect("a file");
    }
    home
}

/// The commands' outputs and statuses, with these directories first on PATH.
fn results(home: &Path, more: &[&str]) -> Vec<(String, i64)> {
    let path = more.iter().copied().chain([TEST_PATH]).collect::<Vec<_>>().join(":");
    let mut command = Command::new(program());
    command.args(["agent", "--json", "--path", ".", "-m", "please"]).env_clear().env("PATH", path).env("HOME", home);
    let ended = command.env("LANG", "C.UTF-8").current_dir(home.join("work")).output().expect("it runs");
    let text = String::from_utf8(ended.stdout).expect("UTF-8");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let done = lines.filter(|line| line["event"] == "tool_done").map(|line| line["result"].clone());
    let code = |result: &serde_json::Value| result["metadata"]["exitCode"].as_i64().unwrap_or(-1);
    done.map(|result| (result["output"].as_str().unwrap_or_default().to_owned(), code(&result))).collect()
}

#[track_caller]
fn all_end_well(results: &[(String, i64)], count: usize) {
    assert!(results.len() == count && results.iter().all(|(_, code)| *code == 0), "{results:#?}");
}

#[test]
fn cargo_builds_and_tests_on_a_copy_and_the_build_remains() {
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let main = "fn main() { println!(\"{}\", small::add(1, 2)); }\n";
    let lib = "pub fn add(a: u32, b: u32) -> u32 { a + b }\n#[test]\nfn adds() { assert_eq!(add(1, 2), 3); }\n";
    let files = [("Cargo.toml", manifest), ("src/main.rs", main), ("src/lib.rs", lib)];
    let home = scene(&files, &["cargo build", "cargo test", "cargo build", "./target/debug/small"]);
    let toolchain = format!("{}/bin", rustc(&["--print", "sysroot"]));
    let results = results(home.path(), &[&toolchain]);
    all_end_well(&results, 4);
    assert!(results[0].0.contains("Compiling small"), "{results:#?}");
    assert!(results[1].0.contains("1 passed"), "{results:#?}");
    // The results are fresh for the next build: their times are preserved, too.
    assert!(!results[2].0.contains("Compiling"), "{results:#?}");
    assert!(results[3].0.starts_with('3'), "{results:#?}");
    assert!(work(home.path(), "target/debug/small").exists());
}

#[test]
fn npm_installs_a_package_of_the_workspace() {
    if !require(&["npm", "node"]) {
        return;
    }
    let files = [
        ("package.json", r#"{"name": "app", "version": "1.0.0", "dependencies": {"part": "file:./part"}}"#),
        ("part/package.json", r#"{"name": "part", "version": "1.0.0", "main": "index.js"}"#),
        ("part/index.js", "module.exports = 'from the part';\n"),
        ("install.sh", "npm install --offline --no-audit --no-fund\n"),
        ("app.js", "console.log(require('part'));\n"),
    ];
    let home = scene(&files, &["sh install.sh", "node app.js"]);
    let results = results(home.path(), &[]);
    all_end_well(&results, 2);
    assert!(results[1].0.starts_with("from the part"), "{results:#?}");
    assert!(work(home.path(), "node_modules/part").is_symlink());
}

#[test]
fn python_tests_run_with_pytest() {
    let has_pytest = Command::new("python3").args(["-c", "import pytest"]).env("PATH", TEST_PATH).output();
    let is_there = has_pytest.is_ok_and(|ended| ended.status.success());
    if !require_that(is_there, "pytest is not installed") {
        return;
    }
    let files = [
        ("app.py", "def add(a, b):\n    return a + b\n"),
        (
            "test_app.py",
            "from app import add\n\ndef test_add(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert add(1, 2) == 3\n",
        ),
    ];
    let home = scene(&files, &["python3 -m pytest -q"]);
    let results = results(home.path(), &[]);
    all_end_well(&results, 1);
    assert!(results[0].0.contains("1 passed"), "{results:#?}");
}

/// The steps of a usual CI file, without containers: configure, build, test, pack.
#[test]
fn the_steps_of_a_ci_file_run_one_after_another() {
    if !require(&["make", "cc", "tar", "git", "python3"]) {
        return;
    }
    let make = "CFLAGS = -O1 -Wall\nall: app\napp: main.o part.o\n\t$(CC) -o $@ $^\ntest: app\n\t./app | grep -q fine\n\
                dist: app\n\tmkdir -p dist && tar czf dist/app.tar.gz app && (cd dist && sha256sum app.tar.gz > SUMS)\n\
                clean:\n\trm -rf app *.o dist\n";
    let files = [
        ("Makefile", make),
        ("main.c", "void part(void);\nint main(void) { part(); return 0; }\n"),
        ("part.c", "#include <stdio.h>\nvoid part(void) { puts(\"fine\"); }\n"),
        (
            "ci.sh",
            "set -eux\nexport CI=true\nversion=$(git describe --always 2>/dev/null || echo none)\nmake clean\n\
                   make -j2 all test dist\npython3 -m venv --without-pip env && env/bin/python -c 'print(1)'\n\
                   (cd dist && sha256sum -c SUMS)\nt=$(mktemp -d); cp app \"$t\"; \"$t/app\"\necho \"done: $version\"\n",
        ),
    ];
    let home = scene(
        &files,
        &["git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm first", "bash ci.sh"],
    );
    let results = results(home.path(), &[]);
    all_end_well(&results, 2);
    assert!(results[1].0.contains("done: "), "{results:#?}");
    assert!(read(home.path(), "dist/SUMS").contains("app.tar.gz") && work(home.path(), "env/bin/python").exists());
}
