//! Pods: one container each, in a cell of its own with a root made of image
//! layers, an address on the node's bridge, and a sandbox.
//!
//! The path of a start: `kind.rs` raises the cell, `rootfs.rs` makes its
//! mounts, the network gives it its interface, `plan.rs` decides what is
//! started in it. What is kept, restarted and reported is the business of
//! [`crate::units`].

mod attach;
mod cores;
mod declared_volumes;
mod exec;
mod files;
mod health;
mod http;
mod image_volumes;
mod kind;
mod plan;
mod recover;
mod rootfs;
mod terminal;
mod users;

use std::sync::Arc;

pub(crate) use attach::{Attached, Input, attach};
pub(crate) use exec::{ExecHandle, ExecRequest, ExecStreams, exec};
pub(crate) use kind::PodKind;
pub(crate) use rootfs::RootfsBuilder;
pub(crate) use terminal::{Terminal, TerminalSize};

use crate::units::{Unit, Units};

/// All pods of a node.
pub(crate) type Pods = Units<PodKind>;
pub(crate) type Pod = Unit<PodKind>;
pub(crate) type PodRef = Arc<Pod>;

/// The name of a pod's own process in its cell.
pub(crate) const MAIN: &str = "main";
