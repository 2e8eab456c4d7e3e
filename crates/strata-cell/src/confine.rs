//! What the sandboxed runs of a cell are held to.

use crate::init::{CellInit, InitError};
use crate::seccomp::Filter;
use crate::wire::{self, MAGIC, Request, Rlimit, Sandbox};

/// What the sandboxed runs of a cell are held to.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// The capabilities that may ever be had, one bit for each.
    pub capabilities: u64,
    /// No program gains privileges by exec.
    pub no_new_privileges: bool,
    /// Resource, soft limit, hard limit; as `prlimit` takes them.
    pub rlimits: Vec<(u32, u64, u64)>,
    /// Which system calls there are.
    pub filter: Option<Filter>,
}

impl Confinement {
    fn payload(&self) -> Vec<u8> {
        let filter = self.filter.as_ref().map_or(&[][..], Filter::instructions);
        let sandbox = Sandbox {
            capabilities: self.capabilities,
            flags: u32::from(self.no_new_privileges) * wire::NO_NEW_PRIVILEGES,
            rlimits: self.rlimits.len() as u32,
            filter: filter.len() as u32,
            reserved: 0,
        };
        let mut bytes = Vec::with_capacity(size_of::<Sandbox>() + 8 * filter.len());
        bytes.extend_from_slice(&sandbox.capabilities.to_ne_bytes());
        for word in [
            sandbox.flags,
            sandbox.rlimits,
            sandbox.filter,
            sandbox.reserved,
        ] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        for (resource, soft, hard) in &self.rlimits {
            let limit = Rlimit {
                resource: (*resource).into(),
                soft: *soft,
                hard: *hard,
            };
            for word in [limit.resource, limit.soft, limit.hard] {
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
        }
        for instruction in filter {
            bytes.extend_from_slice(&instruction.to_ne_bytes());
        }
        bytes
    }
}

impl CellInit {
    /// Sets what sandboxed runs are confined to from now on.
    pub fn confine(&self, confinement: &Confinement) -> Result<(), InitError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::CONFINE,
            ..Request::default()
        };
        let reply = self.ask(&request, &confinement.payload(), &[])?;
        match reply.error {
            0 => Ok(()),
            errno => Err(InitError::Step {
                step: reply.step,
                errno,
            }),
        }
    }
}
