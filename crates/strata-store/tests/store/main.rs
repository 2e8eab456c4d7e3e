//! What every store promises, held against every engine; and what happens to
//! it when processes are killed and disks are full.

mod conformance;
mod crash;
mod disk_full;
mod etcd_server;
mod failover;
mod model;
mod world;
