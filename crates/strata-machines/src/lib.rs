//! Where machines come from: one small trait, a driver for each way that a
//! computer can be brought up and down, and one that only simulates it.
//!
//! A driver keeps nothing of its own. What is known of a machine is in the
//! inventory's records; to whom a machine belongs is marked at the provider by
//! a [`Tag`]: a server that was killed between taking a machine and recording
//! it queries the provider, and finds it again.
//!
//! ```text
//! provider        the trait, and what goes through it
//! providers       the drivers that are configured, by their kind
//! image           what a machine boots: kernel, drivers, our node as PID 1
//! local           nested nodes of a node
//! redfish         servers with a management controller
//! maas            machines of a MAAS region
//! http            how both are spoken to
//! qemu            virtual machines of a node
//! sim             a driver that simulates, with fault knobs
//! ```

mod call;
mod error;
mod hosted;
mod hosting;
mod http;
pub mod image;
pub mod local;
pub mod maas;
mod provider;
mod providers;
pub mod qemu;
pub mod redfish;
pub mod sim;

pub use error::ProviderError;
pub use local::Local;
pub use provider::{Boot, Console, Discovered, Power, Provider, Tag, Target, Up};
pub use providers::Providers;
pub use qemu::{Qemu, QemuConfig};
pub use strata_types::Secret;
