//! Sessions that are shared now: each with its screen, the frames that viewers may still need, and the messages for its
//! publisher.
//!
//! It must not know routes and rights: a session publishes and a viewer reads by values, and streams wait for `grown`.

pub mod follow;
mod live;
mod picture;
pub mod recording;
pub mod socket;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::hash;
use crate::gateway::identity::Callers;
use crate::ledger::{Ledger, LedgerError, NewShare, Resumed, random_text};
use crate::proto::team::{Identity, Mode};
use crate::share::EVERYBODY;

pub use live::{Attempt, LiveShare};
pub use picture::Picture;

/// Letters of an id: a viewer needs a token beside it.
const ID_LETTERS: usize = 8;
/// Letters of a publisher's secret: 130 bits.
const SECRET_LETTERS: usize = 26;
/// Limit on concurrent sessions, of all tenants and of one tenant among several.
const LIVE_MAX: usize = 64;
const LIVE_TENANT_MAX: usize = 32;
/// Interval for checking the right of those who share a session.
const CHECK: Duration = Duration::from_secs(2);

/// Answer to a request to share a session.
pub enum Begun {
    /// Success.
    Live {
        /// The session's id.
        id: String,
        /// The publisher's secret.
        secret: String,
    },
    /// The limit on sessions is reached.
    Full,
    /// Another gateway has it.
    Elsewhere,
    /// The reason why it was ended for good.
    Ended(String),
}

/// The sessions that are shared by this gateway now.
#[derive(Default)]
pub struct Shares {
    live: Mutex<BTreeMap<String, Arc<LiveShare>>>,
    checked: Mutex<Option<Instant>>,
}

impl Shares {
    fn live(&self) -> MutexGuard<'_, BTreeMap<String, Arc<LiveShare>>> {
        self.live.lock()
    }

    /// Begins to share a session, for the owner of `token` (none at the socket).
    ///
    /// # Errors
    /// The database fails.
    pub fn begin(
        &self,
        ledger: &Arc<Ledger>,
        owner: (&Identity, Option<&str>),
        wanted: NewShare,
    ) -> Result<Begun, LedgerError> {
        if self.is_full_for(owner.0) {
            return Ok(Begun::Full);
        }
        let new = NewShare { share_id: random_text(ID_LETTERS), ..wanted };
        ledger.shares().begin(owner.0, &new)?;
        Ok(self.insert(owner, |of_owner, secret| LiveShare::new(Arc::clone(ledger), of_owner, new, secret)))
    }

    /// Continues a session that another gateway has left, or this one before its restart, for the person who shared it. `after`
    /// is the number of the last frame that viewers may have; `size` is the current size of its screen.
    ///
    /// # Errors
    /// They have shared none with this id, or the database fails.
    pub fn resume(
        &self,
        ledger: &Arc<Ledger>,
        owner: (&Identity, Option<&str>),
        share_id: &str,
        (after, size): (u64, (u16, u16)),
    ) -> Result<Begun, LedgerError> {
        if self.is_full_for(owner.0) {
            return Ok(Begun::Full);
        }
        let (share, recorded) = match ledger.shares().resume(owner.0, share_id)? {
            Resumed::Going(share, recorded) => (share, recorded),
            Resumed::Elsewhere => return Ok(Begun::Elsewhere),
            Resumed::Ended(why) => return Ok(Begun::Ended(why)),
        };
        let made = |of_owner, secret| LiveShare::new(Arc::clone(ledger), of_owner, share, secret);
        Ok(self.insert(owner, |of_owner, secret| made(of_owner, secret).played(after, recorded, size)))
    }

    fn is_full_for(&self, owner: &Identity) -> bool {
        let live = self.live();
        let of_tenant = live.values().filter(|share| share.owner.tenant == owner.tenant).count();
        live.len() >= LIVE_MAX || owner.mode != Mode::Lab && of_tenant >= LIVE_TENANT_MAX
    }

    /// Adds the session that `make` makes from its owner and the hash of a new secret.
    fn insert(
        &self,
        (owner, token): (&Identity, Option<&str>),
        make: impl FnOnce((Identity, Option<String>), String) -> LiveShare,
    ) -> Begun {
        let secret = format!("rc_share_{}", random_text(SECRET_LETTERS));
        let share = make((owner.clone(), token.map(str::to_owned)), hash::sha256_hex(secret.as_bytes()));
        let id = share.id.clone();
        self.live().insert(id.clone(), Arc::new(share));
        Begun::Live { id, secret }
    }

    /// Returns a live session, if the publisher's secret is right.
    pub fn published(&self, id: &str, secret: &str) -> Option<Arc<LiveShare>> {
        let found = self.live().get(id).cloned()?;
        found.is_published_with(&hash::sha256_hex(secret.as_bytes())).then_some(found)
    }

    /// Returns a live session of a tenant.
    pub fn find(&self, who: &Identity, id: &str) -> Option<Arc<LiveShare>> {
        self.live().get(id).filter(|share| share.owner.tenant == who.tenant).cloned()
    }

    /// Returns whether there are any.
    pub fn are_some(&self) -> bool {
        !self.live().is_empty()
    }

    /// Ends silent sessions and those of persons whose token isn't valid any more; answers those who have waited too long.
    pub fn tick(&self, callers: &Callers, now: Instant) {
        let all: Vec<Arc<LiveShare>> = self.live().values().cloned().collect();
        all.iter().for_each(|share| share.tick(now));
        let mut checked = self.checked.lock();
        if checked.is_none_or(|checked| now.saturating_duration_since(checked) >= CHECK) {
            *checked = Some(now);
            end_without_right(&all, callers);
        }
        drop(checked);
        self.live().retain(|_, share| !share.is_over());
    }

    /// Ends all sessions.
    pub fn end_all(&self, why: &str) {
        let all = std::mem::take(&mut *self.live());
        all.values().for_each(|share| share.end(why));
    }
}

/// Ends the sessions of persons whose token isn't valid any more. If the database fails, they continue.
fn end_without_right(all: &[Arc<LiveShare>], callers: &Callers) {
    let with_token = all.iter().filter_map(|share| Some((share, share.right()?)));
    let (shares, rights): (Vec<_>, Vec<_>) = with_token.unzip();
    let counts = callers.may_read(&rights).unwrap_or_default();
    for (share, _) in shares.iter().zip(counts).filter(|(_, counts)| !counts) {
        share.end("the token of the person who shares it isn't valid any more");
    }
}

/// Returns whether a user may watch a session, of which the row has `owner`, `watch` and `approve`.
pub fn may_watch(who: &Identity, row: &Value) -> bool {
    row["owner"] == *who.user || is_named(&row["watch"], &who.user) || may_answer(who, row)
}

/// Returns whether a user may answer its questions.
pub fn may_answer(who: &Identity, row: &Value) -> bool {
    is_named(&row["approve"], &who.user)
}

fn is_named(users: &Value, user: &str) -> bool {
    users.as_array().is_some_and(|users| users.iter().any(|it| *it == *user || it == EVERYBODY))
}
