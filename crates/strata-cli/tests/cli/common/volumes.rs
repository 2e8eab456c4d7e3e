//! The volumes of the fake node, and its service for them.

use strata_api::status_from_error;
use strata_api::strata::v1::volumes_server::Volumes;
use strata_api::strata::v1::{
    CreateVolumeRequest, GetVolumeRequest, ListVolumesRequest, ListVolumesResponse,
    RemoveVolumeRequest, RemoveVolumeResponse, Volume,
};
use strata_types::Error;
use tonic::{Request, Response, Status};

use super::data::NOW_MS;
use super::fake::{Shared, State};
use super::services::Answer;

pub fn volumes() -> Vec<Volume> {
    vec![
        Volume {
            size_bytes: Some(10 << 30),
            used_by: vec!["db".into(), "db-backup".into()],
            ..volume("data")
        },
        volume("old"),
    ]
}

fn volume(name: &str) -> Volume {
    Volume {
        name: name.into(),
        used_bytes: Some(3 << 20),
        created_at_ms: NOW_MS - 3_600_000,
        ..Default::default()
    }
}

fn find(state: &State, name: &str) -> Result<Volume, Status> {
    let mut volumes = state.volumes.iter();
    let found = volumes.find(|volume| volume.name == name);
    let missing = Error::not_found(format!("there is no volume {name}"));
    found.cloned().ok_or_else(|| status_from_error(&missing))
}

#[tonic::async_trait]
impl Volumes for Shared {
    async fn create(&self, request: Request<CreateVolumeRequest>) -> Answer<Volume> {
        let mut state = self.open()?;
        let request = request.into_inner();
        let made = Volume {
            size_bytes: request.size_bytes,
            used_bytes: Some(0),
            ..volume(&request.name)
        };
        state.volumes.push(made.clone());
        Ok(Response::new(made))
    }

    async fn get(&self, request: Request<GetVolumeRequest>) -> Answer<Volume> {
        find(&*self.open()?, &request.into_inner().name).map(Response::new)
    }

    async fn list(&self, _: Request<ListVolumesRequest>) -> Answer<ListVolumesResponse> {
        let volumes = self.open()?.volumes.clone();
        Ok(Response::new(ListVolumesResponse { volumes }))
    }

    async fn remove(&self, request: Request<RemoveVolumeRequest>) -> Answer<RemoveVolumeResponse> {
        let mut state = self.open()?;
        let name = request.into_inner().name;
        if !find(&state, &name)?.used_by.is_empty() {
            let error = Error::wrong_state(format!("volume {name:?} is in use by db"));
            return Err(status_from_error(&error));
        }
        state.volumes.retain(|volume| volume.name != name);
        Ok(Response::new(RemoveVolumeResponse {}))
    }
}
