//! As which user an overlay is created. An overlay does its own work in the
//! writable layer with the ids of its creator. Where that layer is seen through
//! a user namespace, root of the host does not exist, and the overlay would be
//! read-only. So it is created by a thread that has the ids of the namespace's
//! root, and all capabilities of the daemon, and ends right after.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Gid, Uid, statat};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::{capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid};

use crate::{Owner, RootError};

/// What the kernel shows for an id that has no meaning here.
const NOBODY: u32 = 65534;

/// The host's user that is root of a user namespace: the owner of something
/// that belongs to root, seen through that namespace.
pub(crate) fn root_of(mapped: &OwnedFd, dir: &Path) -> Result<Owner, RootError> {
    let status =
        statat(mapped, dir, AtFlags::empty()).map_err(failed("look at a mapped directory"))?;
    let owner = Owner {
        uid: status.st_uid,
        gid: status.st_gid,
    };
    if owner.uid == NOBODY || owner.gid == NOBODY {
        let unmapped = rustix::io::Errno::OVERFLOW;
        return Err(failed("find root in the user namespace")(unmapped));
    }
    Ok(owner)
}

/// Does something on a thread of its own with the ids of `owner`.
pub(crate) fn as_owner<T: Send>(
    owner: Option<Owner>,
    work: impl FnOnce() -> Result<T, RootError> + Send,
) -> Result<T, RootError> {
    let Some(owner) = owner else {
        return work();
    };
    keep_dumpable(|| on_thread(|| become_owner(owner).and_then(|()| work())))
}

/// A change of ids, on any thread, gives the whole process the value of
/// `fs.suid_dumpable`: nothing, or a core that root's program is handed. So
/// whether it is dumpable is restored to what it was. That is read once: a
/// later answer may be another thread's doing.
pub(crate) fn keep_dumpable<T>(
    work: impl FnOnce() -> Result<T, RootError>,
) -> Result<T, RootError> {
    static BEFORE: OnceLock<DumpableBehavior> = OnceLock::new();
    let before = *BEFORE.get_or_init(|| match dumpable_behavior() {
        Ok(DumpableBehavior::Dumpable) => DumpableBehavior::Dumpable,
        _ => DumpableBehavior::NotDumpable,
    });
    let result = work();
    set_dumpable_behavior(before).map_err(failed("restore the dumpable flag"))?;
    result
}

/// Gives the calling thread, for the rest of its life, the ids of `owner`. It
/// keeps its capabilities.
pub(crate) fn become_owner(owner: Owner) -> Result<(), RootError> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    let before = capabilities(None).map_err(failed("read capabilities"))?;
    set_thread_res_gid(None, Some(gid), None)
        .and_then(|()| set_thread_res_uid(None, Some(uid), None))
        .and_then(|()| set_capabilities(None, before))
        .map_err(failed("take the ids of a user namespace"))
}

/// Runs this on a thread that ends with it.
pub(crate) fn on_thread<T: Send>(
    work: impl FnOnce() -> Result<T, RootError> + Send,
) -> Result<T, RootError> {
    let result = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("overlay".into())
            .spawn_scoped(scope, work)
            .map(std::thread::ScopedJoinHandle::join)
    });
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(source) => Err(RootError::Mount {
            kind: "overlay",
            what: "start a thread".into(),
            kernel: String::new(),
            source,
        }),
    }
}

fn failed(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> RootError {
    move |errno| RootError::Mount {
        kind: "overlay",
        what: what.into(),
        kernel: String::new(),
        source: errno.into(),
    }
}
