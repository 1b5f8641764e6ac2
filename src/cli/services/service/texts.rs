//! The texts that start the service: a unit for systemd, a property list for launchd, a script for OpenRC, a line for cron. No key
//! is in them: a model that reads its key from a variable won't have it there.

use std::path::PathBuf;

use crate::proto::Failure;

/// The label of launchd's agent.
pub(super) const LABEL: &str = "reedclaw.service";

/// The service's command line and surroundings.
pub(super) struct Start {
    /// This program.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// The directories in which its steps find programs, as they are now.
    pub(super) path: String,
}

impl Start {
    /// The words of the command line.
    fn words(&self) -> Result<Vec<String>, Failure> {
        let mut words = vec![text_of(&self.program.display().to_string())?];
        for word in &self.arguments {
            words.push(text_of(word)?);
        }
        Ok(words)
    }

    /// A user's unit of systemd. Each step has its own sandbox, so the unit only closes what no step needs.
    pub(super) fn systemd(&self) -> Result<String, Failure> {
        let words: Vec<String> = self.words()?.iter().map(|word| of_unit(word)).collect();
        Ok(format!(
            "[Unit]\n\
             Description=ReedClaw's procedures\n\
             StartLimitIntervalSec=600\n\
             StartLimitBurst=5\n\
             \n\
             [Service]\n\
             Type=notify\n\
             NotifyAccess=main\n\
             WatchdogSec=60\n\
             ExecStart={}\n\
             ExecReload=/bin/kill -HUP $MAINPID\n\
             Environment={}\n\
             Restart=on-failure\n\
             RestartSec=5\n\
             KillMode=mixed\n\
             TimeoutStopSec=20\n\
             UMask=0077\n\
             NoNewPrivileges=yes\n\
             LockPersonality=yes\n\
             RestrictRealtime=yes\n\
             LimitCORE=0\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            words.join(" "),
            in_quotes(&format!("PATH={}", text_of(&self.path)?)),
        ))
    }

    /// An agent of launchd, as launchd.plist(5) describes it.
    pub(super) fn launchd(&self) -> Result<String, Failure> {
        let words: String =
            self.words()?.iter().map(|word| format!("\t\t<string>{}</string>\n", of_xml(word))).collect();
        Ok(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \t<key>Label</key>\n\t<string>{LABEL}</string>\n\
             \t<key>ProgramArguments</key>\n\t<array>\n{words}\t</array>\n\
             \t<key>EnvironmentVariables</key>\n\t<dict>\n\t\t<key>PATH</key>\n\t\t<string>{}</string>\n\t</dict>\n\
             \t<key>RunAtLoad</key>\n\t<true/>\n\
             \t<key>KeepAlive</key>\n\t<dict>\n\t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>\n\
             \t<key>ThrottleInterval</key>\n\t<integer>30</integer>\n\
             \t<key>ProcessType</key>\n\t<string>Background</string>\n\
             \t<key>ExitTimeOut</key>\n\t<integer>20</integer>\n\
             \t<key>Umask</key>\n\t<integer>63</integer>\n\
             </dict>\n\
             </plist>\n",
            of_xml(&text_of(&self.path)?),
        ))
    }

    /// A user's script of OpenRC, as openrc-run(8) and supervise-daemon(8) describe it.
    pub(super) fn openrc(&self) -> Result<String, Failure> {
        let words = self.words()?;
        let arguments: Vec<String> = words[1..].iter().map(|word| of_shell(word)).collect::<Result<_, _>>()?;
        Ok(format!(
            "#!/sbin/openrc-run\n\
             description=\"ReedClaw's procedures\"\n\
             supervisor=supervise-daemon\n\
             command={}\n\
             command_args={}\n\
             respawn_delay=5\n\
             respawn_max=5\n\
             respawn_period=600\n\
             retry=TERM/20/KILL/5\n\
             umask=0077\n\
             export PATH={}\n",
            of_shell(&words[0])?,
            of_shell(&arguments.join(" "))?,
            of_shell(&self.path)?,
        ))
    }

    /// A line for crontab(5), in which a percent sign would end the command.
    pub(super) fn crontab(&self) -> Result<String, Failure> {
        let words: Vec<String> = self.words()?.iter().map(|word| of_shell(word)).collect::<Result<_, _>>()?;
        let path = of_shell(&self.path)?;
        Ok(format!("@reboot PATH={path} {} >/dev/null 2>&1\n", words.join(" ")).replace('%', "\\%"))
    }
}

/// A text without control characters.
fn text_of(text: &str) -> Result<String, Failure> {
    if text.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
        return Err(
            Failure::unavailable(format!("{text:?} can't be in a unit")).hint("choose a path of plain characters")
        );
    }
    Ok(text.to_owned())
}

/// A word of a command of a unit: in quotes, and protected from systemd's replacements.
fn of_unit(word: &str) -> String {
    in_quotes(&word.replace('$', "$$"))
}

/// A value of a unit, in which systemd replaces no variables.
fn in_quotes(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{word}\"")
}

fn of_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn of_shell(word: &str) -> Result<String, Failure> {
    let quoted = shlex::try_quote(word).map_err(|_| Failure::unavailable(format!("{word:?} can't be quoted")))?;
    Ok(quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_the_same_in_each_text() {
        let start = Start {
            program: "/opt/a b/reed$claw%".into(),
            arguments: vec!["--path".into(), "/home/me/it's <\"x\">&".into(), "service".into(), "run".into()],
            path: "/bin:/x y/%h".into(),
        };
        let unit = start.systemd().expect("a unit");
        let line = r#"ExecStart="/opt/a b/reed$$claw%%" "--path" "/home/me/it's <\"x\">&" "service" "run""#;
        assert!(unit.lines().any(|it| it == line), "{unit}");
        assert!(unit.lines().any(|it| it == r#"Environment="PATH=/bin:/x y/%%h""#), "{unit}");
        let list = start.launchd().expect("a list");
        assert!(list.contains("<string>/home/me/it's &lt;\"x\"&gt;&amp;</string>"), "{list}");
        let line = start.crontab().expect("a line");
        assert!(line.starts_with("@reboot PATH='/bin:/x y/\\%h' '/opt/a b/reed$claw\\%' --path "), "{line}");
        let words = shlex::split(line.trim_end().replace("\\%", "%").strip_prefix("@reboot ").expect("a line"));
        let words = words.expect("words");
        assert_eq!(words[..4], ["PATH=/bin:/x y/%h", "/opt/a b/reed$claw%", "--path", "/home/me/it's <\"x\">&"]);
        let script = start.openrc().expect("a script");
        let arguments = script.lines().find_map(|line| line.strip_prefix("command_args=")).expect("arguments");
        // OpenRC has the shell read the arguments once more.
        let once = shlex::split(arguments).expect("a word").concat();
        assert_eq!(shlex::split(&once).expect("words"), ["--path", "/home/me/it's <\"x\">&", "service", "run"]);
        let odd = Start { program: "/opt/a\nb".into(), ..start };
        assert!(odd.systemd().is_err() && odd.crontab().is_err());
    }
}
