//! One run of a program: bytes to its standard input, text from its standard output, within a time and a size. What it has
//! started ends with it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::proto::tool::ToolError;
use crate::render::strip_controls;
use crate::sandbox::end;

/// Limit on the stored bytes of its standard error: the last ones.
const COMPLAINT_BYTES_MAX: usize = 2 * 1024;
/// Time of a program that is to end, before it is killed.
const GRACE: Duration = Duration::from_millis(150);
/// Poll interval for a stop, in milliseconds.
const LOOK_MS: u16 = 50;

/// Limits of a program's time and output.
#[derive(Clone, Copy)]
pub(in crate::tools) struct Bounds<'a> {
    pub(in crate::tools) time: Duration,
    pub(in crate::tools) output_bytes_max: usize,
    pub(in crate::tools) is_stopped: &'a (dyn Fn() -> bool + Sync),
}

/// Output of a program that has ended, and the failure that its status says.
pub(in crate::tools) struct Ended {
    pub(in crate::tools) output: Vec<u8>,
    pub(in crate::tools) failure: Option<ToolError>,
}

impl Ended {
    /// The text that it printed.
    ///
    /// # Errors
    /// It failed, or its output isn't text.
    pub(in crate::tools) fn text(self) -> Result<String, ToolError> {
        self.failure.map_or(Ok(()), Err)?;
        String::from_utf8(self.output).map_err(|_| ToolError::new("bad-output", "what it printed is no text", ""))
    }
}

/// Runs a program to its end.
///
/// # Errors
/// It can't be started, was stopped, took too long or printed too much.
pub(in crate::tools) fn run(mut command: Command, input: Vec<u8>, bounds: Bounds<'_>) -> Result<Ended, ToolError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ToolError::new("not-started", error.to_string(), ""))?;
    let stdin = child.stdin.take();
    // The program may read late or not at all: that must not block this thread. The pipe closes with the program.
    let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let heard = listen(&mut child, bounds);
    // Everything that it has started ends with it; there is no point in waiting for what can't be ended.
    let _ = end(child.id(), GRACE);
    let status = child.wait().map_err(|error| ToolError::new("internal", error.to_string(), ""))?;
    let _ = writer.join();
    let ProgramOutput { output, complaint } = heard?;
    let failure = (!status.success()).then(|| {
        let complaint = strip_controls(&complaint);
        let message = format!("it ended with {status}: {}", complaint.trim());
        ToolError::new("failed", message.trim_end_matches(": "), "")
    });
    Ok(Ended { output, failure })
}

struct ProgramOutput {
    output: Vec<u8>,
    complaint: Vec<u8>,
}

/// Returns whether it has ended, without reaping it, so that its process number isn't reused.
fn has_ended(child: &Child) -> bool {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::StillAlive))
}

fn listen(
    child: &mut Child,
    Bounds { time, output_bytes_max, is_stopped }: Bounds<'_>,
) -> Result<ProgramOutput, ToolError> {
    let deadline = Instant::now() + time;
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(ToolError::new("internal", "it has no output", ""));
    };
    let mut heard = ProgramOutput { output: Vec::new(), complaint: Vec::new() };
    let (mut out_open, mut err_open) = (true, true);
    let mut buffer = [0; 16 * 1024];
    loop {
        if is_stopped() {
            return Err(ToolError::new("stopped", "it was stopped", ""));
        }
        if Instant::now() >= deadline {
            let message = format!("it did not end within {} ms and was stopped", time.as_millis());
            return Err(ToolError::new("timeout", message, "limits.tool_ms in the config sets how long it may take"));
        }
        let ended = has_ended(child);
        let mut waits = [PollFd::new(out.as_fd(), PollFlags::POLLIN), PollFd::new(err.as_fd(), PollFlags::POLLIN)];
        // What it printed before its end is available at once; output of its children that still run doesn't count.
        let wait = if ended { 0 } else { LOOK_MS };
        let ready = match (out_open, err_open) {
            (true, true) => poll(&mut waits, PollTimeout::from(wait)),
            (true, false) => poll(&mut waits[..1], PollTimeout::from(wait)),
            (false, true) => poll(&mut waits[1..], PollTimeout::from(wait)),
            (false, false) if !ended => poll(&mut [], PollTimeout::from(wait)),
            (false, false) => Ok(0),
        };
        let is_ready = |at: usize| waits[at].revents().is_some_and(|events| !events.is_empty());
        let (out_ready, err_ready) = (out_open && is_ready(0), err_open && is_ready(1));
        if ended && !matches!(ready, Ok(count) if count > 0) {
            return Ok(heard);
        }
        if out_ready {
            let count = out.read(&mut buffer).unwrap_or(0);
            out_open = count > 0;
            heard.output.extend_from_slice(&buffer[..count]);
            if heard.output.len() > output_bytes_max {
                return Err(ToolError::new("too-long", format!("it printed more than {output_bytes_max} bytes"), ""));
            }
        }
        if err_ready {
            let count = err.read(&mut buffer).unwrap_or(0);
            err_open = count > 0;
            heard.complaint.extend_from_slice(&buffer[..count]);
            let surplus = heard.complaint.len().saturating_sub(COMPLAINT_BYTES_MAX);
            heard.complaint.drain(..surplus);
        }
    }
}
