//! An image that is a file of the server's host, as this node gets it from
//! there. Each pull has a connection of its own: the one that the node follows
//! its server by carries heartbeats.

use std::sync::OnceLock;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use strata_api::strata::v1::{ServerBlobRequest, ServerImageRequest};
use strata_client::{ServerClient, Target};
use strata_image::{Blob, Descriptor, Platform, Reference, Resolved, Source, SourceError};
use tokio::sync::OnceCell;
use tonic::{Code, Status};

/// An image of the server's host.
pub(super) struct ServerSource {
    server: Target,
    client: OnceCell<ServerClient>,
    reference: Reference,
    platform: OnceLock<Platform>,
}

impl ServerSource {
    pub(super) fn new(server: Target, reference: Reference) -> Self {
        Self {
            server,
            client: OnceCell::new(),
            reference,
            platform: OnceLock::new(),
        }
    }

    async fn client(&self) -> Result<&ServerClient, SourceError> {
        let connecting = || ServerClient::connect(&self.server);
        let connected = self.client.get_or_try_init(connecting).await;
        connected.map_err(|error| self.lost(error.to_string()))
    }

    fn request(&self, platform: &Platform) -> ServerImageRequest {
        ServerImageRequest {
            reference: self.reference.to_string(),
            os: platform.os.clone(),
            architecture: platform.architecture.clone(),
            variant: platform.variant.clone(),
        }
    }

    fn lost(&self, detail: String) -> SourceError {
        let host = format!("the server {}", self.server);
        SourceError::Connection { host, detail }
    }

    fn failed(&self, status: &Status) -> SourceError {
        let detail = status.message().to_owned();
        match status.code() {
            Code::NotFound => SourceError::NotFound(format!(
                "{} (neither here nor on the server's host)",
                self.reference
            )),
            // It serves what is assigned to this node, and nothing in an
            // earlier release: for anything else the node has its own files.
            Code::PermissionDenied | Code::Unimplemented => {
                SourceError::NotFound(format!("{} (not on this node)", self.reference))
            }
            Code::Unauthenticated | Code::InvalidArgument | Code::FailedPrecondition => {
                let host = format!("the server {}", self.server);
                SourceError::Denied { host, detail }
            }
            _ => self.lost(detail),
        }
    }
}

impl Source for ServerSource {
    fn resolve<'a>(
        &'a self,
        platform: &'a Platform,
    ) -> BoxFuture<'a, Result<Resolved, SourceError>> {
        async move {
            let mut images = self.client().await?.server_images();
            let answer = images.manifest(self.request(platform)).await;
            let answer = answer.map_err(|status| self.failed(&status))?;
            let resolved = Resolved::read(Bytes::from(answer.into_inner().manifest))?;
            let _ = self.platform.set(platform.clone());
            Ok(resolved)
        }
        .boxed()
    }

    fn blob<'a>(
        &'a self,
        blob: &'a Descriptor,
        from: u64,
    ) -> BoxFuture<'a, Result<Blob, SourceError>> {
        async move {
            let platform = self.platform.get().cloned().unwrap_or_else(Platform::host);
            let request = ServerBlobRequest {
                image: Some(self.request(&platform)),
                digest: blob.digest.to_string(),
                from,
            };
            let mut images = self.client().await?.server_images();
            let answer = images.blob(request).await;
            let pieces = answer.map_err(|status| self.failed(&status))?.into_inner();
            let host = format!("the server {}", self.server);
            let stream = pieces.map(move |piece| match piece {
                Ok(chunk) => Ok(chunk.data),
                Err(status) => Err(SourceError::Connection {
                    host: host.clone(),
                    detail: status.message().to_owned(),
                }),
            });
            let stream = stream.boxed();
            Ok(Blob { from, stream })
        }
        .boxed()
    }
}
