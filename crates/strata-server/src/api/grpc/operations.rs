//! `operations.v1.OperationsService`: hypervisors, the storage pool, backups.
//! Each long call is an operation; its stream is a view on that, which ends
//! nothing when it is dropped.

mod view;

use strata_api::operations::v1::operations_service_server::{
    OperationsService, OperationsServiceServer,
};
use strata_api::operations::v1::{
    CreateBackupRequest, CreateBackupResponse, CreateHypervisorRequest, CreateHypervisorResponse,
    DestroyHypervisorRequest, DestroyHypervisorResponse, ExpandStorageRequest,
    ExpandStorageResponse, HypervisorCapabilities, HypervisorState as WireState,
    ListHypervisorsRequest, ListHypervisorsResponse, ListHypervisorsResponseHypervisor,
    ShrinkStorageRequest, ShrinkStorageResponse,
};
use strata_api::status_from_error;
use strata_types::machine::{Capability, MachinePhase};
use strata_types::{Error, Result};
use strata_workflow::{Kind, OperationId, Operations};
use tonic::{Request, Response, Status};

use super::MAX_REQUEST_BYTES;
use super::scheduler::principal_of;
use crate::core::{Core, HypervisorState, Principal};
use crate::operations::{
    Backends, BackupInput, CreateBackup, CreateHypervisor, CreateInput, DestroyHypervisor,
    DestroyInput, ExpandInput, ExpandStorage, ShrinkInput, ShrinkStorage, is_for, public,
};
use view::{OperationProgress, ProgressMessage};

#[derive(Clone)]
pub struct OperationsApi {
    core: Core,
    operations: Operations,
    backends: Backends,
}

impl OperationsApi {
    /// Over this core and these operations.
    pub fn new(core: Core, operations: Operations, backends: Backends) -> Self {
        Self {
            core,
            operations,
            backends,
        }
    }

    pub fn service(self) -> OperationsServiceServer<Self> {
        OperationsServiceServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    async fn submit<K: Kind>(
        &self,
        principal: &Principal,
        input: &K::Input,
    ) -> Result<OperationId> {
        principal.require_all_projects()?;
        let submitted = self
            .operations
            .submit::<K>(input, &principal.name, None)
            .await;
        submitted.map_err(|error| public(&error))
    }

    /// Whether an operation works on a machine, or waits to.
    async fn is_busy(&self, id: &str) -> Result<bool> {
        let busy = crate::operations::claimed(&self.operations).await;
        let busy = busy.map_err(|error| public(&error))?;
        Ok(busy.contains(&format!("machine/{id}")))
    }

    async fn create(&self, principal: &Principal, id: &str) -> Result<OperationProgress> {
        let machine = self
            .core
            .machine(id)
            .map_err(|error| error.in_field("id"))?;
        is_for(&machine, "")?;
        self.backends.hypervisors.check_provider(&machine.spec)?;
        let serves = self.backends.hypervisors.serves(&machine);
        if machine.phase == MachinePhase::Up && serves && !self.is_busy(id).await? {
            return Ok(OperationProgress::done(format!("{id} is up already")));
        }
        let input = CreateInput::hypervisor(id);
        let id = self.submit::<CreateHypervisor>(principal, &input).await?;
        OperationProgress::of(&self.operations, id).await
    }

    async fn expand(
        &self,
        principal: &Principal,
        asked: &ExpandStorageRequest,
    ) -> Result<OperationProgress> {
        principal.require_all_projects()?;
        let min_bytes = amount("min_bytes", asked.min_bytes, asked.min_bytes_wide())?;
        let input = ExpandInput { min_bytes };
        let plan = self.backends.storage.plan_expand(&input).await?;
        if asked.dry_run() {
            return Ok(OperationProgress::done(plan_json(&plan)));
        }
        let id = self.submit::<ExpandStorage>(principal, &input).await?;
        OperationProgress::of(&self.operations, id).await
    }

    async fn shrink(
        &self,
        principal: &Principal,
        asked: &ShrinkStorageRequest,
    ) -> Result<OperationProgress> {
        principal.require_all_projects()?;
        let max_bytes = amount("max_bytes", asked.max_bytes, asked.max_bytes_wide())?;
        let input = ShrinkInput { max_bytes };
        let plan = self.backends.storage.plan_shrink(&input).await?;
        if asked.dry_run() {
            return Ok(OperationProgress::done(plan_json(&plan)));
        }
        let id = self.submit::<ShrinkStorage>(principal, &input).await?;
        OperationProgress::of(&self.operations, id).await
    }

    async fn backup(&self, principal: &Principal) -> Result<OperationProgress> {
        let input = self.backends.backups.check_create(BackupInput::default())?;
        let id = self.submit::<CreateBackup>(principal, &input).await?;
        OperationProgress::of(&self.operations, id).await
    }

    async fn destroy(&self, principal: &Principal, id: &str) -> Result<OperationProgress> {
        let machine = self
            .core
            .machine(id)
            .map_err(|error| error.in_field("id"))?;
        is_for(&machine, "")?;
        if machine.phase == MachinePhase::Available && !self.is_busy(id).await? {
            return Ok(OperationProgress::done(format!("{id} is down already")));
        }
        let input = DestroyInput::at_once(id);
        let id = self.submit::<DestroyHypervisor>(principal, &input).await?;
        OperationProgress::of(&self.operations, id).await
    }
}

fn caller_of<T>(request: &Request<T>) -> Result<Principal, Status> {
    principal_of(request).map_err(|error| status_from_error(&error))
}

fn answer<T: From<ProgressMessage> + Send + 'static>(
    view: Result<OperationProgress>,
) -> Result<Response<view::Answer<T>>, Status> {
    let view = view.map_err(|error| status_from_error(&error))?;
    Ok(Response::new(view.stream()))
}

/// The state on the wire.
fn state(state: HypervisorState) -> WireState {
    match state {
        HypervisorState::Unknown => WireState::Unknown,
        HypervisorState::AvailableToCreate => WireState::AvailableToCreate,
        HypervisorState::AvailableToDestroy => WireState::AvailableToDestroy,
    }
}

fn capability(capability: Capability) -> HypervisorCapabilities {
    match capability {
        Capability::Storage => HypervisorCapabilities::Storage,
        Capability::Gpu => HypervisorCapabilities::Gpu,
    }
}

#[tonic::async_trait]
impl OperationsService for OperationsApi {
    type CreateHypervisorStream = view::Answer<CreateHypervisorResponse>;
    type DestroyHypervisorStream = view::Answer<DestroyHypervisorResponse>;
    type ExpandStorageStream = view::Answer<ExpandStorageResponse>;
    type ShrinkStorageStream = view::Answer<ShrinkStorageResponse>;
    type CreateBackupStream = view::Answer<CreateBackupResponse>;

    async fn list_hypervisors(
        &self,
        _: Request<ListHypervisorsRequest>,
    ) -> Result<Response<ListHypervisorsResponse>, Status> {
        let fresh = self.core.check_fresh();
        fresh.map_err(|error| status_from_error(&error))?;
        let machines = self.core.machines();
        let told = machines.iter().map(|machine| {
            let (can, _) = self.core.hypervisor_state(machine);
            // One that no provider here can boot is not offered.
            let known = self.backends.hypervisors.check_provider(&machine.spec);
            let can = known.map_or(HypervisorState::Unknown, |()| can);
            let capabilities = self.core.machine_capabilities(machine).into_iter();
            ListHypervisorsResponseHypervisor {
                id: machine.id.to_string(),
                cpu: i32::try_from(machine.threads()).unwrap_or(i32::MAX),
                ram: i32::try_from(machine.megabytes()).unwrap_or(i32::MAX),
                capabilities: capabilities.map(|one| capability(one).into()).collect(),
                state: state(can).into(),
            }
        });
        let hypervisors = told.collect();
        Ok(Response::new(ListHypervisorsResponse { hypervisors }))
    }

    async fn create_hypervisor(
        &self,
        request: Request<CreateHypervisorRequest>,
    ) -> Result<Response<Self::CreateHypervisorStream>, Status> {
        let principal = caller_of(&request)?;
        answer(self.create(&principal, &request.into_inner().id).await)
    }

    async fn destroy_hypervisor(
        &self,
        request: Request<DestroyHypervisorRequest>,
    ) -> Result<Response<Self::DestroyHypervisorStream>, Status> {
        let principal = caller_of(&request)?;
        answer(self.destroy(&principal, &request.into_inner().id).await)
    }

    async fn expand_storage(
        &self,
        request: Request<ExpandStorageRequest>,
    ) -> Result<Response<Self::ExpandStorageStream>, Status> {
        let principal = caller_of(&request)?;
        answer(self.expand(&principal, &request.into_inner()).await)
    }

    async fn shrink_storage(
        &self,
        request: Request<ShrinkStorageRequest>,
    ) -> Result<Response<Self::ShrinkStorageStream>, Status> {
        let principal = caller_of(&request)?;
        answer(self.shrink(&principal, &request.into_inner()).await)
    }

    async fn create_backup(
        &self,
        request: Request<CreateBackupRequest>,
    ) -> Result<Response<Self::CreateBackupStream>, Status> {
        let principal = caller_of(&request)?;
        answer(self.backup(&principal).await)
    }
}

/// How many bytes: the wide field where it is given.
fn amount(field: &str, narrow: i32, wide: i64) -> Result<u64> {
    let bytes = match wide {
        0 => i64::from(narrow),
        wide => wide,
    };
    match u64::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Error::invalid(field, "must be more than 0 bytes")),
    }
}

/// A plan for people, in one line.
fn plan_json(plan: &impl serde::Serialize) -> String {
    serde_json::to_string(plan).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_states_have_distinct_numbers() {
        let told = [
            HypervisorState::Unknown,
            HypervisorState::AvailableToCreate,
            HypervisorState::AvailableToDestroy,
        ];
        assert_eq!(told.map(|one| state(one) as i32), [1, 2, 3]);
        let told = [Capability::Storage, Capability::Gpu];
        assert_eq!(told.map(|one| capability(one) as i32), [1, 2]);
    }
}
