//! `runtime.Instances`: virtual machines.

mod console;
mod views;

use strata_api::grace_from_field;
use strata_api::runtime;
use strata_api::strata::v1;
use strata_api::strata::v1::console_input::Input;
use strata_audit::SessionKind;
use strata_identity::Caller;
use strata_types::{Error, Result, Role};
use tokio::net::UnixStream;
use tonic::{Request, Response, Status, Streaming};

use super::logs::{Wanted, lines};
use super::units::{self, Answers};
use super::{audit, status};
use crate::Node;
use crate::blocking::detached;
use crate::clock::now_ms;
use crate::images::{Images, may_read_path};
use crate::logs::LogWatch;
use crate::network::project_of;
use crate::vms::{Console, VmAsk, VmRef, Vms};

pub(super) struct Face {
    vms: Vms,
    images: Images,
    watch: LogWatch,
}

impl Face {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            vms: node.vms.clone(),
            images: node.images.clone(),
            watch: node.watch.clone(),
        }
    }

    fn find(&self, name: &str) -> Result<VmRef, Status> {
        self.vms.find("name", name).map_err(status)
    }
}

async fn create(
    vms: Vms,
    images: Images,
    caller: Option<Caller>,
    request: v1::CreateVmRequest,
) -> Result<v1::Vm> {
    let vm = request
        .vm
        .ok_or_else(|| Error::invalid("vm", "is missing"))?;
    let ask = VmAsk::try_from(vm)?;
    for file in ask.files() {
        may_read_path(caller.as_ref(), file, &images.config().local_folders)?;
    }
    let vm = vms.create(ask, request.start).await?;
    Ok(views::vm(&vm))
}

/// What a caller may see of a machine: those who only look on do not see what
/// it is told at its first boot, which often has secrets in it.
fn seen_by(caller: Option<&Caller>, mut vm: v1::Vm) -> v1::Vm {
    if caller.is_none_or(|caller| caller.role == Role::Viewer)
        && let Some(spec) = &mut vm.spec
    {
        spec.user_data.clear();
    }
    vm
}

#[tonic::async_trait]
impl runtime::instances_server::Instances for Face {
    async fn create(
        &self,
        request: Request<v1::CreateVmRequest>,
    ) -> Result<Response<v1::Vm>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let work = create(
            self.vms.clone(),
            self.images.clone(),
            caller,
            request.into_inner(),
        );
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn start(
        &self,
        request: Request<v1::StartVmRequest>,
    ) -> Result<Response<v1::Vm>, Status> {
        let vm = self.find(&request.get_ref().name)?;
        let work = async move { vm.start().await.map(|()| views::vm(&vm)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn stop(&self, request: Request<v1::StopVmRequest>) -> Result<Response<v1::Vm>, Status> {
        let request = request.into_inner();
        let vm = self.find(&request.name)?;
        let grace = request.grace_ms.map(|ms| grace_from_field("grace_ms", ms));
        let grace = grace.transpose().map_err(status)?;
        let work = async move { vm.stop(grace).await.map(|()| views::vm(&vm)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn destroy(
        &self,
        request: Request<v1::DestroyVmRequest>,
    ) -> Result<Response<v1::DestroyVmResponse>, Status> {
        let (vms, name) = (self.vms.clone(), request.into_inner().name);
        let work = async move { vms.take_away("name", &name).await };
        detached(work).await.map_err(status)?;
        Ok(Response::new(v1::DestroyVmResponse {}))
    }

    async fn get(&self, request: Request<v1::GetVmRequest>) -> Result<Response<v1::Vm>, Status> {
        let caller = request.extensions().get::<Caller>();
        let vm = views::vm(&self.find(&request.get_ref().name)?);
        Ok(Response::new(seen_by(caller, vm)))
    }

    async fn list(
        &self,
        request: Request<v1::ListVmsRequest>,
    ) -> Result<Response<v1::ListVmsResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let vms = self.vms.list();
        let vms = vms
            .iter()
            .map(|vm| seen_by(caller, views::vm(vm)))
            .collect();
        Ok(Response::new(v1::ListVmsResponse { vms }))
    }

    async fn wait(&self, request: Request<v1::WaitVmRequest>) -> Result<Response<v1::Vm>, Status> {
        let caller = request.extensions().get::<Caller>();
        let vm = self.find(&request.get_ref().name)?;
        let _ = vm.watch().wait_for(crate::units::View::is_over).await;
        Ok(Response::new(seen_by(caller, views::vm(&vm))))
    }

    type WatchStream = Answers<v1::VmEvent>;

    async fn watch(
        &self,
        request: Request<v1::WatchVmsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let missed = |missed| v1::VmEvent {
            at_ms: now_ms(),
            missed,
            ..v1::VmEvent::default()
        };
        let (name, history) = (request.name, request.history);
        units::events(&self.vms, name, history, views::event, missed)
            .map(Response::new)
            .map_err(status)
    }

    type StatsStream = Answers<v1::VmStats>;

    async fn stats(
        &self,
        request: Request<v1::VmStatsRequest>,
    ) -> Result<Response<Self::StatsStream>, Status> {
        let request = request.into_inner();
        units::stats(&self.vms, request.name, request.interval_ms, views::stats)
            .map(Response::new)
            .map_err(status)
    }

    type LogsStream = Answers<v1::LogLine>;

    async fn logs(
        &self,
        request: Request<v1::PodLogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let vm = self.find(&request.name)?;
        let main = vm.view().main;
        let run =
            main.ok_or_else(|| status(Error::wrong_state("the machine was never started")))?;
        let wanted = Wanted {
            stdout: request.stdout,
            stderr: request.stderr,
            tail: request.tail,
            since_ms: request.since_ms,
            follow: request.follow,
        };
        lines(&run, &self.watch, wanted)
            .map(Response::new)
            .map_err(status)
    }

    type ConsoleStream = Answers<v1::ConsoleOutput>;

    async fn console(
        &self,
        request: Request<Streaming<v1::ConsoleInput>>,
    ) -> Result<Response<Self::ConsoleStream>, Status> {
        let recorder = audit::recorder(&request);
        let mut typed = request.into_inner();
        let first = typed.message().await?.and_then(|message| message.input);
        let Some(Input::Vm(name)) = first else {
            return Err(status(Error::invalid("vm", "must come first")));
        };
        let vm = self.vms.find("vm", &name).map_err(status)?;
        let folder = vm.kind().and_then(|kind| kind.folder(&vm.record().id));
        let path = folder.map_err(status)?.console();
        let kind = vm.kind().map_err(status)?;
        let lease = Console::take(&kind, &vm.record().id).ok_or_else(|| {
            let why = format!("somebody has the console of {name:?} already");
            status(Error::wrong_state(why).with_hint("`strata vm logs -f` shows what it prints"))
        })?;
        let socket = UnixStream::connect(path).await.map_err(|error| {
            status(
                Error::wrong_state(format!("the console cannot be reached: {error}"))
                    .with_hint("is the machine running? another console may be open"),
            )
        })?;
        let project = project_of(&vm.record().spec.labels);
        let object = format!("vm/{name}");
        let session = recorder.start(SessionKind::Console, object, project.as_deref(), &[]);
        Ok(Response::new(console::serve(lease, socket, typed, session)))
    }
}
