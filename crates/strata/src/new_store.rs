//! Whether a server may make a new store, and which control plane a data
//! directory is of.
//!
//! A server that starts with an empty store knows of no instance, so every
//! node of its CA has instances that it does not know. A store is empty by
//! mistake when its disk is not mounted, when its prefix in etcd is another
//! one, or when `ca` was copied and `store` was not. So a data directory that
//! has identities and no store gets none, unless people insist.
//!
//! ```text
//! store.new       a store may be made here: nothing was here before
//! control-plane   the id of the control plane whose store was last opened
//! ```

use std::fs;
use std::io;
use std::path::Path;

use strata_cli::{Exit, Failure, Result};

use crate::daemon::unexpected;
use crate::identity::write_private;

const PENDING_STORE: &str = "store.new";
const CONTROL_PLANE: &str = "control-plane";

/// Whether a new store may be made in this data directory. To be called
/// before anything else is made there.
pub(crate) fn may_be_made(data_dir: &Path, insists: bool) -> Result<bool> {
    let expected = data_dir.join(PENDING_STORE);
    if expected.exists() {
        return Ok(true);
    }
    let has_identities = ["ca", "tokens.json"]
        .iter()
        .any(|name| data_dir.join(name).exists());
    if has_identities && !insists {
        return Ok(false);
    }
    if insists {
        forget(data_dir).map_err(unexpected)?;
    }
    write_private(&expected, "").map_err(unexpected)?;
    Ok(true)
}

/// The control plane whose store was last opened here.
pub(crate) fn control_plane(data_dir: &Path) -> Option<String> {
    let id = fs::read_to_string(data_dir.join(CONTROL_PLANE)).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The store of this control plane was opened here: from now on no other is.
pub(crate) fn opened(data_dir: &Path, id: &str) -> Result {
    let place = |name: &str| data_dir.join(name);
    let write = || {
        write_private(&place("control-plane.part"), id)?;
        fs::File::open(place("control-plane.part"))?.sync_all()?;
        fs::rename(place("control-plane.part"), place(CONTROL_PLANE))?;
        match fs::remove_file(place(PENDING_STORE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    if control_plane(data_dir).as_deref() == Some(id) && !place(PENDING_STORE).exists() {
        return Ok(());
    }
    write().map_err(|error: io::Error| {
        let what = format!(
            "cannot write the control plane's id into {}",
            data_dir.display()
        );
        Failure::new(Exit::Unexpected, what).because(error.to_string())
    })
}

/// The data directory is of no control plane: a restore begins with it.
pub(crate) fn forget(data_dir: &Path) -> io::Result<()> {
    for name in [CONTROL_PLANE, PENDING_STORE] {
        match fs::remove_file(data_dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_is_made_once_and_only_where_nothing_was() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(may_be_made(dir, false).unwrap());
        fs::create_dir(dir.join("ca")).unwrap();
        // The first start may have ended before there was a store.
        assert!(may_be_made(dir, false).unwrap());
        opened(dir, "abc").unwrap();
        assert_eq!(control_plane(dir).as_deref(), Some("abc"));
        assert!(!may_be_made(dir, false).unwrap());
        assert!(may_be_made(dir, true).unwrap());
        assert_eq!(control_plane(dir), None);
    }
}
