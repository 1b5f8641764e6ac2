//! Programs that speak to other machines.

use super::exec::{base, nothing, output};
use super::options::Options;
use super::run::{Run, Value};
use super::text::{NET, is_known, listed};
use crate::proto::action::{Risk, WriteKind};

fn from_net() -> Value {
    vec![NET.to_string()]
}

/// The host of an address; the whole text where it isn't one.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default()
}

/// Lines of a file of options that are looked at.
const CONFIG_LINES_MAX: usize = 64;

impl Run<'_, '_> {
    /// Runs a program that speaks to other machines; `None` where it isn't one.
    pub(super) fn net_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        let printed = self.net_program_of(name, words)?;
        if !listed("curl curlie wget wget2 nc ncat netcat socat telnet scp sftp ping dig nslookup host", name) {
            self.scan_commands(words);
            self.scan_secrets(words);
        }
        Some(printed)
    }

    fn net_program_of(&mut self, name: &str, words: &[String]) -> Option<Value> {
        Some(match name {
            "curl" | "curlie" => self.curl(words),
            "wget" | "wget2" => self.wget(words),
            "aria2c" | "axel" | "http" | "https" | "xh" | "lynx" | "w3m" | "links" | "elinks" | "ftp" | "lftp"
            | "tftp" | "youtube-dl" | "yt-dlp" | "fetch" | "GET" | "POST" | "lwp-request" | "lwp-download" | "dog" => {
                self.fetcher(name, words)
            }
            "nc" | "ncat" | "netcat" | "nc.traditional" | "nc.openbsd" | "socat" | "telnet" | "cryptcat"
            | "websocat" => self.pipe_net(name, words),
            // Of zsh: the connection is a descriptor whose number `REPLY` holds.
            "ztcp" => {
                self.net(words.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str));
                self.assign_scalar("REPLY", vec!["63".to_owned()]);
                self.state.sockets.push("63".to_owned());
                nothing()
            }
            "scp" | "sftp" | "rcp" => self.scp(name, words),
            "ping" | "ping6" | "traceroute" | "tracepath" | "mtr" | "dig" | "nslookup" | "host" | "whois" | "nmap"
            | "arping" | "drill" | "rclone" | "s3cmd" | "aws" | "gcloud" | "az" | "gsutil" | "gh" | "glab" | "hub"
            | "terraform" | "ansible" | "ansible-playbook" | "vault" | "doctl" | "flyctl" | "fly" | "heroku"
            | "vercel" | "netlify" | "firebase" | "wrangler" | "mail" | "mailx" | "sendmail" | "mutt" | "msmtp"
            | "swaks" | "ssh-copy-id" | "ssh-keyscan" | "mosquitto_pub" | "kafkacat" | "grpcurl" | "speedtest"
            | "iperf3" | "tcpdump" | "tshark" => {
                self.net("");
                if name == "ssh-copy-id" {
                    self.copies_key(words);
                }
                let is_fetch = listed("dig nslookup host gh aws gsutil gcloud ssh-keyscan drill", name);
                if let ("rclone", [verb, source, ..]) = (name, words)
                    && listed("move moveto sync bisync purge delete cleanup", verb)
                    && !source.contains(':')
                    && !listed("sync bisync", verb)
                {
                    self.whole_tree(source, WriteKind::DeleteTree);
                }
                if matches!(name, "aws" | "gsutil" | "rclone") {
                    let operands = Options::read(words, "", "").operands;
                    if let Some(path) = operands.last().filter(|path| path.starts_with(['/', '~', '.'])) {
                        self.writes(path, WriteKind::Write);
                    }
                }
                if is_fetch { from_net() } else { output() }
            }
            _ => return None,
        })
    }

    fn curl(&mut self, words: &[String]) -> Value {
        const SHORT: &str = "AbcCdDeEFHhKmoPQrTtuUwxXYyz";
        const LONG: &str = "user-agent cookie cookie-jar data data-raw data-binary data-urlencode dump-header form header config max-time output output-dir request url user upload-file write-out proxy retry connect-timeout cacert cert key proto tlsv1 range resolve retry-delay limit-rate referer json trace trace-ascii stderr interface ciphers";
        let options = Options::read(words, SHORT, LONG);
        let mut urls: Vec<String> = options.operands.clone();
        urls.extend(options.values("", "url").map(str::to_owned));
        for url in &urls {
            self.net(host_of(url));
            if let Some(path) = url.strip_prefix("file://") {
                self.reads(path);
            }
        }
        self.curl_sends(&options);
        // To the letter: `--output` would be taken for its beginning.
        let named = options.given.iter().find(|(name, _)| name == "output-dir");
        let directory = named.and_then(|(_, value)| value.clone());
        let mut targets: Vec<String> = options.values("o", "output").map(str::to_owned).collect();
        let mut others: Vec<String> = options.values("Dc", "dump-header").map(str::to_owned).collect();
        for option in ["cookie-jar", "trace", "trace-ascii", "stderr", "libcurl", "etag-save"] {
            others.extend(options.values("", option).map(str::to_owned));
        }
        if options.has("O", "remote-name")
            || options.has("", "remote-name-all")
            || options.has("J", "remote-header-name")
        {
            targets.extend(urls.iter().map(|url| base(url.split(['?', '#']).next().unwrap_or_default()).to_owned()));
        }
        if let Some(directory) = &directory {
            targets.iter_mut().for_each(|path| *path = format!("{directory}/{path}"));
        }
        others.iter().filter(|path| *path != "-").for_each(|path| self.writes(path, WriteKind::Write));
        self.fetched(&targets)
    }

    /// What a file of options has for `curl`, as words.
    fn curl_config(&mut self, path: &str) {
        let texts = match path {
            "-" | "/dev/stdin" => self.streams.input.clone().unwrap_or_default(),
            path => self.content(path),
        };
        for text in &texts {
            let mut words: Vec<String> = Vec::new();
            if text.lines().count() > CONFIG_LINES_MAX {
                self.block("too-complex", "curl gets more options from a file than are looked at");
            }
            for line in text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .take(CONFIG_LINES_MAX)
            {
                let (key, value) = line.split_once([' ', '=', ':', '\t']).unwrap_or((line, ""));
                let plain = key.trim_start_matches('-');
                if matches!(plain, "K" | "config") || !is_known(plain) {
                    continue;
                }
                words.push(if plain.len() == 1 { format!("-{plain}") } else { format!("--{plain}") });
                let value = value.trim_start_matches([' ', '=', ':', '\t']).trim_matches('"');
                words.extend((!value.is_empty()).then(|| value.to_owned()));
            }
            self.curl(&words);
        }
    }

    /// Files that `curl` sends.
    fn curl_sends(&mut self, options: &Options) {
        for data in options
            .values("dF", "data")
            .chain(options.values("", "data-binary"))
            .chain(options.values("", "form"))
            .chain(options.values("", "data-urlencode"))
            .chain(options.values("", "json"))
        {
            let file = data
                .rsplit_once(['@', '<'])
                .filter(|(before, _)| before.is_empty() || before.ends_with('=') || !before.contains('.'))
                .map(|(_, file)| file);
            if let Some(file) = file {
                let file = file.split(';').next().unwrap_or_default();
                self.reads(file);
            }
        }
        for path in options.values("T", "upload-file") {
            self.reads(path);
        }
        for path in options.values("K", "config") {
            self.reads(path);
            self.note(Risk::High, "unknown-option", "curl gets options from a file");
            self.curl_config(path);
        }
    }

    /// Files that come over the network; what comes to the output is as foreign.
    fn fetched(&mut self, targets: &[String]) -> Value {
        let mut is_away = false;
        for path in targets {
            if path == "-" || path == "/dev/stdout" {
                return from_net();
            }
            is_away = true;
            self.writes(path, WriteKind::Write);
            self.store(path, &from_net(), false);
        }
        if is_away { nothing() } else { from_net() }
    }

    fn wget(&mut self, words: &[String]) -> Value {
        const SHORT: &str = "oaeiBtOwTQPUlARDIX";
        const LONG: &str = "output-document output-file append-output execute input-file directory-prefix user-agent header post-data post-file timeout tries user password method body-data body-file accept reject domains level wait limit-rate use-askpass";
        let options = Options::read(words, SHORT, LONG);
        for url in &options.operands {
            self.net(host_of(url));
        }
        if options.operands.is_empty() {
            self.net("");
        }
        for path in options
            .values("", "post-file")
            .chain(options.values("", "body-file"))
            .chain(options.values("i", "input-file"))
        {
            self.reads(path);
        }
        for code in options.values("", "use-askpass").map(str::to_owned).collect::<Vec<_>>() {
            self.code_elsewhere(&code);
        }
        for path in options.values("oa", "output-file").map(str::to_owned).collect::<Vec<_>>() {
            self.writes(&path, WriteKind::Write);
        }
        let targets: Vec<String> = options.values("O", "output-document").map(str::to_owned).collect();
        if !targets.is_empty() {
            return self.fetched(&targets);
        }
        let directory = options.values("P", "directory-prefix").next().unwrap_or(".").to_owned();
        let names: Vec<String> = options
            .operands
            .iter()
            .map(|url| format!("{directory}/{}", base(url.split(['?', '#']).next().unwrap_or_default())))
            .collect();
        self.fetched(&names);
        if options.has("", "spider") { output() } else { nothing() }
    }

    fn fetcher(&mut self, name: &str, words: &[String]) -> Value {
        let shell_letters = if matches!(name, "lftp" | "ftp") { "oOdPecf" } else { "oOdPe" };
        let options = Options::read(words, shell_letters, "output out dir download");
        for url in &options.operands {
            self.net(host_of(url));
        }
        if matches!(name, "lftp" | "ftp") {
            let mut codes: Vec<String> = options.values("ec", "").map(str::to_owned).collect();
            codes.extend(options.values("f", "").flat_map(|file| self.content(file)));
            codes.extend(self.streams.input.iter().flatten().cloned());
            for shell in
                codes.iter().flat_map(|code| code.split(['\n', ';'])).take(64).filter_map(|line| line.split_once('!'))
            {
                self.code_elsewhere(shell.1);
            }
        }
        if listed("lynx w3m links elinks GET POST lwp-request dog", name) {
            return from_net();
        }
        let mut targets: Vec<String> = options.values("oO", "output").map(str::to_owned).collect();
        if matches!(name, "aria2c" | "axel" | "lwp-download") && targets.is_empty() {
            targets.extend(options.operands.iter().map(|url| base(url).to_owned()));
        }
        if let Some(directory) = options.values("dP", "dir").next() {
            targets.iter_mut().for_each(|path| *path = format!("{directory}/{path}"));
        }
        self.fetched(&targets)
    }

    fn pipe_net(&mut self, name: &str, words: &[String]) -> Value {
        let options = Options::read(words, "ecpsqwiIGOTXx", "exec sh-exec lua-exec");
        let host = options.operands.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
        self.net(&host);
        let runs = name != "socat"
            && name != "telnet"
            && (options.has("e", "exec")
                || options.has("", "sh-exec")
                || options.has("c", "") && options.values("c", "").any(|code| code.contains("sh")));
        let executes = words.iter().any(|word| {
            let word = word.to_ascii_uppercase();
            word.contains("EXEC:") || word.contains("SYSTEM:") || word.contains("SHELL:")
        });
        if runs || executes {
            self.block("network-shell", format!("{name} ties a program to the network"));
        }
        for word in words.iter().filter(|_| name == "socat") {
            for kind in ["OPEN:", "CREATE:", "FILE:", "GOPEN:"] {
                if let Some(path) = word.strip_prefix(kind) {
                    self.writes(path.split(',').next().unwrap_or_default(), WriteKind::Write);
                }
            }
        }
        self.streams.input = None;
        if options.has("z", "") { output() } else { from_net() }
    }

    fn scp(&mut self, name: &str, words: &[String]) -> Value {
        let options = Options::read(words, "cFiJloPSDXbBR", "");
        for code in options.values("S", "").map(str::to_owned).collect::<Vec<_>>() {
            self.exec_program(vec![code]);
        }
        for option in options.values("o", "").map(str::to_owned).collect::<Vec<_>>() {
            if let Some(code) = option.strip_prefix("ProxyCommand=") {
                self.code_elsewhere(code);
            }
        }
        let mut operands = options.operands.clone();
        if name == "sftp" {
            let host = operands.first().map_or("", |host| host.split(':').next().unwrap_or_default());
            let is_here = self.comes_back(host, &options, "P");
            self.sftp_lines(&options, is_here);
        }
        if operands.len() > 1 {
            operands.iter_mut().for_each(|path| *path = self.path_here(path, &options, "P"));
        }
        // `sftp HOST:FILE` fetches into the working directory.
        if let [only] = operands.as_slice()
            && let Some((_, path)) = only.split_once(':')
        {
            let target = base(path).to_owned();
            self.fetched(&[target]);
        }
        let target = operands.pop().unwrap_or_default();
        let mut is_far = false;
        for source in &operands {
            if super::files::is_remote(source) {
                is_far = true;
            } else {
                self.reads(source);
            }
        }
        let to_far = super::files::is_remote(&target) && !is_far;
        self.net(target.split(':').next().filter(|_| to_far).unwrap_or_default());
        if !super::files::is_remote(&target) && !operands.is_empty() {
            self.writes(&target, WriteKind::Write);
            operands.iter().filter(|_| is_far).for_each(|source| self.fetched_into(&target, source));
        }
        output()
    }

    /// A file of another machine that is copied to a file or into a directory.
    pub(super) fn fetched_into(&mut self, target: &str, source: &str) {
        let name = base(source.rsplit(':').next().unwrap_or_default());
        self.store(target, &from_net(), false);
        self.store(&format!("{target}/{name}"), &from_net(), false);
    }
}
