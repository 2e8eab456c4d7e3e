//! Package `controller`, as published: status pushed by schedulers and
//! agents. A node may speak of itself and of its own instances only.

use strata_api::controller::scheduler_service_server::{SchedulerService, SchedulerServiceServer};
use strata_api::controller::{self as wire, InstanceStatus, NodeStatus};
use strata_api::instance_fields::state_from_controller;
use strata_api::status_from_error;
use strata_identity::Caller;
use strata_scheduler::Resources as Amounts;
use strata_types::instance::InstanceId;
use strata_types::{Error, ErrorKind, Result, Role};
use tonic::{Request, Response, Status};

use crate::core::{Core, Report, Seen, Told};

/// Status that is pushed.
#[derive(Clone)]
pub struct ControllerFace {
    core: Core,
}

impl ControllerFace {
    /// Over this core.
    pub fn new(core: Core) -> Self {
        Self { core }
    }

    /// The gRPC service.
    pub fn service(self) -> SchedulerServiceServer<Self> {
        SchedulerServiceServer::new(self)
    }

    async fn node(&self, caller: Option<Caller>, status: NodeStatus) -> Result<()> {
        let node = self.spoken_of(caller, &status.id)?;
        self.core.node(&node)?;
        let state = state(status.status)?;
        let mut seen = Seen::default();
        if state == wire::Status::Failed || state == wire::Status::Crashed {
            seen.fails = Some(status.description.chars().take(512).collect());
        }
        let resource = status.resource.unwrap_or_default();
        if let Some(max) = resource.max {
            seen.capacity = Some(amounts("resource.max", max)?);
        }
        let usage = resource
            .usage
            .map(|usage| amounts("resource.usage", usage))
            .transpose()?;
        // All is looked at before anything is changed.
        let reports: Vec<Report> = status
            .instances
            .iter()
            .enumerate()
            .map(|(i, instance)| {
                let listed = |error: Error| {
                    let field = error.field().unwrap_or("id").to_owned();
                    error.in_field(format!("instances[{i}].{field}"))
                };
                let mut report = report(&instance.id, instance.status, "").map_err(listed)?;
                report.address = instance.ip.parse().ok();
                self.core
                    .own_instance(&node, &instance.id)
                    .map_err(listed)?;
                Ok(report)
            })
            .collect::<Result<_>>()?;
        self.core.see_node(&node, &seen).await?;
        if let Some((cpu, memory, disk)) = usage {
            let used = Amounts::new(cpu, memory, disk);
            self.core.live().heard(&node, used, used);
        }
        for report in reports {
            self.core.report(&node, &report).await?;
        }
        Ok(())
    }

    async fn instance(&self, caller: Option<Caller>, status: InstanceStatus) -> Result<()> {
        let report = report(&status.id, status.status, &status.description)?;
        let node = match caller {
            Some(caller) if caller.role == Role::Node => caller.name.to_string(),
            _ => {
                let found = self.core.tables().instances.get(&report.id).cloned();
                let missing = || Error::not_found(format!("there is no instance {}", report.id));
                let found = found.ok_or_else(missing)?;
                let nowhere = || Error::wrong_state(format!("{} is on no node", found.name));
                found.node.clone().ok_or_else(nowhere)?
            }
        };
        self.core.own_instance(&node, &status.id)?;
        self.core.report(&node, &report).await
    }

    /// The node that is spoken of, if the caller may.
    fn spoken_of(&self, caller: Option<Caller>, id: &str) -> Result<String> {
        match caller {
            Some(caller) if caller.role == Role::Node && caller.name.to_string() != id => {
                let why = format!("{} may speak of itself only", caller.name);
                Err(Error::new(ErrorKind::PermissionDenied, why).in_field("id"))
            }
            _ => Ok(id.to_owned()),
        }
    }
}

fn state(number: i32) -> Result<wire::Status> {
    wire::Status::try_from(number)
        .map_err(|_| Error::invalid("status", format!("{number} is unknown")))
}

fn report(id: &str, status: i32, description: &str) -> Result<Report> {
    let id = InstanceId::from_field("id", id)?;
    let state = state_from_controller(state(status)?);
    Ok(Report {
        id,
        generation: None,
        told: match state {
            // Whoever ended and removed it has nothing of it any more.
            strata_types::instance::InstanceState::Terminated => Told::Gone,
            state => Told::State(state),
        },
        reason: description.to_owned(),
        address: None,
        restarts: None,
        exit_code: None,
        healthy: None,
    })
}

fn amounts(field: &str, summary: wire::ResourceSummary) -> Result<(u64, u64, u64)> {
    let amount = |name: &str, n: i32, unit: u64| {
        u64::try_from(n).map(|n| n * unit).map_err(|_| {
            let why = format!("is {n}; it must not be less than 0");
            Error::invalid(format!("{field}.{name}"), why)
        })
    };
    Ok((
        amount("cpu", summary.cpu, 1)?,
        amount("memory", summary.memory, 1_000_000)?,
        amount("disk", summary.disk, 1_000_000_000)?,
    ))
}

#[tonic::async_trait]
impl SchedulerService for ControllerFace {
    async fn set_node_status(&self, request: Request<NodeStatus>) -> Result<Response<()>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let done = self.node(caller, request.into_inner()).await;
        done.map(Response::new)
            .map_err(|error| status_from_error(&error))
    }

    async fn set_instance_status(
        &self,
        request: Request<InstanceStatus>,
    ) -> Result<Response<()>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let done = self.instance(caller, request.into_inner()).await;
        done.map(Response::new)
            .map_err(|error| status_from_error(&error))
    }
}
