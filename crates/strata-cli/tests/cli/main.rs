//! Whole commands, in this process, against a fake node on a socket: what
//! they print where, and how they exit. One binary, so that it links once.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod cell;
mod common;
mod errors;
mod help;
mod identity;
mod streams;
mod tls;
