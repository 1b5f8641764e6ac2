//! Options and operands that name what a program writes, for the many programs that are known by little else. Only what
//! would be written where nothing may be is told: the rest is the programs' own business.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::options::Options;
use super::place::Zone;
use super::run::Run;
use super::text::{self, listed};
use crate::proto::action::WriteKind;

/// Programs and their options whose value is a file or directory that is written.
const OPTIONS: &[(&str, &str)] = &[
    ("strace ltrace time perf iconv mongodump http https xh", "-o --output"),
    ("wget", "--save-cookies --hsts-file --warc-file --rejected-log"),
    ("rsync", "--log-file --backup-dir --write-batch --only-write-batch --partial-dir --temp-dir"),
    ("valgrind", "--log-file --xml-file"),
    ("screen", "-Logfile"),
    ("patch", "-o -r --output --reject-file"),
    (
        "protoc",
        "--cpp_out --python_out --java_out --go_out --js_out --ruby_out --php_out --csharp_out --descriptor_set_out",
    ),
    ("javac", "-d -h -s"),
    ("jar", "--dir"),
    ("ar", "--output"),
    ("pg_dump pg_dumpall", "-f --file"),
    ("pg_basebackup initdb", "-D --pgdata"),
    ("mysqldump mariadb-dump", "-r --result-file --tab"),
    ("redis-cli", "--rdb --functions-rdb"),
    ("psql", "-o -L --output --log-file"),
    ("tcpdump tshark dumpcap", "-w"),
    ("nmap", "-oN -oX -oG -oS -oA"),
    ("ctags cscope", "-f -o"),
    ("doxygen", "-g"),
    ("yt-dlp youtube-dl", "-P -o --paths --output"),
    ("docker podman nerdctl finch", "-o --output --iidfile --cidfile --metadata-file"),
    ("helm", "-d --destination --output-dir --untardir"),
    ("terraform tofu", "-out -state-out -backup"),
    ("cargo", "--root --target-dir"),
    ("npm pnpm", "--prefix --pack-destination"),
    ("pip pip3 uv", "-d --dest --target --prefix --root"),
    ("gem", "-i -n --install-dir --bindir"),
    ("cmake", "-B --prefix"),
    ("ninja meson", "-C --destdir"),
    ("git", "--prefix --separate-git-dir"),
    ("logrotate", "-s -l --state --log"),
    ("stow", "-t --target"),
    ("gs ghostscript", "-sOutputFile -o"),
    ("crudini", "--set --del --merge"),
    ("keytool", "-keystore -destkeystore -file"),
];

/// Programs, the words that they have to begin with, and their options with a value: the last operand is written.
const LAST: &[(&str, &str, &str)] = &[
    ("docker podman nerdctl finch kubectl oc", "cp", "nc"),
    ("cargo", "new init", ""),
    ("meson", "setup", ""),
    ("svn hg bzr fossil", "co checkout clone export", "rbu"),
    ("virtualenv debootstrap", "", "p"),
    ("setfattr", "", "nvx"),
    ("script", "", "cEoImTBO"),
    ("strip objcopy", "", "IOFRjNKLGWo"),
    ("dpkg dpkg-deb", "", ""),
    ("cpio", "", "CEFHIMOR"),
    ("xmlstarlet", "ed edit", "uvsixdtn"),
];

/// Programs and the words that they have to begin with: the operand behind is an archive that is written.
const SECOND: &[(&str, &str)] =
    &[("7z 7za 7zr 7zz", "a u d rn"), ("jar", "cf cvf cfm uf uvf"), ("ar", "r rc rcs cr crs q")];

/// Programs, the words that they have to begin with, and the variable that says where they put what they make.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("go", "install get", "GOBIN"),
    ("cargo", "install", "CARGO_INSTALL_ROOT"),
    ("cargo", "build b test t check c run r doc bench install", "CARGO_TARGET_DIR"),
    ("pip pip3", "install", "PIP_TARGET"),
    ("pip pip3", "install", "PIP_PREFIX"),
    ("npm pnpm", "install i add ci", "npm_config_prefix"),
];

/// All programs of the four tables: most commands are none of them.
static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let names =
        OPTIONS.iter().map(|row| row.0).chain(LAST.iter().map(|row| row.0)).chain(SECOND.iter().map(|row| row.0));
    let names = names.chain(VARIABLES.iter().map(|row| row.0));
    names.flat_map(str::split_whitespace).collect()
});

impl Run<'_, '_> {
    /// Notes what a program's options and operands say that it writes.
    pub(super) fn named_outputs(&mut self, name: &str, words: &[String]) {
        if !NAMES.contains(name) {
            return;
        }
        let mut paths: Vec<String> = Vec::new();
        // Behind these stands what a container runs.
        let contains = words.iter().find(|word| !word.starts_with('-')).is_some_and(|verb| listed("run exec", verb));
        if contains && listed("docker podman nerdctl finch kubectl oc", name) {
            return;
        }
        for (_, options) in OPTIONS.iter().filter(|(names, _)| listed(names, name)) {
            options.split(' ').for_each(|option| paths.extend(values_of(option, words)));
        }
        // `cmake --install` puts all below `DESTDIR` where that is set.
        if let Some(stage) = self.variable("DESTDIR").filter(|stage| name == "cmake" && !stage.is_empty())
            && words.first().is_some_and(|verb| verb == "--install")
        {
            let staged = |path: &String| format!("{stage}/{}", path.trim_start_matches('/'));
            let is_plain = |path: &&String| path.starts_with('/');
            paths = paths
                .iter()
                .filter(is_plain)
                .map(staged)
                .chain(paths.iter().filter(|path| !is_plain(path)).cloned())
                .collect();
        }
        for (_, verbs, valued) in LAST.iter().filter(|(names, ..)| listed(names, name)) {
            let operands = Options::read(words, valued, "").operands;
            let begins = operands.first().is_some_and(|verb| verbs.is_empty() || listed(verbs, verb));
            let unpacks = name != "dpkg" && name != "dpkg-deb"
                || words.iter().any(|word| listed("-x -X -R --extract --vextract --raw-extract", word));
            let passes = name != "cpio" || words.iter().any(|word| word.starts_with("-p") || word == "--pass-through");
            if begins && unpacks && passes {
                paths.extend(operands.last().cloned());
            }
        }
        for (_, verbs) in SECOND.iter().filter(|(names, _)| listed(names, name)) {
            let operands = Options::read(words, "", "").operands;
            if let [verb, archive, ..] = operands.as_slice()
                && listed(verbs, verb)
            {
                paths.push(archive.clone());
            }
        }
        let verb = words.iter().find(|word| !word.starts_with(['-', '+'])).map(String::as_str).unwrap_or_default();
        let says = VARIABLES.iter().filter(|(names, verbs, _)| listed(names, name) && listed(verbs, verb));
        paths.extend(says.filter_map(|(.., variable)| self.variable(variable)));
        for path in paths {
            if text::is_known(&path) && self.zone_of(&path) > Zone::Outside {
                self.writes(&path, WriteKind::Write);
            }
        }
    }
}

/// The values of one option: the next word, behind `=`, or behind a letter.
fn values_of(option: &str, words: &[String]) -> Vec<String> {
    let value = |(at, word): (usize, &String)| match word.strip_prefix(option)? {
        "" => words.get(at + 1).cloned(),
        behind => match behind.strip_prefix('=') {
            Some(value) => Some(value.to_owned()),
            None => (option.len() == 2).then(|| behind.to_owned()),
        },
    };
    words.iter().enumerate().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_their_option() {
        let words = ["-o", "a", "-ob", "--output=c", "-out=d"].map(str::to_owned);
        assert_eq!(values_of("-o", &words), ["a", "b", "ut=d"]);
        assert_eq!(values_of("--output", &words), ["c"]);
        assert_eq!(values_of("-out", &words), ["d"]);
    }
}
