//! Which credentials work after `strata restore` (decision 47). A backup does
//! not know what was revoked after it was taken, and whoever lost access must
//! not have it again by a restore.
//!
//! What the repository does know is carried over: the revocations of its
//! newest backup. Between that one and the restore nothing is known, so tokens
//! and the certificates of people end; root of the host has new ones when the
//! server starts. Nodes keep theirs by default: what they run goes on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use strata_backup::{Repository, RestoreAsk};
use strata_cli::Result;
use strata_identity::{TokenKind, Tokens};
use strata_server::carry_revocations;
use strata_store::{Memory, Sealed, Store};
use strata_types::backup::Backup;
use strata_types::{Error, Role};
use tokio_util::sync::CancellationToken;

use crate::args::RestoreArguments;
use crate::daemon::unexpected;
use crate::restore::{refused, remove, say, teller};

/// What ends with a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    people: bool,
    nodes: bool,
}

impl Ending {
    pub(crate) fn of(arguments: &RestoreArguments) -> Self {
        Self {
            people: !arguments.keep_credentials,
            nodes: arguments.revoke_nodes,
        }
    }

    /// The roles whose certificates of before are refused.
    pub(crate) fn roles(self) -> Vec<Role> {
        let people = [Role::Admin, Role::Operator, Role::Viewer];
        let people = people.into_iter().filter(|_| self.people);
        people.chain(self.nodes.then_some(Role::Node)).collect()
    }

    /// Ends tokens. Those to join with end in any case: whether they were used
    /// is not known, and they last minutes.
    pub(crate) fn end_tokens(self, data_dir: &Path) -> Result {
        let file = data_dir.join("tokens.json");
        if !file.exists() {
            return Ok(());
        }
        let tokens = Tokens::open(&file).map_err(unexpected)?;
        tokens.revoke_all(TokenKind::Join).map_err(unexpected)?;
        if self.people {
            tokens.revoke_all(TokenKind::Api).map_err(unexpected)?;
        }
        Ok(())
    }

    /// What to do now, for whoever reads the output.
    pub(crate) fn tell(self) {
        if self.people {
            say(
                "API tokens and certificates of people from before are revoked; root of this host \
                 gets new ones when the server starts: strata token create, strata certificate issue",
            );
        } else {
            say(
                "API tokens and certificates of people work as at the time of the backup: \
                 revoke those again that were revoked since",
            );
        }
        if self.nodes {
            say("certificates of nodes are revoked; nodes join again: \
                 strata token create --join --replace");
        } else {
            say(
                "nodes come back by their certificates: remove those again that were removed since \
                 the newest backup",
            );
        }
    }
}

/// The newest backup with state, if it is later than the one that is restored.
fn newest<'a>(all: &'a [Backup], chosen: &Backup) -> Option<&'a Backup> {
    let later = |one: &&Backup| one.has_state && one.taken_at_ms > chosen.taken_at_ms;
    all.iter().filter(later).max_by_key(|one| one.taken_at_ms)
}

/// Takes over what the newest backup knows to be revoked. A repository whose
/// newest backup cannot be read is no reason not to restore another one.
pub(crate) async fn carry(
    repository: &Repository,
    chosen: &Backup,
    data_dir: &Path,
    store: &dyn Store,
) -> Result {
    let all = repository.list().await.map_err(refused)?;
    let Some(newest) = newest(&all, chosen) else {
        return Ok(());
    };
    let folder = data_dir.join("backup/newest-state");
    remove(&folder)?;
    let carried = carry_from(repository, &newest.id, &folder, data_dir, store).await;
    remove(&folder)?;
    match carried {
        Ok(Some((certificates, tokens))) => say(&format!(
            "took over what the newest backup knows: {certificates} revocations of certificates, \
             {tokens} of tokens"
        )),
        Ok(None) => {}
        Err(error) => say(&format!(
            "warning: the newest backup cannot be read, and what it knows to be revoked is not \
             taken over: {error}"
        )),
    }
    Ok(())
}

async fn carry_from(
    repository: &Repository,
    id: &str,
    folder: &Path,
    data_dir: &Path,
    store: &dyn Store,
) -> strata_types::Result<Option<(usize, usize)>> {
    let broken = |error: &dyn std::fmt::Display| Error::internal(error.to_string());
    let ask = RestoreAsk {
        from: "/state".into(),
        to: folder.to_path_buf(),
    };
    let restored = repository.restore(id, ask, teller("newest state"), CancellationToken::new());
    restored.await.map_err(Into::<Error>::into)?;
    let records = tokio::fs::File::open(folder.join("records")).await;
    let mut records = tokio::io::BufReader::new(records.map_err(|e| broken(&e))?);
    let memory = Arc::new(Memory::new());
    let imported = strata_store::import(memory.as_ref(), &mut records).await;
    imported.map_err(|e| broken(&e))?;
    let later = Sealed::open(memory, &folder.join("store.key")).await;
    let later = later.map_err(|e| broken(&e))?;
    let root = |folder: &Path| fs::read(folder.join("ca/ca.crt")).ok();
    let same_ca = root(folder).is_some() && root(folder) == root(data_dir);
    let carried = carry_revocations(&later, store, same_ca).await;
    let Some(certificates) = carried? else {
        return Ok(None);
    };
    let (ours, theirs) = (data_dir.join("tokens.json"), folder.join("tokens.json"));
    if !ours.exists() || !theirs.exists() {
        return Ok(Some((certificates, 0)));
    }
    let tokens = Tokens::open(&ours).map_err(|e| broken(&e))?;
    let theirs = Tokens::open(&theirs).map_err(|e| broken(&e))?;
    let tokens = tokens.end_as_in(&theirs).map_err(|e| broken(&e))?;
    Ok(Some((certificates, tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_backup_with_state_is_asked_unless_it_is_the_one() {
        let one = |id: &str, taken_at_ms: i64, has_state: bool| Backup {
            id: id.into(),
            taken_at_ms,
            host: "h".into(),
            operation: String::new(),
            volumes: Vec::new(),
            has_state,
            files: 0,
            bytes: 0,
            new_bytes: 0,
            stored_bytes: 0,
            took_ms: 0,
        };
        let all = [
            one("a", 1, true),
            one("c", 3, true),
            one("b", 2, true),
            one("d", 4, false),
        ];
        let id = |chosen: usize| newest(&all, &all[chosen]).map(|one| one.id.as_str());
        assert_eq!(id(0), Some("c"));
        assert_eq!(id(1), None);
    }

    #[test]
    fn people_end_by_default_and_nodes_do_not() {
        let by_default = Ending {
            people: true,
            nodes: false,
        };
        assert!(!by_default.roles().contains(&Role::Node));
        assert_eq!(by_default.roles().len(), 3);
        let all_stay = Ending {
            people: false,
            nodes: false,
        };
        assert!(all_stay.roles().is_empty());
    }
}
