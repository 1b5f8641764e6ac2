//! The connection of a request: names are looked up here, every address that comes is judged before it is dialled, and
//! so is the machine that answered. The only code that dials.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};

use super::address::Reach;
use super::url::{Host, Url};

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Looks up the addresses of a name; tests put their own in its place.
pub(super) type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Returns the system's lookup of names.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name, port| (name, port).to_socket_addrs().map(Iterator::collect))
}

/// A machine that may not be contacted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(pub(super) String);

fn refused(why: String) -> Error {
    Error::Other(Box::new(Refused(why)))
}

/// Looks names up, and returns only permitted addresses.
pub(super) struct Guard {
    pub(super) reach: Reach,
    pub(super) lookup: Lookup,
    /// Time limit for a connection to be established.
    pub(super) connect: Duration,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({:?})", self.reach)
    }
}

impl Resolver for Guard {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let url = Url::parse(&uri.to_string()).map_err(|why| refused(why.to_owned()))?;
        self.reach.check(&url).map_err(refused)?;
        let found = match &url.host {
            Host::Address(address) => vec![SocketAddr::new(*address, url.port)],
            Host::Name(name) => {
                let (sender, receiver) = sync_channel(1);
                let (lookup, name) = (Arc::clone(&self.lookup), name.clone());
                std::thread::spawn(move || sender.send(lookup(&name, url.port)).ok());
                match receiver.recv_timeout(*timeout.after) {
                    Ok(found) => found?,
                    Err(RecvTimeoutError::Timeout) => return Err(Error::Timeout(timeout.reason)),
                    Err(RecvTimeoutError::Disconnected) => return Err(Error::HostNotFound),
                }
            }
        };
        // One address that isn't public spoils them all: an answer of both kinds is how a name is bent to a machine inside.
        found.iter().try_for_each(|it| self.reach.check_address(it.ip())).map_err(refused)?;
        let mut addresses = self.empty();
        for address in found.into_iter().take(ADDRESSES_MAX) {
            addresses.push(SocketAddr::new(address.ip(), url.port));
        }
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}

/// Dials the addresses that the resolver returned, and checks the machine that answered.
#[derive(Debug)]
pub(super) struct Dial(pub(super) Arc<Guard>);

impl Connector<()> for Dial {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Socket>, Error> {
        let Guard { reach, connect, .. } = &*self.0;
        let until = std::time::Instant::now() + (*details.timeout.after).min(*connect);
        let mut failed = io::Error::from(io::ErrorKind::ConnectionRefused);
        for address in &details.addrs {
            reach.check_address(address.ip()).map_err(refused)?;
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Err(Error::Timeout(ureq::Timeout::Connect));
            }
            let stream = match TcpStream::connect_timeout(address, left) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(Error::Timeout(ureq::Timeout::Connect));
                }
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            reach.check_address(stream.peer_addr()?.ip()).map_err(refused)?;
            stream.set_nodelay(true)?;
            let config = details.config;
            let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
            let stream = Arc::new(stream);
            let handle: Weak<dyn ShutdownHandle> = Arc::downgrade(&(Arc::clone(&stream) as Arc<dyn ShutdownHandle>));
            (details.register_shutdown)(handle)?;
            return Ok(Some(Socket { stream, buffers }));
        }
        Err(failed.into())
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
}

impl Socket {
    fn wait(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
        if timeout.after.is_not_happening() {
            return Ok(None);
        }
        if timeout.after.is_zero() { Err(Error::Timeout(timeout.reason)) } else { Ok(Some(*timeout.after)) }
    }
}

fn of_io(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(Self::wait(timeout)?)?;
        let output = &self.buffers.output()[..amount];
        (&*self.stream).write_all(output).map_err(|error| of_io(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(Self::wait(timeout)?)?;
        let amount = loop {
            match (&*self.stream).read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| of_io(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // Connections aren't reused.
        false
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = TcpStream::shutdown(&self.stream, Shutdown::Both);
    }
}
