//! QEMU as this crate drives it: command lines, disks, and guests that boot.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod command;
mod common;
mod disk;
mod guest;
mod guest_disk;
mod probe;
mod qmp;
mod seed;
