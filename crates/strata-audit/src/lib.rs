//! The audit log: one line of JSON for each authorization decision that
//! changes something, reads a secret or is refused.
//!
//! ```text
//!  auth layer ──append──▶ audit-<first number>.jsonl
//!                         rotated by size, oldest removed
//!                         {"number":7, …, "previous":H6, "hash":H7}
//!                         H7 = SHA-256 of all before "hash"
//! ```
//!
//! Each line holds the hash of the line before, so that a line which is
//! changed, removed or put in between breaks the chain. What is cut off at the
//! end shows by the head, a file beside the log that says where the end is
//! ([`verify_with_head`]), and by what the writer remembers: it looks at its file
//! before every line and every second. A log that was cut gets an entry that says
//! so, whose number and hash go on from the line that is missing.
//!
//! A process that can write all of these files can make another chain and
//! another head: note the last hash elsewhere now and then, and [`verify`] says
//! whether it is still in the chain. A server notes it in its sealed store
//! ([`AuditLog::anchor`], [`AuditLog::expect`]).
//!
//! A line is written before the request reaches its handler. It survives the
//! death of the process; what a power cut can cost is the last second.
#![forbid(unsafe_code)]

mod anchor;
mod charge;
mod entry;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod head;
mod limiter;
mod log;
mod query;
mod resume;
mod session;
mod verify;

pub use anchor::Anchor;
pub use charge::LineCharge;
pub use entry::{Decision, Entry, Outcome};
pub use files::read_after;
pub use limiter::RefusalLimiter;
pub use log::{AuditLog, Limits};
pub use query::{Filter, Follower, Page};
pub use session::{Session, SessionEnd, SessionKind, SessionMeter, SessionRecord, SessionRecorder};
pub use verify::{Chain, Defect, verify, verify_with_head};
