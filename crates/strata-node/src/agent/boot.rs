//! The clock that leases are counted by: time since the host started, also
//! while it sleeps, for the server's lease does not sleep with it.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The clock of one boot of a host. The simulation has hosts with clocks that
/// drift.
pub trait BootClock: Send + Sync + 'static {
    /// Time since the host started.
    fn now(&self) -> Duration;
    /// The boot that those times are of; another one after each start.
    fn boot_id(&self) -> String;
}

/// A clock that several hold.
pub type SharedClock = Arc<dyn BootClock>;

/// That of the kernel.
pub(super) struct KernelClock;

impl BootClock for KernelClock {
    fn now(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        Duration::try_from(time).unwrap_or_default()
    }

    fn boot_id(&self) -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        id.unwrap_or_default().trim().to_owned()
    }
}
