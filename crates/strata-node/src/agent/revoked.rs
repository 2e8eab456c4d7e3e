//! The certificates that the server has revoked: the node refuses them on its
//! own port too, also after a restart, before a server was reached again.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use strata_api::strata::v1::{self, revocation::What};
use strata_identity::{Revocation, Revocations};
use strata_types::Role;

/// Below the data directory.
const FILE: &str = "node/revocations.json";
/// The most that is accepted: a server bounds what it keeps far below.
const MAX_REVOCATIONS: usize = 1_000_000;

/// Revocations of a server, kept in a file.
#[derive(Clone, Debug)]
pub struct StoredRevocations {
    file: PathBuf,
    live: Arc<Revocations>,
}

impl StoredRevocations {
    /// Those that were kept in this data directory; none if there is no file.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let file = data_dir.join(FILE);
        let live = Arc::<Revocations>::default();
        match fs::read(&file) {
            Ok(text) => {
                let known: Vec<Revocation> =
                    serde_json::from_slice(&text).map_err(io::Error::other)?;
                live.replace(&known);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { file, live })
    }

    pub fn live(&self) -> Arc<Revocations> {
        self.live.clone()
    }

    /// These are in force, and no others. In force at once, kept then.
    fn replace(&self, all: &[Revocation]) -> io::Result<()> {
        self.live.replace(all);
        let next = self.file.with_extension("next");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&next)?;
        file.write_all(&serde_json::to_vec(all)?)?;
        file.sync_all()?;
        fs::rename(next, &self.file)
    }
}

/// A list that comes in parts.
#[derive(Debug, Default)]
pub(super) struct IncomingRevocations(Vec<Revocation>);

impl IncomingRevocations {
    /// Accepts a part; with the last one the list is in force.
    pub(super) fn take(
        &mut self,
        part: v1::Revocations,
        store: &StoredRevocations,
    ) -> io::Result<()> {
        let room = MAX_REVOCATIONS.saturating_sub(self.0.len());
        let read = part.revocations.into_iter().filter_map(read);
        self.0.extend(read.take(room));
        if part.more {
            return Ok(());
        }
        store.replace(&std::mem::take(&mut self.0))
    }
}

/// One of them; what is not understood is left out.
fn read(wire: v1::Revocation) -> Option<Revocation> {
    Some(match wire.what? {
        What::Serial(serial) => Revocation::Serial { serial },
        What::Key(key) => Revocation::Key { key },
        What::Name(name) => Revocation::Name {
            role: Role::try_from(name.role()).ok()?,
            until: jiff::Timestamp::from_second(name.until).ok()?,
            name: name.name.parse().ok()?,
        },
        What::Role(role) => Revocation::Role {
            role: Role::try_from(role.role()).ok()?,
            until: jiff::Timestamp::from_second(role.until).ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(serials: &[&str], more: bool) -> v1::Revocations {
        let one = |serial: &&str| v1::Revocation {
            what: Some(What::Serial((*serial).to_owned())),
        };
        v1::Revocations {
            revocations: serials.iter().map(one).collect(),
            more,
        }
    }

    #[test]
    fn a_list_is_in_force_when_it_is_whole_and_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("node")).unwrap();
        let store = StoredRevocations::open(dir.path()).unwrap();
        let mut incoming = IncomingRevocations::default();
        incoming.take(part(&["aa"], true), &store).unwrap();
        assert!(store.live().list().is_empty());
        incoming.take(part(&["bb"], false), &store).unwrap();
        assert_eq!(store.live().list().len(), 2);
        let again = StoredRevocations::open(dir.path()).unwrap();
        assert_eq!(again.live().list().len(), 2);
        // The next list takes the place of the whole of it.
        incoming.take(part(&[], false), &store).unwrap();
        assert!(store.live().list().is_empty());
        let again = StoredRevocations::open(dir.path()).unwrap();
        assert!(again.live().list().is_empty());
    }
}
