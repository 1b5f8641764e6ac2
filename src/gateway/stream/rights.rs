//! The rights of the readers of a stream: checked repeatedly, once for all streams of a token.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::gateway::identity::Callers;
use crate::gateway::runs::work::Pool;

/// Time after which rights are checked again, so that a stream ends within two seconds.
const CHECK: Duration = Duration::from_secs(1);
/// Time for which a right that can't be checked counts.
const UNSURE: Duration = Duration::from_secs(30);

/// A secret and a tenant.
type Key = (String, String);

/// The rights of open streams.
pub struct Rights {
    callers: Arc<Callers>,
    readers: Arc<Pool>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    rights: HashMap<Key, Weak<Right>>,
    is_watched: bool,
}

/// The right of a token's holder to read a tenant's log.
pub struct Right {
    ended: watch::Sender<bool>,
    seen: Mutex<Instant>,
}

impl Right {
    /// Changes to true when the right has ended.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Stores the result of a check; `None` if it is unknown.
    fn found(&self, may_read: Option<bool>) {
        let mut seen = self.seen.lock();
        match may_read {
            Some(true) => *seen = Instant::now(),
            None if seen.elapsed() < UNSURE => {}
            Some(false) | None => drop(self.ended.send_replace(true)),
        }
    }
}

impl Rights {
    /// Starts without rights; they are checked on threads of `readers`.
    pub fn new(callers: &Arc<Callers>, readers: &Arc<Pool>) -> Self {
        Self { callers: Arc::clone(callers), readers: Arc::clone(readers), known: Mutex::default() }
    }

    fn known(&self) -> parking_lot::MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Returns the right of a secret's holder, who may read now. A task checks it while the value is in use.
    pub fn of(self: &Arc<Self>, secret: &str, tenant: &str) -> Arc<Right> {
        let key = (secret.to_owned(), tenant.to_owned());
        let mut known = self.known();
        if let Some(right) = known.rights.get(&key).and_then(Weak::upgrade).filter(|right| !*right.ended.borrow()) {
            return right;
        }
        let right = Arc::new(Right { ended: watch::Sender::new(false), seen: Mutex::new(Instant::now()) });
        known.rights.insert(key, Arc::downgrade(&right));
        if !known.is_watched {
            known.is_watched = true;
            tokio::spawn(watch(Arc::clone(self)));
        }
        right
    }
}

async fn watch(rights: Arc<Rights>) {
    loop {
        tokio::time::sleep(CHECK).await;
        let open: Vec<(Key, Arc<Right>)> = {
            let mut known = rights.known();
            known.rights.retain(|_, right| right.strong_count() > 0);
            if known.rights.is_empty() {
                known.is_watched = false;
                return;
            }
            known.rights.iter().filter_map(|(key, right)| Some((key.clone(), right.upgrade()?))).collect()
        };
        let (keys, open): (Vec<Key>, Vec<Arc<Right>>) = open.into_iter().unzip();
        let callers = Arc::clone(&rights.callers);
        let found = rights.readers.run("", move || callers.may_read(&keys)).await;
        match found {
            Ok(Ok(found)) => open.iter().zip(found).for_each(|(right, may_read)| right.found(Some(may_read))),
            Ok(Err(_)) | Err(_) => open.iter().for_each(|right| right.found(None)),
        }
    }
}
