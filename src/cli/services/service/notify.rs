//! The service's reports to the manager that started it (systemd's `sd_notify`): it is ready, it lives, it ends. Without a
//! manager they go nowhere.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::config::Env;

/// The service takes up runs and triggers from now on.
pub(super) const READY: &str = "READY=1";
/// The service isn't stuck.
pub(super) const ALIVE: &str = "WATCHDOG=1";
/// The service ends.
pub(super) const STOPPING: &str = "STOPPING=1";

/// The manager, by the variables of its environment.
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The longest time between two signs of life: half of what the manager allows.
    pub(super) every: Option<Duration>,
}

impl Manager {
    pub(super) fn of(env: &Env) -> Self {
        let value = |name: &str| env.get(OsStr::new(name));
        let number = |name: &str| value(name)?.to_str()?.parse::<u64>().ok();
        // The variables may have been inherited from another service.
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let every = number("WATCHDOG_USEC").filter(|_| is_ours).map(|most| Duration::from_micros(most / 2));
        let address = value("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            [b'/', ..] => SocketAddr::from_pathname(name).ok(),
            _ => None,
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        Self { socket, every }
    }

    /// Reports a state; a manager that doesn't listen has a time limit of its own.
    pub(super) fn report(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}
