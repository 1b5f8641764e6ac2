//! Programs that make, change, move and remove files.

use super::exec::{nothing, output};
use super::options::Options;
use super::run::{Run, Value};
use super::text::{self, ANY, NAME, has_open};
use crate::proto::action::{Risk, WriteKind};

/// Whether a program may destroy what it is pointed at, so that a copy of it under the workspace is judged like it.
pub(super) fn is_destroyer(name: &str) -> bool {
    text::listed("rm rmdir unlink shred dd mv cp chmod chown find tee truncate wipe srm", name)
}

impl Run<'_, '_> {
    /// Runs a program about files; `None` where it isn't one.
    pub(super) fn file_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        match name {
            "rm" | "srm" | "wipe" | "rimraf" | "del" | "del-cli" | "trash-cli" | "trash" | "trash-put" | "rmtrash"
            | "scrub" | "Remove-Item" => self.remove(name, words),
            "gio" if words.first().is_some_and(|verb| matches!(verb.as_str(), "trash" | "remove")) => {
                self.remove("trash", &words[1..]);
            }
            "ssh-keygen" => self.ssh_keygen(words),
            "rmdir" | "unlink" => self.delete_each(&Options::read(words, "", "").operands),
            "shred" => {
                let options = Options::read(words, "nsr", "iterations size random-source remove");
                options.operands.iter().for_each(|path| self.destroys(path));
            }
            "mv" | "rename" | "mmv" => self.moves(words),
            "cp" | "install" | "ln" | "link" | "ditto" | "pax" => self.copies(name, words),
            "mkdir" | "touch" | "mkfifo" | "mknod" => {
                let options = Options::read(words, "mrtdZ", "mode reference date time context");
                options.operands.iter().for_each(|path| self.writes(path, WriteKind::Write));
            }
            "truncate" | "fallocate" => {
                let options = Options::read(words, "srol", "size reference offset length");
                options.operands.iter().for_each(|path| self.writes(path, WriteKind::Write));
            }
            "tee" | "sponge" => return Some(self.tee(words)),
            "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "setcap" | "chcon" | "restorecon" => {
                self.modes(name, words)
            }
            "dd" | "dcfldd" | "ddrescue" | "dc3dd" => return Some(self.dd(name, words)),
            "tar" | "gtar" | "bsdtar" => {
                self.tar(words);
                return Some(unpacked(name, words));
            }
            "unsquashfs" => {
                let options = Options::read(words, "dpe", "dest processors");
                let target = options.values("d", "dest").next().unwrap_or("squashfs-root").to_owned();
                self.writes(&format!("{target}/{NAME}"), WriteKind::Write);
            }
            "unzip" | "7z" | "7za" | "7zz" | "unrar" | "bsdcpio" | "cpio" | "ar" | "unar" | "jar" => {
                self.unpack(name, words);
                return Some(unpacked(name, words));
            }
            "zip" | "gzip" | "bzip2" | "xz" | "zstd" | "lz4" | "compress" | "pigz" | "lzma" => {
                return Some(self.pack(name, words));
            }
            "rsync" => self.rsync(words),
            "find" | "gfind" | "fd" | "fdfind" | "bfs" => return Some(self.find(name, words)),
            "openssl" | "gpg" | "gpg2" | "age" | "uudecode" | "uuencode" | "ascii85" | "qprint" => {
                return Some(self.crypt(name, words));
            }
            "ffmpeg" | "convert" | "magick" | "pandoc" | "wkhtmltopdf" | "gs" | "pdftotext" | "pdftk" | "qpdf"
            | "inkscape" | "dot" | "asciidoctor" | "sox" | "gnuplot" | "latexmk" | "pdflatex" | "xelatex" => {
                self.note(Risk::Medium, "write", format!("{name} writes files"));
                self.scan_commands(words);
                self.last_operand_and_output(words);
            }
            _ => return self.text_file_program(name, words),
        }
        Some(nothing())
    }

    /// Programs that cut and change files of text.
    fn text_file_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        match name {
            "csplit" => {
                let options = Options::read(words, "fnb", "prefix digits suffix-format");
                options.operands.iter().take(1).for_each(|path| self.reads(path));
                let prefix = options.values("f", "prefix").next().unwrap_or("xx").to_owned();
                self.writes(&format!("{prefix}{NAME}"), WriteKind::Write);
            }
            "split" => {
                let options = Options::read(words, "abClnt", "filter suffix-length");
                if let Some(code) = options.values("", "filter").next().map(str::to_owned) {
                    self.code_elsewhere(&code);
                }
                options.operands.iter().take(1).for_each(|path| self.reads(path));
                let prefix = options.operands.get(1);
                self.writes(&format!("{}{NAME}", prefix.map_or("x", String::as_str)), WriteKind::Write);
            }
            "patch" => {
                let options = Options::read(words, "pidoDBFgrVYz", "input directory output strip");
                let directory = options.values("d", "directory").next().unwrap_or(".").to_owned();
                self.writes(&format!("{directory}/{NAME}"), WriteKind::Write);
                options.values("io", "output").for_each(|path| self.reads(path));
                options.operands.first().iter().for_each(|path| self.writes(path, WriteKind::Write));
            }
            "dos2unix" | "unix2dos" | "perltidy" | "exiv2" => {
                let paths = Options::read(words, "", "").operands;
                paths.iter().for_each(|path| self.writes(path, WriteKind::Write));
            }
            _ => return None,
        }
        Some(nothing())
    }

    fn last_operand_and_output(&mut self, words: &[String]) {
        let options = Options::read(words, "o", "output outdir output-directory");
        let mut targets: Vec<String> = options.values("o", "output").map(str::to_owned).collect();
        targets.extend(options.values("", "outdir").map(str::to_owned));
        if let Some(last) = options.operands.last() {
            targets.push(last.clone());
        }
        targets.iter().filter(|path| !path.contains("://")).for_each(|path| self.writes(path, WriteKind::Write));
    }

    /// `ssh-keygen`, which writes keys but where it only tells.
    fn ssh_keygen(&mut self, words: &[String]) {
        let options = Options::read(words, "abCDEfFGIiJjKmMNnOPRrSsTtVWYzZ", "");
        let only_tells = options.has("lyFeiBQ", "");
        let keys = options.values("f", "").filter(|_| !only_tells);
        keys.for_each(|path| self.writes(path, WriteKind::Write));
        if options.has("A", "") && options.values("f", "").next().is_none() {
            self.writes("/etc/ssh", WriteKind::Write);
        }
        self.note(Risk::High, "crypt", "ssh-keygen works on keys");
    }

    fn remove(&mut self, name: &str, words: &[String]) {
        let options = Options::read(words, "", "");
        let is_tree = options.has("rR", "recursive") || !matches!(name, "rm" | "srm" | "wipe" | "scrub");
        for path in &options.operands {
            if is_tree {
                self.whole_tree(path, WriteKind::DeleteTree);
            } else {
                self.writes(path, WriteKind::Delete);
            }
        }
    }

    /// What a file holds is gone.
    fn destroys(&mut self, path: &str) {
        self.writes(path, WriteKind::Delete);
    }

    fn moves(&mut self, words: &[String]) {
        let options = Options::read(words, "tS", "target-directory suffix");
        let mut operands = options.operands.clone();
        let target = match options.values("t", "target-directory").next() {
            Some(directory) => directory.to_owned(),
            None => operands.pop().unwrap_or_default(),
        };
        for source in operands.iter().filter(|source| !source.is_empty()) {
            for path in self.absolute(source) {
                let place = super::place::Place::of(&path);
                if self.map.is_vital(&place)
                    && !(super::place::is_all(place.parts.last().map_or("", String::as_str)) && self.is_inside(&target))
                {
                    self.block("move-tree", format!("moves {path} away"));
                }
            }
            self.writes(source, WriteKind::Move);
            let content = self.content(source);
            if !matches!(content.as_slice(), [one] if one.chars().all(text::is_open) && !one.contains(text::NET)) {
                self.store(&target, &content, false);
            }
        }
        self.writes(&target, WriteKind::Write);
        if self.zone_of(&target) == super::place::Zone::Sink {
            self.block("device", format!("moves files onto {target}"));
        }
        for source in &operands {
            self.link(&target, source);
        }
    }

    fn is_inside(&self, path: &str) -> bool {
        self.zone_of(path) <= super::place::Zone::Workspace
    }

    /// Another name of a file: what is run or changed by it is the file.
    fn link(&mut self, name: &str, target: &str) {
        if has_open(name) || has_open(target) || text::has_pattern(target) {
            return;
        }
        if let ([name], [target]) = (self.absolute(name).as_slice(), self.absolute(target).as_slice())
            && name != target
        {
            self.links.insert(name.clone(), target.clone());
        }
    }

    fn copies(&mut self, name: &str, words: &[String]) {
        let options = Options::read(
            words,
            if name == "install" { "tmogS" } else { "tS" },
            "target-directory suffix mode owner group backup",
        );
        let mut operands = options.operands.clone();
        if name == "install" && options.has("d", "directory") {
            return operands.iter().for_each(|path| self.writes(path, WriteKind::Write));
        }
        if name == "install"
            && let Some(mode) = options.values("m", "mode").next()
            && is_setuid(mode)
        {
            self.block("setuid", "makes a program that runs with its owner's rights");
        }
        let is_link = matches!(name, "ln" | "link");
        let target = match options.values("t", "target-directory").next() {
            Some(directory) => directory.to_owned(),
            None if is_link && operands.len() == 1 => super::exec::base(&operands[0]).to_owned(),
            None => operands.pop().unwrap_or_default(),
        };
        if !is_link {
            // Before the copy is known by its name: it is the name that is written.
            self.writes(&target, WriteKind::Write);
        }
        for source in &operands {
            if is_link {
                // By another name keys are read as well.
                if self.zone_of(source) == super::place::Zone::Credentials {
                    self.reads(source);
                }
                self.lists(source);
                // A link's text stands where the link is.
                self.link(&target, source);
                self.link(&format!("{target}/{}", super::exec::base(source)), source);
            } else {
                self.reads(source);
                self.link_program(&target, source);
                let content = self.content(source);
                if content.iter().any(|text| text.contains(text::NET)) || self.is_written(source) {
                    self.store(&target, &content, false);
                    self.store(&format!("{target}/{}", super::exec::base(source)), &content, false);
                }
            }
        }
        if is_link {
            // The link is made in place of the name, not where the name led.
            let kept = std::mem::take(&mut self.links);
            self.writes(&target, WriteKind::Write);
            self.links = kept;
        }
    }

    pub(super) fn is_written(&self, path: &str) -> bool {
        self.absolute(path).iter().any(|path| self.written.contains_key(path))
    }

    /// A copy of a program is that program.
    fn link_program(&mut self, target: &str, source: &str) {
        let from = super::place::Place::of(source);
        let is_program = source.starts_with('/') && from.parts.iter().any(|part| part.ends_with("bin"));
        let by_which = !source.contains('/') && (super::exec::is_shell(source) || is_destroyer(source));
        if is_program || by_which {
            self.link(target, source);
            self.link(&format!("{target}/{}", super::exec::base(source)), source);
        }
    }

    fn tee(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "", "");
        let data = self.streams.input.take().unwrap_or_else(|| vec![ANY.to_string()]);
        let appends = options.has("a", "append");
        for path in &options.operands {
            self.writes(path, if appends { WriteKind::Append } else { WriteKind::Write });
            self.store(path, &data, appends);
        }
        data
    }

    fn modes(&mut self, name: &str, words: &[String]) {
        let options = Options::read(
            words,
            match name {
                "setfacl" => "mMxX",
                "chattr" => "vp",
                "chcon" => "urtl",
                _ => "",
            },
            "reference from modify set restore",
        );
        let mut operands = options.operands.clone();
        if name == "chattr" {
            operands = words.iter().filter(|word| !word.starts_with(['+', '-', '='])).cloned().collect();
        }
        let mut mode = String::new();
        // Of chmod a mode may look like an option: `-x`, `-w`.
        let is_minus = name == "chmod"
            && words
                .iter()
                .any(|word| word.len() > 1 && word.starts_with('-') && word[1..].chars().all(|c| "rwxXst".contains(c)));
        let has_value =
            !matches!(name, "setfacl" | "restorecon" | "chattr") && !options.has("", "reference") && !is_minus;
        if has_value && !operands.is_empty() {
            mode = operands.remove(0);
        }
        let copied = options
            .values("", "reference")
            .any(|path| name == "chmod" && self.zone_of(path) == super::place::Zone::System);
        if name == "chmod" && (is_setuid(&mode) || copied) {
            self.block("setuid", "makes a program that runs with its owner's rights");
        }
        if name == "setcap" {
            self.block("setuid", "gives a program rights of its own");
        }
        let is_tree = options.has("R", "recursive") || options.has_unknown() && options.operands.is_empty();
        for path in &operands {
            if is_tree {
                self.whole_tree(path, WriteKind::Mode);
            } else {
                self.writes(path, WriteKind::Mode);
            }
        }
    }

    fn dd(&mut self, name: &str, words: &[String]) -> Value {
        let mut is_away = false;
        let mut data = self.streams.input.take();
        for word in words {
            if let Some(path) = word.strip_prefix("of=") {
                is_away = true;
                self.writes(path, WriteKind::Write);
                if let Some(data) = &data {
                    self.store(path, &data.clone(), false);
                }
            } else if let Some(path) = word.strip_prefix("if=") {
                self.reads(path);
                data = Some(self.content(path));
            } else if word.starts_with(text::is_open) {
                self.block_unknown("unknown-path", format!("{name} writes what isn't known"));
            }
        }
        if name == "ddrescue" {
            words
                .iter()
                .filter(|word| !word.starts_with('-'))
                .skip(1)
                .for_each(|path| self.writes(path, WriteKind::Write));
        }
        if is_away { nothing() } else { data.unwrap_or_else(output) }
    }

    fn tar(&mut self, words: &[String]) {
        const VALUES: &str = "fCTXIFbgHLNKV";
        const LONG: &str = "file directory files-from exclude use-compress-program transform to-command rsh-command checkpoint-action info-script new-volume-script owner group mode format one-top-level";
        // The first word may be letters without a dash: `tar xzf a.tgz`.
        let mut words = words.to_vec();
        if let Some(letters) = words.first().filter(|first| !first.starts_with('-') && !first.is_empty()).cloned() {
            // In this old style each letter takes the next of the following words, in order.
            let mut rest = words.split_off(1).into_iter();
            words.clear();
            for letter in letters.chars() {
                words.push(format!("-{letter}"));
                words.extend(VALUES.contains(letter).then(|| rest.next()).flatten());
            }
            words.extend(rest);
        }
        let mut options = Options::read(&words, VALUES, LONG);
        let extracts = options.has("x", "extract") || options.has("", "get");
        let creates = options.has("cruA", "create") || options.has("", "append") || options.has("", "update");
        for code in ["to-command", "use-compress-program", "rsh-command", "info-script", "new-volume-script"] {
            for code in options.values("", code).map(str::to_owned).collect::<Vec<_>>() {
                self.code_elsewhere(&code);
            }
        }
        for code in options.values("IF", "").map(str::to_owned).collect::<Vec<_>>() {
            self.code_elsewhere(&code);
        }
        for action in options.values("", "checkpoint-action").map(str::to_owned).collect::<Vec<_>>() {
            if let Some(code) = action.strip_prefix("exec=") {
                self.code_elsewhere(code);
            }
        }
        if extracts && options.has("P", "absolute-names") {
            self.note(Risk::High, "unknown-path", "unpacks to paths that the archive names");
            let named = options.operands.iter().filter(|path| path.starts_with('/'));
            named.for_each(|path| self.writes(path, WriteKind::Write));
        }
        let archive = options.values("f", "file").next().map(str::to_owned);
        let mut directories: Vec<String> = options.values("C", "directory").map(str::to_owned).collect();
        directories.extend(options.values("", "one-top-level").map(str::to_owned));
        if extracts {
            if directories.is_empty() {
                self.writes(&format!("./{NAME}"), WriteKind::Write);
            }
            for directory in &directories {
                self.writes(&format!("{directory}/{NAME}"), WriteKind::Write);
            }
        }
        if creates {
            if let Some(archive) = archive.as_ref().filter(|archive| *archive != "-") {
                if archive.contains(':') { self.net("") } else { self.writes(archive, WriteKind::Write) }
            }
            for path in options.operands.drain(..) {
                let from = directories.last().map_or(path.clone(), |directory| format!("{directory}/{path}"));
                self.reads(&from);
                if words.iter().any(|word| word == "--remove-files") {
                    self.whole_tree(&from, WriteKind::DeleteTree);
                }
            }
        }
    }

    fn unpack(&mut self, name: &str, words: &[String]) {
        let attached: Vec<String> = match name {
            "7z" | "7za" | "7zz" => {
                words.iter().filter_map(|word| word.strip_prefix("-o")).map(str::to_owned).collect()
            }
            "cpio" | "bsdcpio" => Options::read(words, "DEFHOIMRC", "directory file")
                .values("D", "directory")
                .map(str::to_owned)
                .collect(),
            "unzip" => Options::read(words, "dxP", "").values("d", "").map(str::to_owned).collect(),
            _ => words.iter().filter(|word| word.ends_with('/')).cloned().collect(),
        };
        let targets = if attached.is_empty() { vec![".".to_owned()] } else { attached };
        if name.starts_with('7') && words.iter().any(|word| word == "-sdel") {
            let sources = words.iter().filter(|word| !word.starts_with('-')).skip(2);
            sources.for_each(|path| self.whole_tree(path, WriteKind::DeleteTree));
        }
        if name == "ar"
            && let Some(archive) = words.get(1).filter(|_| words[0].contains(['r', 'q', 'd', 'm']))
        {
            return self.writes(&archive.clone(), WriteKind::Write);
        }
        let only_lists = words.iter().any(|word| text::listed("-l -t l t -tf -Z -v", word));
        if !only_lists {
            targets.iter().for_each(|directory| self.writes(&format!("{directory}/{NAME}"), WriteKind::Write));
        }
    }

    fn pack(&mut self, name: &str, words: &[String]) -> Value {
        let options = Options::read(words, if name == "zip" { "xibtn" } else { "Sb" }, "suffix unzip-command");
        for code in options.values("", "unzip-command").map(str::to_owned).collect::<Vec<_>>() {
            self.code_elsewhere(&code);
        }
        if name == "zip" && words.iter().any(|word| word == "-TT") {
            let at = words.iter().position(|word| word == "-TT").unwrap_or(0);
            let code = words.get(at + 1).cloned().unwrap_or_default();
            self.code_elsewhere(&code);
        }
        if name == "zip"
            && words
                .iter()
                .any(|word| word == "--move" || word.starts_with('-') && !word.starts_with("--") && word.contains('m'))
        {
            options.operands.iter().skip(1).for_each(|path| self.whole_tree(path, WriteKind::DeleteTree));
        }
        let decodes = options.has("d", "decompress") || options.has("", "uncompress");
        let to_output = options.has("c", "stdout") || options.operands.is_empty();
        for (at, path) in options.operands.iter().enumerate() {
            if to_output || name == "zip" && at > 0 {
                self.reads(path);
            } else {
                self.writes(path, WriteKind::Write);
            }
        }
        let data = self.streams.input.take().unwrap_or_else(output);
        match decodes {
            true if data.iter().any(|text| text.contains(text::NET)) => vec![text::NET.to_string()],
            true => vec![text::DECODED.to_string()],
            false => output(),
        }
    }

    fn crypt(&mut self, name: &str, words: &[String]) -> Value {
        let options = Options::read(words, "oru", "output out in recipient homedir in keyout local-user");
        let mut targets: Vec<String> = options.values("o", "output").map(str::to_owned).collect();
        for (at, word) in words.iter().enumerate() {
            let path = words.get(at + 1).cloned().unwrap_or_default();
            match word.as_str() {
                "-out" | "-keyout" => targets.push(path),
                "-in" | "-kfile" | "-inkey" => self.reads(&path),
                "s_client" | "-connect" => self.net(""),
                _ => {}
            }
        }
        targets.iter().for_each(|path| self.writes(path, WriteKind::Write));
        let is_net = words.first().is_some_and(|word| word == "s_client");
        self.note(Risk::Medium, "crypt", format!("{name} works on keys or encoded text"));
        if words.iter().any(|word| word.contains("delete-secret") || word == "--delete-keys") {
            self.note(Risk::High, "credentials", "deletes keys");
        }
        if words.iter().any(|word| word.starts_with("--export-secret")) {
            self.block("read-credentials", "gives secret keys away");
        }
        let decodes =
            words.iter().any(|word| matches!(word.as_str(), "-d" | "--decrypt" | "-decrypt" | "-A" | "--dearmor"));
        if is_net {
            vec![text::NET.to_string()]
        } else if decodes
            || name.starts_with("uu")
            || words.first().is_some_and(|word| matches!(word.as_str(), "base64" | "enc" | "zlib"))
        {
            vec![text::DECODED.to_string()]
        } else {
            output()
        }
    }

    fn rsync(&mut self, words: &[String]) {
        let options = Options::read(
            words,
            "efBTM",
            "rsh exclude include filter rsync-path log-file backup-dir temp-dir files-from exclude-from partial-dir compare-dest link-dest port bwlimit out-format chmod",
        );
        for code in options.values("e", "rsh").map(str::to_owned).collect::<Vec<_>>() {
            if code.contains(' ') || !matches!(code.as_str(), "ssh" | "rsh") {
                self.code_elsewhere(&format!("{code} host"));
            }
        }
        let modes = options.values("", "chmod").flat_map(|modes| modes.split(','));
        // What is for directories alone gives nobody's rights.
        if modes.filter(|mode| !mode.starts_with('D')).map(|mode| mode.trim_start_matches('F')).any(is_setuid) {
            self.block("setuid", "makes programs that run with their owner's rights");
        }
        let rsync_path = options.values("", "rsync-path").next().map(str::to_owned);
        if let Some(code) = rsync_path {
            self.elsewhere(1, "/home/remote", |run| _ = run.code_elsewhere(&code));
        }
        let mut operands = options.operands.clone();
        // Behind a shell with options stands another port, and with it another machine.
        if options.values("e", "rsh").all(|code| !code.contains(' ')) {
            operands.iter_mut().for_each(|path| *path = self.path_here(path, &options, ""));
        }
        let Some(target) = operands.pop().filter(|_| !operands.is_empty()) else { return };
        for source in &operands {
            if is_remote(source) {
                self.net(source.split(':').next().unwrap_or_default());
                self.fetched_into(&target, source);
            } else {
                self.reads(source)
            }
            if options.has("", "remove-source-files") && !is_remote(source) {
                self.whole_tree(source, WriteKind::DeleteTree);
            }
        }
        if is_remote(&target) {
            let host = target.split(':').next().unwrap_or_default().to_owned();
            self.net(&host);
            if let Some((_, path)) = target.split_once(':').filter(|_| options.has("", "delete")) {
                let path = path.to_owned();
                self.elsewhere(1, "/home/remote", |run| run.whole_tree(&path, WriteKind::DeleteTree));
            }
            return;
        }
        let deletes = options.given.iter().any(|(name, _)| name.starts_with("delete") || name == "del");
        match deletes {
            _ if options.has("n", "dry-run") => self.reads(&target),
            true => self.whole_tree(&target, WriteKind::DeleteTree),
            false => self.writes(&target, WriteKind::Write),
        }
    }
}

/// What a program prints that unpacks: the files themselves, where it is told to.
fn unpacked(name: &str, words: &[String]) -> Value {
    let prints = words.iter().enumerate().any(|(at, word)| match name {
        "tar" | "gtar" | "bsdtar" => {
            word == "--to-stdout" || (at == 0 || word.starts_with('-') && !word.starts_with("--")) && word.contains('O')
        }
        "unzip" => word.starts_with('-') && word.contains('p'),
        "7z" | "7za" | "7zz" => word == "-so",
        "unrar" | "ar" => word == "p",
        _ => word == "--to-stdout",
    });
    if prints { vec![text::DECODED.to_string()] } else { output() }
}

/// Whether a mode makes a program run with its owner's or group's rights.
fn is_setuid(mode: &str) -> bool {
    let mode = if mode.contains(|c: char| c.is_ascii_digit()) { mode.trim_start_matches(['=', '+']) } else { mode };
    let digits = mode.trim_start_matches('0');
    if !mode.is_empty() && mode.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.len() == 4 && digits.starts_with(['2', '3', '4', '5', '6', '7']);
    }
    mode.split(',').any(|part| {
        part.split_once(['+', '='])
            .is_some_and(|(who, what)| what.contains('s') && !who.chars().all(|c| c == 'o') | who.is_empty())
    })
}

/// Whether a path names a place on another machine.
pub(super) fn is_remote(path: &str) -> bool {
    match path.split_once(':') {
        Some((host, _)) => !host.contains('/') && !host.is_empty(),
        None => path.starts_with("rsync://"),
    }
}
