//! One blob: from the source into its place, whole and checked.
//!
//! Bytes go to a partial file that a cut leaves behind; the next attempt, or
//! the next pull, requests only the rest of the source. Whatever was there
//! before is hashed again, so the digest is always that of the whole file.
//! Hashing and writing are on a blocking thread, beside the connection.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use rustix::fs::XattrFlags;
use tokio::sync::mpsc;

use super::budget::{DiskReserve, DownloadRoom};
use super::flight::{WorkItem, WorkPermit};
use super::progress::{Phase, Reporter};
use super::provenance::BlobProvenance;
use super::retry::Retries;
use super::{Inner, StoreError};
use crate::manifest::Descriptor;
use crate::{Digest, Hasher, Source, SourceError};

/// Chunks between the connection and the disk.
const CHANNEL_CAPACITY: usize = 8;

/// Where one download is written: the partial file of the blob, which a later
/// one goes on with, or a file of its own while another source sends the same
/// blob. So a source that never comes to an end blocks no other.
struct Target {
    path: PathBuf,
    /// Held to the end, also by a writer that no caller waits for any more.
    _turns: Vec<WorkPermit>,
    temporary: bool,
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.temporary {
            // It is in its place, or of no use.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How an attempt ended that did not bring the blob.
enum Failed {
    /// The source failed after this many new bytes.
    Source(SourceError, u64),
    /// What we had from before was not what the source has: it is gone now.
    BadStart,
    /// No use to go on.
    Final(StoreError),
}

impl Inner {
    /// Brings a blob into the store, if it is not there; if it is, the source
    /// has to show that it has it too. Callers of the same blob from the same
    /// source wait for each other.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        source: &dyn Source,
        blob: &Descriptor,
        reporter: &Reporter,
    ) -> Result<(), StoreError> {
        let name = Digest::of(sender(source).as_bytes());
        let work = WorkItem::Blob(blob.digest);
        let turn = self.flights.turn_of(name, work).await;
        if self.has_blob(blob)? {
            return self.show(source, blob).await;
        }
        let target = Arc::new(self.target(blob, turn));
        let mut retries = Retries::new(&self.options);
        let mut restarted = false;
        loop {
            let (error, gained) = match self.attempt(source, blob, reporter, &target).await {
                Ok(()) => {
                    self.provenance
                        .note_sent(source.origin().as_ref(), blob.digest);
                    return Ok(());
                }
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Source(error, gained)) => (error, gained),
                Err(Failed::BadStart) if !restarted => {
                    restarted = true;
                    continue;
                }
                Err(Failed::BadStart) => {
                    return Err(SourceError::Truncated {
                        digest: blob.digest,
                        got: 0,
                        size: blob.size,
                    }
                    .into());
                }
            };
            let Some(wait) = retries.after(&error, gained) else {
                return Err(error.into());
            };
            tracing::debug!(blob = %blob.digest, %error, ?wait, "blob download retried");
            tokio::time::sleep(wait).await;
        }
    }

    fn target(&self, blob: &Descriptor, turn: WorkPermit) -> Target {
        let alone = self.flights.try_turn(WorkItem::Blob(blob.digest));
        let temporary = alone.is_none();
        Target {
            path: match temporary {
                true => self.paths.new_tmp(),
                false => self.paths.partial(&blob.digest),
            },
            _turns: alone.into_iter().chain([turn]).collect(),
            temporary,
        }
    }

    /// Has a source show that it has a blob that is here already: see
    /// [`super::provenance`].
    pub(super) async fn show(
        &self,
        source: &dyn Source,
        blob: &Descriptor,
    ) -> Result<(), StoreError> {
        let origin = source.origin();
        let shown = self.provenance.shown(origin.as_ref(), &blob.digest);
        if shown == BlobProvenance::ByRepository {
            return Ok(());
        }
        let mut retries = Retries::new(&self.options);
        loop {
            let error = match self.show_once(source, blob, shown).await {
                Ok(()) => {
                    self.provenance.note_sent(origin.as_ref(), blob.digest);
                    return Ok(());
                }
                Err(StoreError::Source(error)) => error,
                Err(error) => return Err(error),
            };
            let Some(wait) = retries.after(&error, 0) else {
                return Err(error.into());
            };
            tracing::debug!(blob = %blob.digest, %error, ?wait, "blob download retried");
            tokio::time::sleep(wait).await;
        }
    }

    async fn show_once(
        &self,
        source: &dyn Source,
        blob: &Descriptor,
        shown: BlobProvenance,
    ) -> Result<(), StoreError> {
        let mut sent = source.blob(blob, 0).await?;
        if shown == BlobProvenance::ByRegistry {
            return Ok(());
        }
        let (mut hasher, mut got) = (Hasher::default(), 0);
        while let Some(bytes) = sent.stream.next().await {
            let bytes = bytes?;
            got += bytes.len() as u64;
            if got > blob.size {
                let (digest, size) = (blob.digest, blob.size);
                return Err(StoreError::TooLong { digest, size });
            }
            hasher.update(&bytes);
        }
        if got < blob.size {
            return Err(SourceError::Truncated {
                digest: blob.digest,
                got,
                size: blob.size,
            }
            .into());
        }
        let found = hasher.finish();
        match found == blob.digest {
            true => Ok(()),
            false => Err(StoreError::Digest {
                expected: blob.digest,
                found,
            }),
        }
    }

    /// Whether the blob is there. One of another size than in this manifest is
    /// not the blob that the manifest means.
    pub(super) fn has_blob(&self, blob: &Descriptor) -> Result<bool, StoreError> {
        let path = self.paths.blob(&blob.digest);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() > blob.size => Err(StoreError::TooLong {
                digest: blob.digest,
                size: blob.size,
            }),
            Ok(metadata) if metadata.len() < blob.size => Err(SourceError::Truncated {
                digest: blob.digest,
                got: metadata.len(),
                size: blob.size,
            }
            .into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        source: &dyn Source,
        blob: &Descriptor,
        reporter: &Reporter,
        target: &Arc<Target>,
    ) -> Result<(), Failed> {
        let path = target.path.clone();
        // What another source sent implies nothing about this one, and one that
        // is too long was never part of this blob.
        let had = match sent_by(&path, source) {
            true => fs::metadata(&path).map_or(0, |metadata| metadata.len()),
            false => 0,
        };
        let had = if had > blob.size { 0 } else { had };
        let (start, mut stream) = if had == blob.size && had > 0 {
            (had, futures_util::stream::empty().boxed())
        } else {
            match source.blob(blob, had).await {
                Ok(blob) => (blob.from, blob.stream),
                // What we have is beyond what the source has.
                Err(SourceError::Status { status: 416, .. }) => {
                    fs::remove_file(&path)
                        .map_err(StoreError::io("remove", &path))
                        .map_err(Failed::Final)?;
                    return Err(Failed::BadStart);
                }
                Err(error) => return Err(Failed::Source(error, 0)),
            }
        };
        let (chunks, taken) = mpsc::channel(CHANNEL_CAPACITY);
        let held = Arc::clone(target);
        let (sender, reserve) = (sender(source), self.options.reserve);
        let writer =
            tokio::task::spawn_blocking(move || write(&held.path, start, &sender, reserve, taken));
        let mut got = start;
        reporter.layer(blob.digest, Phase::Downloading, got);
        let failed = loop {
            match stream.next().await {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(bytes)) => {
                    got += bytes.len() as u64;
                    // The writer's own error is what counts then.
                    if got > blob.size || chunks.send(bytes).await.is_err() {
                        break None;
                    }
                    reporter.layer(blob.digest, Phase::Downloading, got);
                }
            }
        };
        drop((chunks, stream));
        let written = writer.await.map_err(|error| Failed::Final(error.into()))?;
        let outcome = match (written, failed) {
            (Err(source), _) => Err(Failed::Final(StoreError::io("write", &path)(source))),
            (Ok(_), Some(error)) => return Err(Failed::Source(error, got - start)),
            (Ok(found), None) => self.check_digest(blob, start, got, found),
        };
        match outcome {
            Err(Failed::Source(..)) => outcome,
            // What is bad or does not fit on the disk is not kept.
            Err(failed) => {
                let _ = fs::remove_file(&path);
                Err(failed)
            }
            Ok(()) => self.place(blob, &path).map_err(Failed::Final),
        }
    }

    fn check_digest(
        &self,
        blob: &Descriptor,
        start: u64,
        got: u64,
        found: Digest,
    ) -> Result<(), Failed> {
        let (digest, size) = (blob.digest, blob.size);
        if got > size {
            return Err(Failed::Final(StoreError::TooLong { digest, size }));
        }
        if got < size {
            let truncated = SourceError::Truncated { digest, got, size };
            return Err(Failed::Source(truncated, got - start));
        }
        if found == digest {
            return Ok(());
        }
        if start > 0 {
            return Err(Failed::BadStart);
        }
        Err(Failed::Final(StoreError::Digest {
            expected: digest,
            found,
        }))
    }

    fn place(&self, blob: &Descriptor, partial: &Path) -> Result<(), StoreError> {
        let path = self.paths.blob(&blob.digest);
        self.note_unsynced(WorkItem::Blob(blob.digest))
            .and_then(|()| fs::rename(partial, &path))
            .map_err(StoreError::io("keep", &path))
    }

    /// A small document that is at hand and checked already.
    pub(super) fn keep(&self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        let (path, tmp) = (self.paths.blob(&digest), self.paths.new_tmp());
        self.note_unsynced(WorkItem::Blob(digest))
            .and_then(|()| fs::write(&tmp, bytes))
            .and_then(|()| fs::rename(&tmp, &path))
            .map_err(StoreError::io("keep", &path))
    }
}

/// What records for a partial file which source sent it.
const SENDER: &str = "trusted.strata.sender";
/// The longest that is looked at.
const MAX_SENDER: usize = 512;

fn sender(source: &dyn Source) -> String {
    let sender = source.origin().map_or_else(
        || "a file".to_owned(),
        |origin| format!("{}/{}", origin.host, origin.repository),
    );
    // Names of repositories are shorter; a digest is as good as a long one.
    match sender.len() > MAX_SENDER {
        true => Digest::of(sender.as_bytes()).to_string(),
        false => sender,
    }
}

/// Whether this source sent the beginning of a blob. Where the file system
/// cannot tell, it counts as not sent.
fn sent_by(path: &Path, source: &dyn Source) -> bool {
    let mut value = [0; MAX_SENDER];
    let length = rustix::fs::lgetxattr(path, SENDER, &mut value);
    length.is_ok_and(|length| &value[..length] == sender(source).as_bytes())
}

/// Appends what comes to the first `start` bytes of the file; the digest of
/// all of it.
fn write(
    path: &Path,
    start: u64,
    sender: &str,
    reserve: DiskReserve,
    mut chunks: mpsc::Receiver<Bytes>,
) -> io::Result<Digest> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)?;
    file.set_len(start)?;
    // Without it the download is not resumed, and that is all.
    let _ = rustix::fs::fsetxattr(&file, SENDER, sender.as_bytes(), XattrFlags::empty());
    let mut hasher = Hasher::default();
    hash(&mut file, &mut hasher)?;
    file.seek(SeekFrom::Start(start))?;
    let mut room = DownloadRoom::new(reserve, path);
    while let Some(chunk) = chunks.blocking_recv() {
        room.charge(chunk.len())?;
        file.write_all(&chunk)?;
        hasher.update(&chunk);
    }
    Ok(hasher.finish())
}

fn hash(file: &mut File, hasher: &mut Hasher) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            length => hasher.update(&buffer[..length]),
        }
    }
}
