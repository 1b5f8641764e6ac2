//! This machine under a name of the network: what goes over `localhost` comes back to the same files.

use super::options::Options;
use super::run::Run;
use super::text::NET;
use crate::proto::action::WriteKind;

/// Lines of a batch that are looked at.
const LINES_MAX: usize = 64;

/// Whether a host, with or without a user in front, is this machine.
pub(super) fn is_here(host: &str) -> bool {
    let host = host.rsplit('@').next().unwrap_or_default().trim_matches(['[', ']']);
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_number = host.starts_with("127.") && host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number
        || matches!(host.as_str(), "localhost" | "localhost.localdomain" | "ip6-localhost" | "::1" | "0.0.0.0" | "0")
}

/// Whether options name another port than the usual one: behind it stands a tunnel, a container or a virtual machine.
fn is_tunnel(options: &Options, letters: &str) -> bool {
    let port = |value: &str| value != "22";
    options.values(letters, "").any(port)
        || options.values("o", "").any(|option| {
            let option = option.to_ascii_lowercase();
            option.starts_with("hostname")
                || option.strip_prefix("port").is_some_and(|value| port(value.trim_matches(['=', ' '])))
        })
}

impl Run<'_, '_> {
    /// Whether a host that a program is pointed at is this machine, through no tunnel; `port` are the letters for one.
    pub(super) fn comes_back(&self, host: &str, options: &Options, port: &str) -> bool {
        is_here(host) && !is_tunnel(options, port)
    }

    /// The path of this machine that `localhost:PATH` means; all other paths as they are.
    pub(super) fn path_here(&self, path: &str, options: &Options, port: &str) -> String {
        match path.rsplit_once("]:").or_else(|| path.split_once(':')) {
            Some((host, inside)) if !inside.starts_with(':') && self.comes_back(host, options, port) => {
                self.path_at_home(inside)
            }
            _ => path.to_owned(),
        }
    }

    fn path_at_home(&self, path: &str) -> String {
        match path.strip_prefix("~/") {
            _ if path.starts_with('/') => path.to_owned(),
            Some(below) => format!("{}/{below}", self.map.rules.home),
            None => format!("{}/{path}", self.map.rules.home),
        }
    }

    /// `ssh-copy-id HOST`: one more key that opens an account.
    pub(super) fn copies_key(&mut self, words: &[String]) {
        let options = Options::read(words, "ipoFt", "");
        let Some(host) = options.operands.last() else { return };
        if self.comes_back(host, &options, "p") {
            let path = self.path_at_home(".ssh/authorized_keys");
            self.writes(&path, WriteKind::Append);
        }
    }

    /// What `sftp` is told: lines for a shell of this machine, files that come, and what is done at the far end where that is
    /// this machine.
    pub(super) fn sftp_lines(&mut self, options: &Options, is_here: bool) {
        let batch: Vec<String> = options.values("b", "").filter(|file| *file != "-").map(str::to_owned).collect();
        let mut texts: Vec<String> = batch.iter().flat_map(|file| self.content(file)).collect();
        texts.extend(self.streams.input.iter().flatten().cloned());
        for line in texts.iter().flat_map(|text| text.lines()).take(LINES_MAX) {
            let line = line.trim().trim_start_matches(['-', '@']);
            if let Some(code) = line.strip_prefix('!') {
                self.code_elsewhere(code);
                continue;
            }
            let words = super::strings::shell_words(line);
            let plain: Vec<&String> = words.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
            match (words.first().map(String::as_str).unwrap_or_default(), plain.as_slice()) {
                ("get" | "mget" | "reget", [from, rest @ ..]) => {
                    let name = super::exec::base(from).to_owned();
                    let to = rest.first().map_or(name, |to| (*to).clone());
                    self.writes(&to, WriteKind::Write);
                    self.store(&to, &vec![NET.to_string()], false);
                }
                ("put" | "mput" | "reput", [from, rest @ ..]) if is_here => {
                    let to = rest.first().map_or_else(|| super::exec::base(from), |to| to.as_str());
                    let to = self.path_at_home(to);
                    self.writes(&to, WriteKind::Write);
                }
                ("rm" | "rmdir" | "rename" | "symlink" | "ln" | "chmod" | "chown" | "mkdir", paths) if is_here => {
                    let how = if words[0].starts_with("rm") { WriteKind::Delete } else { WriteKind::Write };
                    let paths: Vec<String> = paths.iter().map(|path| self.path_at_home(path)).collect();
                    paths
                        .iter()
                        .filter(|path| path.contains(|c: char| !c.is_ascii_digit()))
                        .for_each(|path| self.writes(path, how));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_several_names() {
        for host in ["localhost", "u@localhost", "127.0.0.1", "127.1", "::1", "[::1]", "LOCALHOST.", "root@0"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["host", "localhost.example.com", "10.0.0.1", "127.example.com", "", "u@box"] {
            assert!(!is_here(host), "{host}");
        }
    }
}
