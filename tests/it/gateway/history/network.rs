//! The network in front of a gateway: it passes bytes on, delays them, swallows them, or cuts its connections.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::client::stand_still;

/// The state of a network.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// Bytes pass.
    Whole,
    /// Each piece is delayed by this time.
    Slow(Duration),
    /// Connections are accepted, but nothing passes: they seem to be half open.
    Silent,
}

/// A network that lasts until the process ends.
pub struct Network {
    /// The address for clients.
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    to: Mutex<Option<SocketAddr>>,
    /// Both ends of each connection, by its number.
    open: Mutex<BTreeMap<u64, [TcpStream; 2]>>,
    taken: AtomicU64,
}

impl Network {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let inner = Arc::new(Inner {
            state: Mutex::new(State::Whole),
            to: Mutex::default(),
            open: Mutex::default(),
            taken: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&inner);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|client| of_thread.take(client)));
        Self { address, inner }
    }

    /// Sets the gateway that it leads to.
    pub fn lead_to(&self, gateway: SocketAddr) {
        *self.inner.to.lock().expect("its end") = Some(gateway);
    }

    /// Sets its state.
    pub fn be(&self, state: State) {
        *self.inner.state.lock().expect("its state") = state;
    }

    /// Ends all connections, even in the middle of a message.
    pub fn cut(&self) {
        let open = std::mem::take(&mut *self.inner.open.lock().expect("connections"));
        open.into_values().for_each(|ends| end(&ends));
    }
}

impl Inner {
    fn take(self: &Arc<Self>, client: TcpStream) {
        let to = *self.to.lock().expect("its end");
        let Some(gateway) = to.and_then(|to| TcpStream::connect(to).ok()) else { return };
        let copies = [client.try_clone(), gateway.try_clone(), client.try_clone(), gateway.try_clone()];
        let Ok([from, into, kept, other]) =
            <[TcpStream; 4]>::try_from(copies.into_iter().flatten().collect::<Vec<_>>())
        else {
            return;
        };
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        self.open.lock().expect("connections").insert(number, [kept, other]);
        for (from, into) in [(from, gateway), (into, client)] {
            let inner = Arc::clone(self);
            std::thread::spawn(move || {
                inner.pass(from, into);
                let ends = inner.open.lock().expect("connections").remove(&number);
                ends.iter().for_each(end);
            });
        }
    }

    /// Passes bytes from one end to the other, according to the state of the network at that moment.
    fn pass(&self, mut from: TcpStream, mut into: TcpStream) {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            loop {
                let state = *self.state.lock().expect("its state");
                match state {
                    State::Whole => break,
                    State::Slow(time) => {
                        stand_still(time);
                        break;
                    }
                    State::Silent => stand_still(Duration::from_millis(20)),
                }
            }
            if into.write_all(&piece[..count]).is_err() {
                break;
            }
        }
    }
}

fn end(ends: &[TcpStream; 2]) {
    ends.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
}
