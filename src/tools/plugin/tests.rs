//! Plugins in directories of their own, with programs that really run.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

const MANIFEST: &str = "name = \"weather\"\nversion = \"1\"\n[[tools]]\nname = \"today\"\ndescription = \"Tells.\"\ncommand = \"run.sh\"\n";

fn plugin(directory: &Path, manifest: &str, script: &str) {
    std::fs::create_dir_all(directory).expect("a directory");
    std::fs::write(directory.join("manifest.toml"), manifest).expect("a manifest");
    std::fs::write(directory.join("run.sh"), script).expect("a program");
    std::fs::set_permissions(directory.join("run.sh"), PermissionsExt::from_mode(0o755)).expect("it can be run");
}

fn standing(plugins: &Plugins) -> &'static str {
    match &plugins.all()[..] {
        [] => "none",
        [only] => match only.standing {
            Standing::Allowed(_) => "allowed",
            Standing::Unknown(_) => "unknown",
            Standing::Changed(_) => "changed",
            Standing::Broken(_) => "broken",
        },
        _ => "several",
    }
}

#[test]
fn only_what_was_allowed_to_the_byte_gives_tools() {
    let top = tempfile::tempdir().expect("a directory");
    let (source, data, state) = (top.path().join("source"), top.path().join("data"), top.path().join("state"));
    plugin(&source, MANIFEST, "#!/bin/sh\necho '{}'\n");
    let plugins = Plugins::new(&data, &state);
    assert_eq!(standing(&plugins), "none");
    let bundle = Bundle::read(&source).expect("a plugin");
    let installed = plugins.install(&bundle).expect("installed");
    assert_eq!(standing(&plugins), "allowed");
    let tools =
        |plugins: &Plugins| plugins.all().iter().map(|it| PluginTool::of(it, &Launcher::plain()).len()).sum::<usize>();
    assert_eq!(tools(&plugins), 1);
    // A plugin in the data directory without a record isn't allowed.
    plugin(&data.join("plugins/other"), &MANIFEST.replace("weather", "other"), "#!/bin/sh\n");
    assert_eq!(tools(&plugins), 1);
    std::fs::remove_dir_all(data.join("plugins/other")).expect("removed");
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("the program", |at| std::fs::write(at.join("run.sh"), "#!/bin/sh\necho evil\n").expect("written")),
        ("the manifest", |at| {
            std::fs::write(at.join("manifest.toml"), MANIFEST.replace("Tells.", "Obey.")).expect("written")
        }),
        ("a new file", |at| std::fs::write(at.join("lib.py"), "").expect("written")),
        ("a link", |at| symlink("/etc/passwd", at.join("link")).expect("a link")),
        ("the mode", |at| {
            std::fs::set_permissions(at.join("manifest.toml"), PermissionsExt::from_mode(0o755)).expect("set")
        }),
        ("the program's absence", |at| std::fs::remove_file(at.join("run.sh")).expect("removed")),
    ];
    for (what, change) in changes {
        change(&installed);
        assert_eq!(tools(&plugins), 0, "{what}");
        assert!(["changed", "broken"].contains(&standing(&plugins)), "{what}");
        plugins.install(&bundle).expect("installed again");
        assert_eq!(standing(&plugins), "allowed", "{what}");
    }
    // A broken record allows nothing.
    std::fs::write(state.join("plugins/weather.json"), "{\"sha256\": 1}").expect("written");
    assert_eq!(standing(&plugins), "unknown");
    plugins.install(&bundle).expect("installed again");
    assert!(plugins.remove("weather").expect("removed"));
    assert_eq!((standing(&plugins), plugins.remove("weather")), ("none", Ok(false)));
    for name in ["", "..", "../data", ".hidden", "a/b"] {
        assert!(plugins.remove(name).is_err(), "{name}");
    }
    // Removed, and then put back by hand: the permission was removed with it.
    plugin(&installed, MANIFEST, "#!/bin/sh\necho '{}'\n");
    assert_eq!(standing(&plugins), "unknown");
}

#[test]
fn invalid_plugins_are_not_installed() {
    let top = tempfile::tempdir().expect("a directory");
    let at = |name: &str| top.path().join(name);
    let why = |name: &str| Bundle::read(&at(name)).expect_err(name).why;
    assert!(why("missing").contains("No such file"));
    std::fs::create_dir(at("empty")).expect("a directory");
    assert!(why("empty").contains("there is no manifest.toml"));
    plugin(&at("lame"), MANIFEST, "");
    std::fs::set_permissions(at("lame/run.sh"), PermissionsExt::from_mode(0o644)).expect("set");
    assert!(why("lame").contains("can't be run"));
    plugin(&at("absent"), &MANIFEST.replace("run.sh", "bin/x"), "");
    assert!(why("absent").contains("isn't there"));
    plugin(&at("linked"), MANIFEST, "");
    symlink("run.sh", at("linked/other")).expect("a link");
    assert!(why("linked").contains("neither file nor directory"));
    nix::unistd::mkfifo(&at("linked-to"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    plugin(&at("piped"), MANIFEST, "");
    nix::unistd::mkfifo(&at("piped/pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    assert!(why("piped").contains("neither file nor directory"));
    symlink(at("lame"), at("link")).expect("a link");
    assert!(why("link").contains("no directory"));
    // A directory whose name isn't the manifest's is another plugin's place.
    plugin(&at("data/plugins/other"), MANIFEST, "#!/bin/sh\n");
    assert_eq!(standing(&Plugins::new(&at("data"), &at("state"))), "broken");
}

fn script(text: &str) -> Command {
    // As in the sandbox, it is the first of a session.
    let mut command = Command::new("setsid");
    command.args(["/bin/sh", "-c", text]);
    command
}

fn run(
    command: Command,
    input: &str,
    time: Duration,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<String, ToolError> {
    let bounds = Bounds { time, output_bytes_max: OUTPUT_BYTES_MAX, is_stopped };
    program::run(command, input.as_bytes().to_vec(), bounds)?.text()
}

fn ran(text: &str) -> Result<String, &'static str> {
    run(script(text), "{\"arguments\": {\"city\": \"Ulm\"}}", Duration::from_secs(10), &|| false)
        .map_err(|error| error.code)
}

#[test]
fn a_program_gets_json_and_gives_json() {
    assert_eq!(ran("cat").expect("what it got"), "{\"arguments\": {\"city\": \"Ulm\"}}");
    assert_eq!(ran("printf '{}'; exit 3"), Err("failed"));
    assert_eq!(ran("head -c 2000000 /dev/zero"), Err("too-long"));
    assert_eq!(ran("printf '\\377'"), Err("bad-output"));
    assert_eq!(ran("kill -9 $$"), Err("failed"));
    let missing = run(Command::new("/nonexistent"), "", Duration::from_secs(1), &|| false);
    assert_eq!(missing.map_err(|error| error.code), Err("not-started"));
    let error =
        run(script("echo no such city >&2; exit 1"), "", Duration::from_secs(10), &|| false).expect_err("failed");
    assert!(error.message.contains("no such city"), "{error}");
    // A program that reads nothing, and one whose child holds the output open.
    assert_eq!(run(script("echo 1"), &"x".repeat(1 << 20), Duration::from_secs(10), &|| false).expect("1"), "1\n");
    let started = Instant::now();
    assert_eq!(ran("sleep 60 & echo 2").expect("2"), "2\n");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_program_ends_with_its_time_and_with_a_stop_and_so_does_its_group() {
    let top = tempfile::tempdir().expect("a directory");
    let pids = top.path().join("pids");
    let text = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", pids.display());
    let is_gone = |pid: &str| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
    };
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (run(script(&text), "", Duration::from_secs(600), &stop), Instant::now()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !pids.exists() {
            assert!(Instant::now() < deadline, "it never started");
            std::thread::yield_now();
        }
        let stopped = Instant::now();
        is_stopped.store(true, Ordering::SeqCst);
        let (ended, at) = waiting.join().expect("no panic");
        assert_eq!(ended.map_err(|error| error.code), Err("stopped"));
        assert!(at - stopped < Duration::from_millis(500), "{:?}", at - stopped);
    });
    let pid = std::fs::read_to_string(&pids).expect("a pid");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_gone(pid.trim()) {
        assert!(Instant::now() < deadline, "{pid} goes on");
        std::thread::yield_now();
    }
    let slow = run(script("sleep 600"), "", Duration::from_millis(100), &|| false);
    assert_eq!(slow.map_err(|error| error.code), Err("timeout"));
}

/// A program that has failed usually ends with 1: the model needs its word about the reason.
#[test]
fn a_failed_programs_own_error_comes_before_its_status() {
    let bounds = Bounds { time: Duration::from_secs(10), output_bytes_max: OUTPUT_BYTES_MAX, is_stopped: &|| false };
    for (text, output, error) in [
        ("echo '{\"output\":\"partial\",\"error\":\"no such city\"}'; exit 1", "partial", "no such city"),
        ("echo '{\"success\":true,\"error\":\"no such city\"}'; exit 1", "", "no such city"),
        ("echo '{\"output\":\"partial\"}'; exit 1", "", "it ended with exit status: 1"),
        ("echo nothing; echo why >&2; exit 2", "", "it ended with exit status: 2: why"),
    ] {
        let got = ended_outcome(program::run(script(text), Vec::new(), bounds).expect("it ran"));
        let message = got.error.map(|error| error.message).unwrap_or_default();
        assert_eq!((got.success, got.output.as_str(), message.as_str()), (false, output, error), "{text}");
    }
}

#[test]
fn plugin_output_becomes_an_outcome() {
    for (printed, success, output, error) in [
        ("{\"output\": \"sun\"}", true, "sun", ""),
        ("{\"output\": {\"a\": 1}}", true, "{\"a\":1}", ""),
        ("{\"temperature\": 3}", true, "{\"temperature\":3}", ""),
        ("\"rain\"", true, "rain", ""),
        ("{\"output\": \"\\u001b[31mred\\u0007\"}", true, "red", ""),
        ("{\"error\": \"no city\"}", false, "", "no city"),
        ("{\"error\": {\"message\": \"no city\"}, \"output\": \"x\"}", false, "x", "no city"),
        ("{\"success\": false, \"output\": \"half\"}", false, "half", ""),
        ("{\"error\": null, \"output\": \"fine\"}", true, "fine", ""),
    ] {
        let got = outcome(printed);
        let message = got.error.map(|error| error.message).unwrap_or_default();
        assert_eq!((got.success, got.output.as_str(), message.as_str()), (success, output, error), "{printed}");
    }
    assert_eq!(outcome("{\"output\": 1, \"metadata\": {\"a\": 2}}").metadata["a"], 2);
    assert_eq!(outcome("hello").error.map(|error| error.code), Some("bad-output"));
}
