//! The directory of one guest: where its sockets and disks are, so that a
//! restarted daemon finds them again by the guest's name alone. The directory
//! should be open to root only: a process that can connect to a socket in it
//! controls the guest.

use std::path::{Path, PathBuf};

use strata_types::{Error, Result};

/// The longest path of a Unix socket, without the NUL that ends it.
const MAX_SOCKET: usize = 107;

/// The directory of one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmDir(PathBuf);

impl VmDir {
    /// A guest's directory, which need not be there yet. Refuses one whose
    /// sockets the kernel could not name.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = Self(dir.into());
        let longest = dir.console();
        if !longest.is_absolute() || longest.to_str().is_none() {
            let why = format!("{:?} is not an absolute path in UTF-8", dir.0);
            return Err(Error::invalid("directory", why));
        }
        let length = longest.as_os_str().len();
        if length > MAX_SOCKET {
            let why = format!(
                "{} is too long: a socket in it would have {length} bytes, {MAX_SOCKET} is the most",
                dir.0.display()
            );
            return Err(Error::invalid("directory", why));
        }
        Ok(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where QEMU is talked to. One client at a time.
    pub fn qmp(&self) -> PathBuf {
        self.0.join("qmp.sock")
    }

    /// Where the guest's console can be read and typed on. One client at a
    /// time; read it without pause, for a full socket holds the guest's
    /// console up. The log has all that was written, whether or not a client
    /// was there.
    pub fn console(&self) -> PathBuf {
        self.0.join("console.sock")
    }

    /// Where a copy-on-write boot disk belongs.
    pub fn disk(&self) -> PathBuf {
        self.0.join("disk.qcow2")
    }

    /// Where the answers for cloud-init belong.
    pub fn seed(&self) -> PathBuf {
        self.0.join("seed.iso")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_too_deep_for_sockets_is_refused() {
        let deep = format!("/{}", "x".repeat(93));
        assert!(VmDir::new(&deep).is_ok());
        let error = VmDir::new(format!("{deep}y")).unwrap_err();
        assert!(error.message().contains("108 bytes"), "{error}");
        assert!(VmDir::new("here").is_err());
    }
}
