//! The gRPC APIs over real TLS on loopback, through the auth layer, as clients see them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod foundation;
mod heartbeats;
mod hostile_node;
mod identity;
mod nodes;
mod restored;
mod returning;
mod world;
