//! The end-to-end tests, one module per promise, as one binary: each binary
//! links most of the workspace, and every test runs in a process of its own
//! anyway (docs/testing.md). Only `machine.rs` is a binary apart, because it is
//! packed into the guest that it boots.

mod access;
mod agent;
mod cells;
mod cli;
mod conformance;
mod control;
mod fencing;
mod hostile;
mod images;
mod input;
mod kubernetes;
mod logs;
mod operations;
mod pods;
mod pods_scale;
mod pods_survival;
mod providers;
mod real_images;
mod scale;
mod side_by_side;
mod skew;
mod spawn;
mod survival;
mod vms;
