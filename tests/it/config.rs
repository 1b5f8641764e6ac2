//! `reedclaw config` and `:config`: reports about a config, the values in force, and the rule that a secret is never shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};

const CONFIG: &str = ".config/reedclaw/config.lua";

/// A home with files in it.
pub fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a home");
    for (path, text) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("permissions");
    }
    home
}

/// Runs a subcommand in a directory below the home.
fn run(home: &Path, cwd: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("HOME", home).env("PATH", TEST_PATH).current_dir(home.join(cwd));
    command.output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn validate_lists_every_problem_with_its_line_and_fails() {
    let config = "local n = \"many\"\nreturn {\n  context = {\n    max_turns = n,\n    token_budget = 9000,\n  },\n  \
                  promt = \"shell\",\n  editor = { mode = \"vim\", highlight = 1 },\n  models = {\n    a = {\n      \
                  endpoint = \"http://h\",\n      temperature = 9,\n    },\n  },\n}\n";
    let home = home(&[(CONFIG, config)]);
    let output = run(home.path(), "", &["config", "validate"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    let want = [
        "~/.config/reedclaw/config.lua:4: context.max_turns: \"many\" is not a number (1 to 1000); using 40",
        "~/.config/reedclaw/config.lua:7: promt: unknown key; did you mean prompt?",
        "~/.config/reedclaw/config.lua:8: editor.highlight: 1 is not true or false; using true",
        "~/.config/reedclaw/config.lua:8: editor.mode: \"vim\" is not \"emacs\" or \"vi\"; using \"emacs\"",
        "~/.config/reedclaw/config.lua:12: models.a.temperature: 9 is out of range (0 to 2); ignored",
        "5 problems",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), want);
    // The rest of the config applies.
    let shown = text(&run(home.path(), "", &["config", "show", "--origin"]).stdout);
    assert!(shown.contains("context.token_budget = 9000  -- ~/.config/reedclaw/config.lua:5\n"), "{shown}");
    assert!(shown.contains("context.max_turns = 40  -- default\n"), "{shown}");

    let good = home.path().join("good.lua");
    fs::write(&good, "return { prompt = \"shell\" }").expect("a file");
    let output = run(home.path(), "", &["config", "validate", "good.lua"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "no problems in ~/good.lua\n".into()));
    assert_eq!(run(home.path(), "", &["config", "validate", "nope.lua"]).status.code(), Some(2));
}

#[test]
fn hooks_that_would_never_be_called_are_problems() {
    let config = "return {\n  hooks = {\n    promt = function() end,\n    on_answer = 7,\n  },\n  \
                  meta = {\n    quit = function() end,\n    deploy = function() end,\n  },\n}\n";
    let home = home(&[(CONFIG, config)]);
    let output = run(home.path(), "", &["config", "validate"]);
    let told = text(&output.stdout);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(1), 4), "{told}");
    assert!(lines[0].contains("config.lua:3: hooks.promt: there is no such hook (prompt, right_prompt, "), "{told}");
    assert!(lines[1].contains("config.lua:4: hooks.on_answer: 7 is not function(text) end; ignored"), "{told}");
    assert_eq!(
        lines[2],
        "~/.config/reedclaw/config.lua:7: meta.quit: :quit is one of ReedClaw's own; yours is not used"
    );
}

#[test]
fn a_hundred_problems_are_a_hundred_lines() {
    let keys: String = (0..120).map(|number| format!("  wrong{number} = {number},\n")).collect();
    let home = home(&[(CONFIG, &format!("return {{\n{keys}}}\n"))]);
    let told = text(&run(home.path(), "", &["config", "validate"]).stdout);
    for number in 0..120 {
        assert!(told.contains(&format!("config.lua:{}: wrong{number}: unknown key", number + 2)), "{number}");
    }
    assert!(told.ends_with("120 problems\n"), "{told}");
}

#[test]
fn a_config_that_fails_as_a_whole_has_its_line_too() {
    for (config, want) in [
        ("return {\n  prompt = = 1\n}", "config.lua:2: "),
        ("local t = nil\nreturn { prompt = t.x }", "config.lua:2: attempt to index nil"),
        ("while true do end", "did not end within 50 ms"),
        ("return string.rep('x', 1e9)", "needs more than 32 MiB of memory"),
    ] {
        let home = home(&[(CONFIG, config)]);
        let output = run(home.path(), "", &["config", "validate"]);
        let told = text(&output.stdout);
        assert!(output.status.code() == Some(1) && told.contains(want), "{config}: {told}");
    }
}

#[test]
fn a_secret_is_never_shown() {
    let config = "return { models = {\n  a = { endpoint = \"http://h/v1?key=s3cret\", key = \"sk-s3cret\" },\n  \
                  b = { endpoint = \"http://h\", key_command = { \"pass\", \"s3cret\" } },\n  \
                  c = { endpoint = \"http://h\", key_env = \"THE_KEY\", key_file = \"~/s3cret\" } } }";
    let home = home(&[(CONFIG, config)]);
    let mut told = String::new();
    for args in [&["config", "validate"][..], &["config", "show"], &["config", "show", "--origin"]] {
        let output = run(home.path(), "", args);
        told.push_str(&text(&output.stdout));
        told.push_str(&text(&output.stderr));
    }
    let path_of_file = told.replace("~/s3cret", "").replace(&format!("{}/s3cret", home.path().display()), "");
    assert!(!path_of_file.contains("s3cret"), "{told}");
    for want in [
        "config.lua:2: models.a.key: warning: a key in a config is read by whoever sees the config",
        "models.a.key = ***  -- ",
        "models.a.endpoint = \"http://h/v1?***\"",
        "models.b.key_command = { \"pass\", … 1 more }",
        "models.c.key_env = \"THE_KEY\"",
        "config.lua:4: models.c.key_file: key_env already names the source of the key; ignored",
    ] {
        assert!(told.contains(want), "{want}: {told}");
    }
    // A warning alone isn't a failure.
    let home = self::home(&[(CONFIG, "return { models = { a = { endpoint = 'http://h', key = 'sk' } } }")]);
    let output = run(home.path(), "", &["config", "validate"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).ends_with("no problems, 1 warning\n"), "{output:?}");
}

#[test]
fn path_says_where_the_config_is_or_would_be() {
    let home = home(&[("other.lua", "return {}")]);
    let own = home.path().join(CONFIG);
    let output = run(home.path(), "", &["config", "path"]);
    assert_eq!(text(&output.stdout), format!("{}\n", own.display()));
    assert!(text(&output.stderr).contains("there is no such file"), "{output:?}");
    let output = run(home.path(), "", &["--config", "other.lua", "config", "path"]);
    assert_eq!(text(&output.stdout), format!("{}\n", home.path().join("other.lua").display()));
    assert_eq!(run(home.path(), "", &["config"]).status.code(), Some(2));
}

#[test]
fn paths_expand_and_the_environment_is_readable() {
    let config =
        "return { history = { dir = \"$HOME/${SUB}/h\" }, system_prompt = os.getenv(\"PATH\") .. os.date(\"%Y\") }";
    let home = home(&[(CONFIG, config)]);
    let output = run(home.path(), "", &["config", "validate"]);
    assert!(
        text(&output.stdout).contains("history.dir: \"$HOME/${SUB}/h\" needs $SUB, which is not set"),
        "{output:?}"
    );
    let home = self::home(&[(CONFIG, &config.replace("${SUB}", "~x"))]);
    let shown = text(&run(home.path(), "", &["config", "show"]).stdout);
    assert!(shown.contains(&format!("history.dir = \"{}/~x/h\"", home.path().display())), "{shown}");
}

#[test]
fn a_projects_file_without_trust_is_not_run() {
    let home = home(&[(CONFIG, "return { prompt = \"shell\" }"), ("p/.reedclaw.lua", "while true do end")]);
    let output = run(home.path(), "p", &["config", "validate"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.starts_with("~/p/.reedclaw.lua: not run: you have not trusted it\n"), "{told}");
    let shown = text(&run(home.path(), "p", &["config", "show"]).stdout);
    assert!(shown.contains("prompt = \"shell\"") && !shown.contains("end"), "{shown}");
}

#[test]
fn a_config_of_the_directory_is_asked_about_like_a_projects_file() {
    let config = "return {\n  context = { max_turns = 7 },\n  history = { entries_max = 0 },\n  \
                  system_prompt = tostring(os.getenv('SECRET')),\n}";
    let home = home(&[("p/config.lua", config)]);
    let start = || {
        let spawn = Spawn::reedclaw().home(home.path()).cwd(&home.path().join("p")).env("SECRET", "s3cret");
        Session::spawn(spawn.size(200, 140))
    };
    let session = start();
    session.expect_text("~/p/config.lua is new to you. Nothing of it has run.");
    session.expect_text("trust [t]  look [l]  ignore [i, Enter]  never [n]");
    session.type_text("i");
    session.expect_prompt();
    session.run(":config show");
    session.expect_text("context.max_turns = 40  -- default");
    drop(session);

    let shown = || text(&run(home.path(), "p", &["config", "show", "--origin"]).stdout);
    assert!(shown().contains("context.max_turns = 40  -- default"), "{}", shown());
    let session = start();
    session.expect_text("trust [t]  look [l]  ignore [i, Enter]  never [n]");
    session.type_text("t");
    session.expect_text("config.lua:3: history.entries_max: refused: a project can't make the history forget");
    session.expect_prompt();
    assert!(shown().contains("context.max_turns = 7  -- ~/p/config.lua:2"), "{}", shown());
    assert!(shown().contains("system_prompt = \"nil\""), "{}", shown());
}

#[test]
fn tools_are_readonly_while_the_config_cannot_be_read() {
    for config in ["return { security = { autonomy = 'readonly' ", "return 5"] {
        let home = home(&[(CONFIG, config), ("ws/a.txt", "alpha")]);
        let args = "{\"path\": \"b.txt\", \"content\": \"x\"}";
        let output =
            run(home.path(), "ws", &["tool", "run", "file_write", "--json", args, "--workspace", ".", "--yes"]);
        assert!(!output.status.success() && !home.path().join("ws/b.txt").exists(), "{config}");
        let told = text(&output.stderr);
        assert_eq!(told.matches("tools are readonly until it can be read").count(), 1, "{told}");
        let read = run(
            home.path(),
            "ws",
            &["tool", "run", "file_read", "--json", "{\"path\": \"a.txt\"}", "--workspace", "."],
        );
        assert!(read.status.success(), "{}", text(&read.stderr));
    }
}
