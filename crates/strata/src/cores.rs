//! No core of this process. Its memory has the keys of the CA, of the store and
//! of nodes, tokens and secrets; a core has them in the clear, in a file or with
//! whatever program the host gives cores to.
//!
//! Exec makes a process dumpable again, so this is the first thing that `main`
//! does, in whichever role it was started.

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Too little for a file, and what the kernel gives no program a core for; with
/// 0 it still would.
const NONE: u64 = 1;

/// Leaves no core, whatever `core_pattern` says. Processes without privileges
/// cannot look into this one by `/proc` or `ptrace` either. The hard limit
/// stays: pods may be given cores of their own.
pub(crate) fn forbid() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let current = Some(maximum.map_or(NONE, |hard| hard.min(NONE)));
    let _ = setrlimit(Resource::Core, Rlimit { current, maximum });
}
