//! Files that hold secrets or lead to them: 0600, and written whole or not
//! at all.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::error::{Error, Result};

/// Puts `content` where `path` says. A reader sees the old file or the new.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    let failed = || Error::file("write", path);
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed())?;
    // A temporary file is 0600 from its first moment.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed())?;
    file.write_all(content).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    file.persist(path).map_err(|e| failed()(e.error))?;
    Ok(())
}

/// What `path` holds, or nothing when there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::file("read", path)(e)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_written_file_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), "two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(read(&directory.path().join("none")).unwrap().is_none());
    }
}
