//! `strata.v1.Volumes`: what the node keeps for pods.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use strata_api::strata::v1;
use strata_types::{Error, Label, Result};
use tonic::{Request, Response, Status};

use super::status;
use crate::Node;
use crate::blocking::aside;
use crate::volumes::{NodeVolumes, VolumeView};

pub(super) struct VolumesApi {
    volumes: Arc<NodeVolumes>,
}

impl VolumesApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            volumes: node.pods.kind().rootfs_builder.volumes.clone(),
        }
    }

    /// Runs to its end even if the caller goes away.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&NodeVolumes) -> Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let volumes = self.volumes.clone();
        aside(move || work(&volumes)).await.map_err(status)
    }
}

fn label(name: &str) -> Result<Label> {
    name.parse().map_err(|why| {
        let name: String = name.chars().take(80).collect();
        Error::invalid("name", format!("{name:?} {why}"))
    })
}

fn view(volume: VolumeView) -> v1::Volume {
    let age = volume.created.duration_since(UNIX_EPOCH);
    v1::Volume {
        size_bytes: volume.size,
        used_bytes: volume.used,
        created_at_ms: age.map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
        used_by: volume.used_by,
        of_image: volume.name.parse::<Label>().is_err(),
        name: volume.name,
    }
}

#[tonic::async_trait]
impl v1::volumes_server::Volumes for VolumesApi {
    async fn create(
        &self,
        request: Request<v1::CreateVolumeRequest>,
    ) -> Result<Response<v1::Volume>, Status> {
        let request = request.into_inner();
        let made = self.work(move |volumes| {
            let volume = volumes.create(&label(&request.name)?, request.size_bytes)?;
            Ok(view(volume))
        });
        made.await.map(Response::new)
    }

    async fn get(
        &self,
        request: Request<v1::GetVolumeRequest>,
    ) -> Result<Response<v1::Volume>, Status> {
        let name = request.into_inner().name;
        let found = self.work(move |volumes| volumes.get(&name).map(view));
        found.await.map(Response::new)
    }

    async fn list(
        &self,
        _: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        let found = self.work(NodeVolumes::list).await?;
        let volumes = found.into_iter().map(view).collect();
        Ok(Response::new(v1::ListVolumesResponse { volumes }))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveVolumeRequest>,
    ) -> Result<Response<v1::RemoveVolumeResponse>, Status> {
        let name = request.into_inner().name;
        self.work(move |volumes| volumes.remove(&name)).await?;
        Ok(Response::new(v1::RemoveVolumeResponse {}))
    }
}
