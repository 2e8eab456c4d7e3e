//! Virtual machines: a QEMU process each, in a cell of its own, with a NIC on
//! the node's bridge and disks that are clones of images or volumes of the
//! pool. QEMU is the business of `strata-vm`; what is kept, restarted and
//! reported is that of [`crate::units`].

mod disks;
mod handover;
mod kind;
mod launch;
mod root;
mod spec;
mod uids;

pub(crate) use disks::usage;
pub(crate) use kind::{Console, VmKind, endpoint};
pub(crate) use spec::{VmBoot, VmUnitSpec};

use std::time::Duration;

use strata_types::Result;

use crate::units::{Unit, Units};

/// All virtual machines of a node.
pub(crate) type Vms = Units<VmKind>;
impl Vms {
    /// Takes a machine away. Where all its disks go with it there is nothing
    /// that it could save by a slow end; what it has of the pool stays, so it
    /// is requested to shut down first.
    pub(crate) async fn take_away(&self, field: &str, name: &str) -> Result<()> {
        let leaves_data = |vm: VmRef| vm.record().spec.leaves_data();
        let grace = match self.find(field, name).is_ok_and(leaves_data) {
            true => None,
            false => Some(Duration::ZERO),
        };
        self.destroy(field, name, grace).await
    }
}

/// One virtual machine, shared.
pub(crate) type VmRef = std::sync::Arc<Unit<VmKind>>;

/// The name of QEMU's process in its cell.
pub(crate) const MAIN: &str = "qemu";
