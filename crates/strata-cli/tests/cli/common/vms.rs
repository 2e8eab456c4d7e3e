//! The virtual and spawned machines of the fake node, and its services for
//! them.

use strata_api::runtime::instances_server::Instances;
use strata_api::runtime::spawn_server::Spawn;
use strata_api::status_from_error;
use strata_api::strata::v1::console_input::Input;
use strata_api::strata::v1::vm_spec::Boot;
use strata_api::strata::v1::{
    CellUsage, ConsoleInput, ConsoleOutput, CreateMachineRequest, CreateVmRequest,
    DestroyMachineRequest, DestroyMachineResponse, DestroyVmRequest, DestroyVmResponse,
    GetMachineRequest, GetVmRequest, ListMachinesRequest, ListMachinesResponse, ListVmsRequest,
    ListVmsResponse, LogChannel, LogLine, Machine, MachineLogsRequest, MachineSpec, PodLogsRequest,
    PodState, PodUsage, StartMachineRequest, StartVmRequest, StopMachineRequest, StopVmRequest, Vm,
    VmAccelerator, VmEvent, VmSpec, VmStat, VmStats, VmStatsRequest, WaitVmRequest,
    WatchVmsRequest,
};
use strata_types::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::data::{self, NOW_MS};
use super::fake::{Shared, State};
use super::services::{Answer, Answers, stream};

pub fn vms() -> Vec<Vm> {
    vec![vm(
        VmSpec {
            name: "build".into(),
            cpus: 2,
            memory_bytes: 2 << 30,
            boot: Some(Boot::Image("/srv/debian.qcow2".into())),
            ports: vec!["2222:22".into()],
            ..Default::default()
        },
        PodState::Running,
    )]
}

fn vm(spec: VmSpec, state: PodState) -> Vm {
    Vm {
        id: format!("{}-0192f0c1", spec.name),
        spec: Some(spec),
        state: state.into(),
        address: "10.66.0.20".into(),
        mac: "52:54:00:00:00:01".into(),
        accelerator: VmAccelerator::Tcg.into(),
        process_id: 4800,
        created_at_ms: NOW_MS - 192_000,
        started_at_ms: NOW_MS - 60_000,
        disk_bytes: 3 << 20,
        ..Default::default()
    }
}

pub fn machines() -> Vec<Machine> {
    vec![machine(MachineSpec {
        name: "n1".into(),
        cpu_millis: Some(500),
        memory_bytes: Some(256 << 20),
        ..Default::default()
    })]
}

fn machine(spec: MachineSpec) -> Machine {
    Machine {
        id: format!("{}-0192f0c1", spec.name),
        spec: Some(spec),
        address: "10.66.0.30".into(),
        endpoint: "https://10.66.0.30:7710".into(),
        process_id: 4900,
        created_at_ms: NOW_MS - 9_000,
        running: true,
        reason: String::new(),
    }
}

fn missing(what: &str, name: &str) -> Status {
    status_from_error(&Error::not_found(format!("there is no {what} {name}")))
}

fn find<'a>(state: &'a mut State, name: &str) -> Result<&'a mut Vm, Status> {
    let mut vms = state.vms.iter_mut();
    vms.find(|vm| vm.spec.as_ref().unwrap().name == name)
        .ok_or_else(|| missing("vm", name))
}

#[tonic::async_trait]
impl Instances for Shared {
    type WatchStream = Answers<VmEvent>;
    type StatsStream = Answers<VmStats>;
    type LogsStream = Answers<LogLine>;
    type ConsoleStream = Answers<ConsoleOutput>;

    async fn create(&self, request: Request<CreateVmRequest>) -> Answer<Vm> {
        let mut state = self.open()?;
        let request = request.into_inner();
        let spec = request.vm.unwrap_or_default();
        let becomes = match request.start {
            true => PodState::Running,
            false => PodState::Created,
        };
        state.created_vms.push(spec.clone());
        let made = vm(spec, becomes);
        state.vms.push(made.clone());
        Ok(Response::new(made))
    }

    async fn start(&self, request: Request<StartVmRequest>) -> Answer<Vm> {
        let mut state = self.open()?;
        let found = find(&mut state, &request.into_inner().name)?;
        found.set_state(PodState::Running);
        Ok(Response::new(found.clone()))
    }

    async fn stop(&self, request: Request<StopVmRequest>) -> Answer<Vm> {
        let mut state = self.open()?;
        let request = request.into_inner();
        let call = format!("stop {} {:?}", request.name, request.grace_ms);
        state.calls.push(call);
        let found = find(&mut state, &request.name)?;
        found.set_state(PodState::Stopped);
        Ok(Response::new(found.clone()))
    }

    async fn destroy(&self, request: Request<DestroyVmRequest>) -> Answer<DestroyVmResponse> {
        let mut state = self.open()?;
        let name = request.into_inner().name;
        find(&mut state, &name)?;
        state
            .vms
            .retain(|vm| vm.spec.as_ref().unwrap().name != name);
        state.calls.push(format!("destroy {name}"));
        Ok(Response::new(DestroyVmResponse {}))
    }

    async fn get(&self, request: Request<GetVmRequest>) -> Answer<Vm> {
        let mut state = self.open()?;
        let found = find(&mut state, &request.into_inner().name)?;
        Ok(Response::new(found.clone()))
    }

    async fn list(&self, _: Request<ListVmsRequest>) -> Answer<ListVmsResponse> {
        let vms = self.open()?.vms.clone();
        Ok(Response::new(ListVmsResponse { vms }))
    }

    async fn wait(&self, request: Request<WaitVmRequest>) -> Answer<Vm> {
        let mut state = self.open()?;
        let exit_code = state.exit_code;
        let found = find(&mut state, &request.into_inner().name)?;
        found.set_state(PodState::Exited);
        found.exit_code = Some(exit_code);
        found.reason = format!("exit {exit_code}");
        Ok(Response::new(found.clone()))
    }

    async fn watch(&self, request: Request<WatchVmsRequest>) -> Answer<Self::WatchStream> {
        drop(self.open()?);
        let event = VmEvent {
            at_ms: NOW_MS,
            vm: "build".into(),
            vm_id: "build-0192f0c1".into(),
            state: PodState::Running.into(),
            message: "started".into(),
            missed: 0,
        };
        let history = request.into_inner().history;
        Ok(Response::new(stream(vec![event], history)))
    }

    /// Two looks, one second apart, the second with half a cpu's work more.
    async fn stats(&self, _: Request<VmStatsRequest>) -> Answer<Self::StatsStream> {
        let state = self.open()?;
        let look = |observed_at_ms: i64, cpu_usec: u64| VmStats {
            vms: state
                .vms
                .iter()
                .map(|vm| VmStat {
                    name: vm.spec.as_ref().unwrap().name.clone(),
                    state: vm.state,
                    usage: Some(PodUsage {
                        cell: Some(CellUsage {
                            cpu_usec,
                            memory_bytes: 300 << 20,
                            pids: 5,
                            ..Default::default()
                        }),
                        disk_bytes: vm.disk_bytes,
                        ..Default::default()
                    }),
                    cpus: 2,
                    memory_bytes: 2 << 30,
                })
                .collect(),
            observed_at_ms,
        };
        let looks = vec![look(NOW_MS - 1000, 0), look(NOW_MS, 500_000)];
        Ok(Response::new(stream(looks, state.endless)))
    }

    async fn logs(&self, request: Request<PodLogsRequest>) -> Answer<Self::LogsStream> {
        let mut state = self.open()?;
        find(&mut state, &request.into_inner().name)?;
        let lines = vec![data::line(LogChannel::Stdout, b"login:", 1)];
        Ok(Response::new(stream(lines, false)))
    }

    /// Gives back what is typed; a `q` ends it.
    async fn console(
        &self,
        request: Request<Streaming<ConsoleInput>>,
    ) -> Answer<Self::ConsoleStream> {
        let mut inputs = request.into_inner();
        let first = inputs.message().await?.and_then(|first| first.input);
        let Some(Input::Vm(name)) = first else {
            return Err(Status::invalid_argument("vm comes first"));
        };
        find(&mut *self.open()?, &name)?;
        let (sender, outputs) = mpsc::channel(16);
        let shared = self.clone();
        tokio::spawn(async move {
            let greeting = ConsoleOutput {
                printed: b"login: ".to_vec().into(),
            };
            let _ = sender.send(Ok(greeting)).await;
            while let Ok(Some(message)) = inputs.message().await {
                let Some(Input::Typed(typed)) = message.input else {
                    continue;
                };
                let quit = typed.contains(&b'q');
                let echo = ConsoleOutput { printed: typed };
                let _ = sender.send(Ok(echo)).await;
                if quit {
                    return;
                }
            }
            shared.lock().calls.push("console left".into());
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outputs))))
    }
}

#[tonic::async_trait]
impl Spawn for Shared {
    type LogsStream = Answers<LogLine>;

    async fn start(&self, _: Request<StartMachineRequest>) -> Answer<Machine> {
        Err(Status::unimplemented("no command asks for it"))
    }

    async fn stop(&self, _: Request<StopMachineRequest>) -> Answer<Machine> {
        Err(Status::unimplemented("no command asks for it"))
    }

    async fn logs(&self, _: Request<MachineLogsRequest>) -> Answer<Self::LogsStream> {
        Err(Status::unimplemented("no command asks for it"))
    }

    async fn create(&self, request: Request<CreateMachineRequest>) -> Answer<Machine> {
        let mut state = self.open()?;
        let spec = request.into_inner().machine.unwrap_or_default();
        state.created_machines.push(spec.clone());
        let made = machine(spec);
        state.machines.push(made.clone());
        Ok(Response::new(made))
    }

    async fn destroy(
        &self,
        request: Request<DestroyMachineRequest>,
    ) -> Answer<DestroyMachineResponse> {
        let mut state = self.open()?;
        let name = request.into_inner().name;
        let before = state.machines.len();
        state
            .machines
            .retain(|machine| machine.spec.as_ref().unwrap().name != name);
        if state.machines.len() == before {
            return Err(missing("machine", &name));
        }
        Ok(Response::new(DestroyMachineResponse {}))
    }

    async fn get(&self, request: Request<GetMachineRequest>) -> Answer<Machine> {
        let state = self.open()?;
        let name = request.into_inner().name;
        let mut machines = state.machines.iter();
        let found = machines.find(|machine| machine.spec.as_ref().unwrap().name == name);
        found
            .cloned()
            .map(Response::new)
            .ok_or_else(|| missing("machine", &name))
    }

    async fn list(&self, _: Request<ListMachinesRequest>) -> Answer<ListMachinesResponse> {
        let machines = self.open()?.machines.clone();
        Ok(Response::new(ListMachinesResponse { machines }))
    }
}
