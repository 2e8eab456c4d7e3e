//! Settings: flags first, then the file, then what holds by default.

mod backup;
mod clusters;
mod control;
mod images;
mod limits;
mod machines;
mod network;
mod node;
mod storage;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_cell::LogLimits;
use strata_cli::{Exit, Failure, Global};
use strata_node::NetworkOptions;
use strata_node::images::{ImagesConfig, joined_section};
use strata_transport::CallerLimits;
use strata_types::Role;

use crate::args::{Common, Listen, NodeListen};
pub(crate) use backup::BackupTable;
pub(crate) use clusters::ClustersTable;
use control::{ControlSettings, SchedulerTable, StoreTable};
use images::ImagesTable;
use limits::LimitsTable;
pub(crate) use machines::MachinesSettings;
use machines::MachinesTable;
use network::NetworkTable;
pub(crate) use node::NodeSettings;
use node::NodeTable;
use storage::StorageTable;
pub(crate) use storage::directory as pool_dir;

/// Default data directory.
pub(crate) const DATA_DIR: &str = "/var/lib/strata";
const SOCKET: &str = "/run/strata/node.sock";

/// The file given with `--config`, in TOML. Every key is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Where everything is kept.
    data_dir: Option<PathBuf>,
    /// Where the server listens, as HOST:PORT.
    listen: Option<String>,
    /// Where the node listens, as HOST:PORT.
    node_listen: Option<String>,
    /// The node's Unix socket.
    node_socket: Option<PathBuf>,
    /// Further names or addresses by which this machine is reached; the
    /// certificates name them.
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    logs: LogsTable,
    #[serde(default)]
    images: ImagesTable,
    #[serde(default)]
    network: NetworkTable,
    #[serde(default)]
    store: StoreTable,
    #[serde(default)]
    scheduler: SchedulerTable,
    #[serde(default)]
    node: NodeTable,
    #[serde(default)]
    machines: MachinesTable,
    #[serde(default)]
    storage: StorageTable,
    #[serde(default)]
    backup: BackupTable,
    #[serde(default)]
    clusters: ClustersTable,
    #[serde(default)]
    limits: LimitsTable,
    socket_group: Option<SocketGroup>,
}

/// How much is kept of each executable's output, for each of its channels.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogsTable {
    /// How large one file grows, in bytes; 4096 is the least.
    segment_bytes: Option<u64>,
    /// How many files there are; 2 to 16.
    segments: Option<u32>,
}

/// A group whose members may use the node's socket, and as what.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketGroup {
    /// The number of the group.
    pub(crate) gid: u32,
    /// What its members may do.
    pub(crate) role: Role,
}

/// What a daemon goes by.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    pub(crate) listen: String,
    pub(crate) node_listen: String,
    pub(crate) node_socket: PathBuf,
    pub(crate) hosts: Vec<String>,
    pub(crate) logs: LogLimits,
    pub(crate) images: ImagesConfig,
    pub(crate) network: NetworkOptions,
    pub(crate) control: ControlSettings,
    /// Where other nodes send what is for pods of this one.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) node: NodeSettings,
    pub(crate) machines: MachinesSettings,
    /// None where this server has no pool.
    pub(crate) storage: Option<strata_storage::PoolConfig>,
    pub(crate) backup: BackupTable,
    pub(crate) clusters: ClustersTable,
    pub(crate) socket_group: Option<SocketGroup>,
    /// What one caller may take.
    pub(crate) limits: CallerLimits,
    pub(crate) stop_workloads: bool,
}

impl Settings {
    pub(crate) fn new(
        global: &Global,
        common: &Common,
        listen: &Listen,
        node: &NodeListen,
    ) -> Result<Self, Failure> {
        let file = match &common.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        Self::merge(file, global.data_dir.clone(), common, listen, node)
            .map_err(|why| Failure::new(Exit::Usage, "invalid configuration").because(why))
    }

    fn merge(
        file: File,
        data_dir: Option<PathBuf>,
        common: &Common,
        listen: &Listen,
        node: &NodeListen,
    ) -> Result<Self, String> {
        let own_dir = data_dir.or(file.data_dir);
        // Two runs side by side differ in their directories, so their sockets
        // must too, unless their paths are configured.
        let socket = own_dir
            .as_ref()
            .map_or(SOCKET.into(), |directory| directory.join("node.sock"));
        let or = |flag: &Option<String>, file: Option<String>, default: &str| {
            flag.clone().or(file).unwrap_or_else(|| default.to_owned())
        };
        let logs = LogLimits::default();
        let data_dir = own_dir.unwrap_or_else(|| DATA_DIR.into());
        let address = file.network.address;
        let mut network = file.network.options()?;
        let listen = or(&listen.listen, file.listen, "127.0.0.1:7700");
        let node_listen = or(&node.node_listen, file.node_listen, "127.0.0.1:7710");
        let ports = [port_of(&listen), port_of(&node_listen)];
        network.api_ports = ports.into_iter().flatten().collect();
        let bounds = file.limits.store();
        let mut control =
            ControlSettings::new(file.store, &file.scheduler, &network, &data_dir, bounds)?;
        control.core.server_port = port_of(&listen);
        Ok(Self {
            control,
            limits: file.limits.caller()?,
            storage: file.storage.config(&data_dir),
            backup: file.backup,
            clusters: file.clusters,
            data_dir,
            listen,
            node_listen,
            node_socket: node
                .node_socket
                .clone()
                .or(file.node_socket)
                .unwrap_or(socket),
            hosts: file.hosts,
            logs: LogLimits {
                segment_bytes: file
                    .logs
                    .segment_bytes
                    .unwrap_or(logs.segment_bytes)
                    .max(4096),
                segments: file.logs.segments.unwrap_or(logs.segments).clamp(2, 16),
            },
            images: file.images.config()?,
            address,
            network,
            node: file.node.settings()?,
            machines: file.machines.settings()?,
            socket_group: file.socket_group,
            stop_workloads: common.stop_workloads,
        })
    }

    /// A node without registries of its own has those that its server gave it
    /// when it joined.
    pub(crate) fn add_joined_registries(&mut self) -> Result<(), Failure> {
        if !self.images.has_no_registries() {
            return Ok(());
        }
        images::add_joined(&mut self.images, &self.data_dir).map_err(|why| {
            let path = joined_section(&self.data_dir);
            Failure::new(Exit::Unexpected, format!("cannot use {}", path.display())).because(why)
        })
    }
}

fn read(path: &Path) -> Result<File, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("cannot read {}: {error}", path.display()),
        )
    })?;
    parse(&text).map_err(|why| {
        Failure::new(
            Exit::Usage,
            format!("{} is not a valid configuration", path.display()),
        )
        .because(why)
    })
}

fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|error| {
        // The line itself may hold a password, so only its number is shown.
        let start = error.span().map_or(0, |span| span.start);
        let line = text
            .bytes()
            .take(start)
            .filter(|byte| *byte == b'\n')
            .count()
            + 1;
        format!("line {line}: {}", error.message())
    })
}

/// The port of HOST:PORT, where it is not left to the kernel.
fn port_of(listen: &str) -> Option<u16> {
    let (_, port) = listen.rsplit_once(':')?;
    port.parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(file: &str, data_dir: Option<&str>, node_listen: Option<&str>) -> Settings {
        let node = NodeListen {
            node_listen: node_listen.map(Into::into),
            node_socket: None,
        };
        let file = parse(file).unwrap();
        Settings::merge(
            file,
            data_dir.map(Into::into),
            &Common::default(),
            &Listen::default(),
            &node,
        )
        .unwrap()
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let settings = merge(
            "node_listen = '0.0.0.0:1'\nlisten = '[::]:2'",
            None,
            Some("127.0.0.1:0"),
        );
        assert_eq!(settings.node_listen, "127.0.0.1:0");
        assert_eq!(settings.listen, "[::]:2");
        assert_eq!(settings.control.core.server_port, Some(2));
        assert_eq!(settings.data_dir, Path::new(DATA_DIR));
    }

    #[test]
    fn a_directory_of_ones_own_brings_a_socket_of_ones_own() {
        assert_eq!(
            merge("", Some("/srv/a"), None).node_socket,
            Path::new("/srv/a/node.sock")
        );
        assert_eq!(merge("", None, None).node_socket, Path::new(SOCKET));
        let told = merge("node_socket = '/run/x.sock'", Some("/srv/a"), None);
        assert_eq!(told.node_socket, Path::new("/run/x.sock"));
    }

    #[test]
    fn a_key_that_does_not_exist_is_refused() {
        assert!(parse("lisen = 'x'").unwrap_err().contains("lisen"));
        assert!(parse("[logs]\nsegments = -1").is_err());
        assert!(parse("[socket_group]\ngid = 5\nrole = 'king'").is_err());
    }

    #[test]
    fn a_node_says_what_it_is_and_whom_it_follows() {
        let text = "[node]\nlabels = { zone = 'a' }\nservers = ['10.0.0.2']\n\
            [network]\naddress = '10.0.0.7'";
        let settings = merge(text, None, None);
        assert_eq!(settings.node.labels["zone"], "a");
        assert_eq!(
            settings.node.servers[0].to_string(),
            "https://10.0.0.2:7700"
        );
        assert_eq!(settings.address.unwrap().to_string(), "10.0.0.7");
        let bad = parse("[node]\nservers = ['http://x']").unwrap();
        assert!(bad.node.settings().unwrap_err().contains("[node] servers"));
        let pool = merge("[node]\npool = '/srv/pool'", None, None).node.pool;
        assert_eq!(pool.as_deref(), Some(Path::new("/srv/pool")));
        let bad = parse("[node]\npool = 'pool'").unwrap();
        assert!(bad.node.settings().unwrap_err().contains("[node] pool"));
        let bad = parse("[node]\nlabels = { '' = 'a' }").unwrap();
        assert!(bad.node.settings().is_err());
    }

    #[test]
    fn log_limits_stay_in_bounds() {
        let settings = merge("[logs]\nsegment_bytes = 1\nsegments = 99", None, None);
        assert_eq!(
            (settings.logs.segment_bytes, settings.logs.segments),
            (4096, 16)
        );
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(text in ".{0,300}") {
            let _ = parse(&text);
        }
    }
}
