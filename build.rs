//! Links the C++ runtime of the config's interpreter, and the unwinder, statically where the compiler has them as
//! archives: to load and relocate them takes 0.8 ms of processor time at each start, also of `reedclaw -c`, and a system
//! without them could not start a login shell at all.
//!
//! Packs the relocations where the system's loader reads the packed form: 0.7 MB less to read at each start.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script asks cargo by the environment and the compiler by a process"
)]

use std::path::PathBuf;
use std::process::Command;

/// The archives by the names that a linker's `-l` knows. The unwinder comes after the library that calls it.
const ARCHIVES: [&str; 2] = ["stdc++", "gcc_eh"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CXX");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    if !linux || !native {
        return;
    }
    if loader_reads_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    for name in ARCHIVES {
        let Ok(said) = Command::new(&compiler).arg(format!("-print-file-name=lib{name}.a")).output() else { return };
        let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
        // A compiler that hasn't got it gives the bare name back.
        if let (true, Some(directory)) = (path.is_file(), path.parent()) {
            println!("cargo:rustc-link-search=native={}", directory.display());
            println!("cargo:rustc-link-lib=static:-bundle={name}");
        }
    }
}

/// Whether the system's C library is glibc 2.36 or newer: the first whose loader reads `DT_RELR`.
fn loader_reads_packed_relocations() -> bool {
    let Ok(said) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let said = String::from_utf8_lossy(&said.stdout);
    let Some((major, minor)) = said.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.')) else {
        return false;
    };
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    (number(major), number(minor.split('.').next().unwrap_or(""))) >= (2, 36)
}
