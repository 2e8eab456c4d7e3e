//! Local files as streams, for the two drivers that read them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::{BlobStream, SourceError};

/// Each read is a trip to a blocking thread; it should be worth it.
const CHUNK: usize = 1 << 20;

/// `length` bytes of a file, or to its end, from `from` on.
pub(super) async fn stream(
    path: &Path,
    from: u64,
    length: Option<u64>,
) -> Result<BlobStream, SourceError> {
    let path = path.to_owned();
    let mut file = open(&path).await?;
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
pub(super) async fn small(path: &Path, limit: u64) -> Result<Bytes, SourceError> {
    let file = open(path).await?;
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(|source| failed(path, source))?;
    if bytes.len() as u64 > limit {
        return Err(SourceError::TooLarge {
            what: path.display().to_string(),
            limit,
        });
    }
    Ok(bytes.into())
}

/// Files only: opening a pipe would wait for its other end.
async fn open(path: &Path) -> Result<File, SourceError> {
    let metadata = tokio::fs::metadata(path)
        .await
        .map_err(|source| failed(path, source))?;
    if !metadata.is_file() {
        return Err(not_a_file(path));
    }
    File::open(path)
        .await
        .map_err(|source| failed(path, source))
}

/// The same for blocking readers.
pub(super) fn open_blocking(path: &Path) -> Result<fs::File, SourceError> {
    let metadata = fs::metadata(path).map_err(|source| failed(path, source))?;
    if !metadata.is_file() {
        return Err(not_a_file(path));
    }
    fs::File::open(path).map_err(|source| failed(path, source))
}

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
