//! Taking a root away: out of sight by one rename, then off the disk.

use rustix::fs::renameat;
use rustix::io::Errno;

use super::{GONE, Roots, check};
use crate::RootError;

impl Roots {
    /// Removes a root with everything a pod left in it. A root that is not
    /// there is no error. Should this be cut off in the middle, the root is
    /// out of the list already, and the rest goes at the next opening.
    ///
    /// No pod may use it any more.
    pub fn remove(&self, id: &str) -> Result<(), RootError> {
        check(id)?;
        let name = self.unique(id);
        match renameat(&self.dir, id, &self.dir, format!("{GONE}/{name}")) {
            Ok(()) => self.destroy(GONE, &name),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(RootError::io("remove", self.root_dir(id), errno)),
        }
    }
}
