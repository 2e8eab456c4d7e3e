//! What the block groups of a btrfs hold and how often they keep it.

use rustix::io::Errno;
use strata_types::storage::Profile;

use super::Fs;
use crate::sys;

pub(super) const RAID1: u64 = 1 << 4;
pub(super) const DUP: u64 = 1 << 5;
const DATA: u64 = 1;
const SYSTEM: u64 = 2;
const METADATA: u64 = 4;
const PROFILES: u64 = 0x7f8;
/// Not a block group: what the kernel keeps of metadata for itself.
const GLOBAL_RESERVE: u64 = 1 << 49;

/// Room by what it is for, each byte counted once however often it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spaces {
    pub(crate) data_total: u64,
    pub(crate) data_used: u64,
    /// With what the system itself needs.
    pub(crate) metadata_used: u64,
    /// The block groups of both.
    pub(crate) metadata_total: u64,
    /// In block groups that are not kept as the profile requires.
    pub(crate) astray: u64,
}

impl Fs {
    pub(crate) fn spaces(&self, profile: Profile) -> Result<Spaces, Errno> {
        let mut spaces = Spaces::default();
        for space in sys::space_info(&self.root)? {
            if space.flags & GLOBAL_RESERVE != 0 {
                continue;
            }
            if space.flags & DATA != 0 {
                spaces.data_total += space.total;
                spaces.data_used += space.used;
            }
            if space.flags & (METADATA | SYSTEM) != 0 {
                spaces.metadata_used += space.used;
                spaces.metadata_total += space.total;
            }
            let asked = match profile {
                Profile::Mirrored => RAID1,
                Profile::Single if space.flags & DATA != 0 => 0,
                Profile::Single => DUP,
            };
            if space.flags & PROFILES != asked {
                spaces.astray += space.total;
            }
        }
        Ok(spaces)
    }
}
