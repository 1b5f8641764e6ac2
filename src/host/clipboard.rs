//! The desktop's clipboard, through the program that provides it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::notify::start;

/// Time limit for a program, since the user is waiting.
const PROGRAM_TIME: Duration = Duration::from_secs(1);

/// Programs, each with the variable that indicates its desktop; on macOS none is needed.
const PROGRAMS: [(&str, &[&str], Option<&str>); 3] = [
    ("wl-copy", &[], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard"], Some("DISPLAY")),
    ("pbcopy", &[], None),
];

/// Copies a text to the clipboard with the first of wl-copy, xclip and pbcopy that works; returns its name.
#[must_use]
pub fn copy_to_clipboard(text: &str, env: &BTreeMap<OsString, OsString>) -> Option<&'static str> {
    let is_set = |name: &str| env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
    let usable = |variable: Option<&str>| variable.map_or(cfg!(target_os = "macos"), is_set);
    let mut programs = PROGRAMS.into_iter().filter(|(_, _, variable)| usable(*variable));
    programs.find(|(program, arguments, _)| give(program, arguments, text, env)).map(|(program, ..)| program)
}

fn give(program: &str, arguments: &[&str], text: &str, env: &BTreeMap<OsString, OsString>) -> bool {
    // These programs stay in the background to serve the text, and must not hold our terminal.
    let Ok(mut child) = start(program, arguments, env) else { return false };
    let (done, ended) = channel();
    let text = text.to_owned();
    std::thread::spawn(move || {
        let wrote = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(text.as_bytes()).is_ok());
        let ended_well = child.wait().is_ok_and(|status| status.success());
        let _ = done.send(wrote && ended_well);
    });
    ended.recv_timeout(PROGRAM_TIME).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_program_of_the_desktop_gets_the_text() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = |name: &str, body: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a script");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        };
        let copy = |variables: &[&str]| {
            let mut env: BTreeMap<OsString, OsString> =
                variables.iter().map(|name| (OsString::from(name), OsString::from(":0"))).collect();
            env.insert("PATH".into(), format!("{}:/bin:/usr/bin", dir.path().display()).into());
            env.insert("OUT".into(), dir.path().join("out").into());
            copy_to_clipboard("té\nxt", &env)
        };
        script("wl-copy", "exit 1");
        script("xclip", "cat > \"$OUT\"; echo \"$@\" >> \"$OUT\"");
        assert_eq!(copy(&[]), None);
        assert_eq!(copy(&["WAYLAND_DISPLAY"]), None);
        assert_eq!(copy(&["WAYLAND_DISPLAY", "DISPLAY"]), Some("xclip"));
        let got = std::fs::read_to_string(dir.path().join("out")).expect("what it got");
        assert_eq!(got, "té\nxt-selection clipboard\n");
    }
}
