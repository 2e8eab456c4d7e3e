//! `strata.v1.Instances`: what goes both ways between a caller and an
//! instance. The server finds the node, and is in the middle of the stream.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use strata_api::runtime::instances_client::InstancesClient;
use strata_api::runtime::pods_client::PodsClient;
use strata_api::status_from_error;
use strata_api::strata::v1::instances_server::{Instances, InstancesServer};
use strata_api::strata::v1::{ExecInput, ExecOutput, LogLine, PodLogsRequest, exec_input};
use strata_audit::{SessionEnd, SessionKind, SessionRecorder};
use strata_types::instance::InstanceKind;
use strata_types::{Error, Result};
use tonic::{Request, Response, Status, Streaming};

use super::MAX_REQUEST_BYTES;
use super::scheduler::principal_of;
use crate::api::session::{RecordedOutput, count_input};
use crate::core::{Core, Instance, Principal, Versioned};
use crate::link::{NodeChannel, Tunnels, unit_name};

/// Instances, as far as REST does not carry them well.
#[derive(Clone)]
pub struct NodeInstancesApi {
    core: Core,
    tunnels: Tunnels,
}

type Answer<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl NodeInstancesApi {
    /// Over this core, to nodes by these tunnels.
    pub fn new(core: Core, tunnels: Tunnels) -> Self {
        Self { core, tunnels }
    }

    pub fn service(self) -> InstancesServer<Self> {
        InstancesServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    /// An instance, and the API of the node that has it.
    fn reach(
        &self,
        principal: &Principal,
        name: &str,
    ) -> Result<(Arc<Versioned<Instance>>, NodeChannel)> {
        self.core.check_fresh()?;
        let instance = self.core.instance(principal, None, name)?;
        let Some(node) = &instance.node else {
            return Err(Error::wrong_state(format!(
                "{} is on no node: it is {}",
                instance.name, instance.state
            )));
        };
        let channel = self.tunnels.node(node, principal)?;
        Ok((instance, channel))
    }

    /// The lines that an instance wrote.
    pub(crate) async fn read_logs(
        &self,
        principal: &Principal,
        mut request: PodLogsRequest,
    ) -> Result<Answer<LogLine>, Status> {
        let (instance, channel) = self
            .reach(principal, &request.name)
            .map_err(|error| status_from_error(&error))?;
        request.name = unit_name(&instance.id);
        let lines = match instance.spec.kind {
            InstanceKind::Container => PodsClient::new(channel).logs(request).await?,
            InstanceKind::Vm => InstancesClient::new(channel).logs(request).await?,
        };
        Ok(Box::pin(lines.into_inner()))
    }

    /// Runs something in an instance.
    pub(crate) async fn run(
        &self,
        principal: &Principal,
        recorder: &SessionRecorder,
        mut first: ExecInput,
        rest: impl Stream<Item = ExecInput> + Send + 'static,
    ) -> Result<Answer<ExecOutput>, Status> {
        let Some(exec_input::Input::Start(start)) = &mut first.input else {
            let error = Error::invalid("start", "must be the first message");
            return Err(status_from_error(&error));
        };
        let (instance, channel) = self
            .reach(principal, &start.pod)
            .map_err(|error| status_from_error(&error))?;
        principal
            .in_project(&instance.project)
            .map_err(|error| status_from_error(&error))?;
        if instance.spec.kind == InstanceKind::Vm {
            let error = Error::wrong_state(format!("{} is a virtual machine", instance.name))
                .with_hint("commands run in containers only");
            return Err(status_from_error(&error));
        }
        start.pod = unit_name(&instance.id);
        let object = format!("instance/{}", instance.id);
        let project = Some(instance.project.as_str());
        let session = recorder.start(SessionKind::Exec, object, project, &start.command);
        let meter = session.meter();
        let rest = rest.inspect(move |input| count_input(&meter, input));
        let input = futures_util::stream::once(std::future::ready(first)).chain(rest);
        match PodsClient::new(channel).exec(input).await {
            Ok(output) => Ok(Box::pin(RecordedOutput::new(output.into_inner(), session))),
            Err(status) => {
                session.end(SessionEnd::because(status.message()));
                Err(status)
            }
        }
    }
}

#[tonic::async_trait]
impl Instances for NodeInstancesApi {
    type ExecStream = Answer<ExecOutput>;
    type LogsStream = Answer<LogLine>;

    async fn exec(
        &self,
        request: Request<Streaming<ExecInput>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let principal = principal_of(&request).map_err(|error| status_from_error(&error))?;
        let recorder = request.extensions().get::<SessionRecorder>().cloned();
        let recorder = recorder.unwrap_or_default();
        let mut input = request.into_inner();
        let Some(first) = input.message().await? else {
            return Err(Status::cancelled("nothing was asked for"));
        };
        // A caller that is gone sends nothing more.
        let rest = input.take_while(|next| std::future::ready(next.is_ok()));
        let rest = rest.filter_map(|next| std::future::ready(next.ok()));
        self.run(&principal, &recorder, first, rest)
            .await
            .map(Response::new)
    }

    async fn logs(
        &self,
        request: Request<PodLogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let principal = principal_of(&request).map_err(|error| status_from_error(&error))?;
        let lines = self.read_logs(&principal, request.into_inner()).await?;
        Ok(Response::new(lines))
    }
}
