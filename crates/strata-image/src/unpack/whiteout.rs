//! What a layer takes away from those below it, in the words of overlayfs.
//!
//! A layer's tar has `.wh.NAME` for "NAME is gone" and `.wh..wh..opq` for "all
//! that was in this directory is gone"; overlayfs has a character device 0:0
//! and `trusted.overlay.opaque`. Both refer to lower layers only, so what the
//! same layer holds under that name stays, whichever comes first.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Mode, XattrFlags};
use rustix::io::Errno;

use super::UnpackError;
use super::error::shown;
use super::path::RootedPath;

/// The attribute by which a directory hides those below it.
pub(crate) const OPAQUE: &str = "trusted.overlay.opaque";

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryMeaning<'a> {
    /// An entry like any other.
    Plain,
    /// Its directory hides what is below.
    Opaque,
    /// This name is gone.
    Gone(&'a [u8]),
    /// Book-keeping of AUFS, which old builders left in their layers.
    BookKeeping,
}

pub(super) fn meaning(path: &RootedPath) -> Result<EntryMeaning<'_>, UnpackError> {
    let refuse = || UnpackError::Whiteout(shown(path.whole()));
    for part in path.dir().split(|byte| *byte == b'/') {
        if part.starts_with(b".wh..wh.") {
            return Ok(EntryMeaning::BookKeeping);
        }
        if part.starts_with(b".wh.") {
            return Err(refuse());
        }
    }
    match path.name().strip_prefix(b".wh.") {
        None => Ok(EntryMeaning::Plain),
        Some(b".wh..opq") => Ok(EntryMeaning::Opaque),
        // `.wh...` would take away the directory above.
        Some(b"" | b"." | b"..") => Err(refuse()),
        Some(name) if name.starts_with(b".wh.") => Ok(EntryMeaning::BookKeeping),
        Some(name) => Ok(EntryMeaning::Gone(name)),
    }
}

/// Whether there is a whiteout under this name.
pub(super) fn is(parent: BorrowedFd<'_>, name: &[u8]) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
    })
}

pub(super) fn make_opaque(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsetxattr(dir, OPAQUE, b"y", XattrFlags::empty())
}

/// Puts a whiteout under `name`, unless this layer has something there: a
/// directory of its own then hides the one below, a file does so anyway.
pub(super) fn make_gone(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {
            rustix::fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0)
        }
        Err(errno) => Err(errno),
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            use std::os::fd::AsFd as _;
            make_opaque(super::root::open_beneath(parent, name)?.as_fd())
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Result<String, UnpackError> {
        let path = RootedPath::parse(path.as_bytes(), 4096)?.unwrap();
        meaning(&path).map(|meaning| format!("{meaning:?}"))
    }

    #[test]
    fn names_mean_what_the_specification_says() {
        assert_eq!(of("a/b").unwrap(), "Plain");
        assert_eq!(of("a/.wh.b").unwrap(), format!("Gone({:?})", b"b"));
        assert_eq!(of("a/.wh..wh..opq").unwrap(), "Opaque");
        assert_eq!(of(".wh..wh.plnk/1.2").unwrap(), "BookKeeping");
        assert_eq!(of(".wh..wh.aufs").unwrap(), "BookKeeping");
        for bad in [".wh.", "a/.wh..", "a/.wh...", ".wh.a/b"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
