//! `runtime.Spawn`: nested nodes.

use strata_api::strata::v1;
use strata_api::{grace_from_field, runtime};
use strata_types::pod::PodState;
use strata_types::{Error, Result};
use tonic::{Request, Response, Status};

use super::logs::{LineRange, lines};
use super::status;
use super::units::Answers;
use crate::Node;
use crate::blocking::{blocking, detached};
use crate::logs::LogWatch;
use crate::nested_nodes::{NestedNodeRef, NestedNodeSpec, NestedNodes, node_url};

pub(super) struct SpawnApi {
    nested_nodes: NestedNodes,
    watch: LogWatch,
}

impl SpawnApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            nested_nodes: node.nested_nodes.clone(),
            watch: node.watch.clone(),
        }
    }

    fn find(&self, name: &str) -> Result<NestedNodeRef, Status> {
        self.nested_nodes.find("name", name).map_err(status)
    }
}

/// Makes a machine and switches it on. What never came to answer goes again.
async fn create(machines: NestedNodes, request: v1::CreateMachineRequest) -> Result<v1::Machine> {
    let spec = request
        .machine
        .ok_or_else(|| Error::invalid("machine", "is missing"))?;
    let machine = machines
        .create(NestedNodeSpec::try_from(spec)?, false)
        .await?;
    let id = machine.record().id;
    let kind = machines.kind();
    let started = match machine.start().await {
        Ok(()) => blocking(|| kind.note_answer(&id)),
        Err(error) => Err(error),
    };
    if let Err(error) = started {
        if !kind.has_answered(&id) {
            let name = machine.record().spec.name.to_string();
            if let Err(left) = machines.destroy("name", &name, None).await {
                tracing::error!(machine = name, %left, "nested node not removed after a failed start");
            }
        }
        return Err(error);
    }
    Ok(view(&machine))
}

fn view(machine: &NestedNodeRef) -> v1::Machine {
    let (record, known) = (machine.record(), machine.view());
    let running = known.state == PodState::Running;
    let main = known.main.filter(|main| !main.view().is_over());
    v1::Machine {
        spec: Some((&record.spec).into()),
        address: record.allocated.address.to_string(),
        endpoint: node_url(&record.allocated),
        process_id: main.map_or(0, |main| main.pid),
        created_at_ms: record.created_at_ms,
        running,
        reason: match (known.reason.as_str(), known.state) {
            ("", PodState::Running) => String::new(),
            ("", state) => state.to_string(),
            ("exit 0", PodState::Exited) => "switched off".to_owned(),
            (reason, _) => reason.to_owned(),
        },
        id: record.id,
    }
}

#[tonic::async_trait]
impl runtime::spawn_server::Spawn for SpawnApi {
    async fn create(
        &self,
        request: Request<v1::CreateMachineRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let made = detached(create(self.nested_nodes.clone(), request.into_inner())).await;
        made.map(Response::new).map_err(status)
    }

    async fn start(
        &self,
        request: Request<v1::StartMachineRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let machine = self.find(&request.get_ref().name)?;
        let work = async move { machine.start().await.map(|()| view(&machine)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn stop(
        &self,
        request: Request<v1::StopMachineRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let request = request.into_inner();
        let machine = self.find(&request.name)?;
        let grace = request.grace_ms.map(|ms| grace_from_field("grace_ms", ms));
        let grace = grace.transpose().map_err(status)?;
        let work = async move { machine.stop(grace).await.map(|()| view(&machine)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn destroy(
        &self,
        request: Request<v1::DestroyMachineRequest>,
    ) -> Result<Response<v1::DestroyMachineResponse>, Status> {
        let (machines, name) = (self.nested_nodes.clone(), request.into_inner().name);
        let gone = detached(async move { machines.destroy("name", &name, None).await }).await;
        gone.map(|()| Response::new(v1::DestroyMachineResponse {}))
            .map_err(status)
    }

    async fn get(
        &self,
        request: Request<v1::GetMachineRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let found = self.find(&request.into_inner().name);
        found.map(|machine| Response::new(view(&machine)))
    }

    type LogsStream = Answers<v1::LogLine>;

    async fn logs(
        &self,
        request: Request<v1::MachineLogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let main = self.find(&request.name)?.view().main;
        let run =
            main.ok_or_else(|| status(Error::wrong_state("the machine was never started")))?;
        let wanted = LineRange {
            stdout: true,
            stderr: true,
            tail: request.tail,
            since_ms: None,
            follow: request.follow,
        };
        lines(&run, &self.watch, wanted)
            .map(Response::new)
            .map_err(status)
    }

    async fn list(
        &self,
        _: Request<v1::ListMachinesRequest>,
    ) -> Result<Response<v1::ListMachinesResponse>, Status> {
        let machines = self.nested_nodes.list().iter().map(view).collect();
        Ok(Response::new(v1::ListMachinesResponse { machines }))
    }
}
