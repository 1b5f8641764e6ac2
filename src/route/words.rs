//! The words that routing knows: English function words, commands that are English words, tools that people have elsewhere.
//! Flat sorted tables, so it may grow past the aim of 400 lines; it must not know how they are weighed.

/// Introduces a noun: `the`, `my`, `all`.
pub(super) const DETERMINER: u8 = 1;
/// Stands for a noun: `me`, `it`, `everything`.
pub(super) const PRONOUN: u8 = 2;
/// `what`, `why`, `how`.
pub(super) const QUESTION: u8 = 4;
/// `is`, `does`, `should`, `not`.
pub(super) const AUXILIARY: u8 = 8;
/// `in`, `of`, `to`.
pub(super) const PREPOSITION: u8 = 16;
/// `and`, `or`, `if`.
pub(super) const CONJUNCTION: u8 = 32;
/// Never an argument: alone it makes a sentence of plain words.
pub(super) const STRONG: u8 = 64;
/// Says what something did: `fails`, `keeps`, `broken`.
pub(super) const REPORT: u8 = 128;

/// The classes of an English word (lower case or not), 0 for any other word. Punctuation must have been removed.
pub(super) fn classes(word: &str) -> u8 {
    let mut buffer = [0_u8; 12];
    let Some(buffer) = buffer.get_mut(..word.len()) else { return 0 };
    buffer.copy_from_slice(word.as_bytes());
    buffer.make_ascii_lowercase();
    let lower: &[u8] = buffer;
    FUNCTION.binary_search_by(|(entry, _)| entry.as_bytes().cmp(lower)).map_or(0, |index| FUNCTION[index].1)
}

/// Whether a command's name is an English verb or noun with which a request begins.
pub(super) fn is_english_command(word: &str) -> bool {
    ENGLISH.binary_search(&word).is_ok()
}

/// Whether a command takes any text as its arguments, so that words in them say nothing.
pub(super) fn takes_text(word: &str) -> bool {
    TAKES_TEXT.binary_search(&word).is_ok()
}

/// Whether a command's first argument is a pattern or a topic, so that one function word says little.
pub(super) fn takes_pattern(word: &str) -> bool {
    TAKES_PATTERN.binary_search(&word).is_ok()
}

/// Whether a command takes files, names with `=` or options, and hardly ever two bare words.
pub(super) fn takes_no_plain(word: &str) -> bool {
    NO_PLAIN.binary_search(&word).is_ok()
}

/// Whether a command runs the command that follows it.
pub(super) fn runs_another(word: &str) -> bool {
    RUNS_ANOTHER.binary_search(&word).is_ok()
}

/// Whether it is a well-known tool, installed here or not.
pub(super) fn is_known_tool(word: &str) -> bool {
    TOOLS.binary_search(&word).is_ok()
}

/// Whether one word alone is said to a person, not to a shell.
pub(super) fn is_chat(word: &str) -> bool {
    CHAT.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Whether it answers a question that was just asked.
pub(super) fn is_reply(word: &str) -> bool {
    REPLIES.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
        || (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The often-typed command that `word` is one slip away from: a letter too few, one doubled, or two swapped.
pub(super) fn slip_of(word: &str) -> Option<&'static str> {
    // Two letters are one slip away from half of all short words.
    if word.len() < 3 || !word.is_ascii() {
        return None;
    }
    OFTEN_TYPED.iter().find(|often| is_one_slip(word.as_bytes(), often.as_bytes())).copied()
}

fn is_one_slip(typed: &[u8], meant: &[u8]) -> bool {
    if typed.len().abs_diff(meant.len()) > 1 || typed == meant {
        return false;
    }
    let same = typed.iter().zip(meant).take_while(|(a, b)| a == b).count();
    let before = if same > 0 { typed[same - 1] } else { 0 };
    let (typed, meant) = (&typed[same..], &meant[same..]);
    let swapped = || typed.len() >= 2 && typed.len() == meant.len() && typed[0] == meant[1] && typed[1] == meant[0];
    match typed.len().cmp(&meant.len()) {
        std::cmp::Ordering::Equal => swapped() && typed[2..] == meant[2..],
        std::cmp::Ordering::Less => *typed == meant[1..],
        // An extra letter counts where it doubles the one before; else `stop` would be `top` and `many` `man`.
        std::cmp::Ordering::Greater => same > 0 && typed[1..] == *meant && typed[0] == before,
    }
}

/// What in a line of another script asks or orders; enough to tell `ls 文档` from `ls 是什么命令`.
pub(super) const FOREIGN_QUESTIONS: [&str; 16] = [
    "什么",
    "怎么",
    "为什么",
    "如何",
    "吗",
    "请",
    "教えて",
    "ください",
    "方法",
    "어떻게",
    "뭐",
    "报错",
    "脚本",
    "почему",
    "как ",
    "что ",
];

const FUNCTION: &[(&str, u8)] = &[
    ("a", DETERMINER),
    ("about", PREPOSITION | STRONG),
    ("again", STRONG),
    ("all", DETERMINER),
    ("already", STRONG),
    ("also", STRONG),
    ("always", STRONG),
    ("am", AUXILIARY),
    ("an", DETERMINER),
    ("and", CONJUNCTION),
    ("another", DETERMINER),
    ("any", DETERMINER),
    ("anything", PRONOUN | STRONG),
    ("are", AUXILIARY),
    ("aren't", AUXILIARY | STRONG),
    ("as", PREPOSITION),
    ("asks", REPORT),
    ("at", PREPOSITION),
    ("be", AUXILIARY),
    ("because", CONJUNCTION | STRONG),
    ("been", AUXILIARY),
    ("before", PREPOSITION),
    ("bitte", STRONG),
    ("both", DETERMINER),
    ("breaks", REPORT),
    ("broke", REPORT),
    ("broken", REPORT),
    ("but", CONJUNCTION | STRONG),
    ("by", PREPOSITION),
    ("can", AUXILIARY),
    ("can't", AUXILIARY | STRONG),
    ("cannot", AUXILIARY | STRONG),
    ("complains", REPORT),
    ("could", AUXILIARY | STRONG),
    ("crashed", REPORT),
    ("crashes", REPORT),
    ("das", DETERMINER),
    ("dem", DETERMINER),
    ("den", DETERMINER),
    ("der", DETERMINER),
    ("did", AUXILIARY | STRONG),
    ("didn't", AUXILIARY | STRONG),
    ("die", DETERMINER),
    ("do", AUXILIARY),
    ("does", AUXILIARY | STRONG),
    ("doesn't", AUXILIARY | STRONG),
    ("don't", AUXILIARY | STRONG),
    ("each", DETERMINER),
    ("ein", DETERMINER),
    ("eine", DETERMINER),
    ("el", DETERMINER),
    ("every", DETERMINER),
    ("everything", PRONOUN),
    ("failed", REPORT),
    ("fails", REPORT),
    ("for", PREPOSITION),
    ("from", PREPOSITION),
    ("had", AUXILIARY),
    ("hangs", REPORT),
    ("has", AUXILIARY),
    ("have", AUXILIARY),
    ("he", PRONOUN),
    ("her", DETERMINER),
    ("his", DETERMINER),
    ("how", QUESTION),
    ("i", PRONOUN),
    ("i'm", PRONOUN | STRONG),
    ("if", CONJUNCTION),
    ("in", PREPOSITION),
    ("instead", STRONG),
    ("into", PREPOSITION | STRONG),
    ("is", AUXILIARY),
    ("isn't", AUXILIARY | STRONG),
    ("ist", AUXILIARY),
    ("it", PRONOUN),
    ("it's", PRONOUN | STRONG),
    ("its", DETERMINER),
    ("keeps", REPORT),
    ("la", DETERMINER),
    ("les", DETERMINER),
    ("looks", REPORT),
    ("ma", DETERMINER),
    ("matters", REPORT),
    ("may", AUXILIARY),
    ("me", PRONOUN),
    ("might", AUXILIARY),
    ("mir", PRONOUN),
    ("must", AUXILIARY),
    ("my", DETERMINER),
    ("needs", REPORT),
    ("no", DETERMINER),
    ("not", AUXILIARY),
    ("nothing", PRONOUN),
    ("of", PREPOSITION),
    ("on", PREPOSITION),
    ("only", STRONG),
    ("or", CONJUNCTION),
    ("our", DETERMINER),
    ("out", PREPOSITION),
    ("please", STRONG),
    ("pls", STRONG),
    ("says", REPORT),
    ("she", PRONOUN),
    ("should", AUXILIARY | STRONG),
    ("shows", REPORT),
    ("so", CONJUNCTION),
    ("some", DETERMINER),
    ("something", PRONOUN | STRONG),
    ("stuck", REPORT),
    ("takes", REPORT),
    ("than", CONJUNCTION | STRONG),
    ("thanks", STRONG),
    ("that", DETERMINER),
    ("the", DETERMINER),
    ("their", DETERMINER),
    ("them", PRONOUN | STRONG),
    ("then", CONJUNCTION),
    ("there", PRONOUN),
    ("these", DETERMINER),
    ("they", PRONOUN),
    ("this", DETERMINER),
    ("those", DETERMINER),
    ("to", PREPOSITION),
    ("too", STRONG),
    ("und", CONJUNCTION),
    ("us", PRONOUN),
    ("using", PREPOSITION | STRONG),
    ("vs", CONJUNCTION | STRONG),
    ("was", AUXILIARY | STRONG),
    ("we", PRONOUN),
    ("were", AUXILIARY | STRONG),
    ("what", QUESTION),
    ("what's", QUESTION | STRONG),
    ("when", QUESTION),
    ("where", QUESTION),
    ("whether", QUESTION | STRONG),
    ("which", QUESTION),
    ("who", QUESTION),
    ("whose", QUESTION),
    ("why", QUESTION),
    ("will", AUXILIARY),
    ("with", PREPOSITION),
    ("without", PREPOSITION | STRONG),
    ("won't", AUXILIARY | STRONG),
    ("works", REPORT),
    ("would", AUXILIARY | STRONG),
    ("you", PRONOUN),
    ("your", DETERMINER),
];

const ENGLISH: &[&str] = &[
    "alias", "arch", "as", "ask", "at", "backup", "banner", "bind", "break", "builtin", "caller", "case", "choom",
    "clear", "column", "command", "compare", "complete", "continue", "convert", "count", "crontab", "cut", "date",
    "deploy", "dig", "display", "enable", "env", "eval", "exec", "exit", "expand", "explain", "export", "expr",
    "extract", "factor", "false", "file", "find", "fix", "fold", "format", "free", "function", "go", "groups", "hash",
    "head", "help", "history", "host", "id", "identify", "import", "info", "install", "issues", "jobs", "join", "jump",
    "kill", "last", "less", "let", "link", "locate", "lock", "look", "mail", "make", "man", "merge", "more", "mount",
    "nice", "node", "note", "open", "paste", "patch", "pic", "ping", "play", "please", "print", "project", "prove",
    "python", "read", "reboot", "red", "remove", "rename", "reset", "return", "route", "run", "say", "screen",
    "script", "select", "serve", "service", "set", "shift", "show", "shred", "shutdown", "size", "sleep", "sort",
    "source", "split", "start", "stat", "strings", "strip", "sum", "suspend", "sync", "tabs", "tail", "talk", "task",
    "tee", "test", "time", "times", "todo", "top", "trap", "tree", "true", "truncate", "type", "unlink", "up",
    "update", "users", "venv", "view", "wait", "wall", "watch", "weather", "which", "who", "write", "yes", "zip",
];

const TAKES_TEXT: &[&str] = &[
    "banner",
    "claude",
    "cowsay",
    "echo",
    "espeak",
    "figlet",
    "llm",
    "logger",
    "lolcat",
    "note",
    "notify-send",
    "printf",
    "say",
    "todo",
    "toilet",
    "wall",
];

const TAKES_PATTERN: &[&str] =
    &["ack", "ag", "apropos", "egrep", "fgrep", "grep", "man", "pgrep", "pkill", "rg", "rgrep", "whatis"];

const NO_PLAIN: &[&str] = &[
    "convert", "cut", "display", "edit", "enable", "explain", "export", "extract", "fix", "identify", "import",
    "mount", "open", "play", "print", "rename", "see", "set", "show", "talk", "test", "update", "view", "write",
];

const RUNS_ANOTHER: &[&str] =
    &["builtin", "command", "doas", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time"];

const OFTEN_TYPED: &[&str] = &[
    "git",
    "make",
    "cat",
    "grep",
    "vim",
    "ssh",
    "sudo",
    "clear",
    "echo",
    "cargo",
    "docker",
    "python",
    "python3",
    "npm",
    "kubectl",
    "tail",
    "less",
    "more",
    "head",
    "which",
    "mkdir",
    "chmod",
    "chown",
    "curl",
    "wget",
    "exit",
    "history",
    "nano",
    "brew",
    "apt",
    "apt-get",
    "systemctl",
    "node",
    "yarn",
    "pip",
    "pip3",
    "tar",
    "find",
    "sed",
    "awk",
    "man",
    "top",
    "htop",
    "kill",
    "rsync",
    "scp",
    "tmux",
    "bash",
    "pwd",
    "diff",
    "sort",
];

const CHAT: &[&str] = &[
    "again",
    "agreed",
    "awesome",
    "both",
    "bravo",
    "bye",
    "cancel",
    "cheers",
    "cool",
    "correct",
    "danke",
    "done",
    "either",
    "exactly",
    "excellent",
    "explain",
    "fine",
    "goodbye",
    "gracias",
    "great",
    "hallo",
    "hello",
    "hey",
    "hi",
    "hmm",
    "hola",
    "how",
    "huh",
    "ja",
    "lol",
    "maybe",
    "merci",
    "nah",
    "neither",
    "never",
    "nevermind",
    "next",
    "nice",
    "no",
    "none",
    "nope",
    "ok",
    "okay",
    "perfect",
    "please",
    "pourquoi",
    "really",
    "repeat",
    "retry",
    "revert",
    "right",
    "same",
    "shorter",
    "skip",
    "so",
    "sorry",
    "stop",
    "summarise",
    "summarize",
    "sure",
    "thanks",
    "thx",
    "undo",
    "wat",
    "what",
    "when",
    "where",
    "who",
    "why",
    "wow",
    "wrong",
    "yeah",
    "yep",
    "yes",
    "yo",
    "yup",
];

const REPLIES: &[&str] = &[
    "a", "again", "all", "b", "both", "c", "cancel", "continue", "correct", "done", "either", "first", "go", "last",
    "later", "less", "maybe", "more", "n", "neither", "next", "nice", "no", "none", "nope", "ok", "okay", "please",
    "right", "second", "skip", "stop", "sure", "thanks", "third", "true", "wait", "wrong", "y", "yeah", "yep", "yes",
];

/// Tools that people know from other machines: not found here, the shell's own "command not found" is the honest answer.
const TOOLS: &[&str] = &[
    "ack",
    "adb",
    "ag",
    "ansible",
    "ansible-galaxy",
    "ansible-playbook",
    "apk",
    "apt",
    "apt-get",
    "apx",
    "aria2c",
    "asdf",
    "az",
    "b4",
    "bat",
    "bazel",
    "borg",
    "bower",
    "brew",
    "btm",
    "btop",
    "buck",
    "bun",
    "bundle",
    "bzr",
    "caddy",
    "cargo",
    "cf",
    "chezmoi",
    "clang-tidy",
    "cmake",
    "code",
    "composer",
    "conan",
    "conda",
    "consul",
    "cpanm",
    "crane",
    "ctr",
    "dagger",
    "delta",
    "deno",
    "devenv",
    "direnv",
    "dive",
    "dnf",
    "docker",
    "docker-compose",
    "doctl",
    "dolt",
    "doppler",
    "dotnet",
    "dust",
    "earthly",
    "elixir",
    "emerge",
    "exa",
    "exiftool",
    "eza",
    "fd",
    "ffmpeg",
    "firebase",
    "flatpak",
    "flutter",
    "fly",
    "flyctl",
    "fossil",
    "gau",
    "gcloud",
    "gem",
    "gh",
    "ghc",
    "git",
    "glab",
    "go",
    "gofmt",
    "gource",
    "gradle",
    "hadolint",
    "helm",
    "helmfile",
    "heroku",
    "hg",
    "hledger",
    "http",
    "httpie",
    "hub",
    "hugo",
    "ibmcloud",
    "iex",
    "immich",
    "invoke",
    "ipfs",
    "ipmitool",
    "iwctl",
    "java",
    "jbang",
    "jira",
    "jj",
    "jq",
    "jrnl",
    "julia",
    "just",
    "k3d",
    "k3s",
    "k6",
    "k9s",
    "kaggle",
    "kind",
    "knife",
    "ktlint",
    "kubectl",
    "kubectx",
    "kubens",
    "kustomize",
    "lazygit",
    "lein",
    "linkerd",
    "linode-cli",
    "lldb",
    "lsd",
    "luarocks",
    "lxc",
    "magick",
    "mdadm",
    "meson",
    "micro",
    "minikube",
    "mise",
    "mix",
    "mongo",
    "mongosh",
    "mosh",
    "multipass",
    "mvn",
    "mycli",
    "mysql",
    "nasm",
    "ncdu",
    "nethogs",
    "ninja",
    "nix",
    "nix-env",
    "nix-shell",
    "nmap",
    "nmcli",
    "nomad",
    "npm",
    "npx",
    "nvim",
    "nvm",
    "ollama",
    "opam",
    "openclaw",
    "opencode",
    "pacman",
    "pandoc",
    "paru",
    "pdm",
    "perlbrew",
    "pg_dump",
    "phpunit",
    "pip",
    "pipenv",
    "pipx",
    "pm2",
    "pnpm",
    "pod",
    "podman",
    "podman-compose",
    "poetry",
    "pre-commit",
    "procs",
    "prowler",
    "psql",
    "pueue",
    "pulumi",
    "puppet",
    "pwsh",
    "pyenv",
    "pytest",
    "qemu",
    "rails",
    "rbenv",
    "rclone",
    "restic",
    "rg",
    "ripgrep",
    "rpm",
    "ruff",
    "rustup",
    "rye",
    "sar",
    "sbt",
    "scd",
    "scoop",
    "sdk",
    "serverless",
    "skaffold",
    "skopeo",
    "snap",
    "sops",
    "spack",
    "sqlite3",
    "stack",
    "starship",
    "stern",
    "svn",
    "swiftlint",
    "syncthing",
    "systemctl",
    "tailscale",
    "task",
    "terraform",
    "terragrunt",
    "tig",
    "tldr",
    "tlmgr",
    "tmuxinator",
    "tofu",
    "tox",
    "trivy",
    "tsc",
    "turbo",
    "uv",
    "uvx",
    "vagrant",
    "valgrind",
    "vault",
    "vercel",
    "virsh",
    "virtualenv",
    "vite",
    "volta",
    "wails",
    "webpack",
    "winget",
    "wireshark",
    "wrangler",
    "xh",
    "xrandr",
    "yadm",
    "yarn",
    "yay",
    "yazi",
    "youtube-dl",
    "yt-dlp",
    "yum",
    "zellij",
    "zfs",
    "zig",
    "zoxide",
    "zpool",
    "zypper",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_so_that_the_search_finds_every_row() {
        for table in [ENGLISH, TAKES_TEXT, TAKES_PATTERN, NO_PLAIN, RUNS_ANOTHER, CHAT, REPLIES, TOOLS] {
            assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", table.windows(2).find(|p| p[0] >= p[1]));
        }
        assert!(FUNCTION.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(FUNCTION.iter().all(|(word, _)| word.len() <= 12 && classes(word) != 0));
    }

    #[test]
    fn a_slip_is_one_letter_off() {
        for (typed, meant) in
            [("gti", "git"), ("pyhton", "python"), ("mkae", "make"), ("dokcer", "docker"), ("exti", "exit")]
        {
            assert_eq!(slip_of(typed), Some(meant));
        }
        for word in ["finde", "stop", "many", "clean", "git", "remove", "", "ls", "größe"] {
            assert!(slip_of(word).is_none(), "{word}");
        }
    }
}
