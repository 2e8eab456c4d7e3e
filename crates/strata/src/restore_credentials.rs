//! Which credentials work after `strata restore` (decision 47). A backup does
//! not know what was revoked after it was taken, and a user who lost access
//! must not regain it by a restore.
//!
//! What the repository does know is carried over from the newest backup of the
//! same control plane: its revocations, its CA, so that no root comes back that
//! was retired since, and its audit log. Between that one and the restore nothing
//! is known, so tokens and the certificates of people end; root of the host has
//! new ones when the server starts. Nodes keep theirs by default: what they run
//! goes on.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_backup::{Repository, RestoreOptions};
use strata_cli::Result;
use strata_identity::{Ca, RotationPhase, TokenKind, Tokens};
use strata_server::carry_revocations;
use strata_store::{Memory, Sealed, Store};
use strata_types::backup::Backup;
use strata_types::{Error, Role};
use tokio_util::sync::CancellationToken;

use crate::args::RestoreArguments;
use crate::daemon::unexpected;
use crate::restore::{refused, remove, reporter, say};

/// Where the CA is, in a data directory and in the state of a backup.
const CA: &str = "ca";

/// What ends with a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestoredCredentials {
    people: bool,
    nodes: bool,
}

impl RestoredCredentials {
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

    /// Revokes tokens. Those to join with end in any case: whether they were used
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

    /// Next steps, for the user.
    pub(crate) fn tell(self) {
        if self.people {
            say(
                "earlier API tokens and user certificates are revoked; root of this host gets new ones when the server starts: strata token create, strata certificate issue",
            );
        } else {
            say(
                "API tokens and user certificates are valid as of the backup: revoke again those revoked since",
            );
        }
        if self.nodes {
            say("certificates of nodes are revoked; nodes join again: \
                 strata token create --join --replace");
        } else {
            say(
                "nodes reconnect with their certificates: remove again those removed since the newest backup",
            );
        }
    }
}

/// Backups with state that are later than the one that is restored, the newest
/// first.
fn later<'a>(all: &'a [Backup], chosen: &Backup) -> Vec<&'a Backup> {
    let is_later = |one: &&Backup| one.has_state && one.taken_at_ms > chosen.taken_at_ms;
    let mut later: Vec<_> = all.iter().filter(is_later).collect();
    later.sort_by_key(|one| std::cmp::Reverse(one.taken_at_ms));
    later
}

/// Takes over what the newest backup of the same control plane knows, and leaves
/// its state in `directory`; whether there is one. A repository of several control
/// planes has newer ones of others. A backup that cannot be read is no reason not
/// to restore another one.
pub(crate) async fn carry(
    repository: &Repository,
    chosen: &Backup,
    data_dir: &Path,
    directory: &Path,
    store: &dyn Store,
) -> Result<bool> {
    let all = repository.list().await.map_err(refused)?;
    for newest in later(&all, chosen) {
        remove(directory)?;
        match carry_from(repository, &newest.id, directory, data_dir, store).await {
            Ok(Some((certificates, tokens))) => {
                take_over_ca(directory, data_dir).map_err(unexpected)?;
                say(&format!(
                    "applied from the newest backup: the CA, {certificates} revocations of \
                     certificates, {tokens} of tokens, the audit log"
                ));
                return Ok(true);
            }
            Ok(None) => {}
            Err(error) => say(&format!(
                "warning: the newest backup cannot be read; its revocations are not applied: {error}"
            )),
        }
    }
    remove(directory)?;
    Ok(false)
}

async fn carry_from(
    repository: &Repository,
    id: &str,
    directory: &Path,
    data_dir: &Path,
    store: &dyn Store,
) -> strata_types::Result<Option<(usize, usize)>> {
    let broken = |error: &dyn std::fmt::Display| Error::internal(error.to_string());
    let ask = RestoreOptions {
        from: "/state".into(),
        to: directory.to_path_buf(),
    };
    let restored = repository.restore(id, ask, reporter("newest state"), CancellationToken::new());
    restored.await.map_err(Into::<Error>::into)?;
    let records = tokio::fs::File::open(directory.join("records")).await;
    let mut records = tokio::io::BufReader::new(records.map_err(|e| broken(&e))?);
    let memory = Arc::new(Memory::new());
    let imported = strata_store::import(memory.as_ref(), &mut records).await;
    imported.map_err(|e| broken(&e))?;
    let newer = Sealed::open(memory, &directory.join("store.key")).await;
    let newer = newer.map_err(|e| broken(&e))?;
    let (ours, theirs) = (roots(&data_dir.join(CA)), roots(&directory.join(CA)));
    let same_ca = ours.iter().any(|root| theirs.contains(root));
    let carried = carry_revocations(&newer, store, same_ca).await;
    let Some(certificates) = carried? else {
        return Ok(None);
    };
    let (ours, theirs) = (data_dir.join("tokens.json"), directory.join("tokens.json"));
    if !ours.exists() || !theirs.exists() {
        return Ok(Some((certificates, 0)));
    }
    let tokens = Tokens::open(&ours).map_err(|e| broken(&e))?;
    let theirs = Tokens::open(&theirs).map_err(|e| broken(&e))?;
    let tokens = tokens.end_as_in(&theirs).map_err(|e| broken(&e))?;
    Ok(Some((certificates, tokens)))
}

/// Prints that a CA is being rotated: a root that was retired after the newest
/// backup is trusted until it is retired again.
pub(crate) fn tell_rotation(data_dir: &Path) -> Result {
    let ca = data_dir.join(CA);
    if !ca.exists() {
        return Ok(());
    }
    let authority = Ca::open(&ca).map_err(unexpected)?;
    if authority.rotation().phase != RotationPhase::Stable {
        say(
            "the CA is being rotated, as at the time of the newest backup, and both roots are \
             trusted: complete it with strata ca activate, strata ca retire",
        );
    }
    Ok(())
}

/// The roots that a CA trusts, and those that it may be about to.
fn roots(ca: &Path) -> Vec<Vec<u8>> {
    let files = ["ca.crt", "next.crt"].into_iter();
    files
        .filter_map(|name| fs::read(ca.join(name)).ok())
        .collect()
}

/// The newest CA in place of the one of the backup, whole: files of two steps of
/// a rotation do not belong together. An interrupted restore is done again from
/// its beginning.
fn take_over_ca(directory: &Path, data_dir: &Path) -> io::Result<()> {
    let (newest, ours) = (directory.join(CA), data_dir.join(CA));
    if !newest.exists() {
        return Ok(());
    }
    if ours.exists() {
        fs::rename(&ours, directory.join("ca-of-the-backup"))?;
    }
    fs::rename(newest, ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_backups_with_state_are_asked_the_newest_first() {
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
            damaged: false,
        };
        let all = [
            one("a", 1, true),
            one("c", 3, true),
            one("b", 2, true),
            one("d", 4, false),
        ];
        let ids = |chosen: usize| -> Vec<&str> {
            let later = later(&all, &all[chosen]);
            later.iter().map(|one| one.id.as_str()).collect()
        };
        assert_eq!(ids(0), ["c", "b"]);
        assert!(ids(1).is_empty());
    }

    #[test]
    fn people_end_by_default_and_nodes_do_not() {
        let by_default = RestoredCredentials {
            people: true,
            nodes: false,
        };
        assert!(!by_default.roles().contains(&Role::Node));
        assert_eq!(by_default.roles().len(), 3);
        let all_stay = RestoredCredentials {
            people: false,
            nodes: false,
        };
        assert!(all_stay.roles().is_empty());
    }
}
