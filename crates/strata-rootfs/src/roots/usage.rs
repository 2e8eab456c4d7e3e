//! What a pod wrote. A quota knows; otherwise it is added up.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

use super::record::Limit;
use super::{IMAGE, Roots};
use crate::limits::btrfs;
use crate::{RootError, sys, walk};

/// What a pod wrote to its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes on the disk.
    pub bytes: u64,
    /// How many there may be.
    pub limit: Option<u64>,
    /// There is more than was counted: it was too much to count.
    pub at_least: bool,
}

impl Roots {
    /// How much disk this root takes. Exact to the block where a quota counts;
    /// btrfs reports it as of its last commit, and a root without a limit is
    /// walked through, for two seconds at most.
    pub fn usage(&self, id: &str) -> Result<DiskUsage, RootError> {
        let limit = self.limit_of(id)?;
        let dir = self.root_dir(id);
        let failed = || RootError::at::<std::io::Error>("measure", &dir);
        let mut at_least = false;
        let bytes = match limit {
            Some(Limit::Image { .. }) => {
                let image = std::fs::metadata(dir.join(IMAGE)).map_err(failed())?;
                image.blocks() * 512
            }
            Some(Limit::Subvolume { id, .. }) => {
                btrfs::usage(self.dir.as_fd(), id).map_err(failed())?
            }
            Some(Limit::Project { id, .. }) => {
                let quota = sys::project_quota(&self.dir, id);
                quota.map_err(|errno| failed()(errno.into()))?.bytes
            }
            None => {
                let name = format!("{id}/{}", self.shape.kept());
                let walked = match walk::disk_usage(self.dir.as_fd(), &name) {
                    Err(Errno::NOENT) => return Err(RootError::NotFound { id: id.into() }),
                    other => other.map_err(|errno| failed()(errno.into()))?,
                };
                at_least = !walked.whole;
                walked.bytes
            }
        };
        Ok(DiskUsage {
            bytes,
            limit: limit.map(Limit::bytes),
            at_least,
        })
    }
}
