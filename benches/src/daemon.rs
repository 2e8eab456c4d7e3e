//! A daemon of the bench's own, and the calls that the bench makes to it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use strata_api::runtime::{
    AllocateCellRequest, Cell, Executable, FreeCellRequest, StartCellRequest,
};
use strata_client::{NodeClient, Target};

use crate::Result;

pub(crate) struct Daemon {
    child: Child,
    binary: std::path::PathBuf,
    dir: tempfile::TempDir,
    pub(crate) node: NodeClient,
}

impl Daemon {
    pub(crate) async fn start(binary: &Path, config: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("config.toml");
        fs::write(&file, config)?;
        let mut child = Command::new(binary)
            .args(["node", "--node-listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .arg("--data-dir")
            .arg(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take().ok_or("no standard output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let socket = line
            .trim()
            .strip_prefix("ready unix:")
            .ok_or("the daemon is not ready")?;
        let node = NodeClient::connect(&Target::Unix(socket.into())).await?;
        Ok(Self {
            child,
            binary: binary.to_owned(),
            dir,
            node,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) async fn allocate(&self, name: &str) -> Result {
        let cell = Cell {
            name: name.into(),
            ..Cell::default()
        };
        let request = AllocateCellRequest { cell: Some(cell) };
        self.node.cell_service().allocate(request).await?;
        Ok(())
    }

    /// Starts a command; answers its pid.
    pub(crate) async fn run(&self, cell: &str, name: &str, command: &str) -> Result<i64> {
        let executable = Executable {
            name: name.into(),
            command: command.into(),
            cell_name: cell.into(),
            ..Executable::default()
        };
        let request = StartCellRequest {
            executable: Some(executable),
        };
        let started = self.node.cell_service().start(request).await?;
        Ok(started.into_inner().process_id.unwrap_or_default())
    }

    pub(crate) async fn free(&self, name: &str) -> Result {
        let request = FreeCellRequest {
            cell_name: name.into(),
            grace_ms: Some(0),
        };
        self.node.cell_service().free(request).await?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let mut down = Command::new(&self.binary);
        let _ = down
            .args(["down", "--yes", "--data-dir"])
            .arg(self.dir.path())
            .status();
        let _ = self.child.wait();
    }
}

/// A line such as `VmRSS:  123 kB` of `/proc/PID/status`, in kilobytes.
pub(crate) fn resident_kb(pid: impl std::fmt::Display) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = |line: &str| {
        line.strip_prefix("VmRSS:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    status
        .lines()
        .find_map(number)
        .ok_or_else(|| "no resident size".into())
}
