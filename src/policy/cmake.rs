//! `cmake` as a tool of files: `-E` and the commands of a script that this very line wrote.

use super::exec::output;
use super::run::{Run, Value};
use super::strings::shell_words;
use super::text::{is_known, listed};
use crate::proto::action::{Risk, WriteKind};

/// Words that end the command of an `execute_process`.
const KEYWORDS: &str = "WORKING_DIRECTORY TIMEOUT RESULT_VARIABLE RESULTS_VARIABLE OUTPUT_VARIABLE ERROR_VARIABLE INPUT_FILE \
    OUTPUT_FILE ERROR_FILE OUTPUT_QUIET ERROR_QUIET COMMAND_ERROR_IS_FATAL COMMAND_ECHO ENCODING";
/// Commands of a script that are looked at.
const COMMANDS_MAX: usize = 64;

impl Run<'_, '_> {
    /// What a script, or the project, has `cmake` do besides building.
    pub(super) fn cmake(&mut self, words: &[String]) {
        let script = words.iter().position(|word| word == "-P").and_then(|at| words.get(at + 1));
        let files: Vec<String> = match script {
            Some(file) => vec![file.clone()],
            None => {
                let is_plain = |word: &&String| !word.starts_with('-');
                let places = words.iter().filter(is_plain).map(String::as_str).chain(["."]);
                places.map(|place| format!("{place}/CMakeLists.txt")).collect()
            }
        };
        let texts: Vec<String> =
            files.iter().flat_map(|file| self.content(file)).filter(|text| is_known(text)).collect();
        texts.iter().for_each(|text| self.cmake_script(text));
    }

    /// `cmake -E VERB …`: a program of the system by another name.
    pub(super) fn cmake_tool(&mut self, words: &[String]) -> Value {
        let Some((verb, rest)) = words.split_first() else { return output() };
        let program: &[&str] = match verb.as_str() {
            "rm" => &["rm"],
            "remove" => &["rm", "-f"],
            "remove_directory" => &["rm", "-rf"],
            "copy" | "copy_if_different" | "copy_if_newer" => &["cp", "-r"],
            "copy_directory" | "copy_directory_if_different" | "copy_directory_if_newer" => &["cp", "-rT"],
            "rename" => &["mv", "-T"],
            "touch" | "touch_nocreate" => &["touch"],
            "make_directory" => &["mkdir", "-p"],
            "create_symlink" => &["ln", "-s"],
            "create_hardlink" => &["ln"],
            "tar" | "cat" | "echo" | "env" | "sleep" | "true" | "false" | "md5sum" | "sha256sum" => &[verb.as_str()],
            "time" => &[],
            "chdir" => &["env", "-C"],
            _ => {
                self.note(Risk::Medium, "build", format!("cmake runs its tool {verb}"));
                self.scan_commands(words);
                return output();
            }
        };
        let argv: Vec<String> = program.iter().map(|word| (*word).to_owned()).chain(rest.iter().cloned()).collect();
        self.exec_program(argv)
    }

    /// The commands of a script that touch files or start programs.
    fn cmake_script(&mut self, text: &str) {
        for (at, _) in text.match_indices('(').take(COMMANDS_MAX) {
            let name = text[..at].trim_end().rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
            let name = name.unwrap_or_default().to_ascii_lowercase();
            let inner = &text[at + 1..];
            let words = shell_words(inner.split_once(')').map_or(inner, |(inner, _)| inner));
            match (name.as_str(), words.split_first()) {
                ("file", Some((verb, rest))) => self.cmake_file(verb, rest),
                ("execute_process", Some(_)) => {
                    for command in words.split(|word| word == "COMMAND").skip(1) {
                        let end = command.iter().position(|word| listed(KEYWORDS, word)).unwrap_or(command.len());
                        self.exec_program(command[..end].to_vec());
                    }
                }
                _ => {}
            }
        }
    }

    fn cmake_file(&mut self, verb: &str, rest: &[String]) {
        let last = rest.last().into_iter();
        match verb {
            "REMOVE_RECURSE" => rest.iter().for_each(|path| self.whole_tree(path, WriteKind::DeleteTree)),
            "REMOVE" => rest.iter().for_each(|path| self.writes(path, WriteKind::Delete)),
            "WRITE" | "APPEND" | "CONFIGURE" => {
                rest.iter().take(1).for_each(|path| self.writes(path, WriteKind::Write))
            }
            "TOUCH" | "MAKE_DIRECTORY" => rest.iter().for_each(|path| self.writes(path, WriteKind::Write)),
            "RENAME" => rest.iter().take(2).for_each(|path| self.writes(path, WriteKind::Move)),
            "COPY_FILE" | "CREATE_LINK" | "DOWNLOAD" => {
                rest.iter().skip(1).take(1).for_each(|path| self.writes(path, WriteKind::Write));
            }
            "COPY" | "INSTALL" => {
                let to = rest.iter().position(|word| word == "DESTINATION").and_then(|at| rest.get(at + 1));
                to.into_iter().for_each(|path| self.writes(path, WriteKind::Write));
            }
            "CHMOD" | "CHMOD_RECURSE" => rest.iter().take(1).for_each(|path| self.whole_tree(path, WriteKind::Mode)),
            "ARCHIVE_EXTRACT" => last.for_each(|path| self.writes(path, WriteKind::Write)),
            _ => {}
        }
    }
}
