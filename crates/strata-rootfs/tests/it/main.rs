//! Roots on a real kernel, as root: mounts are looked at from inside a mount
//! namespace that a thread of the test has for itself.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crash;
mod devices;
mod id_map;
mod limits;
mod overlay;
mod removal;
mod reopened_roots;
mod volumes;
mod world;
