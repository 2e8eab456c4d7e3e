//! Virtual machines: a QEMU process each, in a cell of its own, with a card on
//! the node's bridge and disks that are clones of images. QEMU is the business
//! of `strata-vm`; what is kept, started again and told of is that of
//! [`crate::units`].

mod ask;
mod disks;
mod kind;
mod launch;

pub(crate) use ask::VmAsk;
pub(crate) use disks::usage;
pub(crate) use kind::{Console, VmKind, endpoint};

use crate::units::{Unit, Units};

/// All virtual machines of a node.
pub(crate) type Vms = Units<VmKind>;
/// One virtual machine, shared.
pub(crate) type VmRef = std::sync::Arc<Unit<VmKind>>;

/// The name of QEMU's process in its cell.
pub(crate) const MAIN: &str = "qemu";
