//! Remote exec on machines through the API of their nodes, in one cell.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::FutureExt as _;
use strata_api::runtime::cell_service_client::CellServiceClient;
use strata_api::runtime::{
    AllocateCellRequest, Cell, Executable, StartCellRequest, StopCellRequest,
};
use strata_api::strata::v1::cells_client::CellsClient;
use strata_api::strata::v1::logs_client::LogsClient;
use strata_api::strata::v1::node_client::NodeClient;
use strata_api::strata::v1::{
    CellCgroups, CellOptions, ExecutableInfo, ExecutableOptions, ExecutableRestart,
    ExecutableState, GetCellRequest, GetNodeInfoRequest, ReadLogsRequest, WaitExecutableRequest,
};
use strata_clusters::kubeadm::{ExecOutput, ExecRequest, RemoteExec};
use strata_clusters::{Done, DriverError};
use tonic::{Code, Status};

use crate::core::Principal;
use crate::link::{NodeChannel, Tunnels};

const CELL: &str = "kubernetes";
/// The end of what a program wrote.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
const MAX_OUTPUT_LINES: u32 = 1000;
/// How long a node may take for what is done at once.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A tunnel may come a moment after its node did.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Remote exec through the tunnels of nodes.
pub struct NodeExec(pub Tunnels);

impl NodeExec {
    async fn node(&self, machine: &str) -> Result<NodeChannel, DriverError> {
        let principal = Principal::server("cluster");
        let until = tokio::time::Instant::now() + TUNNEL_TIMEOUT;
        loop {
            match self.0.node(machine, &principal) {
                Ok(channel) => return Ok(channel),
                Err(error) if tokio::time::Instant::now() >= until => {
                    return Err(unreachable(machine, error.to_string()));
                }
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Starts an executable, and the cell around it where it is not there.
    async fn start(&self, machine: &str, executable: Executable) -> Result<(), DriverError> {
        let channel = self.node(machine).await?;
        let mut cells = CellServiceClient::new(channel);
        let start = StartCellRequest {
            executable: Some(executable),
        };
        let answer = within(machine, cells.start(start.clone())).await?;
        match answer {
            Err(status) if status.code() == Code::NotFound => {}
            answer => return answer.map(drop).map_err(|status| failed(machine, &status)),
        }
        let options = CellOptions {
            // The kubelet and containerd make groups beside the cell's.
            cgroups: CellCgroups::Host.into(),
            ..CellOptions::default()
        };
        let cell = Cell {
            name: CELL.into(),
            options: Some(options),
            ..Cell::default()
        };
        let made = cells.allocate(AllocateCellRequest { cell: Some(cell) });
        match within(machine, made).await? {
            Err(status) if status.code() != Code::AlreadyExists => {
                return Err(failed(machine, &status));
            }
            _ => {}
        }
        let answer = within(machine, cells.start(start)).await?;
        answer.map(drop).map_err(|status| failed(machine, &status))
    }

    /// An executable, if there is one of the name.
    async fn find(&self, machine: &str, name: &str) -> Result<Option<ExecutableInfo>, DriverError> {
        let mut cells = CellsClient::new(self.node(machine).await?);
        let get = cells.get(GetCellRequest {
            cell_name: CELL.into(),
        });
        match within(machine, get).await? {
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(failed(machine, &status)),
            Ok(cell) => {
                let mut all = cell.into_inner().executables.into_iter();
                Ok(all.find(|one| one.name == name))
            }
        }
    }

    async fn end(&self, machine: &str, name: &str) -> Result<(), DriverError> {
        let mut cells = CellServiceClient::new(self.node(machine).await?);
        let stop = cells.stop(StopCellRequest {
            cell_name: CELL.into(),
            executable_name: name.into(),
            ..StopCellRequest::default()
        });
        match within(machine, stop).await? {
            Err(status) if matches!(status.code(), Code::NotFound | Code::FailedPrecondition) => {
                Ok(())
            }
            answer => answer.map(drop).map_err(|status| failed(machine, &status)),
        }
    }

    async fn output(&self, machine: &str, name: &str) -> Result<String, DriverError> {
        let mut logs = LogsClient::new(self.node(machine).await?);
        let read = logs.read(ReadLogsRequest {
            cell_name: CELL.into(),
            executable_name: name.into(),
            tail: Some(MAX_OUTPUT_LINES),
            ..ReadLogsRequest::default()
        });
        let stream = within(machine, read).await?;
        let mut stream = stream
            .map_err(|status| failed(machine, &status))?
            .into_inner();
        let (mut lines, mut length) = (VecDeque::new(), 0);
        while let Some(line) = within(machine, stream.message())
            .await?
            .map_err(|status| failed(machine, &status))?
        {
            length += line.line.len() + 1;
            lines.push_back(line.line);
            while length > MAX_OUTPUT_BYTES
                && let Some(first) = lines.pop_front()
            {
                length -= first.len() + 1;
            }
        }
        let text: Vec<_> = lines
            .iter()
            .map(|line| String::from_utf8_lossy(line))
            .collect();
        Ok(text.join("\n"))
    }

    async fn run_to_end(&self, machine: &str, run: ExecRequest) -> Result<ExecOutput, DriverError> {
        let executable = Executable {
            name: run.name.clone(),
            command: run.command,
            cell_name: CELL.into(),
            description: "a step of the cluster".into(),
            options: Some(ExecutableOptions {
                input: run.input,
                ..ExecutableOptions::default()
            }),
        };
        // One that an earlier try left running: the server was killed meanwhile.
        if let Some(left) = self.find(machine, &run.name).await?
            && left.state() != ExecutableState::Exited
        {
            self.end(machine, &run.name).await?;
        }
        self.start(machine, executable).await?;
        let mut cells = CellsClient::new(self.node(machine).await?);
        let wait = cells.wait(WaitExecutableRequest {
            cell_name: CELL.into(),
            executable_name: run.name.clone(),
        });
        let ended = match tokio::time::timeout(run.timeout, wait).await {
            Ok(ended) => ended
                .map_err(|status| failed(machine, &status))?
                .into_inner(),
            Err(_) => {
                self.end(machine, &run.name).await?;
                let seconds = run.timeout.as_secs();
                let mut output = self.output(machine, &run.name).await?;
                output.push_str(&format!("\nit was ended after {seconds} s"));
                return Ok(ExecOutput { code: None, output });
            }
        };
        Ok(ExecOutput {
            code: ended.exit_code,
            output: self.output(machine, &run.name).await?,
        })
    }

    async fn keep_running(
        &self,
        machine: &str,
        name: &str,
        command: &str,
    ) -> Result<(), DriverError> {
        if let Some(there) = self.find(machine, name).await? {
            let lives = there.state() != ExecutableState::Exited;
            if lives && there.command == command {
                return Ok(());
            }
            if lives {
                self.end(machine, name).await?;
            }
        }
        let executable = Executable {
            name: name.into(),
            command: command.into(),
            cell_name: CELL.into(),
            description: "a part of Kubernetes".into(),
            options: Some(ExecutableOptions {
                restart: ExecutableRestart::Always.into(),
                ..ExecutableOptions::default()
            }),
        };
        self.start(machine, executable).await
    }
}

impl RemoteExec for NodeExec {
    fn run<'a>(&'a self, machine: &'a str, run: ExecRequest) -> Done<'a, ExecOutput> {
        self.run_to_end(machine, run).boxed()
    }

    fn supervise<'a>(&'a self, machine: &'a str, name: &'a str, command: &'a str) -> Done<'a> {
        self.keep_running(machine, name, command).boxed()
    }

    fn stop<'a>(&'a self, machine: &'a str, name: &'a str) -> Done<'a> {
        self.end(machine, name).boxed()
    }

    fn program<'a>(&'a self, machine: &'a str) -> Done<'a, String> {
        async move {
            let mut node = NodeClient::new(self.node(machine).await?);
            let info = within(machine, node.get_info(GetNodeInfoRequest {})).await?;
            let info = info.map_err(|status| failed(machine, &status))?;
            Ok(info.into_inner().program)
        }
        .boxed()
    }
}

async fn within<T>(
    machine: &str,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<Result<T, Status>, DriverError> {
    let answer = tokio::time::timeout(CALL_TIMEOUT, call).await;
    answer.map_err(|_| unreachable(machine, "it took too long to answer".into()))
}

fn unreachable(machine: &str, why: String) -> DriverError {
    DriverError::Unreachable {
        machine: machine.to_owned(),
        why,
    }
}

fn failed(machine: &str, status: &Status) -> DriverError {
    unreachable(machine, status.message().to_owned())
}
