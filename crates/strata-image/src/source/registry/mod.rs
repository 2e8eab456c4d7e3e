//! Registries, by the distribution API.
//!
//! A small client of our own on the HTTP and TLS stack that the daemon has
//! anyway. `oci-client` 0.18 was read, not run: it drops `Retry-After`, reads
//! manifests and error pages of any size into memory, does not let the caller
//! see where a redirect leads (a plain-HTTP allow list must hold for every
//! hop), and brings fifty more crates, among them a second `sha2`. The five
//! requests that a pull makes are less than what it would take to guard that.

mod auth;
pub(crate) mod challenge;
mod client;
mod options;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::header::{ACCEPT, CONTENT_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Incoming;

use super::{
    ArchiveSource, Blob, BlobStream, LayoutSource, Origin, Resolved, Source, SourceError, descend,
};
use crate::manifest::{
    DOCKER_INDEX, DOCKER_MANIFEST, Descriptor, MAX_JSON, OCI_INDEX, OCI_MANIFEST,
};
use crate::{Digest, Platform, Reference, RegistryReference};
use client::{Client, Rate};
pub use options::{Credentials, RegistryOptions};

/// Opens sources. Holds the connections and tokens of all registries: make
/// one and keep it.
#[derive(Clone)]
pub struct Registries(Arc<Client>);

impl Registries {
    /// With these settings; fails when a certificate in them cannot be read.
    pub fn new(options: RegistryOptions) -> Result<Self, SourceError> {
        Ok(Self(Arc::new(Client::new(options)?)))
    }

    /// The source of any image. Nothing is opened yet.
    pub fn source(&self, reference: &Reference) -> Arc<dyn Source> {
        match reference {
            Reference::Registry(reference) => Arc::new(self.registry(reference)),
            Reference::Layout { path, tag } => Arc::new(LayoutSource::new(path, tag.clone())),
            Reference::Archive { path } => Arc::new(ArchiveSource::new(path)),
        }
    }

    /// The source of an image in a registry.
    pub fn registry(&self, reference: &RegistryReference) -> RegistrySource {
        RegistrySource {
            client: Arc::clone(&self.0),
            reference: reference.clone(),
        }
    }
}

/// An image in a registry.
pub struct RegistrySource {
    client: Arc<Client>,
    reference: RegistryReference,
}

impl RegistrySource {
    async fn manifest(&self, name: &str) -> Result<Bytes, SourceError> {
        let mut headers = HeaderMap::new();
        for kind in [OCI_INDEX, DOCKER_INDEX, OCI_MANIFEST, DOCKER_MANIFEST] {
            headers.append(ACCEPT, HeaderValue::from_static(kind));
        }
        let path = format!("manifests/{name}");
        let answer = self.client.get(&self.reference, &path, headers).await?;
        let host = self.reference.host();
        self.client.small(host, answer.into_body(), MAX_JSON).await
    }

    fn protocol(&self, detail: impl Into<String>) -> SourceError {
        SourceError::Protocol {
            host: self.reference.host().to_owned(),
            detail: detail.into(),
        }
    }

    /// The body as a stream that gives up when nothing comes, or too little.
    fn stream(&self, body: Incoming) -> BlobStream {
        let client = Arc::clone(&self.client);
        let host = self.reference.host().to_owned();
        let state = (client, host, body, Rate::default());
        stream::try_unfold(state, |(client, host, mut body, mut rate)| async move {
            let data = client.data(&host, &mut body, &mut rate).await?;
            Ok(data.map(|data| (data, (client, host, body, rate))))
        })
        .boxed()
    }
}

impl Source for RegistrySource {
    fn origin(&self) -> Option<Origin> {
        Some(Origin::of(&self.reference))
    }

    fn resolve<'a>(
        &'a self,
        platform: &'a Platform,
    ) -> BoxFuture<'a, Result<Resolved, SourceError>> {
        async move {
            let bytes = match (self.reference.digest(), self.reference.tag()) {
                (Some(expected), _) => {
                    let bytes = self.manifest(&expected.to_string()).await?;
                    let found = Digest::of(&bytes);
                    if found != expected {
                        return Err(SourceError::Digest { expected, found });
                    }
                    bytes
                }
                (None, tag) => self.manifest(tag.unwrap_or("latest")).await?,
            };
            descend(bytes, platform, |entry| async move {
                self.manifest(&entry.digest.to_string()).await
            })
            .await
        }
        .boxed()
    }

    fn blob<'a>(
        &'a self,
        blob: &'a Descriptor,
        from: u64,
    ) -> BoxFuture<'a, Result<Blob, SourceError>> {
        async move {
            let mut headers = HeaderMap::new();
            if from > 0 {
                let range = HeaderValue::try_from(format!("bytes={from}-"));
                headers.insert(
                    RANGE,
                    range.map_err(|error| self.protocol(error.to_string()))?,
                );
            }
            let path = format!("blobs/{}", blob.digest);
            let answer = self.client.get(&self.reference, &path, headers).await?;
            let from = match answer.status() {
                StatusCode::PARTIAL_CONTENT => {
                    let range = answer.headers().get(CONTENT_RANGE);
                    let start = range.and_then(|range| range_start(range.to_str().ok()?));
                    if start != Some(from) {
                        return Err(self.protocol("another range than asked for"));
                    }
                    from
                }
                // It does not do ranges, and sends all of it.
                _ => 0,
            };
            let stream = self.stream(answer.into_body());
            Ok(Blob { from, stream })
        }
        .boxed()
    }
}

impl Origin {
    /// Where an image of this name is.
    pub(crate) fn of(reference: &RegistryReference) -> Self {
        Self {
            host: reference.host().to_owned(),
            repository: reference.repository().to_owned(),
        }
    }
}

/// `bytes 100-199/200`: 100.
fn range_start(range: &str) -> Option<u64> {
    range
        .strip_prefix("bytes ")?
        .split_once('-')?
        .0
        .parse()
        .ok()
}
