//! The pool, for real: on files of a directory of its own, as root.

#![allow(clippy::unwrap_used)]

mod broken;
mod child;
mod devices;
mod full;
mod restart;
mod small;
mod volumes;
mod world;
mod writer;
