//! The pool, for real: on files of a directory of its own, as root.

#![allow(clippy::unwrap_used)]

mod child;
mod device_failures;
mod devices;
mod full_pools;
mod restart;
mod small_pools;
mod volumes;
mod world;
mod writer;
