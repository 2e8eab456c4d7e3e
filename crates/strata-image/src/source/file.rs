//! Local files as streams, for the two drivers that read them.
//!
//! A source is read by its path, or within a directory or file that the caller
//! has opened: then through no link, and never by its path again.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::{BlobStream, SourceError};

/// Each read is a trip to a blocking thread; it should be worth it.
const CHUNK: usize = 1 << 20;

/// Where a source is.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// As it was named, for messages; without `opened` also to open it.
    path: PathBuf,
    /// Its directory or file (`O_PATH` will do).
    opened: Option<Arc<OwnedFd>>,
}

impl Location {
    pub(super) fn named(path: PathBuf) -> Self {
        Self { path, opened: None }
    }

    pub(super) fn opened(opened: OwnedFd, path: PathBuf) -> Self {
        Self {
            path,
            opened: Some(Arc::new(opened)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn full(&self, below: &str) -> PathBuf {
        match below {
            "" => self.path.clone(),
            below => self.path.join(below),
        }
    }

    /// `length` bytes of a file, or to its end, from `from` on. The file is
    /// below the location, or with an empty path the location itself.
    pub(super) async fn stream(
        &self,
        below: &str,
        from: u64,
        length: Option<u64>,
    ) -> Result<BlobStream, SourceError> {
        let path = self.full(below);
        let mut file = self.open(below).await?;
        file.seek(io::SeekFrom::Start(from))
            .await
            .map_err(|source| failed(&path, source))?;
        let state = (file, path, length.unwrap_or(u64::MAX));
        Ok(
            stream::try_unfold(state, |(mut file, path, left)| async move {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                let read = (&mut file).take(left).read_buf(&mut chunk).await;
                let read = read.map_err(|source| failed(&path, source))? as u64;
                Ok((read > 0).then(|| (chunk.freeze(), (file, path, left - read))))
            })
            .boxed(),
        )
    }

    /// A small file, whole.
    pub(super) async fn small(&self, below: &str, limit: u64) -> Result<Bytes, SourceError> {
        let path = self.full(below);
        let file = self.open(below).await?;
        let mut bytes = Vec::new();
        file.take(limit + 1)
            .read_to_end(&mut bytes)
            .await
            .map_err(|source| failed(&path, source))?;
        if bytes.len() as u64 > limit {
            return Err(SourceError::TooLarge {
                what: path.display().to_string(),
                limit,
            });
        }
        Ok(bytes.into())
    }

    async fn open(&self, below: &str) -> Result<File, SourceError> {
        let (location, below) = (self.clone(), below.to_owned());
        let opening = tokio::task::spawn_blocking(move || location.open_blocking(&below));
        let opened = opening
            .await
            .map_err(|error| failed(&self.path, io::Error::other(error)))?;
        opened.map(File::from_std)
    }

    /// Files only: opening a pipe would wait for its other end.
    pub(super) fn open_blocking(&self, below: &str) -> Result<fs::File, SourceError> {
        let path = self.full(below);
        let file = self
            .look_up(below)
            .map_err(|source| failed(&path, source))?;
        let metadata = file.metadata().map_err(|source| failed(&path, source))?;
        if !metadata.is_file() {
            return Err(not_a_file(&path));
        }
        // What was looked at is what is read, whatever has the name by now.
        let this = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::File::open(this).map_err(|source| failed(&path, source))
    }

    /// A file, without access to it.
    fn look_up(&self, below: &str) -> io::Result<fs::File> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = match &self.opened {
            None => open(self.full(below), flags, Mode::empty()),
            Some(opened) if below.is_empty() => return opened.try_clone().map(Into::into),
            Some(opened) => openat2(opened, below, flags, Mode::empty(), WITHIN),
        };
        Ok(found?.into())
    }
}

/// Never out of the directory, and through no link.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

fn not_a_file(path: &Path) -> SourceError {
    SourceError::NotA {
        path: path.to_owned(),
        kind: "a file",
        detail: "it is something else".into(),
    }
}

pub(super) fn failed(path: &Path, source: io::Error) -> SourceError {
    if source.kind() == io::ErrorKind::NotFound {
        return SourceError::NotFound(path.display().to_string());
    }
    SourceError::Io {
        path: PathBuf::from(path),
        source,
    }
}
