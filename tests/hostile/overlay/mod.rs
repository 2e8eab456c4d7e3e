//! The overlay between nodes: what is on the wire, and who gets in.
//!
//! What is encrypted is proven on a kernel with WireGuard (`encrypted`): this
//! one, or that of a guest, into which this very file is packed (`guest`).
//! What holds without it, and what a node does that finds none, is in `plain`.

mod cost;
mod encrypted;
mod forged;
mod guest;
mod plain;
mod rekey;
mod world;
