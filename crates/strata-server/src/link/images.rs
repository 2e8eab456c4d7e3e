//! Images that are files of this server's host, for nodes that do not have
//! them: an instance of `oci:PATH` or `docker-archive:PATH` runs on a machine
//! that was made after the image (decision 43).
//!
//! A node gets what its own instances are made of, and nothing else: the name
//! has to be that of an instance which is assigned to it, and a blob has to be
//! one of that image. Such names are for admins to give.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use strata_api::status_from_error;
use strata_api::strata::v1::server_images_server::{ServerImages, ServerImagesServer};
use strata_api::strata::v1::{Chunk, ServerBlobRequest, ServerImageManifest, ServerImageRequest};
use strata_image::{
    ArchiveSource, Descriptor, LayoutSource, Platform, Reference, Resolved, Source, SourceError,
};
use strata_types::instance::InstanceKind;
use strata_types::{Error, ErrorKind, Result};
use tonic::{Request, Response, Status};

use super::calling_node;
use crate::core::Core;

/// How long an image that was opened is kept for its blobs, and how many are.
const CACHE_TTL: Duration = Duration::from_secs(60);
const MAX_CACHED: usize = 16;
/// How long it may take to read an archive.
const STREAM_TIMEOUT: Duration = Duration::from_secs(300);
/// A request names an instance, a digest and a range.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// The longest name of an architecture.
const MAX_NAME_LENGTH: usize = 32;

/// `strata.v1.ServerImages`.
pub struct ServerImagesApi {
    core: Core,
    opened: Mutex<Vec<Opened>>,
}

/// An image, read as far as its manifest.
#[derive(Clone)]
struct Opened {
    reference: Reference,
    platform: Platform,
    source: Arc<dyn Source>,
    resolved: Arc<Resolved>,
    at: Instant,
}

impl Opened {
    /// A part of the image.
    fn descriptor(&self, digest: &str) -> Option<&Descriptor> {
        let manifest = &self.resolved.manifest;
        let mut parts = manifest.layers.iter().chain([&manifest.config]);
        parts.find(|part| part.digest.to_string() == digest)
    }
}

impl ServerImagesApi {
    pub fn new(core: Core) -> Self {
        Self {
            core,
            opened: Mutex::default(),
        }
    }

    pub fn service(self) -> ServerImagesServer<Self> {
        ServerImagesServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    /// The image, if the node that calls has an instance of it.
    async fn open<T>(&self, request: &Request<T>, image: &ServerImageRequest) -> Result<Opened> {
        let certificate = calling_node(request)?;
        let node = self.core.authenticate_node(&certificate, None).await?;
        let reference: Reference = image
            .reference
            .parse()
            .map_err(|error| Error::from(error).in_field("reference"))?;
        if !self.is_assigned(&node.name, &reference) {
            let why = format!(
                "no instance of {reference} is assigned to node {}",
                node.name
            );
            return Err(Error::new(ErrorKind::PermissionDenied, why));
        }
        let platform = platform(image)?;
        if let Some(known) = self.known(&reference, &platform) {
            return Ok(known);
        }
        let source: Arc<dyn Source> = match &reference {
            Reference::Layout { path, tag } => Arc::new(LayoutSource::new(path, tag.clone())),
            Reference::Archive { path } => Arc::new(ArchiveSource::new(path)),
            Reference::Registry(_) => {
                return Err(Error::invalid("reference", "is not a file of a host"));
            }
        };
        let resolved = tokio::time::timeout(STREAM_TIMEOUT, source.resolve(&platform)).await;
        let resolved = resolved
            .map_err(|_| Error::unavailable(format!("{reference} takes too long to read")))?
            .map_err(|error| failed(&error))?;
        let opened = Opened {
            reference,
            platform,
            source,
            resolved: Arc::new(resolved),
            at: Instant::now(),
        };
        let mut all = self.lock();
        all.truncate(MAX_CACHED - 1);
        all.insert(0, opened.clone());
        Ok(opened)
    }

    fn is_assigned(&self, node: &str, reference: &Reference) -> bool {
        let tables = self.core.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let mut instances = on.filter_map(|id| tables.instances.get(id));
        instances.any(|one| {
            one.spec.kind == InstanceKind::Container
                && one
                    .spec
                    .uri
                    .parse()
                    .is_ok_and(|own: Reference| own == *reference)
        })
    }

    fn known(&self, reference: &Reference, platform: &Platform) -> Option<Opened> {
        let mut all = self.lock();
        all.retain(|one| one.at.elapsed() < CACHE_TTL);
        let mut same = all
            .iter()
            .filter(|one| one.reference == *reference && one.platform == *platform);
        same.next().cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn platform(image: &ServerImageRequest) -> Result<Platform> {
    for word in [&image.os, &image.architecture, &image.variant] {
        if word.len() > MAX_NAME_LENGTH {
            return Err(Error::invalid("architecture", "is too long"));
        }
    }
    Ok(Platform {
        os: image.os.clone(),
        architecture: image.architecture.clone(),
        variant: image.variant.clone(),
    })
}

fn failed(error: &SourceError) -> Error {
    let text = format!("the server's host: {}", strata_types::chain(error));
    match error {
        SourceError::NotFound(_) => Error::not_found(text),
        SourceError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::not_found(text)
        }
        _ => Error::wrong_state(text),
    }
}

#[tonic::async_trait]
impl ServerImages for ServerImagesApi {
    type BlobStream = Pin<Box<dyn Stream<Item = std::result::Result<Chunk, Status>> + Send>>;

    async fn manifest(
        &self,
        request: Request<ServerImageRequest>,
    ) -> std::result::Result<Response<ServerImageManifest>, Status> {
        let opened = self.open(&request, request.get_ref()).await;
        let opened = opened.map_err(|error| status_from_error(&error))?;
        let manifest = opened.resolved.bytes.to_vec();
        Ok(Response::new(ServerImageManifest { manifest }))
    }

    async fn blob(
        &self,
        request: Request<ServerBlobRequest>,
    ) -> std::result::Result<Response<Self::BlobStream>, Status> {
        let refuse = |error: Error| status_from_error(&error);
        let asked = request.get_ref();
        let image = asked.image.clone().unwrap_or_default();
        let opened = self.open(&request, &image).await.map_err(refuse)?;
        let part = opened.descriptor(&asked.digest).ok_or_else(|| {
            refuse(Error::not_found("the image has no such part").in_field("digest"))
        })?;
        let blob = opened.source.blob(part, asked.from).await;
        let blob = blob.map_err(|error| refuse(failed(&error)))?;
        if blob.from != asked.from {
            return Err(refuse(Error::wrong_state(
                "the file cannot be read from the middle",
            )));
        }
        let pieces = blob.stream.map(move |piece| match piece {
            Ok(data) => Ok(Chunk { data }),
            Err(error) => Err(status_from_error(&failed(&error))),
        });
        Ok(Response::new(Box::pin(pieces)))
    }
}
