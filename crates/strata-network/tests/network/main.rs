//! The network, for real. Every test is a host of its own: a fresh network
//! namespace, in which it may do as root does. Nothing of the machine is
//! touched.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod boundary;
mod guests;
mod leases;
mod load;
mod meters;
mod names;
mod overlay;
mod pods;
mod ports;
mod projects;
mod removal;
mod repair;
mod world;
