//! What every store guarantees, tested on every engine; and what happens to it
//! when processes are killed and disks are full.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod conformance;
mod crash;
mod damage;
mod disk_full;
mod dump;
mod etcd_server;
mod failover;
mod memory;
mod model;
mod sealed;
mod tls;
mod world;
