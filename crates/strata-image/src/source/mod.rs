//! Where images come from. The seam is two calls: the manifest, and a blob from
//! a given byte on. Drivers are sibling files; everything about trust, retries
//! and resuming is the store's, once for all of them.

mod archive;
mod error;
mod file;
mod layout;
pub(crate) mod registry;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use archive::ArchiveSource;
pub(crate) use error::RetryAfter;
pub use error::SourceError;
pub use layout::LayoutSource;
pub use registry::{Credentials, Registries, RegistryOptions, RegistrySource};

use crate::manifest::{Descriptor, Document, Index, Manifest};
use crate::{Digest, Platform};

/// Indexes may name indexes; no tool nests them deeper than this.
const MAX_DEPTH: usize = 3;

/// Bytes of a blob as they come.
pub type BlobStream = BoxStream<'static, Result<Bytes, SourceError>>;

/// A blob, from some byte on.
pub struct Blob {
    /// The first byte of the stream: the requested one, or 0 when the source
    /// cannot start in the middle.
    pub from: u64,
    /// What follows. It may end early; the reader counts.
    pub stream: BlobStream,
}

/// The manifest of an image for one platform.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The digest of `bytes`, checked.
    pub digest: Digest,
    /// The manifest as it was written.
    pub bytes: Bytes,
    pub manifest: Manifest,
}

impl Resolved {
    /// From the bytes of a manifest, which nothing vouches for yet: its digest is
    /// what they are.
    pub fn read(bytes: Bytes) -> Result<Self, SourceError> {
        match Document::parse(&bytes).map_err(SourceError::Manifest)? {
            Document::Manifest(manifest) => Ok(Self {
                digest: Digest::of(&bytes),
                bytes,
                manifest,
            }),
            Document::Index(_) => Err(SourceError::NotFound("a manifest for one platform".into())),
        }
    }
}

/// Whose word a source is: what it shows to have once, it is believed to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The registry: host, and port when one is given.
    pub host: String,
    /// The repository, in full.
    pub repository: String,
}

/// A place that holds one image, perhaps for several platforms.
///
/// Both calls change nothing and may be repeated at any time, from several
/// tasks at once. Neither retries: errors hold whether that would help.
pub trait Source: Send + Sync {
    /// Whose word this is; none for files, of which everything is read again.
    fn origin(&self) -> Option<Origin> {
        None
    }

    /// The manifest for `platform`, its digest checked where the name or an
    /// index gives one.
    fn resolve<'a>(
        &'a self,
        platform: &'a Platform,
    ) -> BoxFuture<'a, Result<Resolved, SourceError>>;

    /// The bytes of a blob of that manifest, starting at `from` if the source
    /// can. Nothing is checked: digest and size are the reader's to check.
    fn blob<'a>(
        &'a self,
        blob: &'a Descriptor,
        from: u64,
    ) -> BoxFuture<'a, Result<Blob, SourceError>>;
}

/// Follows indexes down to a manifest; `fetch` gets a document by descriptor.
async fn descend<F>(
    mut bytes: Bytes,
    platform: &Platform,
    fetch: impl Fn(Descriptor) -> F,
) -> Result<Resolved, SourceError>
where
    F: Future<Output = Result<Bytes, SourceError>>,
{
    for _ in 0..MAX_DEPTH {
        match Document::parse(&bytes).map_err(SourceError::Manifest)? {
            Document::Manifest(manifest) => {
                return Ok(Resolved {
                    digest: Digest::of(&bytes),
                    bytes,
                    manifest,
                });
            }
            Document::Index(index) => {
                let entry = choose(&index, platform)?;
                bytes = fetch(entry.clone()).await?;
                check(&bytes, entry)?;
            }
        }
    }
    Err(SourceError::TooDeep)
}

fn choose<'a>(index: &'a Index, platform: &Platform) -> Result<&'a Descriptor, SourceError> {
    if let Some(entry) = platform.choose(&index.manifests) {
        return Ok(entry);
    }
    match index.manifests.as_slice() {
        // One image that does not declare its platform; its config does.
        [only] if only.platform.is_none() => Ok(only),
        entries => {
            let mut offered: Vec<String> = entries
                .iter()
                .filter_map(|entry| entry.platform.as_ref())
                .filter(|platform| platform.os != "unknown")
                .take(20)
                .map(ToString::to_string)
                .collect();
            offered.dedup();
            Err(SourceError::NoPlatform {
                wanted: platform.clone(),
                offered,
            })
        }
    }
}

/// Holds a document against its descriptor.
fn check(bytes: &[u8], expected: &Descriptor) -> Result<(), SourceError> {
    let found = Digest::of(bytes);
    if found != expected.digest || bytes.len() as u64 != expected.size {
        return Err(SourceError::Digest {
            expected: expected.digest,
            found,
        });
    }
    Ok(())
}
