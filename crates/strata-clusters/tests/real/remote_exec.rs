//! Remote exec on spawned machines, by the API of their nodes.

use std::collections::HashMap;

use strata_clusters::kubeadm::{ExecOutput, ExecRequest, RemoteExec};
use strata_clusters::{Done, DriverError};
use strata_testkit::runtime::{Cell, Executable};
use strata_testkit::v1::{ExecutableOptions, ExecutableRestart, ExecutableState, ReadLogsRequest};
use strata_testkit::{Code, Node, Status, all};

const CELL: &str = "kubernetes";

/// By the names of the machines.
pub(crate) struct NodeReach(pub(crate) HashMap<String, Node>);

impl NodeReach {
    fn node(&self, machine: &str) -> &Node {
        &self.0[machine]
    }

    async fn start(&self, machine: &str, executable: Executable) -> Result<(), Status> {
        let node = self.node(machine);
        match node.start_as(executable.clone()).await {
            Err(status) if status.code() == Code::NotFound => {}
            other => return other.map(drop),
        }
        let cell = Cell {
            name: CELL.into(),
            ..Cell::default()
        };
        node.allocate_as(cell).await?;
        node.start_as(executable).await.map(drop)
    }
}

fn executable(name: &str, command: &str, options: ExecutableOptions) -> Executable {
    Executable {
        name: name.into(),
        command: command.into(),
        cell_name: CELL.into(),
        description: String::new(),
        options: Some(options),
    }
}

fn unreachable(machine: &str) -> impl Fn(Status) -> DriverError {
    let machine = machine.to_owned();
    move |status| DriverError::Unreachable {
        machine: machine.clone(),
        why: status.to_string(),
    }
}

impl RemoteExec for NodeReach {
    fn run<'a>(&'a self, machine: &'a str, run: ExecRequest) -> Done<'a, ExecOutput> {
        Box::pin(async move {
            let failed = unreachable(machine);
            let options = ExecutableOptions {
                input: run.input,
                ..ExecutableOptions::default()
            };
            let reported = executable(&run.name, &run.command, options);
            self.start(machine, reported).await.map_err(&failed)?;
            let node = self.node(machine);
            let ended = tokio::time::timeout(run.timeout, node.wait(CELL, &run.name)).await;
            let ended = ended.expect("it ends in time").map_err(&failed)?;
            let read = ReadLogsRequest {
                cell_name: CELL.into(),
                executable_name: run.name.clone(),
                tail: Some(1000),
                ..ReadLogsRequest::default()
            };
            let lines = node.read(read).await.map_err(&failed)?;
            let lines = all(lines).await.map_err(&failed)?;
            let lines: Vec<_> = lines
                .iter()
                .map(|line| String::from_utf8_lossy(&line.line))
                .collect();
            Ok(ExecOutput {
                code: ended.exit_code,
                output: lines.join("\n"),
            })
        })
    }

    fn supervise<'a>(&'a self, machine: &'a str, name: &'a str, command: &'a str) -> Done<'a> {
        Box::pin(async move {
            if let Ok(there) = self.node(machine).executable(CELL, name).await
                && there.state() != ExecutableState::Exited
            {
                return Ok(());
            }
            let options = ExecutableOptions {
                restart: ExecutableRestart::Always.into(),
                ..ExecutableOptions::default()
            };
            let reported = executable(name, command, options);
            let started = self.start(machine, reported).await;
            started.map_err(unreachable(machine))
        })
    }

    fn stop<'a>(&'a self, machine: &'a str, name: &'a str) -> Done<'a> {
        Box::pin(async move {
            match self.node(machine).stop(CELL, name).await {
                Err(status) if status.code() != Code::NotFound => Err(unreachable(machine)(status)),
                _ => Ok(()),
            }
        })
    }

    fn program<'a>(&'a self, _: &'a str) -> Done<'a, String> {
        Box::pin(async { Ok("/run/strata/bin/strata".into()) })
    }
}
