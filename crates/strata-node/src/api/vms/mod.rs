//! `runtime.Instances`: virtual machines.

mod console;
mod views;

use strata_api::grace_from_field;
use strata_api::runtime;
use strata_api::strata::v1;
use strata_api::strata::v1::console_input::Input;
use strata_audit::SessionKind;
use strata_identity::Caller;
use strata_types::{Error, ErrorKind, Result, Role};
use tokio::net::UnixStream;
use tonic::{Request, Response, Status, Streaming};

use super::logs::{LineRange, lines};
use super::units::{self, Answers};
use super::{audit, status};
use crate::Node;
use crate::blocking::detached;
use crate::clock::now_ms;
use crate::host_path::is_allowed;
use crate::images::{Images, may_read_path};
use crate::logs::LogWatch;
use crate::network::{TAG_LABEL, project_of};
use crate::vms::{Console, VmRef, VmUnitSpec, Vms};

pub(super) struct VmsApi {
    vms: Vms,
    images: Images,
    watch: LogWatch,
}

impl VmsApi {
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
    let unit_spec = VmUnitSpec::try_from(vm)?;
    may_tag(caller.as_ref(), &unit_spec)?;
    for file in unit_spec.files() {
        may_read_path(caller.as_ref(), file, &images.config().local_dirs)?;
    }
    let vm = vms.create(unit_spec, request.start).await?;
    Ok(views::vm(&vm))
}

/// Whether this caller may create such a machine: with the tag of a machine
/// provider it is in the network what a node is. Providers reach the node by its
/// socket, as admins.
fn may_tag(caller: Option<&Caller>, spec: &VmUnitSpec) -> Result<()> {
    let is_admin = caller.is_some_and(|caller| caller.role == Role::Admin);
    if is_admin || !spec.labels.contains_key(TAG_LABEL) {
        return Ok(());
    }
    let why = format!("only an admin may set the label {TAG_LABEL}");
    Err(Error::new(ErrorKind::PermissionDenied, why).in_field("vm.labels"))
}

/// Whether this caller may start, stop or destroy a machine, or type into it,
/// which another may have created: its disks are files of the host, and its
/// console shows what is on them. They are checked by their names alone: nothing
/// on the disk keeps a caller from ending its machine.
fn may_manage(images: &Images, caller: Option<&Caller>, vm: &VmRef, act: &str) -> Result<()> {
    if caller.is_some_and(|caller| caller.role == Role::Admin) {
        return Ok(());
    }
    let spec = vm.record().spec;
    let dirs = &images.config().local_dirs;
    match spec.files().iter().all(|file| is_allowed(file, dirs)) {
        true => Ok(()),
        false => {
            let why = format!(
                "virtual machine {} has files of its host: only an admin may {act} it",
                spec.name
            );
            Err(Error::new(ErrorKind::PermissionDenied, why)
                .with_hint("operators may where all are below the local_folders of [images]"))
        }
    }
}

/// What a caller may see of a machine: viewers do not see the data of its first
/// boot, which often has secrets in it.
fn seen_by(caller: Option<&Caller>, mut vm: v1::Vm) -> v1::Vm {
    if caller.is_none_or(|caller| caller.role == Role::Viewer)
        && let Some(spec) = &mut vm.spec
    {
        spec.user_data.clear();
    }
    vm
}

#[tonic::async_trait]
impl runtime::instances_server::Instances for VmsApi {
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
        let caller = request.extensions().get::<Caller>();
        may_manage(&self.images, caller, &vm, "start").map_err(status)?;
        let work = async move { vm.start().await.map(|()| views::vm(&vm)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn stop(&self, request: Request<v1::StopVmRequest>) -> Result<Response<v1::Vm>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let request = request.into_inner();
        let vm = self.find(&request.name)?;
        may_manage(&self.images, caller.as_ref(), &vm, "stop").map_err(status)?;
        let grace = request.grace_ms.map(|ms| grace_from_field("grace_ms", ms));
        let grace = grace.transpose().map_err(status)?;
        let work = async move { vm.stop(grace).await.map(|()| views::vm(&vm)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn destroy(
        &self,
        request: Request<v1::DestroyVmRequest>,
    ) -> Result<Response<v1::DestroyVmResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let (vms, name) = (self.vms.clone(), request.into_inner().name);
        // What is not there is refused, or accepted, below.
        if let Ok(vm) = vms.find("name", &name) {
            may_manage(&self.images, caller.as_ref(), &vm, "destroy").map_err(status)?;
        }
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
        let wanted = LineRange {
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
        let caller = request.extensions().get::<Caller>().cloned();
        let recorder = audit::recorder(&request);
        let mut typed = request.into_inner();
        let first = typed.message().await?.and_then(|message| message.input);
        let Some(Input::Vm(name)) = first else {
            return Err(status(Error::invalid("vm", "must come first")));
        };
        let vm = self.vms.find("vm", &name).map_err(status)?;
        let act = "use the console of";
        may_manage(&self.images, caller.as_ref(), &vm, act).map_err(status)?;
        let dir = vm.kind().and_then(|kind| kind.dir(&vm.record().id));
        let path = dir.map_err(status)?.console();
        let kind = vm.kind().map_err(status)?;
        let lease = Console::take(&kind, &vm.record().id).ok_or_else(|| {
            let why = format!("console of {name:?} is in use");
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
