//! The gateway's Unix socket: sessions of the same user connect without a token. Other users can't: the directory is private, and
//! the peer's user is checked.

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket, which is removed at the end.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

/// Listens at `path`; `None` if another gateway does.
///
/// # Errors
/// The socket can't be made, for example because the path is too long.
pub fn listen(path: &Path) -> io::Result<Option<(UnixListener, Socket)>> {
    if UnixStream::connect(path).is_ok() {
        return Ok(None);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(Some((listener, Socket { path: path.to_owned() })))
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
