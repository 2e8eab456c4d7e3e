//! Whole commands, in this process, against a fake node on a socket: what
//! they print where, and how they exit. One binary, so that it links once.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod apply;
mod backup;
mod cell;
mod cluster;
mod common;
mod errors;
mod help;
mod hypervisor;
mod identity;
mod image;
mod instance;
mod instance_change;
mod instance_sessions;
mod machine;
mod node;
mod operation;
mod pod;
mod pod_run;
mod pod_sessions;
mod progress;
mod project;
mod pty;
mod real_server;
mod storage;
mod store;
mod streams;
mod tls;
mod vm;
mod volume;
mod workload;
