//! The commands we use, with types.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Qmp, QmpError};

/// What a guest is doing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// Whether its cpus run.
    pub running: bool,
    /// QEMU's word for it: `running`, `paused`, `shutdown`, `io-error`, …
    #[serde(rename = "status")]
    pub state: String,
}

/// What went through a disk since QEMU started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockStats {
    /// `disk0` is the disk it boots from; those after are in their order.
    pub disk: String,
    /// Bytes the guest read.
    pub read_bytes: u64,
    /// Bytes the guest wrote.
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

#[derive(Deserialize)]
struct Device {
    #[serde(rename = "node-name")]
    node: Option<String>,
    stats: Counters,
}

#[derive(Deserialize)]
struct Counters {
    rd_bytes: u64,
    wr_bytes: u64,
    rd_operations: u64,
    wr_operations: u64,
}

impl Qmp {
    /// What the guest is doing.
    pub async fn status(&self) -> Result<Status, QmpError> {
        self.execute("query-status", Value::Null).await
    }

    /// Presses the power button. The guest may take its time, or not listen.
    pub async fn press_power_button(&self) -> Result<(), QmpError> {
        self.run("system_powerdown").await
    }

    /// Ends QEMU, and the guest as if its plug were pulled. Disks are closed
    /// in order.
    pub async fn quit(&self) -> Result<(), QmpError> {
        self.run("quit").await
    }

    /// Presses the reset button.
    pub async fn reset(&self) -> Result<(), QmpError> {
        self.run("system_reset").await
    }

    /// Lets the guest's cpus stand still.
    pub async fn pause(&self) -> Result<(), QmpError> {
        self.run("stop").await
    }

    /// Lets the guest's cpus run again.
    pub async fn resume(&self) -> Result<(), QmpError> {
        self.run("cont").await
    }

    /// What went through each disk.
    pub async fn block_stats(&self) -> Result<Vec<BlockStats>, QmpError> {
        let devices: Vec<Device> = self.execute("query-blockstats", Value::Null).await?;
        let stats = |device: Device| BlockStats {
            disk: device.node.unwrap_or_default(),
            read_bytes: device.stats.rd_bytes,
            written_bytes: device.stats.wr_bytes,
            reads: device.stats.rd_operations,
            writes: device.stats.wr_operations,
        };
        Ok(devices.into_iter().map(stats).collect())
    }

    /// Requests the guest to reduce its memory to this many bytes; what it can
    /// spare goes back to the host bit by bit. Needs a guest with the driver.
    pub async fn set_memory(&self, bytes: u64) -> Result<(), QmpError> {
        let arguments = json!({ "value": bytes });
        self.execute::<Value>("balloon", arguments).await.map(drop)
    }

    /// How much memory the guest has now, in bytes.
    pub async fn memory(&self) -> Result<u64, QmpError> {
        #[derive(Deserialize)]
        struct Balloon {
            actual: u64,
        }
        let balloon: Balloon = self.execute("query-balloon", Value::Null).await?;
        Ok(balloon.actual)
    }

    async fn run(&self, command: &'static str) -> Result<(), QmpError> {
        self.execute::<Value>(command, Value::Null).await.map(drop)
    }
}
