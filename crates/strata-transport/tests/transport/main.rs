//! The transport over real sockets: TLS on loopback, Unix sockets in a
//! temporary folder. Every test owns its world.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod budgets;
mod connections;
mod gate;
mod policy;
mod renew;
mod silent;
mod streams;
mod unix;
mod world;
