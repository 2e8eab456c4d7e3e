//! A mount that is put into the mount namespace of a process that runs. The
//! thread that does it enters that namespace and ends there.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{MoveMountFlags, move_mount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::RootError;
use crate::creator::on_thread;
use crate::sys;

/// Puts a detached mount onto a directory as the process sees it. The directory
/// is made if it is missing; its parent has to be there.
pub fn attach_within(pid: i64, mount: &OwnedFd, path: &Path) -> Result<(), RootError> {
    let namespace = format!("/proc/{pid}/ns/mnt");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let namespace = open(&namespace, flags, Mode::empty())
        .map_err(RootError::at("open", Path::new(&namespace)))?;
    on_thread(move || {
        use std::os::fd::AsFd as _;
        let mount_type = Some(LinkNameSpaceType::Mount);
        sys::unshare_directory().map_err(RootError::at("enter the namespace of", path))?;
        move_into_link_name_space(namespace.as_fd(), mount_type)
            .map_err(RootError::at("enter the namespace of", path))?;
        match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(RootError::at("make", path)(errno)),
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(mount, "", CWD, path, flags).map_err(RootError::at("mount", path))
    })
}
