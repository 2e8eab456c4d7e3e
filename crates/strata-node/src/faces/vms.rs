//! `runtime.Instances`: virtual machines.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use strata_api::grace_from_field;
use strata_api::runtime;
use strata_api::strata::v1;
use strata_api::strata::v1::console_input::Input;
use strata_identity::Caller;
use strata_types::{Error, Result, Role};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::logs::{Wanted, lines};
use super::status;
use crate::Node;
use crate::blocking::{blocking, detached};
use crate::clock::ms;
use crate::images::{Images, may_read_path};
use crate::logs::LogWatch;
use crate::vms::{Console, VmAsk, VmRef, Vms, endpoint, usage};

pub(super) struct Face {
    vms: Vms,
    images: Images,
    watch: LogWatch,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

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
    Ok(view(&vm))
}

fn view(vm: &VmRef) -> v1::Vm {
    let (record, known) = (vm.record(), vm.view());
    let kind = vm.kind().ok();
    let main = known.main.as_ref().map(|main| (main.pid, main.view()));
    let cell = kind.as_ref().and_then(|kind| {
        let name = record.spec.name.label().clone().into();
        kind.cells.find("name", &name).ok()
    });
    let uses_kvm = kind
        .as_ref()
        .and_then(|kind| kind.uses_kvm(record.spec.accel));
    let endpoint = endpoint(&record.spec, &record.made);
    v1::Vm {
        spec: Some((&record.spec).into()),
        state: v1::PodState::from(known.state).into(),
        reason: known.reason,
        address: record
            .made
            .address
            .map(|a| a.to_string())
            .unwrap_or_default(),
        mac: endpoint
            .map(|endpoint| endpoint.mac().to_string())
            .unwrap_or_default(),
        accelerator: match uses_kvm {
            Some(true) => v1::VmAccelerator::Kvm,
            Some(false) => v1::VmAccelerator::Tcg,
            None => v1::VmAccelerator::Auto,
        }
        .into(),
        process_id: main
            .filter(|(_, run)| !run.is_over())
            .map_or(0, |(pid, _)| pid),
        created_at_ms: record.created_at_ms,
        started_at_ms: main.map_or(0, |(_, run)| ms(run.started_ns)),
        ended_at_ms: main.map_or(0, |(_, run)| ms(run.ended_ns)),
        restarts: record.restarts,
        usage: blocking(|| cell.map(|cell| super::views::usage(&cell.usage()))),
        disk_bytes: kind.map_or(0, |kind| blocking(|| usage(&kind.folders.join(&record.id)))),
        id: record.id,
    }
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

/// Passes on what is typed and what is printed until either side ends.
async fn console(
    lease: Console,
    socket: UnixStream,
    mut typed: Streaming<v1::ConsoleInput>,
) -> Answers<v1::ConsoleOutput> {
    let (mut from, mut to) = socket.into_split();
    let (sender, stream) = mpsc::channel(16);
    let typing = tokio::spawn(async move {
        while let Ok(Some(message)) = typed.message().await {
            if let Some(Input::Typed(bytes)) = message.input
                && to.write_all(&bytes).await.is_err()
            {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let _lease = lease;
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = tokio::select! {
                read = from.read(&mut buffer) => read,
                () = sender.closed() => break,
            };
            let Ok(n @ 1..) = read else { break };
            let printed = Bytes::copy_from_slice(&buffer[..n]);
            if sender
                .send(Ok(v1::ConsoleOutput { printed }))
                .await
                .is_err()
            {
                break;
            }
        }
        typing.abort();
    });
    Box::pin(ReceiverStream::new(stream))
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
        let work = async move { vm.start().await.map(|()| view(&vm)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn stop(&self, request: Request<v1::StopVmRequest>) -> Result<Response<v1::Vm>, Status> {
        let request = request.into_inner();
        let vm = self.find(&request.name)?;
        let grace = request.grace_ms.map(|ms| grace_from_field("grace_ms", ms));
        let grace = grace.transpose().map_err(status)?;
        let work = async move { vm.stop(grace).await.map(|()| view(&vm)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn destroy(
        &self,
        request: Request<v1::DestroyVmRequest>,
    ) -> Result<Response<v1::DestroyVmResponse>, Status> {
        let (vms, name) = (self.vms.clone(), request.into_inner().name);
        // What it has is taken away with it: there is nothing to save.
        let work = async move { vms.destroy("name", &name, Some(Duration::ZERO)).await };
        detached(work).await.map_err(status)?;
        Ok(Response::new(v1::DestroyVmResponse {}))
    }

    async fn get(&self, request: Request<v1::GetVmRequest>) -> Result<Response<v1::Vm>, Status> {
        let caller = request.extensions().get::<Caller>();
        let vm = view(&self.find(&request.get_ref().name)?);
        Ok(Response::new(seen_by(caller, vm)))
    }

    async fn list(
        &self,
        request: Request<v1::ListVmsRequest>,
    ) -> Result<Response<v1::ListVmsResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let vms = self.vms.list();
        let vms = vms.iter().map(|vm| seen_by(caller, view(vm))).collect();
        Ok(Response::new(v1::ListVmsResponse { vms }))
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
        Ok(Response::new(console(lease, socket, typed).await))
    }
}
