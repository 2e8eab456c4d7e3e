//! The audit log: one line of JSON for each authorization decision that
//! changes something, reads a secret or is refused.
//!
//! ```text
//!  gate ──append──▶ audit-<first number>.jsonl   rotated by size, oldest removed
//!                   {"number":7, …, "previous":H6, "hash":H7}
//!                                                 H7 = SHA-256 of all before "hash"
//! ```
//!
//! Each line holds the hash of the line before, so that a line which is
//! changed, removed or put in between breaks the chain. Whoever can write the
//! files can write the whole chain anew: note the last hash elsewhere now and
//! then, and [`verify`] says whether it is still in the chain. What is cut off
//! at the end shows only in that way.
//!
//! A line is written before the request reaches its handler. It survives the
//! death of the process; what a power cut can cost is the last second.
#![forbid(unsafe_code)]

mod entry;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod limiter;
mod log;
mod query;
mod session;
mod verify;

pub use entry::{Decision, Entry, Outcome};
pub use files::read_after;
pub use limiter::RefusalLimiter;
pub use log::{AuditLog, Limits};
pub use query::{Filter, Follower, Page};
pub use session::{Session, SessionEnd, SessionKind, SessionMeter, SessionRecord, SessionRecorder};
pub use verify::{Chain, Defect, verify};
