//! Which account pays for the lines of a request. A request is accepted before
//! it is known what its lines will take, and a session has its last one long
//! after that: so they are charged as they are written.

use std::fmt;
use std::sync::{Arc, OnceLock};

type Charge = Box<dyn Fn(u64) + Send + Sync>;

/// Charges the bytes of lines to an account, once it has one. Cheap to clone;
/// clones have the same account.
#[derive(Clone, Default)]
pub struct LineCharge(Arc<OnceLock<Charge>>);

impl LineCharge {
    /// What is written from now on is charged by this. The first one stays.
    pub fn pay_by(&self, charge: impl Fn(u64) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(charge));
    }

    /// So many bytes were written.
    pub fn charge(&self, bytes: u64) {
        if let Some(charge) = self.0.get() {
            charge(bytes);
        }
    }
}

impl fmt::Debug for LineCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineCharge").finish_non_exhaustive()
    }
}
