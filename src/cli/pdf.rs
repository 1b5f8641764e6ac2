//! `reedclaw pdf-text`: a PDF on standard input, its text on standard output. The tool `pdf_extract` runs it as a process of
//! its own: whatever a PDF does to its reader stays in here.

use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Command;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::out::report;
use crate::proto::Failure;
use crate::tools::{PAGE_END, pages_of_pdf};

/// Memory, processor time and stack of the reader. A PDF may say that it unpacks to anything, and nests as it likes.
const MEMORY_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
const PROCESSOR_SECONDS_MAX: u64 = 60;
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Longest PDF, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The subcommand, as clap knows it.
pub(super) fn definition() -> Command {
    Command::new("pdf-text")
        .about("Prints the text of a PDF from standard input, a form feed after each page, within limits")
}

/// Carries it out.
pub(super) fn run() -> ExitCode {
    match act() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            report(&Failure::user(why));
            ExitCode::FAILURE
        }
    }
}

fn act() -> Result<(), String> {
    let limit = |resource, most: u64| {
        let (_, hard) = getrlimit(resource).map_err(|error| format!("no limit is known: {error}"))?;
        let most = most.min(hard);
        setrlimit(resource, most, most).map_err(|error| format!("no limit can be set: {error}"))
    };
    limit(Resource::RLIMIT_AS, MEMORY_BYTES_MAX)?;
    limit(Resource::RLIMIT_CPU, PROCESSOR_SECONDS_MAX)?;
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    input.map_err(|error| format!("standard input can't be read: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("the PDF is longer than {FILE_BYTES_MAX} bytes"));
    }
    // The exit status of a panic is enough.
    std::panic::set_hook(Box::new(|_| {}));
    let reader = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || pages_of_pdf(&bytes));
    let pages = reader.map_err(|error| error.to_string())?.join();
    let pages = pages.map_err(|_| "the PDF is damaged in a way that its reader can't handle".to_owned())??;
    let mut out = std::io::stdout().lock();
    for page in pages {
        let text = page.replace(PAGE_END, " ");
        write!(out, "{text}{PAGE_END}").map_err(|error| format!("standard output can't be written: {error}"))?;
    }
    out.flush().map_err(|error| format!("standard output can't be written: {error}"))
}
