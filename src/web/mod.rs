//! The files of the gateway's console, built in: path, type, bytes, hash. It must not know that there is a server.
//!
//! They are plain ES modules, so that the page runs exactly the files of this folder; nothing is bundled or generated.
//! `vendor/vendor.toml` lists the third-party files.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::base::hash;

/// A file of the console.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its path below `/ui/`.
    pub path: &'static str,
    /// Its type.
    pub kind: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const SVG: &str = "image/svg+xml";

/// Makes a row of the table from a path in this folder.
macro_rules! file {
    ($path:literal, $kind:expr) => {
        File { path: $path, kind: $kind, bytes: include_bytes!($path) }
    };
}

/// Every file of the console.
pub static FILES: &[File] = &[
    file!("atoms/link.json", JSON),
    file!("atoms/note.json", JSON),
    file!("icon.svg", SVG),
    file!("index.html", HTML),
    file!("js/api.js", JS),
    file!("js/canvas/board.js", JS),
    file!("js/canvas/files.js", JS),
    file!("js/canvas/past.js", JS),
    file!("js/canvas/sync.js", JS),
    file!("js/canvas/undo.js", JS),
    file!("js/events.js", JS),
    file!("js/goto.js", JS),
    file!("js/identity.js", JS),
    file!("js/main.js", JS),
    file!("js/markdown.js", JS),
    file!("js/refresh.js", JS),
    file!("js/screens/admin.js", JS),
    file!("js/screens/canvas.js", JS),
    file!("js/screens/grants.js", JS),
    file!("js/screens/home.js", JS),
    file!("js/screens/inbox.js", JS),
    file!("js/screens/memory.js", JS),
    file!("js/screens/registry.js", JS),
    file!("js/screens/replay.js", JS),
    file!("js/screens/runs.js", JS),
    file!("js/screens/safety.js", JS),
    file!("js/screens/session.js", JS),
    file!("js/screens/timeline.js", JS),
    file!("js/session/fold.js", JS),
    file!("js/session/lines.js", JS),
    file!("js/session/screen.js", JS),
    file!("js/store.js", JS),
    file!("js/stream.js", JS),
    file!("js/ui.js", JS),
    file!("style.css", CSS),
    file!("terminal/frame.css", CSS),
    file!("terminal/frame.html", HTML),
    file!("terminal/frame.js", JS),
    file!("vendor/hooks.js", JS),
    file!("vendor/htm.js", JS),
    file!("vendor/preact.js", JS),
    file!("vendor/xterm.css", CSS),
    file!("vendor/xterm.js", JS),
];

/// Finds a file; the empty path is the page.
#[must_use]
pub fn file(path: &str) -> Option<&'static File> {
    let path = if path.is_empty() { "index.html" } else { path };
    FILES.iter().find(|file| file.path == path)
}

/// The files' hashes by their paths. Hashing a large file takes longer than sending it, so each is hashed once.
static HASHES: LazyLock<HashMap<&'static str, String>> =
    LazyLock::new(|| FILES.iter().map(|file| (file.path, hash::sha256_hex(file.bytes))).collect());

impl File {
    /// The SHA-256 of its content, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> &'static str {
        HASHES.get(self.path).map_or("", String::as_str)
    }
}

/// The hash over all files: it changes with any of them.
#[must_use]
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let all: String = FILES.iter().flat_map(|file| [file.path, file.hash()]).collect();
        hash::sha256_hex(all.as_bytes())
    });
    &VERSION
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web")
    }

    fn walk(directory: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                let path = path.strip_prefix(folder()).expect("inside").display().to_string();
                found.push(path);
            }
        }
    }

    #[test]
    fn the_table_is_the_folder() {
        let mut found = Vec::new();
        walk(&folder(), &mut found);
        found.retain(|path| !path.ends_with(".rs") && !path.ends_with(".toml") && !path.contains("LICENSE"));
        found.sort();
        let mut known: Vec<&str> = FILES.iter().map(|file| file.path).collect();
        known.sort_unstable();
        assert_eq!(found, known);
    }

    #[test]
    fn scenario_67_files_of_others_are_those_that_were_vendored_and_their_licences_are_beside_them() {
        let list = fs::read_to_string(folder().join("vendor/vendor.toml")).expect("the list");
        let list: toml::Table = list.parse().expect("TOML");
        let entries = list["file"].as_array().expect("files");
        let vendored = FILES.iter().filter(|file| file.path.starts_with("vendor/")).count();
        assert_eq!(entries.len(), vendored);
        for entry in entries {
            let text = |name: &str| entry[name].as_str().expect("text").to_owned();
            let found = file(&format!("vendor/{}", text("path"))).expect("the file");
            assert_eq!(found.hash(), text("sha256"), "{}", text("path"));
            assert!(["MIT", "Apache-2.0"].contains(&text("licence").as_str()));
            assert!(folder().join("vendor").join(text("licence_file")).is_file());
        }
    }

    #[test]
    fn only_one_place_of_the_console_sends_requests_and_none_writes_markup() {
        for file in FILES.iter().filter(|file| file.kind == JS && !file.path.starts_with("vendor/")) {
            let text = String::from_utf8_lossy(file.bytes);
            let requests = text.matches("fetch(").count();
            assert_eq!(requests, usize::from(file.path == "js/api.js"), "{}", file.path);
            for banned in ["innerHTML", "dangerouslySetInnerHTML", "eval(", "document.write", "style=", "new Function"]
            {
                assert!(!text.contains(banned), "{}: {banned}", file.path);
            }
        }
    }
}
