//! `reedclaw route` without a terminal: one line, a stream of lines, and the names that count.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::dispatch::piped;
use crate::pty::program;

fn route(args: &[&str], input: &[u8], home: &Path) -> Output {
    piped(&program(), "reedclaw", &[&["route"], args].concat(), input, home)
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn home_with_names() -> TempDir {
    let home = TempDir::new().expect("a home");
    std::fs::write(home.path().join("names"), "ls\ncat\nkill\nfrobnicate\n").expect("names");
    std::fs::write(home.path().join("session"), "alias gs\nfunction deploy\n").expect("a session");
    home
}

#[test]
fn a_stream_of_lines_is_decided_by_given_names() {
    let home = home_with_names();
    let lines: [(&[u8], &str); 14] = [
        (b"ls -la", "shell"),
        (b"frobnicate x.txt", "shell"),
        (b"gs", "shell"),
        (b"deploy staging", "shell"),
        (b"what is this", "ask"),
        (b"kill the server on port 80", "ask"),
        (b":help", "meta"),
        (b"", "incomplete"),
        (b"cat 'a", "incomplete"),
        (b"cat <<EOF\\nplease do this\\nEOF", "shell"),
        (b"ls\\nwhat is this and why does it fail?\\nplease tell me", "ask"),
        (b"cat a\\tb", "shell"),
        (b"was ist \xff\xfe das hier", "ask"),
        (b"cat -n \xff.txt", "shell"),
    ];
    let input = lines.map(|(line, _)| line).join(&b'\n');
    let output = route(&["--batch", "--names", "names", "--session", "session"], &input, home.path());
    let answers = objects(&output);
    assert_eq!(answers.len(), lines.len());
    for ((line, wanted), answer) in lines.iter().zip(&answers) {
        assert_eq!(answer["route"], *wanted, "{} {answer}", String::from_utf8_lossy(line));
        assert!(answer["score"].is_number() && answer["rule"].is_string());
        assert!(answer["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    }
}

#[test]
fn the_commands_of_the_documentation_are_no_questions() {
    let home = TempDir::new().expect("a home");
    std::fs::write(home.path().join("names"), "reedclaw\n").expect("names");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = std::fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("a page").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|it| it == "md")).chain([root.join("README.md")]);
    let texts: Vec<String> = pages.map(|page| std::fs::read_to_string(page).expect("a page")).collect();
    let lines: Vec<&str> =
        texts.iter().flat_map(|text| text.split("```").skip(1).step_by(2)).flat_map(str::lines).collect();
    let commands: Vec<&str> =
        lines.into_iter().filter(|line| line.starts_with("reedclaw ") && !line.ends_with('\\')).collect();
    assert!(commands.len() > 20, "{commands:?}");
    let output = route(&["--batch", "--names", "names"], commands.join("\n").as_bytes(), home.path());
    for (line, answer) in commands.iter().zip(objects(&output)) {
        assert_eq!(answer["route"], "shell", "{line}: {answer}");
    }
}

#[test]
fn a_stream_answers_what_single_lines_are_answered() {
    let home = home_with_names();
    let lines =
        ["ls the files", "cat this", "kill %1", "gs -s", "how do I exit vim", "!ls", "?ls", "frobnicate", "for i in a"];
    let names = ["--names", "names", "--session", "session"];
    let mut batch = names.to_vec();
    batch.push("--batch");
    let together = objects(&route(&batch, lines.join("\n").as_bytes(), home.path()));
    for (line, answer) in lines.iter().zip(together) {
        let mut single = names.to_vec();
        single.extend(["--json", "--", line]);
        assert_eq!(objects(&route(&single, b"", home.path())), [answer], "{line}");
    }
}

#[test]
fn without_a_list_the_users_own_shell_is_asked() {
    let home = TempDir::new().expect("a home");
    let rc =
        "case $- in *i*) ;; *) return;; esac\necho noise\nalias zork='ls -l'\nquux() { ls; }\nPATH=$HOME/tools:$PATH\n";
    std::fs::write(home.path().join(".bashrc"), rc).expect("start-up file");
    std::fs::create_dir(home.path().join("tools")).expect("a directory");
    let tool = home.path().join("tools/blorp");
    std::fs::write(&tool, "#!/bin/sh\n").expect("a tool");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    for line in ["zork alpha beta", "quux alpha beta", "blorp alpha beta"] {
        let answers = objects(&route(&["--json", line], b"", home.path()));
        assert!(answers[0]["rule"] != "not-a-command", "{line}: {}", answers[0]);
    }
    let output = route(&["what", "is", "zork"], b"", home.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("model: ") && !text.contains("noise"), "{text}");
}

/// The user's route hook decides, for one line and in a stream; not if only the given files count.
#[test]
fn the_route_hook_of_the_config_is_asked() {
    let home = home_with_names();
    let config = home.path().join(".config/reedclaw");
    std::fs::create_dir_all(&config).expect("a directory");
    let hook = "return { hooks = { route = function(line, ctx) if line:find('kube') then return 'shell' end \
                if line == 'boom' then error('no') end end } }";
    std::fs::write(config.join("config.lua"), hook).expect("a config");
    let lines = "please kube me some tea\n?kube\nwhat is this\nboom\n";
    let rules = |args: &[&str]| {
        let output = route(args, lines.as_bytes(), home.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let rules: Vec<String> =
            objects(&output).iter().map(|it| it["rule"].as_str().unwrap_or_default().to_owned()).collect();
        (rules, said)
    };
    let (rules_own, said) = rules(&["--batch"]);
    assert_eq!((rules_own[0].as_str(), rules_own[1].as_str()), ("hook", "forced-ask"), "{rules_own:?}");
    assert!(rules_own[2] != "hook" && said.matches("route").count() == 1, "{rules_own:?} {said}");
    let single = objects(&route(&["--json", "please kube me some tea"], b"", home.path()));
    assert_eq!((&single[0]["route"], &single[0]["rule"]), (&"shell".into(), &"hook".into()));
    let (given, said) = rules(&["--batch", "--names", "names"]);
    assert!(given.iter().all(|rule| rule != "hook") && said.is_empty(), "{given:?} {said}");
}

/// The mode of the config applies, and prefixes still count; not if only the given files count.
#[test]
fn the_mode_of_the_config_holds() {
    let home = home_with_names();
    let config = home.path().join(".config/reedclaw");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("config.lua"), "return { route = { mode = 'shell' } }").expect("a config");
    let input = b"what is this\n?what is this\n";
    let rules = |args: &[&str]| -> Vec<Value> {
        objects(&route(args, input, home.path())).iter().map(|answer| answer["rule"].clone()).collect()
    };
    assert_eq!(rules(&["--batch"]), ["mode", "forced-ask"]);
    assert_eq!(rules(&["--batch", "--names", "names"]), ["not-a-command", "forced-ask"]);
}

#[test]
fn unreadable_input_is_reported() {
    let home = home_with_names();
    let output = route(&["--batch", "--names", "missing"], b"ls\n", home.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("missing can't be read"), "{said}");
    assert!(!route(&[], b"", home.path()).status.success());
}
