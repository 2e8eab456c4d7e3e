//! The pool, for real: on files of a folder of its own, as root.

#![allow(clippy::unwrap_used)]

mod broken;
mod child;
mod devices;
mod full;
mod restart;
mod volumes;
mod world;
mod writer;
