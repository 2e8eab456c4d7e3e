//! Users and groups of the host that are not for callers to choose: those it
//! names, and whole ranges that systems hand out without naming them: their own
//! (below 1000), those of services that come and go (systemd, from 61184 on),
//! of people's containers (from 100000 on), and of the pods and virtual machines
//! of a node (from 1000000000 on).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;

/// The most that is read of either file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Which users and groups the host has, by number.
#[derive(Debug, Default)]
pub(super) struct HostIds {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl HostIds {
    /// From here on numbers are free which the host does not name.
    pub(super) const FIRST_FREE: u32 = 1000;
    /// The last of them.
    pub(super) const LAST_FREE: u32 = 60_000;
    /// `nobody` and its group own nothing, on any system.
    const NOBODY: u32 = 65_534;

    /// As the host is now.
    pub(super) fn read() -> Self {
        Self::parse(&text("/etc/passwd"), &text("/etc/group"))
    }

    pub(super) fn parse(passwd: &str, group: &str) -> Self {
        let number = |line: &str, at: usize| line.split(':').nth(at)?.trim().parse::<u32>().ok();
        let of = |text: &str, at: usize| -> BTreeSet<u32> {
            text.lines().filter_map(|line| number(line, at)).collect()
        };
        let mut groups = of(group, 2);
        // The groups of users, also those without a name.
        groups.extend(of(passwd, 3));
        Self {
            users: of(passwd, 2),
            groups,
        }
    }

    pub(super) fn is_free_user(&self, uid: u32) -> bool {
        uid == Self::NOBODY || is_in_range(uid) && !self.users.contains(&uid)
    }

    pub(super) fn is_free_group(&self, gid: u32) -> bool {
        gid == Self::NOBODY || is_in_range(gid) && !self.groups.contains(&gid)
    }
}

fn is_in_range(id: u32) -> bool {
    (HostIds::FIRST_FREE..=HostIds::LAST_FREE).contains(&id)
}

/// A file of the host; empty when it cannot be read.
fn text(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
