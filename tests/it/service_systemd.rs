//! The service as a unit of a real systemd user manager, which runs in a mount namespace that the test creates.

use std::process::{Command, Stdio};

use crate::need::{TEST_PATH, require, require_root};
use crate::pty::program;
use crate::sop::{procedure, shell_step};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/systemd.sh");

#[test]
fn a_real_user_manager_starts_restarts_watches_and_stops_the_service() {
    if !require_root() || !require(&["unshare", "systemctl", "python3", "mount"]) {
        return;
    }
    let home = crate::changes::home(&[], "");
    let trigger = "mode = \"auto\"\n[[triggers]]\nkind = \"file\"\npaths = [\"inbox/*\"]\nsettle_ms = 0\n";
    let line = "case $FILE in inbox/slow) sleep 600;; esac; echo $FILE >> log";
    let step = shell_step("note", line, "env_from = { FILE = \"trigger.path\" }\nwrites = [\"log\"]");
    procedure(home.path(), "files", &format!("{trigger}{step}"));
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "bash", SCRIPT]).env_clear();
    unshare.env("PATH", TEST_PATH).env("HOME", home.path()).env("LANG", "C.UTF-8").env("PROGRAM", program());
    let done = unshare.stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let words: Vec<&str> = text.lines().collect();
    let all = ["taken back", "started", "restarted", "ran", "watched", "stopped", "gone"];
    assert!(done.status.success() && all.iter().all(|word| words.contains(word)), "{text}");
}
