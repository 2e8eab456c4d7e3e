//! The agent for real: machines that are network namespaces, pods that the
//! plugins of CNI attach, API servers that refuse, hang and die.

#![allow(clippy::unwrap_used)]

mod api_listener;
mod backend;
mod balancer;
mod machine;
mod pods;
mod repair;
mod world;
