//! `docker-archive:PATH`: the tar that `docker save` writes, with a
//! `manifest.json` that names a config and layers.
//!
//! The tar is walked once, header to header, and where its files lie is kept;
//! blobs are then read from the file itself. Nothing but the two small JSON
//! files is ever in memory. Such an archive has no OCI manifest, so one is
//! made: the same archive always makes the same one.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::file::Location;
use super::{Blob, Resolved, Source, SourceError, file};
use crate::manifest::{
    Descriptor, ImageConfig, MAX_JSON, Manifest, OCI_CONFIG, OCI_LAYER, OCI_MANIFEST,
};
use crate::tar::{Kind, TarReader};
use crate::{Digest, Hasher, Platform};

/// More than any archive of one image has.
const MAX_FILES: usize = 100_000;
/// Old archives have symlinks for layers that they hold twice.
const MAX_LINKS: usize = 8;

/// An image in an archive.
#[derive(Debug)]
pub struct ArchiveSource {
    location: Location,
    contents: OnceCell<Contents>,
}

/// The made manifest, and where its blobs lie in the file.
#[derive(Clone, Debug)]
struct Contents {
    resolved: Resolved,
    blobs: HashMap<Digest, EntryLocation>,
}

#[derive(Clone, Copy, Debug)]
struct EntryLocation {
    at: u64,
    size: u64,
}

impl ArchiveSource {
    /// The image in this archive. Nothing is looked at yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            location: Location::named(path.into()),
            contents: OnceCell::new(),
        }
    }

    /// The same in a file that is open already (`O_PATH` will do). The path is
    /// for messages alone.
    pub fn opened(file: OwnedFd, path: impl Into<PathBuf>) -> Self {
        Self {
            location: Location::opened(file, path.into()),
            contents: OnceCell::new(),
        }
    }

    async fn contents(&self) -> Result<&Contents, SourceError> {
        self.contents
            .get_or_try_init(|| async {
                let location = self.location.clone();
                let walked = tokio::task::spawn_blocking(move || Walk::new(&location)?.contents());
                walked
                    .await
                    .map_err(|error| file::failed(self.location.path(), io::Error::other(error)))?
            })
            .await
    }
}

impl Source for ArchiveSource {
    fn resolve<'a>(
        &'a self,
        _platform: &'a Platform,
    ) -> BoxFuture<'a, Result<Resolved, SourceError>> {
        async move { Ok(self.contents().await?.resolved.clone()) }.boxed()
    }

    fn blob<'a>(
        &'a self,
        blob: &'a Descriptor,
        from: u64,
    ) -> BoxFuture<'a, Result<Blob, SourceError>> {
        async move {
            let place = self.contents().await?.blobs.get(&blob.digest).copied();
            let Some(place) = place else {
                return Err(SourceError::NotFound(blob.digest.to_string()));
            };
            let from = from.min(place.size);
            let left = Some(place.size - from);
            let stream = self.location.stream("", place.at + from, left).await?;
            Ok(Blob { from, stream })
        }
        .boxed()
    }
}

/// One line of `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ManifestEntry {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

struct Walk {
    path: PathBuf,
    file: std::fs::File,
    files: HashMap<Vec<u8>, EntryLocation>,
    links: HashMap<Vec<u8>, Vec<u8>>,
}

impl Walk {
    fn new(location: &Location) -> Result<Self, SourceError> {
        let path = location.path();
        let file = location.open_blocking("")?;
        let again = file
            .try_clone()
            .map_err(|error| file::failed(path, error))?;
        let mut walk = Self {
            path: path.to_owned(),
            file,
            files: HashMap::new(),
            links: HashMap::new(),
        };
        let mut tar = TarReader::new(BufReader::new(again));
        loop {
            let entry = tar.next().map_err(|error| walk.not_a(error.to_string()))?;
            let Some(entry) = entry else { return Ok(walk) };
            if walk.files.len() + walk.links.len() > MAX_FILES {
                return Err(walk.not_a("it has too many files"));
            }
            let name = clean(b"", &entry.path);
            match entry.kind {
                Kind::File if entry.sparse.is_none() => {
                    let at = tar
                        .seek_past()
                        .map_err(|error| walk.not_a(error.to_string()))?;
                    let size = entry.stored;
                    walk.files.insert(name, EntryLocation { at, size });
                }
                Kind::Symlink => {
                    let dir = name.iter().rposition(|byte| *byte == b'/');
                    let target = clean(&name[..dir.unwrap_or(0)], &entry.link);
                    walk.links.insert(name, target);
                }
                Kind::HardLink => {
                    walk.links.insert(name, clean(b"", &entry.link));
                }
                _ => {}
            }
        }
    }

    fn contents(mut self) -> Result<Contents, SourceError> {
        let saved = self.small("manifest.json")?;
        let mut saved: Vec<ManifestEntry> =
            serde_json::from_slice(&saved).map_err(|error| self.not_a(error.to_string()))?;
        let image = match (saved.pop(), saved.is_empty()) {
            (Some(image), true) => image,
            (None, _) => return Err(self.not_a("its manifest.json names no image")),
            (Some(last), false) => {
                saved.push(last);
                let tags = saved.into_iter().filter_map(|image| image.repo_tags);
                return Err(SourceError::Ambiguous {
                    path: self.path,
                    names: tags.flatten().take(20).collect(),
                });
            }
        };
        let config = self.small(&image.config)?;
        let diff_ids = serde_json::from_slice::<ImageConfig>(&config)
            .map_err(|error| self.not_a(error.to_string()))?
            .rootfs
            .diff_ids;
        if diff_ids.len() != image.layers.len() {
            return Err(self.not_a("its config has another number of layers"));
        }
        let mut blobs = HashMap::new();
        let mut layers = Vec::new();
        for (layer, diff_id) in image.layers.iter().zip(diff_ids) {
            let place = self.place(layer)?;
            let digest = self.digest_of(place, diff_id)?;
            layers.push(Descriptor::new(OCI_LAYER, digest, place.size));
            blobs.insert(digest, place);
        }
        let config_digest = Digest::of(&config);
        blobs.insert(config_digest, self.place(&image.config)?);
        let manifest = Manifest {
            schema_version: 2,
            media_type: OCI_MANIFEST.into(),
            config: Descriptor::new(OCI_CONFIG, config_digest, config.len() as u64),
            layers,
        };
        let bytes = serde_json::to_vec(&manifest).map_err(|error| self.not_a(error.to_string()))?;
        Ok(Contents {
            resolved: Resolved {
                digest: Digest::of(&bytes),
                bytes: bytes.into(),
                manifest,
            },
            blobs,
        })
    }

    /// A layer is a plain tar, whose digest is its diff id; only a compressed
    /// one has to be read for it.
    fn digest_of(&mut self, place: EntryLocation, diff_id: Digest) -> Result<Digest, SourceError> {
        let path = self.path.clone();
        let mut reader = self.reader(place)?;
        let mut buffer = vec![0; 64 << 10];
        let mut hasher = Hasher::default();
        let mut first = true;
        loop {
            let read = reader.read(&mut buffer);
            let length = read.map_err(|error| file::failed(&path, error))?;
            let packed = buffer[..length].starts_with(&[0x1f, 0x8b])
                || buffer[..length].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
            if first && !packed {
                return Ok(diff_id);
            }
            if length == 0 {
                return Ok(hasher.finish());
            }
            first = false;
            hasher.update(&buffer[..length]);
        }
    }

    fn small(&mut self, name: &str) -> Result<Vec<u8>, SourceError> {
        let place = self.place(name)?;
        if place.size > MAX_JSON {
            return Err(SourceError::TooLarge {
                what: format!("{name} in {}", self.path.display()),
                limit: MAX_JSON,
            });
        }
        let mut bytes = Vec::new();
        let read = self.reader(place)?.read_to_end(&mut bytes);
        read.map_err(|error| file::failed(&self.path, error))?;
        Ok(bytes)
    }

    fn reader(&mut self, place: EntryLocation) -> Result<impl Read, SourceError> {
        let sought = self.file.seek(SeekFrom::Start(place.at));
        sought.map_err(|error| file::failed(&self.path, error))?;
        Ok((&self.file).take(place.size))
    }

    fn place(&self, name: &str) -> Result<EntryLocation, SourceError> {
        let mut name = clean(b"", name.as_bytes());
        for _ in 0..MAX_LINKS {
            match (self.files.get(&name), self.links.get(&name)) {
                (Some(place), _) => return Ok(*place),
                (None, Some(target)) => name.clone_from(target),
                (None, None) => break,
            }
        }
        let name = String::from_utf8_lossy(&name).into_owned();
        Err(self.not_a(format!("there is no {name:?} in it")))
    }

    fn not_a(&self, detail: impl Into<String>) -> SourceError {
        SourceError::NotA {
            path: self.path.clone(),
            kind: "a docker archive",
            detail: detail.into(),
        }
    }
}

/// A path within the archive, from a directory of it; `..` stops at the top.
/// Only ever a key of a map.
fn clean(dir: &[u8], path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let whole = dir
        .split(|byte| *byte == b'/')
        .chain(path.split(|byte| *byte == b'/'));
    for part in whole {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}
