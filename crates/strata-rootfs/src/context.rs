//! A file system on its way to becoming a detached mount: `fsopen`, settings,
//! `fsmount`. The kernel's message about a mistake goes into the error.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

use crate::RootError;

/// The longest value the kernel takes for one setting, without the final zero.
pub(crate) const MAX_VALUE: usize = 255;

pub(crate) struct FsContext {
    fd: OwnedFd,
    kind: &'static str,
}

impl FsContext {
    pub(crate) fn open(kind: &'static str) -> Result<Self, RootError> {
        let fd = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| RootError::Mount {
            kind,
            what: "open".into(),
            kernel: String::new(),
            source: errno.into(),
        })?;
        Ok(Self { fd, kind })
    }

    pub(crate) fn string(&self, key: &'static str, value: &str) -> Result<&Self, RootError> {
        fsconfig_set_string(&self.fd, key, value)
            .map_err(|errno| self.error(format!("set {key}={value}"), errno))?;
        Ok(self)
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<&Self, RootError> {
        fsconfig_set_flag(&self.fd, key)
            .map_err(|errno| self.error(format!("set {key}"), errno))?;
        Ok(self)
    }

    pub(crate) fn mount(&self, attributes: MountAttrFlags) -> Result<OwnedFd, RootError> {
        fsconfig_create(&self.fd).map_err(|errno| self.error("create".into(), errno))?;
        fsmount(&self.fd, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(|errno| self.error("make the mount".into(), errno))
    }

    fn error(&self, what: String, errno: Errno) -> RootError {
        RootError::Mount {
            kind: self.kind,
            what,
            kernel: self.said(),
            source: errno.into(),
        }
    }

    /// The messages of the kernel wait in the descriptor, one per read.
    fn said(&self) -> String {
        let mut all: Vec<String> = Vec::new();
        let mut message = [0_u8; 512];
        while all.len() < 8 {
            match rustix::io::read(self.fd.as_fd(), &mut message) {
                Ok(length) if length > 0 => {
                    let text = String::from_utf8_lossy(&message[..length]);
                    all.push(text.trim_start_matches("e ").trim().to_owned());
                }
                _ => break,
            }
        }
        all.join("; ")
    }
}
