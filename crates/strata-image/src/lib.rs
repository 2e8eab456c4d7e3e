//! Images: what a reference means, where its content comes from, where it is
//! kept, and how a layer becomes a directory.
//!
//! The way of an image: a [`Reference`] opens a [`Source`] (registry, layout
//! directory or archive); the [`Store`] requests the manifest of this platform,
//! fetches the blobs it lacks, checks every one of them against digest and
//! size, and unpacks each layer once into a directory that serves as a lower of
//! an overlay. Nothing that a source sends is trusted: names are parsed, sizes
//! are bounded, bytes are hashed, and layers are extracted beneath their own
//! root only.

#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod manifest;
mod platform;
mod shares;
mod source;
mod store;
mod tar;
mod unpack;

pub use manifest::{
    Descriptor, Healthcheck, ImageConfig, Manifest, ManifestError, RootFs, RunConfig,
};
pub use platform::Platform;
pub use shares::{Share, Shares};
pub use source::{
    ArchiveSource, Blob, BlobStream, Credentials, LayoutSource, Origin, Registries,
    RegistryOptions, RegistrySource, Resolved, Source, SourceError,
};
pub use store::{
    DiskReserve, Image, ImageHold, LayerProgress, Phase, Progress, PruneGoal, Pruned, PullOptions,
    ReserveReached, ShareReached, Store, StoreError, StoreOptions,
};
pub use strata_types::image::{
    Digest, DigestError, Hasher, Reference, ReferenceError, RegistryReference,
};
pub use tar::TarError;
pub use unpack::{Limits, UnpackError, Unpacked, unpack};
