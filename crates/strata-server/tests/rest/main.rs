//! The REST API behind its gate, over a core in memory with nodes that only
//! tell their status.

mod bad_input;
mod idempotency;
mod instances;
mod nodes;
mod openapi;
mod projects;
mod roles;
mod schemathesis;
mod versions;
mod watch;
mod workloads;
mod world;
