//! The words of Strata as types: names that are valid because they exist,
//! specifications, states with their legal transitions, and the one public
//! error. Nothing here touches the machine.

pub mod backup;
mod cell;
pub mod cluster;
mod command;
mod error;
mod executable;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod image;
pub mod instance;
mod limits;
pub mod machine;
mod name;
pub mod pod;
pub mod project;
mod restart;
mod role;
mod secret;
pub mod storage;

pub use cell::{CellName, CellSpec, CellState, CpuShares, IdMap, RootMode};
pub use command::CommandLine;
pub use error::{Error, ErrorKind, Result, chain};
pub use executable::{
    Ending, EnvironmentVariable, ExecutableName, ExecutableSpec, ExecutableState, Identity,
};
pub use limits::{CpuLimit, CpuSet, DeviceRef, IoLimit, Limits, MemoryLimit};
pub use name::Label;
pub use restart::{Backoff, BackoffPolicy, RestartPolicy};
pub use role::Role;
pub use secret::Secret;
