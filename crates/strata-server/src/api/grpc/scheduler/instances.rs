//! `scheduler.InstanceService`: instances, and the stream of what becomes of
//! them.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use strata_api::instance_fields::{kind_from_scheduler, state_from_scheduler, state_to_scheduler};
use strata_api::scheduler::instance_service_server::{InstanceService, InstanceServiceServer};
use strata_api::scheduler::{self as wire, InstanceIdentifier, InstanceStatus};
use strata_api::status_from_error;
use strata_tasks::spawn_detached;
use strata_types::instance::{InstanceId, InstanceSpec, InstanceState};
use strata_types::{Error, ErrorKind, Label, Result};
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::super::MAX_REQUEST_BYTES;
use super::principal_of;
use super::status_queue::StatusQueue;
use crate::core::{
    Core, DEFAULT_PROJECT, DesiredState, Instance, InstanceWatch, NewInstance, Principal, Update,
    Versioned,
};

#[derive(Clone)]
pub struct InstanceApi {
    core: Core,
    /// Cancelled when the server ends.
    shutdown: CancellationToken,
}

impl InstanceApi {
    /// Over this core; streams end with `shutdown`.
    pub fn new(core: Core, shutdown: CancellationToken) -> Self {
        Self { core, shutdown }
    }

    pub fn service(self) -> InstanceServiceServer<Self> {
        InstanceServiceServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    fn find<T>(&self, request: &Request<T>, id: &str) -> Result<(Principal, InstanceId)> {
        let principal = principal_of(request)?;
        if id.is_empty() {
            return Err(Error::invalid("id", "must not be empty"));
        }
        self.core.check_fresh()?;
        let found = self.core.instance(&principal, None, id)?;
        Ok((principal, found.id.clone()))
    }

    async fn end(&self, request: &Request<InstanceIdentifier>) -> Result<()> {
        let id = &request.get_ref().id;
        match self.find(request, id) {
            Ok((principal, id)) => {
                let deleted = self
                    .core
                    .delete_instance(&principal, &id, Default::default());
                deleted.await
            }
            // What is gone is destroyed: a caller that lost the answer repeats it.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let was_there = self.core.had_instance(&principal_of(request)?, id);
                was_there.then_some(()).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }
}

/// The instance that the published message requests.
fn new_instance(wire: wire::Instance) -> Result<NewInstance> {
    let kind = wire::Type::try_from(wire.r#type)
        .map_err(|_| Error::invalid("type", format!("{} is unknown", wire.r#type)))?;
    let limit = wire.resource.and_then(|resource| resource.limit);
    let port = |(i, port): (usize, &wire::Port)| {
        for (name, n) in [("source", port.source), ("destination", port.destination)] {
            if !(1..=65_535).contains(&n) {
                let why = format!("is {n}; it must be 1 to 65535");
                return Err(Error::invalid(format!("ports[{i}].{name}"), why));
            }
        }
        Ok(format!("{}:{}", port.source, port.destination))
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    let desired_state = desired_state(wire.status)?;
    if !wire.ip.is_empty() {
        let why = "is given by the node; leave it empty";
        return Err(Error::invalid("ip", why));
    }
    Ok(NewInstance {
        id: some(wire.id).map(|id| id.parse()).transpose()?,
        fresh_id: None,
        name: some(wire.name)
            .map(|name| Label::from_field("name", &name))
            .transpose()?,
        project: Label::from_field("project", DEFAULT_PROJECT)?,
        workload: None,
        spec: InstanceSpec {
            kind: kind_from_scheduler(kind),
            uri: wire.uri,
            environment: wire.environnement,
            resources: limit.map(Into::into).unwrap_or_default(),
            pids: wire.pids,
            ports: wire
                .ports
                .iter()
                .enumerate()
                .map(port)
                .collect::<Result<_>>()?,
            ..InstanceSpec::default()
        },
        desired_state,
    })
    .and_then(|new: NewInstance| {
        // The document calls them otherwise.
        let renamed = |error: Error| match error.field() {
            Some(field) if field.starts_with("environment") => {
                let field = field.replacen("environment", "environnement", 1);
                error.in_field(field)
            }
            Some(field) if field.starts_with("resources") => {
                let field = field.replacen("resources", "resource.limit", 1);
                error.in_field(field)
            }
            _ => error,
        };
        new.spec.check().map_err(renamed)?;
        Ok(new)
    })
}

/// What an instance is created to be. 0 is RUNNING, and also the value of a
/// message in which nothing was set: it is ignored.
fn desired_state(status: i32) -> Result<Option<DesiredState>> {
    let unknown = |_| Error::invalid("status", format!("{status} is unknown"));
    let state = wire::Status::try_from(status).map_err(unknown)?;
    match state_from_scheduler(state) {
        InstanceState::Running => Ok(None),
        InstanceState::Starting | InstanceState::Scheduling | InstanceState::Scheduled => {
            Ok(Some(DesiredState::Running))
        }
        InstanceState::Stopped => Ok(Some(DesiredState::Stopped)),
        state => {
            let why = format!("is {state}; an instance is created RUNNING or STOPPED");
            Err(Error::invalid("status", why))
        }
    }
}

#[tonic::async_trait]
impl InstanceService for InstanceApi {
    type CreateStream = Pin<Box<dyn Stream<Item = Result<InstanceStatus, Status>> + Send>>;

    async fn create(
        &self,
        request: Request<wire::Instance>,
    ) -> Result<Response<Self::CreateStream>, Status> {
        let asked = async {
            let principal = principal_of(&request)?;
            // What is there already is answered for as it is known here.
            self.core.check_fresh()?;
            let mut new = new_instance(request.into_inner())?;
            // Known beforehand, so that no change is missed.
            let id = match &new.id {
                Some(id) => id.clone(),
                None => uuid::Uuid::now_v7().to_string().parse()?,
            };
            let (_, changes) = self.core.watch_instance(&id);
            new.fresh_id = Some(id.clone());
            let (made, _) = self.core.create_instance(&principal, new).await?;
            // The same request as before may have found another id.
            let changes = match made.id == id {
                true => changes,
                false => self.core.watch_instance(&made.id).1,
            };
            Ok((principal, made, changes))
        };
        let (principal, made, changes) = asked
            .await
            .map_err(|error: Error| status_from_error(&error))?;
        let (sender, statuses) = mpsc::channel(16);
        let (core, shutdown) = (self.core.clone(), self.shutdown.clone());
        spawn_detached("instance-status", async move {
            let end = sender.clone();
            tokio::select! {
                () = render(core, principal, made, changes, sender) => {}
                () = shutdown.cancelled() => {
                    let why = Error::unavailable("the server shuts down")
                        .with_hint("the same Create attaches to the instance again");
                    let _ = end.send(Err(status_from_error(&why))).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(statuses))))
    }

    async fn start(&self, request: Request<InstanceIdentifier>) -> Result<Response<()>, Status> {
        let (principal, id) = self
            .find(&request, &request.get_ref().id)
            .map_err(|error| status_from_error(&error))?;
        let started = self.core.start_instance(&principal, &id).await;
        started
            .map(|_| Response::new(()))
            .map_err(|error| status_from_error(&error))
    }

    async fn stop(&self, request: Request<InstanceIdentifier>) -> Result<Response<()>, Status> {
        let (principal, id) = self
            .find(&request, &request.get_ref().id)
            .map_err(|error| status_from_error(&error))?;
        let stopped = self.core.stop_instance(&principal, &id).await;
        stopped
            .map(|_| Response::new(()))
            .map_err(|error| status_from_error(&error))
    }

    async fn destroy(&self, request: Request<InstanceIdentifier>) -> Result<Response<()>, Status> {
        let gone = self.end(&request).await;
        gone.map(|()| Response::new(()))
            .map_err(|error| status_from_error(&error))
    }
}

/// Sends every change until the instance has ended, or the reader leaves. What
/// comes is taken in at once, so a reader that is slow misses nothing that fits
/// into its queue.
async fn render(
    core: Core,
    principal: Principal,
    made: Arc<Versioned<Instance>>,
    mut changes: InstanceWatch,
    sender: mpsc::Sender<Result<InstanceStatus, Status>>,
) {
    let mut queue = StatusQueue::default();
    queue.push(status(&core, &principal, &made));
    let mut ended = made.has_ended();
    let mut latest = made;
    while !(ended && queue.is_empty()) {
        tokio::select! {
            room = sender.reserve(), if !queue.is_empty() => match (room, queue.pop()) {
                (Ok(room), Some(next)) => room.send(Ok(next)),
                (Ok(_), None) => {}
                (Err(_), _) => return,
            },
            () = sender.closed() => return,
            update = changes.next(), if !ended => match update {
                Ok(Update::Is(next)) if next.revision <= latest.revision => {}
                Ok(Update::Is(next)) => {
                    queue.push(status(&core, &principal, &next));
                    ended = next.has_ended();
                    latest = next;
                }
                Ok(Update::Usage) => queue.measure(status(&core, &principal, &latest)),
                Ok(Update::Gone(was)) => {
                    let mut gone = status(&core, &principal, &was);
                    gone.set_status(state_to_scheduler(InstanceState::Terminated));
                    gone.status_description = String::new();
                    queue.push(gone);
                    ended = true;
                }
                // This task was kept from running: the latest, then on.
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    queue.miss(missed);
                    if let Some(now) = core.watch_instance(&latest.id).0 {
                        queue.push(status(&core, &principal, &now));
                        ended = now.has_ended();
                        latest = now;
                    }
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
        }
    }
}

/// Why it is so, and for a failure whether it is tried again: one that is not
/// ends with "; final" and is the last message of the stream.
fn describe(instance: &Instance, principal: &Principal) -> String {
    let said = instance.description_for(principal).to_owned();
    let failed = matches!(
        instance.state,
        InstanceState::Failed | InstanceState::Crashed
    );
    match (failed, instance.has_ended()) {
        (true, true) => format!("{said}; final"),
        // A crash is restarted by the policy, and its description names how it
        // ended.
        (true, false) if instance.state == InstanceState::Failed && !said.contains("again") => {
            format!("{said}; tried again")
        }
        _ => said,
    }
}

fn status(core: &Core, principal: &Principal, instance: &Instance) -> InstanceStatus {
    let usage = (instance.state == InstanceState::Running).then(|| core.live().usage(&instance.id));
    InstanceStatus {
        id: instance.id.to_string(),
        status: state_to_scheduler(instance.state).into(),
        status_description: describe(instance, principal),
        resource: Some(wire::Resource {
            limit: Some(instance.spec.resources.into()),
            usage: usage.map(Into::into),
        }),
    }
}
