//! The time, handed in: expiry can then be tested without waiting for it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;

/// A source of time. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    /// A clock that returns `now`.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// TLS checks by the same clock whether a certificate is still good.
impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since_epoch = self.now().duration_since(Timestamp::UNIX_EPOCH);
        Some(UnixTime::since_unix_epoch(since_epoch.try_into().ok()?))
    }
}
