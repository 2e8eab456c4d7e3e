//! Instances: containers and virtual machines that the scheduler assigns to
//! nodes; workloads, which are templates of them.
//!
//! ```text
//!   Scheduling ──▶ Scheduled ──▶ Starting ──▶ Running ──▶ Stopping ──▶ Stopped
//!       │ ▲            │            │ ▲          │                       │
//!       ▼ │ room       ▼            ▼ │ again    ▼                       │ Start
//!     Failed ◀──────────────────── Crashed ◀──── its end     Starting ◀──┘
//!                                   Terminated ◀─ its end, with 0
//!
//!   from anywhere: Destroying ──▶ Terminated ──▶ (none)
//! ```

mod desired_state;
mod id;
mod kind;
mod placement;
mod resources;
mod spec;
mod state;
mod volume;

pub use desired_state::DesiredState;
pub use id::{InstanceId, WorkloadId};
pub use kind::InstanceKind;
pub use placement::{
    AffinityRule, Bond, GpuRequest, PlacementRules, PolicyName, Preferred, RunPolicy, SpreadRule,
};
pub use resources::{Claim, Resources, VM_DEFAULT_CPU, VM_DEFAULT_MEMORY, VM_OVERHEAD};
pub use spec::{HealthSpec, InstanceSpec, SecuritySpec};
pub use state::InstanceState;
pub use volume::{PROJECT_VOLUME, PoolDisk};
