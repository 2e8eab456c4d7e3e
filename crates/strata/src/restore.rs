//! `strata restore`: begins again on an empty machine, from a repository of
//! backups alone. No daemon runs meanwhile; afterwards `strata up` finds
//! records, identities and volumes as they were, and its instances are started
//! where there is room.
//!
//! Everything is done again when it is interrupted: each part is whole or not
//! there.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use strata_backup::{Progress, Repository, RestoreOptions, Status};
use strata_cli::{AUDIT, Exit, Failure, Global, Result};
use strata_server::{AdoptOptions, StoreEngine};
use strata_storage::StoragePool;
use strata_store::{Embedded, EmbeddedOptions, Sealed, StoreKey};
use strata_types::backup::Backup;
use strata_types::{Error, Label};
use tokio_util::sync::CancellationToken;

use crate::args::{Listen, NodeListen, RestoreArguments};
use crate::config::{BackupTable, Settings};
use crate::daemon::{make_private, unexpected};
use crate::restore_credentials::{self, RestoredCredentials};
use crate::{lock, new_store, restore_audit};

/// Marker of a restore that started and did not complete.
const RESTORE_MARKER: &str = "restoring";

pub(crate) async fn run(global: &Global, arguments: RestoreArguments) -> Result {
    let (listen, node) = (Listen::default(), NodeListen::default());
    let settings = Settings::new(global, &arguments.common, &listen, &node)?;
    let data_dir = settings.data_dir.clone();
    make_private(&data_dir).map_err(unexpected)?;
    let _lock = lock::take(&data_dir)?;
    check_empty(&data_dir)?;
    check_store(&settings)?;
    let table = BackupTable::of(
        arguments.repository.clone(),
        arguments.password_file.clone(),
        settings.backup.clone(),
    );
    let config = table
        .found(&data_dir)
        .map_err(|why| Failure::new(Exit::Usage, "cannot use the repository").because(why))?;
    let repository = Repository::new(config);
    let backup = repository.get(&arguments.backup).await.map_err(refused)?;
    say(&format!(
        "restoring backup {} of {} into {}",
        short(&backup.id),
        backup.host,
        data_dir.display()
    ));
    if !backup.has_state {
        let what = format!("backup {} contains no control-plane state", backup.id);
        return Err(Failure::new(Exit::Refused, what)
            .hint("restore its volumes with `strata backup restore`"));
    }
    fs::write(data_dir.join(RESTORE_MARKER), &backup.id).map_err(unexpected)?;
    new_store::forget(&data_dir).map_err(unexpected)?;
    restore_state(&repository, &backup, &settings, &arguments).await?;
    let volumes = backup.volumes.len();
    if volumes > 0 {
        let Some(config) = settings.storage.clone() else {
            let what = "the backup has volumes, and the pool is disabled in [storage]";
            return Err(Failure::new(Exit::Usage, what));
        };
        let pool = StoragePool::open(config).await.map_err(refused)?;
        for name in &backup.volumes {
            restore_volume(&repository, &pool, &backup.id, name).await?;
        }
    }
    fs::remove_file(data_dir.join(RESTORE_MARKER)).map_err(unexpected)?;
    RestoredCredentials::of(&arguments).tell();
    say(&format!(
        "restored the state and {volumes} volumes; start it: strata up --data-dir {}",
        data_dir.display()
    ));
    Ok(())
}

/// Nothing that is there is written over, but what an earlier try left.
fn check_empty(data_dir: &Path) -> Result {
    if data_dir.join(RESTORE_MARKER).exists() {
        return Ok(());
    }
    for name in ["store", "ca", "pool"] {
        if data_dir.join(name).exists() {
            let what = format!("{} is not empty: it has {name}", data_dir.display());
            return Err(Failure::new(Exit::Refused, what).hint(
                "restore into another directory with --data-dir, or move its store, ca and pool away",
            ));
        }
    }
    Ok(())
}

/// A store that others share is not written over from here.
fn check_store(settings: &Settings) -> Result {
    match settings.control.store.engine {
        StoreEngine::Embedded(_) => Ok(()),
        StoreEngine::Etcd(_) => Err(Failure::new(
            Exit::Usage,
            "the configuration keeps records in etcd, and a restore writes them to a file",
        )
        .hint("restore without [store], then move them: strata store export, strata store import")),
    }
}

/// Refuses a data directory whose restore did not end.
pub(crate) fn check_whole(data_dir: &Path) -> Result {
    match data_dir.join(RESTORE_MARKER).exists() {
        false => Ok(()),
        true => Err(Failure::new(
            Exit::Refused,
            format!("a restore into {} was interrupted", data_dir.display()),
        )
        .hint("run strata restore again to resume it")),
    }
}

/// Records, their key, CA, tokens and the audit log.
async fn restore_state(
    repository: &Repository,
    backup: &Backup,
    settings: &Settings,
    arguments: &RestoreArguments,
) -> Result {
    let data_dir = settings.data_dir.as_path();
    let key_file = settings.control.store.key_file.clone();
    let directory = data_dir.join("backup/restored-state");
    remove(&directory)?;
    let above = directory.parent().unwrap_or(data_dir);
    make_private(above).map_err(unexpected)?;
    let ask = RestoreOptions {
        from: "/state".into(),
        to: directory.clone(),
    };
    let restored = repository.restore(&backup.id, ask, reporter("state"), CancellationToken::new());
    restored.await.map_err(refused)?;
    for name in ["ca", "tokens.json"] {
        let (from, to) = (directory.join(name), data_dir.join(name));
        if from.exists() {
            remove(&to)?;
            fs::rename(from, to).map_err(unexpected)?;
        }
    }
    // It may be kept on another disk.
    let key = StoreKey::read(&directory.join("store.key")).map_err(unexpected)?;
    if let Some(key) = key {
        remove(&key_file)?;
        key.write(&key_file).map_err(unexpected)?;
    }
    let store = data_dir.join("store");
    // What an earlier try had begun, it may have left half written.
    remove(&store)?;
    let opened =
        tokio::task::spawn_blocking(move || Embedded::open(&store, &EmbeddedOptions::default()));
    let store = opened.await.map_err(unexpected)?.map_err(unexpected)?;
    let records = tokio::fs::File::open(directory.join("records")).await;
    let mut records = tokio::io::BufReader::new(records.map_err(unexpected)?);
    let imported = strata_store::import(&store, &mut records).await;
    imported.map_err(unexpected)?;
    let store = Sealed::open(Arc::new(store), &key_file).await;
    let store = store.map_err(unexpected)?;
    let newest = data_dir.join("backup/newest-state");
    let carried = restore_credentials::carry(repository, backup, data_dir, &newest, &store).await?;
    let from = if carried { &newest } else { &directory };
    restore_audit::put_back(&from.join(AUDIT), data_dir)?;
    remove(&newest)?;
    restore_credentials::tell_rotation(data_dir)?;
    let ending = RestoredCredentials::of(arguments);
    ending.end_tokens(data_dir)?;
    let how = AdoptOptions {
        take_over: arguments.take_over,
        revoke: ending.roles(),
    };
    let begun = strata_server::adopt_restored_store(Arc::new(store), &how).await;
    begun.map_err(refused)?;
    remove(&directory)
}

async fn restore_volume(
    repository: &Repository,
    pool: &StoragePool,
    id: &str,
    name: &str,
) -> Result {
    let label: Label = name.parse().map_err(unexpected)?;
    // The same backup again finds what it has put in place already.
    let tag = format!("restore-{}", short(id));
    pool.unstage_volume(&tag, &label).await.map_err(refused)?;
    let staged = pool.stage(&tag, &label).await.map_err(refused)?;
    let ask = RestoreOptions {
        from: format!("/volumes/{name}"),
        to: staged,
    };
    let restored = repository.restore(id, ask, reporter(name), CancellationToken::new());
    restored.await.map_err(refused)?;
    pool.adopt(&tag, &label, true).await.map_err(refused)?;
    pool.unstage(&tag).await.map_err(refused)
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

pub(crate) fn remove(path: &Path) -> Result {
    let gone = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    gone.map_err(|error| {
        Failure::new(
            Exit::Unexpected,
            format!("cannot remove {}: {error}", path.display()),
        )
    })
}

pub(crate) fn refused(error: impl Into<Error>) -> Failure {
    Failure::from(error.into())
}

/// Progress goes to stderr; stdout is for data.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A progress line, on a terminal only.
struct ProgressLine(String);

pub(crate) fn reporter(what: &str) -> Arc<dyn Progress> {
    Arc::new(ProgressLine(what.to_owned()))
}

impl Progress for ProgressLine {
    fn report(&self, status: &Status) {
        if !io::stderr().is_terminal() {
            return;
        }
        let (what, files, megabytes) = (&self.0, status.files, status.bytes / 1_000_000);
        let left = status
            .remaining
            .map(|left| format!(", {} s left", left.as_secs()));
        let left = left.unwrap_or_default();
        let _ = write!(
            io::stderr(),
            "\r{what}: {}, {files} files, {megabytes} MB{left}\x1b[K\r",
            status.phase
        );
    }
}
