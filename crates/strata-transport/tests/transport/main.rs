//! The transport over real sockets: TLS on loopback, Unix sockets in a
//! temporary directory. Every test owns its world.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit_flood;
mod auth;
mod budgets;
mod connections;
mod policy;
mod renew;
mod silent;
mod streams;
mod unix;
mod world;
