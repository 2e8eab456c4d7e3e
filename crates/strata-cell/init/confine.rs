//! What sandboxed runs are held to: capabilities, resource limits, a filter of
//! system calls. Sent once by the daemon, kept here, and put on each run
//! between its birth and its exec, so that it holds when the daemon is away.

use crate::Once;
use crate::link::Inbox;
use crate::sys;
use crate::wire::{self, MAX_FILTER, MAX_RLIMITS, Rlimit, Sandbox};

/// The sandbox and what follows it.
pub struct Confinement {
    sandbox: Sandbox,
    rlimits: [Rlimit; MAX_RLIMITS],
    filter: [u64; MAX_FILTER],
}

pub static CONFINEMENT: Once<Confinement> = Once::new(Confinement {
    sandbox: Sandbox { capabilities: 0, flags: 0, rlimits: 0, filter: 0, reserved: 0 },
    rlimits: [Rlimit { resource: 0, soft: 0, hard: 0 }; MAX_RLIMITS],
    filter: [0; MAX_FILTER],
});

/// The highest capability that may be queried.
const LAST_CAPABILITY: u32 = 63;

impl Confinement {
    /// Reads a sandbox from the payload of a request.
    pub fn read(&mut self, inbox: &Inbox) -> sys::Result<()> {
        let mut payload = inbox.payload();
        let sandbox: Sandbox = take(&mut payload)?;
        let (rlimits, filter) = (sandbox.rlimits as usize, sandbox.filter as usize);
        for slot in self.rlimits.get_mut(..rlimits).ok_or(sys::EINVAL)? {
            *slot = take(&mut payload)?;
        }
        for slot in self.filter.get_mut(..filter).ok_or(sys::EINVAL)? {
            *slot = take(&mut payload)?;
        }
        self.sandbox = sandbox;
        Ok(())
    }

    /// Limits the process that calls this to the capabilities its program
    /// will have. Before exec the bounding set alone is not enough: with the
    /// full set of root, a path in `/proc` that stands for an open directory
    /// of the init could still be followed.
    pub fn drop_capabilities(&self) -> sys::Result<()> {
        sys::limit_capabilities(self.sandbox.capabilities)
    }

    /// Confines the process that calls this, which has yet to change to its
    /// user: the filter needs a privilege that goes with the identity. Root
    /// keeps what is in the bounding set through exec; others nothing.
    pub fn apply(&self) -> sys::Result<()> {
        for limit in &self.rlimits[..self.sandbox.rlimits as usize] {
            sys::set_rlimit(limit.resource, [limit.soft, limit.hard])?;
        }
        for capability in 0..=LAST_CAPABILITY {
            let kept = self.sandbox.capabilities & (1 << capability) != 0;
            // The first that the kernel does not know is the end of them.
            if !kept && sys::drop_capability(capability) == Err(sys::EINVAL) {
                break;
            }
        }
        if self.sandbox.flags & wire::NO_NEW_PRIVILEGES != 0 {
            sys::set_no_new_privileges()?;
        }
        match self.sandbox.filter {
            0 => Ok(()),
            n => sys::set_filter(&self.filter[..n as usize]),
        }
    }
}

/// Takes a plain record off the front of some bytes.
fn take<T: Copy>(bytes: &mut &[u8]) -> sys::Result<T> {
    let (record, rest) = bytes.split_at_checked(size_of::<T>()).ok_or(sys::EINVAL)?;
    *bytes = rest;
    // SAFETY: long enough, and any bytes are a valid record.
    Ok(unsafe { record.as_ptr().cast::<T>().read_unaligned() })
}
