//! Package `controller`, as published: status pushed by schedulers and agents.
//! A node may report itself and its own instances only.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use strata_api::controller::scheduler_service_server::{SchedulerService, SchedulerServiceServer};
use strata_api::controller::{self as wire, InstanceStatus, NodeStatus};
use strata_api::instance_fields::state_from_controller;
use strata_api::status_from_error;
use strata_identity::CertificateId;
use strata_scheduler::Resources as Amounts;
use strata_types::instance::{InstanceId, InstanceState};
use strata_types::{Error, ErrorKind, Result};
use tonic::{Request, Response, Status};

use super::MAX_REQUEST_BYTES;
use crate::core::{Core, Instance, NodeFacts, NodeReport, Report, ReportedState, Update};
use crate::link::node_certificate;

/// Status that is pushed.
#[derive(Clone)]
pub struct ControllerApi {
    core: Core,
}

impl ControllerApi {
    pub fn new(core: Core) -> Self {
        Self { core }
    }

    pub fn service(self) -> SchedulerServiceServer<Self> {
        SchedulerServiceServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    async fn node(&self, caller: Option<Arc<CertificateId>>, status: NodeStatus) -> Result<()> {
        let node = self.named_instance(caller, &status.id).await?;
        self.core.node(&node)?;
        let state = state_from_controller(state(status.status)?);
        let mut facts = NodeFacts {
            reported: Some(NodeReport::of(state, &status.description)),
            ..NodeFacts::default()
        };
        let resource = status.resource.unwrap_or_default();
        if let Some(max) = resource.max {
            facts.capacity = Some(amounts("resource.max", max)?);
        }
        let usage = resource
            .usage
            .map(|usage| amounts("resource.usage", usage))
            .transpose()?;
        let listed = self.all_listed(&node, &status.instances)?;
        self.core.update_node_facts(&node, &facts).await?;
        if let Some((cpu, memory, disk)) = usage {
            let used = Amounts::new(cpu, memory, disk);
            self.core.live().heard(&node, used, used);
        }
        for one in listed {
            if let Some(used) = one.used {
                self.core.live().set_instance(&one.report.id, used);
            }
            self.report(&node, &one.report).await?;
            let subscriptions = self.core.subscriptions();
            subscriptions.notify_instance(&one.report.id, Update::Usage);
        }
        Ok(())
    }

    /// The instances that a node lists. All are checked before anything is
    /// changed, and against each other: none of them has its address yet.
    fn all_listed(&self, node: &str, instances: &[wire::Instance]) -> Result<Vec<Listed>> {
        let mut addresses = HashMap::new();
        let listed = instances.iter().enumerate().map(|(i, instance)| {
            let listed = self.listed(node, instance);
            let listed = listed.and_then(|one| {
                check_unshared(&mut addresses, &one.report)?;
                Ok(one)
            });
            listed.map_err(|error| {
                let field = error.field().unwrap_or("id").to_owned();
                error.in_field(format!("instances[{i}].{field}"))
            })
        });
        listed.collect()
    }

    /// One of the instances that a node lists, checked.
    fn listed(&self, node: &str, listed: &wire::Instance) -> Result<Listed> {
        let mut report = report(&listed.id, listed.status, "")?;
        let now = self.core.own_instance(node, &listed.id)?;
        check_pushed(&now, report.told)?;
        if !listed.ip.is_empty() {
            let address = self.core.check_address(node, &report.id, &listed.ip)?;
            report.address = Some(address);
        }
        let usage = listed.resource.as_ref().and_then(|resource| resource.usage);
        let used = usage
            .map(|usage| amounts("resource.usage", usage))
            .transpose()?;
        Ok(Listed {
            report,
            used: used.map(|(cpu, memory, disk)| Amounts::new(cpu, memory, disk)),
        })
    }

    /// Takes a report in. A node that reports an instance takes what is
    /// assigned to it.
    async fn report(&self, node: &str, report: &Report) -> Result<()> {
        self.core.node_takes_instances(node).await?;
        self.core.report(node, report).await
    }

    async fn instance(
        &self,
        caller: Option<Arc<CertificateId>>,
        status: InstanceStatus,
    ) -> Result<()> {
        let report = report(&status.id, status.status, &status.description)?;
        self.core.check_fresh()?;
        let node = match caller {
            Some(caller) => {
                // A node that is not registered has no instance, which is
                // answered below.
                if self.core.node(caller.name.as_str()).is_ok() {
                    self.core.authenticate_node(&caller, None).await?;
                }
                caller.name.to_string()
            }
            None => {
                let found = self.core.tables().instances.get(&report.id).cloned();
                let missing = || Error::not_found(format!("there is no instance {}", report.id));
                let found = found.ok_or_else(missing)?;
                let nowhere = || Error::wrong_state(format!("{} is on no node", found.name));
                found.node.clone().ok_or_else(nowhere)?
            }
        };
        let now = self.core.own_instance(&node, &status.id)?;
        check_pushed(&now, report.told)?;
        self.report(&node, &report).await
    }

    /// The node that is spoken of, if the caller may.
    async fn named_instance(&self, caller: Option<Arc<CertificateId>>, id: &str) -> Result<String> {
        match caller {
            Some(caller) if caller.name.as_str() != id => {
                let why = format!("{} may speak of itself only", caller.name);
                Err(Error::new(ErrorKind::PermissionDenied, why).in_field("id"))
            }
            Some(caller) => {
                self.core.check_fresh()?;
                self.core.node(id)?;
                Ok(self
                    .core
                    .authenticate_node(&caller, None)
                    .await?
                    .name
                    .clone())
            }
            None => Ok(id.to_owned()),
        }
    }
}

fn state(number: i32) -> Result<wire::Status> {
    wire::Status::try_from(number)
        .map_err(|_| Error::invalid("status", format!("{number} is unknown")))
}

/// An instance in a node's list: how it is, and what it uses.
struct Listed {
    report: Report,
    used: Option<Amounts>,
}

/// Refuses an address that another instance of the same message has.
fn check_unshared(addresses: &mut HashMap<Ipv4Addr, InstanceId>, report: &Report) -> Result<()> {
    let Some(address) = report.address else {
        return Ok(());
    };
    match addresses.insert(address, report.id.clone()) {
        Some(other) if other != report.id => {
            let why = format!("{address} is reported for instance {other} too");
            Err(Error::invalid("ip", why))
        }
        _ => Ok(()),
    }
}

/// Refuses a status that is for the scheduler to decide, unless it is the one
/// that the instance has.
fn check_pushed(now: &Instance, told: ReportedState) -> Result<()> {
    use InstanceState::{Destroying, Scheduled, Scheduling};
    match told {
        ReportedState::State(state @ (Scheduling | Scheduled | Destroying))
            if state != now.state =>
        {
            let why = format!(
                "is {state}, which the scheduler decides; it is {}",
                now.state
            );
            Err(Error::invalid("status", why).with_hint(
                "report STARTING, RUNNING, STOPPING, STOPPED, TERMINATED, CRASHED or FAILED",
            ))
        }
        _ => Ok(()),
    }
}

fn report(id: &str, status: i32, description: &str) -> Result<Report> {
    let id = InstanceId::from_field("id", id)?;
    Ok(Report {
        id,
        generation: None,
        epoch: 0,
        told: ReportedState::State(state_from_controller(state(status)?)),
        reason: description.to_owned(),
        address: None,
        restarts: None,
        exit_code: None,
        healthy: None,
        given_up_at_start: None,
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
impl SchedulerService for ControllerApi {
    async fn set_node_status(&self, request: Request<NodeStatus>) -> Result<Response<()>, Status> {
        let caller = node_certificate(&request).map_err(|error| status_from_error(&error))?;
        let done = self.node(caller, request.into_inner()).await;
        done.map(Response::new)
            .map_err(|error| status_from_error(&error))
    }

    async fn set_instance_status(
        &self,
        request: Request<InstanceStatus>,
    ) -> Result<Response<()>, Status> {
        let caller = node_certificate(&request).map_err(|error| status_from_error(&error))?;
        let done = self.instance(caller, request.into_inner()).await;
        done.map(Response::new)
            .map_err(|error| status_from_error(&error))
    }
}
