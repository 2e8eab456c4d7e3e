//! Names of images at the border, and which principals may name files of this
//! machine.
//!
//! The daemon reads `oci:PATH` and `docker-archive:PATH` as root. A caller that
//! may pull could otherwise learn from the answers which files there are, and
//! take into an image what only root should read. Operators can run programs as
//! root in cells today, but that is for cells to narrow; a pull must not be the
//! way around it. So: admins (root on the node's own socket is one) may name
//! any path, operators those below directories that the configuration names,
//! through no link: what is there when it is used may not be what was there
//! when it was checked, so it is opened the same way each time
//! ([`crate::host_path`]). Paths are absolute, since the daemon's own directory
//! means nothing to a caller.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use strata_identity::Caller;
use strata_image::Reference;
use strata_types::{Error, ErrorKind, Result, Role};

use crate::host_path::{is_allowed, open_allowed};

/// The name of an image, from a field of a request.
pub fn reference_from_field(field: &str, text: &str) -> Result<Reference> {
    let reference: Reference = text
        .parse()
        .map_err(|error| Error::from(error).in_field(field))?;
    match path_of(&reference) {
        Some(path) if !path.is_absolute() => Err(Error::invalid(
            field,
            format!(
                "{} is not absolute, and is read on the node's machine",
                path.display()
            ),
        )),
        _ => Ok(reference),
    }
}

/// Whether this caller may have this image pulled, as far as it is made of
/// files of this machine.
pub fn may_read(caller: Option<&Caller>, reference: &Reference, dirs: &[PathBuf]) -> Result<()> {
    match path_of(reference) {
        Some(path) => may_read_path(caller, path, dirs),
        None => Ok(()),
    }
}

/// Whether this caller may have the daemon read this file of this machine.
pub fn may_read_path(caller: Option<&Caller>, path: &Path, dirs: &[PathBuf]) -> Result<()> {
    if caller.is_some_and(|caller| caller.role == Role::Admin) {
        return Ok(());
    }
    let why = match open_allowed(path, dirs) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => format!(": {error}"),
    };
    Err(Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "only an admin may use {} of the node's own disk{why}",
            path.display()
        ),
    )
    .with_hint(
        "operators may below the local_folders of [images] in the node's configuration, where no link is followed",
    ))
}

/// The file or directory that an image is in, open, if it is below one of
/// these directories; none for an image that is not, whose path an admin named.
pub(super) fn open_reference(
    reference: &Reference,
    dirs: &[PathBuf],
) -> std::io::Result<Option<OwnedFd>> {
    match path_of(reference).filter(|path| is_allowed(path, dirs)) {
        Some(path) => open_allowed(path, dirs).map(Some),
        None => Ok(None),
    }
}

pub(super) fn path_of(reference: &Reference) -> Option<&Path> {
    match reference {
        Reference::Registry(_) => None,
        Reference::Layout { path, .. } | Reference::Archive { path } => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use strata_identity::Proof;

    use super::*;

    fn caller(role: Role) -> Caller {
        Caller {
            name: "somebody".parse().unwrap(),
            role,
            projects: None,
            proof: Proof::Certificate,
            expires_at: None,
        }
    }

    #[test]
    fn paths_are_absolute_and_errors_name_the_field() {
        assert!(reference_from_field("reference", "oci:/a:v1").is_ok());
        for bad in ["oci:a:v1", "docker-archive:./x", "A/b c", ""] {
            let error = reference_from_field("reference", bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert_eq!(error.field(), Some("reference"), "{bad}");
        }
    }

    #[test]
    fn operators_stay_below_their_directories() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path();
        std::fs::create_dir_all(root.join("open/image")).unwrap();
        std::fs::create_dir_all(root.join("secret")).unwrap();
        symlink(root.join("secret"), root.join("open/way")).unwrap();
        symlink("image", root.join("open/inner")).unwrap();
        let dirs = [root.join("open")];
        let may = |role: Option<Role>, path: &str| {
            let name = format!("oci:{}", root.join(path).display());
            let caller = role.map(caller);
            may_read(caller.as_ref(), &name.parse().unwrap(), &dirs).is_ok()
        };
        assert!(may(Some(Role::Admin), "secret"));
        assert!(may(Some(Role::Operator), "open/image"));
        for path in [
            "secret",
            "open/way",
            "open/inner",
            "open/../secret",
            "open/none",
        ] {
            assert!(!may(Some(Role::Operator), path), "{path}");
        }
        assert!(!may(None, "secret"));
        assert!(may_read(None, &"nginx".parse().unwrap(), &[]).is_ok());
    }
}
