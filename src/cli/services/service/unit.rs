//! The service as a user's unit of systemd: its text, and the calls of `systemctl --user`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::exit;
use crate::cli::out::outln;
use crate::files::replace_private;
use crate::host;
use crate::proto::{Failure, FailureKind};

/// The unit's name.
const NAME: &str = "reedclaw.service";
/// Lines of the log that are printed.
const LOG_LINES: &str = "200";

/// Carries out a word about the unit.
pub(super) fn act(word: &str, config: Option<&Path>, path: Option<&Path>) -> Result<u8, Failure> {
    let env = host::environment();
    let home = env.get(std::ffi::OsStr::new("XDG_CONFIG_HOME")).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.or_else(|| Some(PathBuf::from(env.get(std::ffi::OsStr::new("HOME"))?).join(".config")));
    let place = home.ok_or_else(|| failed("no HOME is set".into(), "set HOME"))?.join("systemd/user").join(NAME);
    match word {
        "install" => install(&place, &text(config, path, &env)?),
        "uninstall" => {
            let _ = systemctl(&["disable", "--now", NAME]);
            if let Err(error) = std::fs::remove_file(&place)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(failed(format!("{}: {error}", place.display()), ""));
            }
            let _ = systemctl(&["daemon-reload"]);
            outln!("The unit is gone.");
            Ok(exit::DONE)
        }
        "logs" => {
            let mut journalctl = Command::new("journalctl");
            let done = journalctl.args(["--user", "-u", NAME, "-n", LOG_LINES, "--no-pager"]).status();
            let done =
                done.map_err(|error| failed(format!("journalctl: {error}"), "a foreground service prints its log"))?;
            Ok(if done.success() { exit::DONE } else { exit::FAILED })
        }
        _ if !place.exists() => Err(failed(
            format!("{} isn't installed", place.display()),
            "reedclaw service install, or reedclaw service run",
        )),
        word => {
            systemctl(&[word, NAME])?;
            outln!("{word}: done");
            Ok(exit::DONE)
        }
    }
}

/// Writes the unit and starts it; a failure takes the file back.
fn install(place: &Path, text: &str) -> Result<u8, Failure> {
    let before = std::fs::read(place).ok();
    replace_private(place, text.as_bytes()).map_err(|error| failed(format!("{}: {error}", place.display()), ""))?;
    let started = systemctl(&["daemon-reload"]).and_then(|()| systemctl(&["enable", "--now", NAME]));
    if let Err(failure) = started {
        match before {
            Some(before) => drop(replace_private(place, &before)),
            None => drop(std::fs::remove_file(place)),
        }
        let _ = systemctl(&["daemon-reload"]);
        return Err(failure);
    }
    outln!("{} is installed and runs.", place.display());
    outln!("It ends with your last session, unless you let it linger: loginctl enable-linger");
    Ok(exit::DONE)
}

/// The text of the unit. No key is in it: models that read theirs from a variable won't have it.
fn text(config: Option<&Path>, path: Option<&Path>, env: &crate::config::Env) -> Result<String, Failure> {
    let own = std::fs::read_link("/proc/self/exe").map_err(|error| failed(format!("this program: {error}"), ""))?;
    let mut words = vec![quoted(&own)?];
    for (name, value) in [("--config", config), ("--path", path)] {
        if let Some(value) = value {
            let whole = value.canonicalize().map_err(|error| failed(format!("{}: {error}", value.display()), ""))?;
            words.extend([name.to_owned(), quoted(&whole)?]);
        }
    }
    words.extend(["service".to_owned(), "run".to_owned()]);
    let search =
        env.get(std::ffi::OsStr::new("PATH")).map_or_else(|| "/usr/local/bin:/usr/bin:/bin".into(), PathBuf::from);
    Ok(format!(
        "[Unit]\nDescription=ReedClaw's procedures\nStartLimitIntervalSec=600\nStartLimitBurst=5\n\n\
         [Service]\nType=notify\nWatchdogSec=60\nExecStart={}\nEnvironment={}\nRestart=on-failure\nRestartSec=5\nKillMode=mixed\n\
         TimeoutStopSec=20\nUMask=0077\n\n[Install]\nWantedBy=default.target\n",
        words.join(" "),
        quoted(Path::new(&format!("PATH={}", search.display())))?,
    ))
}

/// A word of a unit: in quotes, without what systemd would replace.
fn quoted(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(|c: char| c.is_control()));
    let text = text.ok_or_else(|| failed(format!("{} can't stand in a unit", path.display()), ""))?;
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    Ok(format!("\"{text}\""))
}

fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let hint = "reedclaw service run works in the foreground, for example in a container or from cron's @reboot";
    let done = Command::new("systemctl").arg("--user").args(words).output();
    let done = done.map_err(|error| failed(format!("systemctl can't be started: {error}"), hint))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(failed(format!("systemctl --user {}: {}", words.join(" "), said.trim()), hint))
}

fn failed(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::Unavailable, message, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_names_the_program_and_holds_no_surprise() {
        let env = [("PATH".into(), "/bin:/x y/%h".into()), ("OPENAI_API_KEY".into(), "secret".into())].into();
        let text = text(None, None, &env).expect("a unit");
        for line in [
            "Environment=\"PATH=/bin:/x y/%%h\"",
            "Type=notify",
            "WatchdogSec=60",
            "Restart=on-failure",
            "TimeoutStopSec=20",
            "UMask=0077",
            "WantedBy=default.target",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        assert!(text.contains("\" service run\n") && !text.contains("secret"), "{text}");
    }
}
