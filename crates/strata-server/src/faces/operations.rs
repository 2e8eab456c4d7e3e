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

use super::scheduler::who;
use crate::core::{Core, HypervisorState, Who};
use crate::operations::{
    BackupInput, CreateBackup, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput,
    Estate, ExpandInput, ExpandStorage, ShrinkInput, ShrinkStorage, is_for, public,
};
use view::{Told, View};

/// The published service.
#[derive(Clone)]
pub struct OperationsFace {
    core: Core,
    operations: Operations,
    estate: Estate,
}

impl OperationsFace {
    /// Over this core and these operations.
    pub fn new(core: Core, operations: Operations, estate: Estate) -> Self {
        Self {
            core,
            operations,
            estate,
        }
    }

    /// The gRPC service.
    pub fn service(self) -> OperationsServiceServer<Self> {
        OperationsServiceServer::new(self)
    }

    async fn submit<K: Kind>(&self, who: &Who, input: &K::Input) -> Result<OperationId> {
        who.everywhere()?;
        let submitted = self.operations.submit::<K>(input, &who.name, None).await;
        submitted.map_err(|error| public(&error))
    }

    /// Whether anybody is at a machine, or waits to be.
    async fn is_busy(&self, id: &str) -> Result<bool> {
        let busy = crate::reconcile::busy(&self.operations).await;
        let busy = busy.map_err(|error| public(&error))?;
        Ok(busy.contains(&format!("machine/{id}")))
    }

    async fn create(&self, who: &Who, id: &str) -> Result<View> {
        let machine = self
            .core
            .machine(id)
            .map_err(|error| error.in_field("id"))?;
        is_for(&machine, "")?;
        self.estate.hypervisors.check_provider(&machine.spec)?;
        let serves = self.estate.hypervisors.serves(&machine);
        if machine.phase == MachinePhase::Up && serves && !self.is_busy(id).await? {
            return Ok(View::done(format!("{id} is up already")));
        }
        let input = CreateInput::hypervisor(id);
        let id = self.submit::<CreateHypervisor>(who, &input).await?;
        View::of(&self.operations, id).await
    }

    async fn expand(&self, who: &Who, asked: &ExpandStorageRequest) -> Result<View> {
        who.everywhere()?;
        let min_bytes = amount("min_bytes", asked.min_bytes, asked.min_bytes_wide())?;
        let pool = self.estate.storage.pool().await?;
        let plan = pool.plan_expand(min_bytes).await.map_err(Error::from)?;
        if asked.dry_run() {
            return Ok(View::done(told(&plan)));
        }
        let input = ExpandInput { min_bytes };
        let id = self.submit::<ExpandStorage>(who, &input).await?;
        View::of(&self.operations, id).await
    }

    async fn shrink(&self, who: &Who, asked: &ShrinkStorageRequest) -> Result<View> {
        who.everywhere()?;
        let max_bytes = amount("max_bytes", asked.max_bytes, asked.max_bytes_wide())?;
        let pool = self.estate.storage.pool().await?;
        let plan = pool.plan_shrink(max_bytes).await.map_err(Error::from)?;
        if asked.dry_run() {
            return Ok(View::done(told(&plan)));
        }
        let input = ShrinkInput { max_bytes };
        let id = self.submit::<ShrinkStorage>(who, &input).await?;
        View::of(&self.operations, id).await
    }

    async fn backup(&self, who: &Who) -> Result<View> {
        self.estate.backups.place()?;
        let input = BackupInput::default();
        let id = self.submit::<CreateBackup>(who, &input).await?;
        View::of(&self.operations, id).await
    }

    async fn destroy(&self, who: &Who, id: &str) -> Result<View> {
        let machine = self
            .core
            .machine(id)
            .map_err(|error| error.in_field("id"))?;
        is_for(&machine, "")?;
        if machine.phase == MachinePhase::Available && !self.is_busy(id).await? {
            return Ok(View::done(format!("{id} is down already")));
        }
        let input = DestroyInput::at_once(id);
        let id = self.submit::<DestroyHypervisor>(who, &input).await?;
        View::of(&self.operations, id).await
    }
}

fn asked<T>(request: &Request<T>) -> Result<Who, Status> {
    who(request).map_err(|error| status_from_error(&error))
}

fn answer<T: From<Told> + Send + 'static>(
    view: Result<View>,
) -> Result<Response<view::Answer<T>>, Status> {
    let view = view.map_err(|error| status_from_error(&error))?;
    Ok(Response::new(view.stream()))
}

/// The wire's word for what can be done.
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
impl OperationsService for OperationsFace {
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
            let known = self.estate.hypervisors.check_provider(&machine.spec);
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
        let who = asked(&request)?;
        answer(self.create(&who, &request.into_inner().id).await)
    }

    async fn destroy_hypervisor(
        &self,
        request: Request<DestroyHypervisorRequest>,
    ) -> Result<Response<Self::DestroyHypervisorStream>, Status> {
        let who = asked(&request)?;
        answer(self.destroy(&who, &request.into_inner().id).await)
    }

    async fn expand_storage(
        &self,
        request: Request<ExpandStorageRequest>,
    ) -> Result<Response<Self::ExpandStorageStream>, Status> {
        let who = asked(&request)?;
        answer(self.expand(&who, &request.into_inner()).await)
    }

    async fn shrink_storage(
        &self,
        request: Request<ShrinkStorageRequest>,
    ) -> Result<Response<Self::ShrinkStorageStream>, Status> {
        let who = asked(&request)?;
        answer(self.shrink(&who, &request.into_inner()).await)
    }

    async fn create_backup(
        &self,
        request: Request<CreateBackupRequest>,
    ) -> Result<Response<Self::CreateBackupStream>, Status> {
        let who = asked(&request)?;
        answer(self.backup(&who).await)
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
fn told(plan: &impl serde::Serialize) -> String {
    serde_json::to_string(plan).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_own_number() {
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
