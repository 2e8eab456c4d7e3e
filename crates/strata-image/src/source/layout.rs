//! `oci:PATH[:tag]`: a directory with `index.json` and `blobs/`, as skopeo,
//! umoci and buildah write it.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::file::Location;
use super::{Blob, Resolved, Source, SourceError, check, choose, descend};
use crate::manifest::{Descriptor, Document, Index, MAX_JSON, ManifestError};
use crate::{Digest, Platform};

const TAG: &str = "org.opencontainers.image.ref.name";

/// Where a blob is in a layout.
fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// An image in a layout directory.
#[derive(Clone, Debug)]
pub struct LayoutSource {
    location: Location,
    tag: Option<String>,
}

impl LayoutSource {
    /// The image with this tag, or the only one. Nothing is looked at yet.
    pub fn new(path: impl Into<PathBuf>, tag: Option<String>) -> Self {
        Self {
            location: Location::named(path.into()),
            tag,
        }
    }

    /// The same in a directory that is open already; no link in it is
    /// followed. The path is for messages alone.
    pub fn within(directory: OwnedFd, path: impl Into<PathBuf>, tag: Option<String>) -> Self {
        Self {
            location: Location::opened(directory, path.into()),
            tag,
        }
    }

    fn path(&self) -> &Path {
        self.location.path()
    }

    fn not_a(&self, detail: impl Into<String>) -> SourceError {
        SourceError::NotA {
            path: self.path().to_owned(),
            kind: "an OCI layout",
            detail: detail.into(),
        }
    }

    /// The entry of `index.json`. Without a tag it must be the only one, or
    /// the only one for this platform.
    fn entry<'a>(
        &self,
        index: &'a Index,
        platform: &Platform,
    ) -> Result<&'a Descriptor, SourceError> {
        if let Some(tag) = &self.tag {
            let tagged = |entry: &&Descriptor| entry.annotations.get(TAG) == Some(tag);
            let same: Vec<_> = index.manifests.iter().filter(tagged).cloned().collect();
            let entry = match same.as_slice() {
                [only] => Some(only),
                several => platform.choose(several),
            };
            let entry = entry.and_then(|entry| index.manifests.iter().find(|e| *e == entry));
            return entry.ok_or_else(|| {
                SourceError::NotFound(format!("tag {tag} in {}", self.path().display()))
            });
        }
        match index.manifests.as_slice() {
            [] => Err(self.not_a("its index is empty")),
            [only] => Ok(only),
            several if several.iter().all(|e| !e.annotations.contains_key(TAG)) => {
                choose(index, platform)
            }
            _ => Err(self.ambiguous(index)),
        }
    }

    fn ambiguous(&self, index: &Index) -> SourceError {
        let names = index
            .manifests
            .iter()
            .filter_map(|e| e.annotations.get(TAG));
        SourceError::Ambiguous {
            path: self.path().to_owned(),
            names: names.take(20).cloned().collect(),
        }
    }
}

impl Source for LayoutSource {
    fn resolve<'a>(
        &'a self,
        platform: &'a Platform,
    ) -> BoxFuture<'a, Result<Resolved, SourceError>> {
        async move {
            let index = self.location.small("index.json", MAX_JSON).await?;
            let index = match Document::parse(&index) {
                Ok(Document::Index(index)) => index,
                Ok(Document::Manifest(_)) => return Err(self.not_a("its index is a manifest")),
                Err(ManifestError::Json(error)) => return Err(self.not_a(error.to_string())),
                Err(error) => return Err(SourceError::Manifest(error)),
            };
            let entry = self.entry(&index, platform)?;
            let fetch = |entry: Descriptor| async move {
                self.location
                    .small(&blob_path(&entry.digest), MAX_JSON)
                    .await
            };
            let bytes = fetch(entry.clone()).await?;
            check(&bytes, entry)?;
            descend(bytes, platform, fetch).await
        }
        .boxed()
    }

    fn blob<'a>(
        &'a self,
        blob: &'a Descriptor,
        from: u64,
    ) -> BoxFuture<'a, Result<Blob, SourceError>> {
        async move {
            let stream = self
                .location
                .stream(&blob_path(&blob.digest), from, None)
                .await?;
            Ok(Blob { from, stream })
        }
        .boxed()
    }
}
