//! The user of a pod's processes: `user[:group]`, names or numbers, looked up
//! in the image's own `/etc/passwd` and `/etc/group`. These are files of an
//! image, so anything may be in them, and they are read within the root.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use strata_types::{Error, Identity, Result};

/// The most that is read of either file.
const MAX_FILE_BYTES: u64 = 4 << 20;
const FIELD: &str = "pod.user";

/// A user and where it is at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) identity: Identity,
    pub(crate) home: String,
}

/// Finds a user in a root.
pub(crate) fn find(root: &OwnedFd, wanted: &str) -> Result<User> {
    let passwd = read(root, "etc/passwd");
    let (user, group) = split(wanted);
    let group_file = match group.is_some() || !is_root(user) {
        true => read(root, "etc/group"),
        false => String::new(),
    };
    resolve(&passwd, &group_file, user, group)
}

fn split(wanted: &str) -> (&str, Option<&str>) {
    match wanted.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (wanted, None),
    }
}

fn is_root(user: &str) -> bool {
    matches!(user, "" | "0" | "root")
}

/// A file of the root; empty when it is not there or no plain file.
fn read(root: &OwnedFd, path: &str) -> String {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mut text = Vec::new();
    if let Ok(file) = openat2(root.as_fd(), path, flags, Mode::empty(), within) {
        let file = File::from(file);
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut text);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A pure function of the two files.
pub(super) fn resolve(passwd: &str, groups: &str, user: &str, group: Option<&str>) -> Result<User> {
    let user = if user.is_empty() { "0" } else { user };
    let entry = passwd.lines().map(Entry::parse).find(|entry| {
        let number = user.parse::<u32>().ok();
        entry
            .as_ref()
            .is_some_and(|entry| entry.name == user || Some(entry.uid) == number)
    });
    let entry = entry.flatten();
    let number = user.parse::<u32>().ok().filter(|n| *n < u32::MAX);
    let uid = match (&entry, number) {
        (Some(entry), _) => entry.uid,
        (None, Some(number)) => number,
        (None, None) if user == "root" => 0,
        (None, None) => {
            let user: String = user.chars().take(80).collect();
            return Err(
                Error::invalid(FIELD, format!("the image has no user {user:?}"))
                    .with_hint("a number works without an entry in the image's /etc/passwd"),
            );
        }
    };
    let name = entry.as_ref().map_or(user, |entry| entry.name);
    let gid = match group {
        Some(group) => group_id(groups, group)?,
        None => entry.as_ref().map_or(0, |entry| entry.gid),
    };
    let further = match group {
        Some(_) => Vec::new(),
        None => memberships(groups, name, gid),
    };
    Ok(User {
        identity: Identity {
            uid: Some(uid),
            gid: Some(gid),
            groups: further,
        },
        home: match entry {
            Some(entry) if entry.home.starts_with('/') => entry.home.to_owned(),
            _ if uid == 0 => "/root".to_owned(),
            _ => "/".to_owned(),
        },
    })
}

struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).unwrap_or("/");
        Some(Self {
            name,
            uid,
            gid,
            home,
        })
    }
}

fn group_id(groups: &str, group: &str) -> Result<u32> {
    if let Ok(number) = group.parse::<u32>() {
        return Ok(number);
    }
    let mut lines = groups
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.first() == Some(&group));
    found
        .and_then(|fields| fields.get(2)?.parse().ok())
        .ok_or_else(|| {
            let group: String = group.chars().take(80).collect();
            Error::invalid(FIELD, format!("the image has no group {group:?}"))
        })
}

/// Further groups of a user, as many as there is room for.
fn memberships(groups: &str, name: &str, primary: u32) -> Vec<u32> {
    const MAX_GROUPS: usize = 64;
    groups
        .lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            let gid = fields.get(2)?.parse().ok()?;
            let mut members = fields.get(3)?.split(',');
            (gid != primary && members.any(|member| member == name)).then_some(gid)
        })
        .take(MAX_GROUPS)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:44:www:/srv:/bin/false\nbroken\n";
    const GROUPS: &str = "root:x:0:\nwww:x:44:\nlogs:x:50:www,other\n";

    fn ids(wanted: &str) -> (u32, u32, Vec<u32>, String) {
        let (user, group) = split(wanted);
        let user = resolve(PASSWD, GROUPS, user, group).unwrap();
        let identity = user.identity;
        (
            identity.uid.unwrap(),
            identity.gid.unwrap(),
            identity.groups,
            user.home,
        )
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(ids(""), (0, 0, vec![], "/root".into()));
        assert_eq!(ids("www"), (33, 44, vec![50], "/srv".into()));
        assert_eq!(ids("33"), (33, 44, vec![50], "/srv".into()));
        assert_eq!(ids("www:logs"), (33, 50, vec![], "/srv".into()));
        assert_eq!(ids("1000"), (1000, 0, vec![], "/".into()));
        assert_eq!(ids("1000:1001"), (1000, 1001, vec![], "/".into()));
    }

    #[test]
    fn unknown_user_is_reported() {
        for (user, group) in [("nobody", None), ("www", Some("nogroup"))] {
            let error = resolve(PASSWD, GROUPS, user, group).unwrap_err();
            assert_eq!(error.field(), Some("pod.user"), "{error}");
        }
        // An image with nothing in it still has a root.
        assert!(resolve("", "", "root", None).is_ok());
    }

    proptest! {
        #[test]
        fn no_file_of_an_image_panics(passwd in ".{0,200}", groups in ".{0,200}", user in ".{0,20}") {
            let _ = resolve(&passwd, &groups, &user, Some("x"));
            let _ = resolve(&passwd, &groups, &user, None);
        }
    }

    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        crate::replay::replay(&[("passwd", |data| {
            let text = String::from_utf8_lossy(data);
            let mut parts = text.splitn(3, '\0').map(str::to_owned);
            let mut part = || parts.next().unwrap_or_default();
            let (wanted, passwd, groups) = (part(), part(), part());
            let (user, group) = split(&wanted);
            let _ = resolve(&passwd, &groups, user, group);
        })]);
    }
}
