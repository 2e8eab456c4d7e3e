//! How far a rotation of the CA is, on disk.
//!
//! ```text
//!            introduce                 activate                retire
//!  stable ─────────────▶ introduced ────────────▶ issuing ───────────────▶ stable
//!  ca.*                  ca.*  next.*             ca.*  next.*              ca.*
//!                        both trusted             both trusted             (what was next)
//!                        ca signs                 next signs
//! ```
//!
//! `ca.key` and `ca.crt` are the root there was, `next.*` the one to come, and
//! `rotation.json` says what the two are. That file is replaced whole, so each
//! step is one rename, before which the step has not happened and after which
//! it has. Without the file, `next.*` are leftovers of a step that was not
//! completed: no certificate was ever signed by them.
//!
//! To retire, `rotation.json` says `retiring`, from when on the old root is
//! trusted no more; then its key is overwritten, `next.*` take the place of
//! `ca.*`, and `rotation.json` goes. Interrupted anywhere, this is completed
//! when the CA is opened. What is left is what a CA that never rotated looks
//! like, so backups and earlier versions read it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::CaError;
use crate::files::{self, FileError};

const STATE: &str = "rotation.json";

/// How far a rotation of the CA is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RotationPhase {
    /// There is one root.
    Stable,
    /// A second root is trusted, and signs nothing yet.
    Introduced,
    /// The second root signs; the first is still trusted.
    Issuing,
}

impl RotationPhase {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Introduced => "introduced",
            Self::Issuing => "issuing",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    Introduced,
    Issuing,
    Retiring,
}

#[derive(Serialize, Deserialize)]
struct State {
    phase: Step,
}

/// Keeps the CA in a directory from being rotated until the answer is dropped, so
/// that its files can be copied as they belong together.
pub fn lock_ca(directory: &Path) -> io::Result<fs::File> {
    let directory = fs::File::open(directory)?;
    directory.lock_shared()?;
    Ok(directory)
}

/// The files of a CA.
#[derive(Clone, Debug)]
pub(crate) struct RootFiles {
    directory: PathBuf,
}

impl RootFiles {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Key and certificate of the root there was.
    pub(crate) fn current(&self) -> (PathBuf, PathBuf) {
        (self.path("ca.key"), self.path("ca.crt"))
    }

    /// Key and certificate of the root to come.
    pub(crate) fn next(&self) -> (PathBuf, PathBuf) {
        (self.path("next.key"), self.path("next.crt"))
    }

    /// Keeps others from copying the files until the answer is dropped: see
    /// [`lock_ca`].
    pub(crate) fn lock(&self) -> Result<fs::File, FileError> {
        let lock = || {
            let directory = fs::File::open(&self.directory)?;
            directory.lock()?;
            Ok(directory)
        };
        lock().map_err(|source| files::write_error(&self.directory, source))
    }

    /// How far it is. A retirement that was interrupted is completed.
    pub(crate) fn phase(&self) -> Result<RotationPhase, CaError> {
        let path = self.path(STATE);
        let Some(text) = files::read(&path)? else {
            return Ok(RotationPhase::Stable);
        };
        let state: State = serde_json::from_str(&text).map_err(|error| CaError::Damaged {
            path,
            reason: error.to_string(),
        })?;
        match state.phase {
            Step::Introduced => Ok(RotationPhase::Introduced),
            Step::Issuing => Ok(RotationPhase::Issuing),
            Step::Retiring => {
                self.complete_retirement()?;
                Ok(RotationPhase::Stable)
            }
        }
    }

    /// Both roots are trusted from now on.
    pub(crate) fn introduced(&self) -> Result<(), FileError> {
        self.put(Step::Introduced)
    }

    /// The next root signs from now on.
    pub(crate) fn activated(&self) -> Result<(), FileError> {
        self.put(Step::Issuing)
    }

    /// The old root is trusted no more from now on, and goes.
    pub(crate) fn retire(&self) -> Result<(), FileError> {
        self.put(Step::Retiring)?;
        self.complete_retirement()
    }

    fn put(&self, phase: Step) -> Result<(), FileError> {
        let path = self.path(STATE);
        let text = serde_json::to_string(&State { phase });
        let text = text.map_err(|error| files::write_error(&path, error.into()))?;
        files::replace(&path, &text, files::PRIVATE)
    }

    /// Every step of it can be done twice.
    fn complete_retirement(&self) -> Result<(), FileError> {
        let ((key, certificate), (next_key, next_certificate)) = (self.current(), self.next());
        if next_key.exists() {
            destroy(&key)?;
            rename(&next_key, &key)?;
        }
        if next_certificate.exists() {
            rename(&next_certificate, &certificate)?;
        }
        files::sync_parent_dir(&key)?;
        let state = self.path(STATE);
        match fs::remove_file(&state) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(files::write_error(&state, error))
            }
            _ => files::sync_parent_dir(&state),
        }
    }

    /// Removes the leftovers of a step that was not completed.
    pub(crate) fn discard_next(&self) -> Result<(), FileError> {
        let (key, certificate) = self.next();
        destroy(&key)?;
        for path in [key, certificate] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(files::write_error(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(|source| files::write_error(to, source))
}

/// Overwrites a key where it is, as far as the file system does that.
fn destroy(path: &Path) -> Result<(), FileError> {
    let overwrite = || {
        let mut file = match fs::OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        file.write_all(&vec![0; length.min(1 << 20)])?;
        file.sync_all()
    };
    overwrite().map_err(|source| files::write_error(path, source))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use strata_types::Role;

    use super::*;
    use crate::{Ca, CertificateId, CertificateSpec, certificate_from_pem};

    type Files = BTreeMap<String, Vec<u8>>;

    fn files_in(directory: &Path) -> Files {
        let read = |entry: io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        };
        fs::read_dir(directory).unwrap().map(read).collect()
    }

    /// A directory as a crash has left it.
    fn left_behind(files: &Files) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        directory
    }

    fn issuer_of(ca: &Ca) -> String {
        let spec = CertificateSpec::caller("ann".parse().unwrap(), Role::Operator);
        let issued = ca.issue(&spec).unwrap();
        let der = certificate_from_pem(&issued.certificate_pem).unwrap();
        CertificateId::of(&der).unwrap().issuer
    }

    fn roots_in(pem: &str) -> usize {
        pem.matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn rotation_trusts_both_roots_until_the_old_one_is_retired() {
        let directory = tempfile::tempdir().unwrap();
        let ca = Ca::open(directory.path()).unwrap();
        let (first, old_key) = (
            ca.rotation().current,
            fs::read(directory.path().join("ca.key")).unwrap(),
        );
        assert!(matches!(ca.activate(), Err(CaError::NoRotation)));
        assert!(matches!(ca.retire(), Err(CaError::NoRotation)));

        assert!(ca.introduce().unwrap());
        assert!(!ca.introduce().unwrap(), "once");
        assert!(matches!(ca.retire(), Err(CaError::NotActive)));
        assert_eq!(ca.rotation().phase, RotationPhase::Introduced);
        assert_eq!(roots_in(&ca.ca_pem()), 2);
        assert_eq!(issuer_of(&ca), first.id);
        let next = ca.rotation().next.unwrap();
        assert_ne!(next.id, first.id);

        assert!(ca.activate().unwrap());
        assert!(!ca.activate().unwrap(), "once");
        assert_eq!(issuer_of(&ca), next.id);
        assert_eq!(ca.fingerprint(), first.fingerprint, "the server's own");
        assert!(ca.trust().trusts(&first.id) && ca.trust().trusts(&next.id));

        ca.retire().unwrap();
        assert_eq!(ca.rotation().current, next);
        assert_eq!(ca.fingerprint(), next.fingerprint);
        assert!(!ca.trust().trusts(&first.id));
        assert_eq!(roots_in(&ca.ca_pem()), 1);
        let left = files_in(directory.path());
        let names: Vec<_> = left.keys().map(String::as_str).collect();
        assert_eq!(names, ["ca.crt", "ca.key"]);
        assert_ne!(left["ca.key"], old_key);
        let key = fs::metadata(directory.path().join("ca.key")).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        assert_eq!(Ca::open(directory.path()).unwrap().rotation().current, next);
    }

    /// Every state that a kill between two writes can leave opens, reports how
    /// far it is, and allows the steps to be repeated.
    #[test]
    fn crash_between_any_two_writes_leaves_a_ca_that_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let ca = Ca::open(directory.path()).unwrap();
        let old = ca.rotation().current;
        let stable = files_in(directory.path());
        ca.introduce().unwrap();
        let introduced = files_in(directory.path());
        let new = ca.rotation().next.unwrap();
        ca.activate().unwrap();
        let issuing = files_in(directory.path());

        let with = |base: &Files, names: &[&str]| {
            let mut files = base.clone();
            for name in names {
                files.insert((*name).to_owned(), introduced[*name].clone());
            }
            files
        };
        let retiring = |change: &dyn Fn(&mut Files)| {
            let mut files = issuing.clone();
            files.insert(STATE.into(), br#"{"phase":"retiring"}"#.to_vec());
            change(&mut files);
            files
        };
        let zeros = |files: &mut Files| {
            let length = files["ca.key"].len();
            files.insert("ca.key".into(), vec![0; length]);
        };
        let moved = |files: &mut Files, from: &str, to: &str| {
            let content = files.remove(from).unwrap();
            files.insert(to.into(), content);
        };
        use RotationPhase::{Introduced, Issuing, Stable};
        let states = [
            (stable.clone(), Stable, &old),
            (with(&stable, &["next.key"]), Stable, &old),
            (with(&stable, &["next.key", "next.crt"]), Stable, &old),
            (introduced.clone(), Introduced, &old),
            (issuing.clone(), Issuing, &old),
            (retiring(&|_| {}), Stable, &new),
            (retiring(&|files| zeros(files)), Stable, &new),
            (
                retiring(&|files| moved(files, "next.key", "ca.key")),
                Stable,
                &new,
            ),
            (
                retiring(&|files| {
                    moved(files, "next.key", "ca.key");
                    moved(files, "next.crt", "ca.crt");
                }),
                Stable,
                &new,
            ),
        ];
        for (number, (files, phase, current)) in states.iter().enumerate() {
            let directory = left_behind(files);
            let ca = Ca::open(directory.path()).unwrap();
            let rotation = ca.rotation();
            assert_eq!(rotation.phase, *phase, "state {number}");
            assert_eq!(rotation.current, **current, "state {number}");
            issuer_of(&ca);
            // The whole of it from here.
            ca.introduce().unwrap();
            ca.activate().unwrap();
            ca.retire().unwrap();
            let last = ca.rotation().current;
            assert_ne!(last, old, "state {number}");
            let again = Ca::open(directory.path()).unwrap();
            assert_eq!(again.rotation().current, last, "state {number}");
            assert_eq!(files_in(directory.path()).len(), 2, "state {number}");
        }
    }

    #[test]
    fn damaged_state_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        Ca::open(directory.path()).unwrap();
        fs::write(directory.path().join(STATE), "{").unwrap();
        let error = Ca::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains(STATE), "{error}");
    }
}
