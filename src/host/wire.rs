//! A connection to a server: a Unix socket, or TCP with or without encryption. Knows no protocol above.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::{Authorities, certificate_problem};

/// A connection.
#[derive(Debug)]
pub struct Wire(Kind);

#[derive(Debug)]
enum Kind {
    Unix(UnixStream),
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, Wire>>),
}

/// A handle by which another thread ends a connection.
#[derive(Debug)]
pub struct Hangup(Socket);

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Wire {
    /// Connects to a socket in the file system.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn unix(path: &Path) -> io::Result<Self> {
        Ok(Self(Kind::Unix(UnixStream::connect(path)?)))
    }

    /// Connects to a port of a machine; `wait` is the time limit for each of its addresses.
    ///
    /// # Errors
    /// The name has no address, or nothing answers at any of them.
    pub fn tcp(host: &str, port: u16, wait: Duration) -> io::Result<Self> {
        let mut found = Err(io::Error::other("its name has no address"));
        for place in (host, port).to_socket_addrs()? {
            found = TcpStream::connect_timeout(&place, wait);
            if found.is_ok() {
                break;
            }
        }
        let socket = found?;
        socket.set_nodelay(true)?;
        Ok(Self(Kind::Plain(socket)))
    }

    /// Encrypts everything that follows, and checks that the server's certificate is for `host`. A connection that is already
    /// encrypted, such as one to a proxy, is encrypted twice. The time limits should be set before.
    ///
    /// # Errors
    /// The certificate isn't good, in plain words, or the server doesn't encrypt.
    pub fn encrypt(mut self, host: &str, authorities: &Authorities) -> io::Result<Self> {
        let config = authorities.client().map_err(io::Error::other)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut self).map_err(|error| match certificate_problem(&error.to_string()) {
                Some((why, hint)) => io::Error::other(format!("{why}; {hint}")),
                None => error,
            })?;
        }
        Ok(Self(Kind::Encrypted(Box::new(StreamOwned::new(session, self)))))
    }

    /// Sets the time limits for reading and for writing.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_waits(&self, read: Duration, write: Duration) -> io::Result<()> {
        match &self.0 {
            Kind::Unix(socket) => {
                socket.set_read_timeout(Some(read))?;
                socket.set_write_timeout(Some(write))
            }
            Kind::Plain(socket) => {
                socket.set_read_timeout(Some(read))?;
                socket.set_write_timeout(Some(write))
            }
            Kind::Encrypted(stream) => stream.sock.set_waits(read, write),
        }
    }

    /// Returns a handle by which another thread can end the connection.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn hangup(&self) -> io::Result<Hangup> {
        match &self.0 {
            Kind::Unix(socket) => Ok(Hangup(Socket::Unix(socket.try_clone()?))),
            Kind::Plain(socket) => Ok(Hangup(Socket::Tcp(socket.try_clone()?))),
            Kind::Encrypted(stream) => stream.sock.hangup(),
        }
    }
}

impl Hangup {
    /// Ends the connection: readers get the end of the stream.
    pub fn end(&self) {
        let _ = match &self.0 {
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Unix(socket) => socket.read(into),
            Kind::Plain(socket) => socket.read(into),
            Kind::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Unix(socket) => socket.write(bytes),
            Kind::Plain(socket) => socket.write(bytes),
            Kind::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Unix(socket) => socket.flush(),
            Kind::Plain(socket) => socket.flush(),
            Kind::Encrypted(stream) => stream.flush(),
        }
    }
}
