//! Saving directories.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustic_core::repofile::SnapshotFile;
use rustic_core::{
    BackupOptions, IndexedTree, OpenStatus, Repository, SnapshotGroupCriterion, TreeId,
};
use strata_types::backup::Backup;

use crate::error::Result;
use crate::progress::Phase;
use crate::session::Session;
use crate::snapshot::{self, BackupInfo};
use crate::source::{Roots, Source};
use crate::tree;

/// What is to be saved, and what is reported of it.
#[derive(Clone, Debug, Default)]
pub struct BackupRequest {
    /// The directories, and where they are in the backup.
    pub sources: Vec<Source>,
    /// When the state that they hold was taken, in Unix milliseconds.
    pub taken_at_ms: i64,
    /// The machine that makes the backup. One of the same machine is what
    /// it is compared with.
    pub host: String,
    /// The operation that makes it. There is one backup of an operation,
    /// however often it is requested.
    pub operation: String,
    /// The volumes in it.
    pub volumes: Vec<String>,
    /// Whether Strata's own state is in it.
    pub has_state: bool,
    /// At most so many bytes a second go to the repository.
    pub bytes_per_second: Option<u64>,
}

/// Saves the sources, or finds that it was done already.
pub(crate) fn run(session: &Session, ask: &BackupRequest) -> Result<Backup> {
    let taken_at = Timestamp::from_millisecond(ask.taken_at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let repository = session.open_or_make()?;
    // Before the index is read: what it names must stay.
    let lock = session.lock(&repository, false)?;
    let snapshots = session.snapshots(&repository)?.readable;
    if let Some(done) = snapshots
        .iter()
        .find(|one| snapshot::is_of(one, &ask.operation))
    {
        return Ok(snapshot::backup(done));
    }
    let parent = parent(&snapshots, &ask.host);
    // A first backup is measured beforehand; the next will be about as large.
    let expected = parent
        .map(|parent| snapshot::backup(parent).bytes)
        .filter(|size| *size > 0);
    let roots = Roots::new(
        ask.sources.clone(),
        taken_at,
        expected.is_none(),
        session.gate.clone(),
        session.reporter.clone(),
    )?;
    let new = new_snapshot(ask, taken_at);
    let saved = save(session, repository, parent, &roots, new, expected)?;
    drop(lock);
    Ok(snapshot::backup(&saved))
}

fn save(
    session: &Session,
    repository: Repository<OpenStatus>,
    parent: Option<&SnapshotFile>,
    roots: &Roots,
    new: SnapshotFile,
    expected: Option<u64>,
) -> Result<SnapshotFile> {
    let indexed = session.told("reading the index", repository.to_indexed_ids())?;
    // The engine does not store a directory again that is as in the parent, also
    // where the parent's own is lost.
    let parent = parent.filter(|parent| is_whole(session, &indexed, parent.tree));
    let options = options(parent);
    session.reporter.enter(Phase::Saving, expected);
    let saved = indexed.archive(&options, roots, new, &roots.places());
    let saved = session.told("saving", saved)?;
    session.gate.settle()?;
    session.reporter.done();
    Ok(saved)
}

/// Whether all directories of a tree are there.
fn is_whole<S: IndexedTree>(session: &Session, repository: &Repository<S>, root: TreeId) -> bool {
    let mut pending = vec![root];
    while let Some(tree) = pending.pop() {
        match tree::read(session, repository, tree) {
            Ok(tree) => pending.extend(tree.nodes.iter().filter_map(|node| node.subtree)),
            Err(_) => return false,
        }
    }
    true
}

/// The latest of the same machine, or else the latest of all: what is in it
/// need not be read again.
fn parent<'a>(snapshots: &'a [SnapshotFile], host: &str) -> Option<&'a SnapshotFile> {
    let ours = || snapshots.iter().filter(|one| snapshot::is_ours(one));
    let latest = |a: &&SnapshotFile, b: &&SnapshotFile| a.time.cmp(&b.time);
    ours()
        .filter(|one| one.hostname == host)
        .max_by(latest)
        .or_else(|| ours().max_by(latest))
}

fn options(parent: Option<&SnapshotFile>) -> BackupOptions {
    let mut options = BackupOptions::default();
    options.parent_opts.group_by = Some(SnapshotGroupCriterion::new());
    match parent {
        Some(parent) => options.parent_opts.parents = vec![parent.id.to_hex().to_string()],
        None => options.parent_opts.force = true,
    }
    options
}

fn new_snapshot(ask: &BackupRequest, taken_at: Timestamp) -> SnapshotFile {
    let about = BackupInfo {
        operation: &ask.operation,
        volumes: &ask.volumes,
        has_state: ask.has_state,
    };
    let mut new = SnapshotFile {
        time: taken_at.to_zoned(TimeZone::UTC),
        hostname: ask.host.clone(),
        username: "strata".to_owned(),
        program_version: format!("strata {}", env!("CARGO_PKG_VERSION")),
        ..SnapshotFile::default()
    };
    for tag in about.tags() {
        new.tags.add(tag);
    }
    new
}
