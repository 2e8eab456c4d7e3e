//! Files that hold secrets: private from their first byte, replaced whole or
//! not at all, on disk before the write returns.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::fingerprint::hex;

/// For the owner alone.
pub(crate) const PRIVATE: u32 = 0o600;
pub(crate) const PUBLIC: u32 = 0o644;

/// A file of the identity store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// A secret that others could have read is no secret.
    #[error("{path} is open to others (mode {mode:04o}); it must be 0600")]
    Exposed { path: PathBuf, mode: u32 },
}

/// An error with its causes, for where only a text can go.
pub fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Makes `directory` for the owner alone, if it is not there. One that is there
/// keeps its permissions: it may be a directory the user chose.
pub(crate) fn create_private_dir(directory: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| write_error(directory, source))
}

/// Makes `directory` for the owner alone, and takes it from others if it is
/// there. For directories that are ours by purpose.
pub(crate) fn own_dir(directory: &Path) -> Result<(), FileError> {
    create_private_dir(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o700))
        .map_err(|source| write_error(directory, source))
}

/// The content of a file, or `None` when there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Read {
            path: path.into(),
            source,
        }),
    }
}

/// Like [`read`], and refuses a file that others can open.
pub(crate) fn read_private(path: &Path) -> Result<Option<String>, FileError> {
    if let Ok(metadata) = fs::metadata(path) {
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(FileError::Exposed {
                path: path.into(),
                mode,
            });
        }
    }
    read(path)
}

/// Replaces `path` with `content`, whole.
pub(crate) fn replace(path: &Path, content: &str, mode: u32) -> Result<(), FileError> {
    let staged = Staged::write(path, content, mode)?;
    fs::rename(&staged.0, path).map_err(|source| write_error(path, source))?;
    sync_parent_dir(path)
}

/// Writes `path` unless it is there already. Two processes that create at the
/// same time get one file, and the loser gets `false`.
pub(crate) fn create(path: &Path, content: &str, mode: u32) -> Result<bool, FileError> {
    let staged = Staged::write(path, content, mode)?;
    match fs::hard_link(&staged.0, path) {
        Ok(()) => sync_parent_dir(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(write_error(path, source)),
    }
}

/// A temporary file beside its destination; gone when dropped, unless it was
/// renamed away by then.
struct Staged(PathBuf);

impl Staged {
    fn write(path: &Path, content: &str, mode: u32) -> Result<Self, FileError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", hex(&rand::random::<[u8; 8]>())));
        let staged = Self(path.with_file_name(name));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(PRIVATE)
                .open(&staged.0)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            file.write_all(content.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| write_error(path, source))?;
        Ok(staged)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = fs::remove_file(&self.0);
    }
}

/// A rename is on disk once its directory is.
pub(crate) fn sync_parent_dir(path: &Path) -> Result<(), FileError> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| write_error(directory, source))
}

pub(crate) fn write_error(path: &Path, source: io::Error) -> FileError {
    FileError::Write {
        path: path.into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_replaced_file_is_whole_private_and_leaves_nothing_beside_it() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("a");
        replace(&path, "one", PRIVATE).unwrap();
        replace(&path, "two", PRIVATE).unwrap();
        assert_eq!(read_private(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(world.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_the_first_creator_wins() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("a");
        assert!(create(&path, "one", PUBLIC).unwrap());
        assert!(!create(&path, "two", PUBLIC).unwrap());
        assert_eq!(read(&path).unwrap().as_deref(), Some("one"));
        assert_eq!(mode(&path), 0o644);
        assert_eq!(fs::read_dir(world.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("a");
        replace(&path, "secret", PUBLIC).unwrap();
        assert!(matches!(
            read_private(&path),
            Err(FileError::Exposed { mode: 0o644, .. })
        ));
    }

    #[test]
    fn a_directory_of_ours_is_closed_and_a_directory_of_the_user_is_left_alone() {
        let world = tempfile::tempdir().unwrap();
        let theirs = world.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&theirs).unwrap();
        assert_eq!(mode(&theirs), 0o755);
        own_dir(&theirs).unwrap();
        assert_eq!(mode(&theirs), 0o700);
        create_private_dir(&world.path().join("new")).unwrap();
        assert_eq!(mode(&world.path().join("new")), 0o700);
    }
}
