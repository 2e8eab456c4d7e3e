//! The JSON of the image specification, as far as it is needed to run an
//! image: both the OCI and the Docker v2 spelling of the media types.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Digest, Platform};

/// No tool writes larger ones, and they are held in memory.
pub(crate) const MAX_JSON: u64 = 4 << 20;
/// An overlay takes up to 500 lowers; builders stop at 127 layers.
const MAX_LAYERS: usize = 500;
/// The most environment variables; images have some dozens.
const MAX_VARIABLES: usize = 10_000;
/// All layers together, packed: more than any honest image has, and less than
/// a disk. A pull is held to the sizes that its manifest names.
const MAX_PACKED: u64 = 32 << 30;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Why a document is not one that we can run.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON of this shape.
    #[error("cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A media type of another kind of thing.
    #[error("is of type {0:?}, which is not a container image")]
    MediaType(String),
    /// The old signed manifest, which names no config.
    #[error("is a schema 1 manifest, which is obsolete: push the image again")]
    SchemaOne,
    /// A layer that we cannot unpack.
    #[error("has a layer of type {0:?}, which cannot be unpacked here")]
    LayerType(String),
    #[error("has {0} layers, more than {MAX_LAYERS}")]
    TooManyLayers(usize),
    /// Too much to download.
    #[error("has layers of {0} bytes in all, more than {MAX_PACKED}")]
    TooLarge(u64),
    /// Config and manifest do not belong together.
    #[error("has {layers} layers, but its config lists {diff_ids}")]
    LayerCount { layers: usize, diff_ids: usize },
    /// More than a program could be started with.
    #[error("has {0} environment variables, more than {MAX_VARIABLES}")]
    TooManyVariables(usize),
    /// No path has one.
    #[error("has a NUL character in its working directory")]
    WorkingDirectory,
}

/// Content by what it is, its digest and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// How many bytes.
    pub size: u64,
    /// For which platform, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Notes; a layout keeps its tags here.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// A descriptor without notes.
    pub fn new(media_type: impl Into<String>, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.into(),
            digest,
            size,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// An image: its config and its layers, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

/// Images for several platforms.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Index {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) manifests: Vec<Descriptor>,
}

/// One of the two, distinguished by their declared type or, failing that, by
/// content.
#[derive(Debug)]
pub(crate) enum Document {
    Manifest(Manifest),
    Index(Index),
}

impl Document {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Probe {
            #[serde(default)]
            media_type: String,
            schema_version: Option<u32>,
            manifests: Option<serde::de::IgnoredAny>,
            config: Option<serde::de::IgnoredAny>,
        }
        let probe: Probe = serde_json::from_slice(bytes)?;
        if probe.schema_version == Some(1) {
            return Err(ManifestError::SchemaOne);
        }
        match (probe.media_type.as_str(), &probe.manifests, &probe.config) {
            (OCI_INDEX | DOCKER_INDEX, ..) | ("", Some(_), None) => {
                Ok(Self::Index(serde_json::from_slice(bytes)?))
            }
            (OCI_MANIFEST | DOCKER_MANIFEST, ..) | ("", None, Some(_)) => {
                let manifest: Manifest = serde_json::from_slice(bytes)?;
                manifest.check()?;
                Ok(Self::Manifest(manifest))
            }
            (other, ..) => Err(ManifestError::MediaType(other.chars().take(100).collect())),
        }
    }
}

impl Manifest {
    fn check(&self) -> Result<(), ManifestError> {
        if self.layers.len() > MAX_LAYERS {
            return Err(ManifestError::TooManyLayers(self.layers.len()));
        }
        let sizes = self.layers.iter().map(|layer| layer.size);
        let packed = sizes.fold(0, u64::saturating_add);
        if packed > MAX_PACKED {
            return Err(ManifestError::TooLarge(packed));
        }
        // The extractor distinguishes compressions by their first bytes; the
        // type only distinguishes a layer from what is none (a Helm chart, a
        // model).
        for layer in &self.layers {
            let known = layer.media_type.starts_with(OCI_LAYER)
                || layer
                    .media_type
                    .starts_with("application/vnd.oci.image.layer.nondistributable.v1.tar")
                || layer
                    .media_type
                    .starts_with("application/vnd.docker.image.rootfs.");
            if !known || layer.media_type.ends_with("+encrypted") {
                return Err(ManifestError::LayerType(
                    layer.media_type.chars().take(100).collect(),
                ));
            }
        }
        Ok(())
    }
}

/// What an image configures for its run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// For which platform it was made.
    #[serde(flatten)]
    pub platform: Platform,
    /// When it was created, if that is present and readable.
    #[serde(default, deserialize_with = "or_none")]
    pub created: Option<jiff::Timestamp>,
    /// How to run it.
    #[serde(default, deserialize_with = "or_default")]
    pub config: RunConfig,
    /// What its layers unpack to.
    #[serde(default, deserialize_with = "or_default")]
    pub rootfs: RootFs,
}

impl ImageConfig {
    pub(crate) fn parse(bytes: &[u8], manifest: &Manifest) -> Result<Self, ManifestError> {
        let config: Self = serde_json::from_slice(bytes)?;
        if config.rootfs.diff_ids.len() != manifest.layers.len() {
            return Err(ManifestError::LayerCount {
                layers: manifest.layers.len(),
                diff_ids: config.rootfs.diff_ids.len(),
            });
        }
        let run = &config.config;
        if run.env.len() > MAX_VARIABLES {
            return Err(ManifestError::TooManyVariables(run.env.len()));
        }
        if run.working_dir.contains('\0') {
            return Err(ManifestError::WorkingDirectory);
        }
        Ok(config)
    }
}

/// The digests of the unpacked layers, the lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// Digests of the layers' tars before compression.
    #[serde(default, deserialize_with = "or_default")]
    pub diff_ids: Vec<Digest>,
}

/// How to run an image. Docker writes `null` for what is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunConfig {
    /// `user`, `user:group`, by name or number; empty is root.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// `KEY=VALUE`.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    /// Its arguments, or the program when there is no entrypoint.
    #[serde(deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// Where it starts; empty is `/`.
    #[serde(deserialize_with = "or_default")]
    pub working_dir: String,
    /// What stops it instead of SIGTERM; empty is SIGTERM.
    #[serde(deserialize_with = "or_default")]
    pub stop_signal: String,
    /// Ports it declares to serve: `80/tcp`.
    #[serde(deserialize_with = "or_default")]
    pub exposed_ports: BTreeMap<String, Empty>,
    /// Directories it declares as volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: BTreeMap<String, Empty>,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Its health check; Docker's addition.
    #[serde(deserialize_with = "or_unset", skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
}

/// A health check as Docker writes it. Times are nanoseconds; 0 is the usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Healthcheck {
    /// `["CMD", words…]`, `["CMD-SHELL", text]` or `["NONE"]`.
    #[serde(deserialize_with = "or_default")]
    pub test: Vec<String>,
    pub interval: u64,
    /// How long an answer may take.
    pub timeout: u64,
    /// Failures do not count for so long after the start.
    pub start_period: u64,
    /// So many failures in a row.
    pub retries: u32,
}

/// What is no part of the specification is no reason to refuse an image.
fn or_unset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Healthcheck>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Lenient {
        Known(Healthcheck),
        Other(serde::de::IgnoredAny),
    }
    Ok(match Option::deserialize(deserializer)? {
        Some(Lenient::Known(check)) => Some(check),
        Some(Lenient::Other(_)) | None => None,
    })
}

/// The `{}` behind a port or a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// `null` is the same as nothing.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A time that builders write as they like is no reason to refuse an image.
fn or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<jiff::Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
