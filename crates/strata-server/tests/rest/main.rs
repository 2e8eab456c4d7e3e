//! The REST API behind its auth layer, over a core in memory with nodes that
//! only report their status.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "what is skipped is said")]

mod backups;
mod bad_input;
mod bounds;
mod certificates;
mod clusters;
mod gateway;
mod idempotency;
mod instances;
mod machines;
mod nodes;
mod openapi;
mod operations;
mod policy;
mod pool;
mod projects;
mod roles;
mod schemathesis;
mod secrets;
mod storage;
mod versions;
mod watch;
mod workloads;
mod world;
