//! A node as tests talk to it: each call in one line, answers unwrapped from
//! their envelopes, errors left to the test.

use std::time::Duration;

use strata_api::observe::{GetSubProcessStreamRequest, LogChannelType, LogItem};
use strata_api::runtime::{
    AllocateCellRequest, AllocateCellResponse, Cell, Executable, FreeCellRequest, StartCellRequest,
    StopCellRequest,
};
use strata_api::strata::v1::{
    CellInfo, ExecutableInfo, ExecutableState, GetCellRequest, ListCellsRequest, LogLine,
    ReadLogsRequest, WaitExecutableRequest,
};
use strata_client::NodeClient;
use tonic::{Status, Streaming};

use crate::requests::{cell, executable, executable_with};
use crate::{TEST_TIMEOUT, wait_for};

type Result<T> = std::result::Result<T, Status>;

/// A connected node. Clones share the connection.
#[derive(Clone)]
pub struct Node {
    client: NodeClient,
}

impl Node {
    /// By a client that is connected.
    pub fn new(client: NodeClient) -> Self {
        Self { client }
    }

    /// All services of the node.
    pub fn client(&self) -> &NodeClient {
        &self.client
    }

    /// Allocates a cell with nothing but a name.
    pub async fn allocate(&self, name: &str) -> Result<AllocateCellResponse> {
        self.allocate_as(cell(name)).await
    }

    /// Allocates a cell.
    pub async fn allocate_as(&self, cell: Cell) -> Result<AllocateCellResponse> {
        let request = AllocateCellRequest { cell: Some(cell) };
        let answer = self.client.cell_service().allocate(request).await?;
        Ok(answer.into_inner())
    }

    /// Frees a cell.
    pub async fn free(&self, name: &str) -> Result<()> {
        let request = FreeCellRequest {
            cell_name: name.to_owned(),
            grace_ms: None,
        };
        self.client.cell_service().free(request).await.map(drop)
    }

    /// Frees a cell without a grace period for what runs in it.
    pub async fn free_now(&self, name: &str) -> Result<()> {
        let request = FreeCellRequest {
            cell_name: name.to_owned(),
            grace_ms: Some(0),
        };
        self.client.cell_service().free(request).await.map(drop)
    }

    /// Starts a command; its pid.
    pub async fn start(&self, cell: &str, name: &str, command: &str) -> Result<i64> {
        self.start_as(executable(cell, name, command)).await
    }

    /// Starts an executable; its pid.
    pub async fn start_as(&self, executable: Executable) -> Result<i64> {
        let request = StartCellRequest {
            executable: Some(executable),
        };
        let answer = self.client.cell_service().start(request).await?;
        let pid = answer.into_inner().process_id;
        pid.ok_or_else(|| Status::internal("the answer has no pid"))
    }

    /// Starts one that ignores SIGTERM, and waits until it does: before it has
    /// printed so, it would end. Its pid.
    pub async fn start_deaf(&self, cell: &str, name: &str, grace_ms: u32) -> Result<i64> {
        let command = "sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 1; done'";
        let wanted = executable_with(cell, name, command, |options| {
            options.stop_grace_ms = Some(grace_ms);
        });
        let pid = self.start_as(wanted).await?;
        let mut lines = self.stream(LogChannelType::ChannelStdout, pid).await?;
        match lines.message().await? {
            Some(line) if line.line == "deaf" => Ok(pid),
            line => Err(Status::internal(format!("it says {line:?}"))),
        }
    }

    /// Stops an executable with the grace it was started with.
    pub async fn stop(&self, cell: &str, name: &str) -> Result<()> {
        self.stop_within(cell, name, None).await
    }

    /// Stops an executable with a grace of one's own.
    pub async fn stop_within(
        &self,
        cell: &str,
        name: &str,
        grace: impl Into<Option<Duration>>,
    ) -> Result<()> {
        let request = StopCellRequest {
            cell_name: cell.to_owned(),
            executable_name: name.to_owned(),
            grace_ms: grace.into().map(|grace| grace.as_millis() as u32),
        };
        self.client.cell_service().stop(request).await.map(drop)
    }

    /// Every cell.
    pub async fn list(&self) -> Result<Vec<CellInfo>> {
        let request = ListCellsRequest::default();
        Ok(self.client.cells().list(request).await?.into_inner().cells)
    }

    /// The names of all cells, in their order.
    ///
    /// # Panics
    /// When the node does not answer.
    pub async fn names(&self) -> Vec<String> {
        let cells = self.list().await.expect("the node lists its cells");
        cells.into_iter().map(|cell| cell.name).collect()
    }

    /// One cell.
    pub async fn get(&self, name: &str) -> Result<CellInfo> {
        let request = GetCellRequest {
            cell_name: name.to_owned(),
        };
        Ok(self.client.cells().get(request).await?.into_inner())
    }

    /// An executable as it is now.
    pub async fn executable(&self, cell: &str, name: &str) -> Result<ExecutableInfo> {
        let cell = self.get(cell).await?;
        let mut all = cell.executables.into_iter();
        all.find(|executable| executable.name == name)
            .ok_or_else(|| Status::not_found(format!("no executable {name}")))
    }

    /// Waits until an executable meets the condition.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn executable_until(
        &self,
        cell: &str,
        name: &str,
        wanted: impl Fn(&ExecutableInfo) -> bool,
    ) -> ExecutableInfo {
        wait_for("the executable", TEST_TIMEOUT, async || {
            let found = self.executable(cell, name).await;
            let found = found.map_err(|status| status.to_string())?;
            match wanted(&found) {
                true => Ok(found),
                false => Err(format!("{found:?}")),
            }
        })
        .await
    }

    /// Whether an executable runs.
    ///
    /// # Panics
    /// When there is none of that name.
    pub async fn is_running(&self, cell: &str, name: &str) -> bool {
        let executable = self.executable(cell, name).await;
        executable.expect("there is such an executable").state() == ExecutableState::Running
    }

    /// Waits for the end of an executable.
    pub async fn wait(&self, cell: &str, name: &str) -> Result<ExecutableInfo> {
        let request = WaitExecutableRequest {
            cell_name: cell.to_owned(),
            executable_name: name.to_owned(),
        };
        Ok(self.client.cells().wait(request).await?.into_inner())
    }

    /// Lines of an executable, by its name.
    pub async fn read(&self, request: ReadLogsRequest) -> Result<Streaming<LogLine>> {
        Ok(self.client.logs().read(request).await?.into_inner())
    }

    /// Lines of a process, by its pid: history, then live to its end.
    pub async fn stream(&self, channel: LogChannelType, pid: i64) -> Result<Streaming<LogItem>> {
        let request = GetSubProcessStreamRequest {
            channel_type: channel.into(),
            process_id: pid,
        };
        let answer = self.client.observe().get_sub_process_stream(request).await;
        Ok(answer?.into_inner())
    }

    /// All that a process wrote to its standard output, up to its end.
    pub async fn stdout(&self, pid: i64) -> Result<Vec<String>> {
        let stream = self.stream(LogChannelType::ChannelStdout, pid).await?;
        Ok(all(stream)
            .await?
            .into_iter()
            .map(|item| item.line.to_string())
            .collect())
    }

    /// Runs a shell script in a cell to its end, and gives what it printed.
    ///
    /// # Panics
    /// When it cannot be run or fails.
    pub async fn shell(&self, cell: &str, name: &str, script: &str) -> String {
        let command = format!("sh -c '{script}'");
        let pid = self.start(cell, name, &command).await;
        let pid = pid.unwrap_or_else(|status| panic!("{script}: {status}"));
        let lines = self.stdout(pid).await.expect("its output can be read");
        let ended = self.wait(cell, name).await.expect("it ends");
        assert_eq!(ended.exit_code, Some(0), "{script}: {lines:?} {ended:?}");
        lines.join("\n")
    }
}

/// All messages of a stream.
pub async fn all<T>(mut stream: Streaming<T>) -> Result<Vec<T>> {
    let mut messages = Vec::new();
    while let Some(message) = stream.message().await? {
        messages.push(message);
    }
    Ok(messages)
}
