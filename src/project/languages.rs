//! The language of a file, by its name or its first line, and the files that were generated or vendored. Pure: tables and texts.
//! The table is our own, because the existing crates read every file or bring a whole git.

use std::path::Path;

/// Languages, by the ends of names, in lower case. An end that several languages share belongs to the most common one.
const ENDS: &[(&str, &str)] = &[
    ("ada adb ads", "Ada"),
    ("asm s", "Assembly"),
    ("awk", "Awk"),
    ("bash sh", "Shell"),
    ("bat cmd", "Batchfile"),
    ("c h", "C"),
    ("cc cpp cxx c++ hh hpp hxx inl", "C++"),
    ("clj cljc cljs edn", "Clojure"),
    ("cmake", "CMake"),
    ("coffee", "CoffeeScript"),
    ("cs csx", "C#"),
    ("css", "CSS"),
    ("cu cuh", "CUDA"),
    ("d", "D"),
    ("dart", "Dart"),
    ("dockerfile", "Dockerfile"),
    ("el", "Emacs Lisp"),
    ("elm", "Elm"),
    ("erl hrl", "Erlang"),
    ("ex exs", "Elixir"),
    ("f f03 f08 f77 f90 f95 for", "Fortran"),
    ("fish", "fish"),
    ("fs fsi fsx", "F#"),
    ("glsl frag vert", "GLSL"),
    ("go", "Go"),
    ("gradle groovy", "Groovy"),
    ("graphql gql", "GraphQL"),
    ("hs lhs", "Haskell"),
    ("htm html xhtml", "HTML"),
    ("java", "Java"),
    ("cjs js jsx mjs", "JavaScript"),
    ("jl", "Julia"),
    ("kt kts", "Kotlin"),
    ("less", "Less"),
    ("lisp lsp cl", "Common Lisp"),
    ("lua luau", "Lua"),
    ("m", "Objective-C"),
    ("mm", "Objective-C++"),
    ("mk mak", "Makefile"),
    ("ml mli", "OCaml"),
    ("nim nims", "Nim"),
    ("nix", "Nix"),
    ("pas pp", "Pascal"),
    ("php phtml", "PHP"),
    ("pl pm t", "Perl"),
    ("proto", "Protocol Buffers"),
    ("ps1 psd1 psm1", "PowerShell"),
    ("py pyi pyw", "Python"),
    ("pyx pxd", "Cython"),
    ("r", "R"),
    ("raku rakumod", "Raku"),
    ("rake rb gemspec", "Ruby"),
    ("rkt", "Racket"),
    ("rs", "Rust"),
    ("sass scss", "SCSS"),
    ("sbt sc scala", "Scala"),
    ("scm ss", "Scheme"),
    ("sol", "Solidity"),
    ("sql", "SQL"),
    ("svelte", "Svelte"),
    ("sv svh", "SystemVerilog"),
    ("swift", "Swift"),
    ("tcl", "Tcl"),
    ("tf tfvars", "HCL"),
    ("cts mts ts tsx", "TypeScript"),
    ("v vh", "Verilog"),
    ("vhd vhdl", "VHDL"),
    ("vim", "Vim Script"),
    ("vue", "Vue"),
    ("wat", "WebAssembly"),
    ("wgsl", "WGSL"),
    ("zig", "Zig"),
    ("zsh", "Zsh"),
];
/// Languages, by whole names, in lower case.
const NAMES: &[(&str, &str)] = &[
    ("bashrc .bashrc .bash_profile .profile pkgbuild", "Shell"),
    ("brewfile gemfile guardfile rakefile vagrantfile", "Ruby"),
    ("cmakelists.txt", "CMake"),
    ("containerfile dockerfile", "Dockerfile"),
    ("gnumakefile kbuild makefile", "Makefile"),
    ("jenkinsfile", "Groovy"),
    ("sconscript sconstruct", "Python"),
    (".vimrc vimrc", "Vim Script"),
];
/// Languages, by the program that a first line names, without its version.
const PROGRAMS: &[(&str, &str)] = &[
    ("ash bash dash ksh sh", "Shell"),
    ("awk gawk mawk", "Awk"),
    ("bun node nodejs", "JavaScript"),
    ("deno ts-node tsx", "TypeScript"),
    ("escript", "Erlang"),
    ("elixir", "Elixir"),
    ("fish", "fish"),
    ("groovy", "Groovy"),
    ("guile", "Scheme"),
    ("julia", "Julia"),
    ("lua luajit luau", "Lua"),
    ("make", "Makefile"),
    ("ocaml", "OCaml"),
    ("perl", "Perl"),
    ("php", "PHP"),
    ("pwsh", "PowerShell"),
    ("pypy python uv", "Python"),
    ("racket", "Racket"),
    ("rscript", "R"),
    ("ruby", "Ruby"),
    ("runghc runhaskell stack", "Haskell"),
    ("rust-script", "Rust"),
    ("scala", "Scala"),
    ("swift", "Swift"),
    ("tclsh wish", "Tcl"),
    ("zsh", "Zsh"),
];
/// Directories of code by others, in lower case.
const VENDORED: &[&str] = &[
    "bower_components",
    "deps",
    "extern",
    "external",
    "godeps",
    "node_modules",
    "pods",
    "site-packages",
    "third-party",
    "third_party",
    "thirdparty",
    "vendor",
    "vendored",
    "venv",
];
/// Directories of generated files, in lower case.
const GENERATED_IN: &[&str] = &["__generated__", "__pycache__", "dist", "generated"];
/// Ends of the names of generated files, in lower case.
const GENERATED_ENDS: &[&str] = &[
    "-lock.json",
    ".bundle.js",
    ".designer.cs",
    ".freezed.dart",
    ".g.cs",
    ".g.dart",
    ".generated.cs",
    ".lock",
    ".map",
    ".min.css",
    ".min.js",
    ".pb.cc",
    ".pb.go",
    ".pb.h",
    ".snap",
    "_generated.go",
    "_pb.js",
    "_pb2.py",
    "_pb2_grpc.py",
    "go.sum",
    "pnpm-lock.yaml",
];
/// Limit on the bytes in which a first line is searched: Linux reads no more.
pub const FIRST_LINE_BYTES: usize = 256;

/// The language of a file's name.
#[must_use]
pub fn by_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let of_end = || of(ENDS, name.rsplit_once('.').filter(|(before, _)| !before.is_empty())?.1);
    of(NAMES, &name).or_else(of_end).or_else(|| name.starts_with("dockerfile.").then_some("Dockerfile"))
}

/// Returns whether the name doesn't reveal the language and the first line must be read.
#[must_use]
pub fn may_say_in_first_line(path: &Path) -> bool {
    path.extension().is_none()
}

/// The language that a file's beginning reveals: that of the program after `#!`.
#[must_use]
pub fn by_first_line(bytes: &[u8]) -> Option<&'static str> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let mut program = last(words.next()?);
    if program == "env" {
        // `env -S` and assignments may precede it.
        program = last(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
    }
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    of(PROGRAMS, &program).or_else(|| of(PROGRAMS, plain))
}

/// Returns whether a file, by its path from the top, was vendored or generated.
#[must_use]
pub fn is_foreign(path: &Path) -> bool {
    let is_one_of = |names: &[&str], part: &std::ffi::OsStr| {
        part.to_str().is_some_and(|part| names.binary_search(&&*part.to_ascii_lowercase()).is_ok())
    };
    let mut directories = path.parent().into_iter().flat_map(Path::iter);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    directories.any(|part| is_one_of(VENDORED, part) || is_one_of(GENERATED_IN, part))
        || GENERATED_ENDS.iter().any(|end| name.ends_with(end))
}

fn of(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(words, _)| words.split(' ').any(|known| known == word)).map(|(_, language)| *language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_languages() {
        for (path, language) in [
            ("src/main.rs", Some("Rust")),
            ("A.RS", Some("Rust")),
            ("a.test.tsx", Some("TypeScript")),
            ("include/x.h", Some("C")),
            ("x.hpp", Some("C++")),
            ("Makefile", Some("Makefile")),
            ("docker/Dockerfile.dev", Some("Dockerfile")),
            ("CMakeLists.txt", Some("CMake")),
            (".bashrc", Some("Shell")),
            (".c", None),
            ("notes.txt", None),
            ("README.md", None),
            ("run", None),
            ("", None),
        ] {
            assert_eq!(by_name(Path::new(path)), language, "{path}");
        }
        assert!(may_say_in_first_line(Path::new("bin/run")) && !may_say_in_first_line(Path::new("a.txt")));
    }

    #[test]
    fn first_lines_tell_languages() {
        for (line, language) in [
            ("#!/bin/sh\nrest", Some("Shell")),
            ("#! /usr/bin/env python3.12", Some("Python")),
            ("#!/usr/bin/env -S A=b deno run", Some("TypeScript")),
            ("#!/usr/bin/perl -w\r\n", Some("Perl")),
            ("#!/opt/Rscript", Some("R")),
            ("#!", None),
            ("#!/usr/bin/env", None),
            ("#!/usr/bin/unheard-of", None),
            ("plain", None),
        ] {
            assert_eq!(by_first_line(line.as_bytes()), language, "{line}");
        }
        assert_eq!(by_first_line(b"#!\xff/sh"), None);
    }

    #[test]
    fn vendored_files_are_recognised_by_their_place() {
        for path in [
            "vendor/a.go",
            "x/node_modules/y/z.js",
            "Third_Party/a.c",
            "a.min.js",
            "api/x.pb.go",
            "Cargo.lock",
            "src/generated/x.rs",
            "package-lock.json",
        ] {
            assert!(is_foreign(Path::new(path)), "{path}");
        }
        for path in ["src/vendor.rs", "vendors/a.go", "min.js", "lock.rs", "distance/a.c", "vendor"] {
            assert!(!is_foreign(Path::new(path)), "{path}");
        }
        // They are searched with binary search.
        assert!(VENDORED.is_sorted() && GENERATED_IN.is_sorted());
        let words =
            |table: &[(&str, &str)]| table.iter().map(|(words, _)| words.to_string()).collect::<Vec<_>>().join(" ");
        for table in [ENDS, NAMES, PROGRAMS] {
            let all = words(table);
            let mut once: Vec<&str> = all.split(' ').collect();
            once.sort_unstable();
            assert!(once.windows(2).all(|two| two[0] != two[1]), "a word is there twice: {once:?}");
        }
    }
}
