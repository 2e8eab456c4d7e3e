//! Where machines come from and how they come in, put together: drivers,
//! tokens to join with, and a listener on the bridge.
//!
//! Machines on this host see no loopback but their own. So that they reach a
//! server that listens on the loopback alone, it listens on the first address
//! of the node's bridge as well: only what is on this host reaches that
//! address, and the server requires certificates as everywhere.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_backup::Repository;
use strata_bootimage::{Loaders, Medium, Part};
use strata_cli::{Exit, Failure, Result};
use strata_client::Target;
use strata_clusters::kubeadm::{Kubeadm, KubeadmSettings};
use strata_clusters::sim::Sim;
use strata_identity::{JoinBinding, Name};
use strata_machines::image::{
    Base, IMAGES_DIRECTORY, JoinFile, KernelDirectory, NodeImages, busybox,
};
use strata_machines::maas::Maas;
use strata_machines::qemu::{Qemu, QemuConfig};
use strata_machines::redfish::{BootMedium, Redfish};
use strata_machines::{Boot, Local, Provider, ProviderError, Providers, Secret};
use strata_node::images::Handover;
use strata_server::core::{Core, NodeCondition};
use strata_server::operations::{BackupTarget, Storage};
use strata_server::{ControlPlaneDeps, DriverFactory};
use strata_types::Error;
use tokio::net::{TcpListener, TcpSocket};

use crate::config::Settings;
use crate::identity::Identities;
use crate::serve::Port;

/// A machine may have to be installed before it joins.
const TOKEN_TTL: Duration = Duration::from_secs(60 * 60);
/// Machines that come at once.
const BACKLOG: u32 = 1024;

/// Listener on the bridge, through which nested nodes reach the server.
pub(crate) struct BridgeListener {
    /// What they connect to.
    pub(crate) url: String,
    /// Where to listen besides, where the server does not do so already.
    pub(crate) listener: Option<TcpListener>,
}

impl BridgeListener {
    /// On the bridge's address, which may not be there yet.
    pub(crate) fn open(gateway: Ipv4Addr, served: SocketAddr) -> Result<Self> {
        let address = SocketAddrV4::new(gateway, served.port());
        let url = format!("https://{address}");
        let everywhere = served.ip().is_unspecified() || served.ip() == gateway;
        let listener = match everywhere {
            true => None,
            false => Some(listen(address).map_err(|error| {
                Failure::new(
                    Exit::Unexpected,
                    format!("cannot listen on {address} for nested nodes: {error}"),
                )
                .hint("another daemon may use the same subnet; see [network] subnet")
            })?),
        };
        Ok(Self { url, listener })
    }
}

fn listen(address: SocketAddrV4) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    rustix::net::sockopt::set_ip_freebind(&socket, true)?;
    socket.bind(address.into())?;
    socket.listen(BACKLOG)
}

/// All of it. `host` is the node on which machines are made, if there is one.
pub(crate) fn build(
    settings: &Settings,
    identities: &Identities,
    host: Option<&Path>,
    bridge: Option<&str>,
    port: &Port,
    storage: Storage,
) -> Result<ControlPlaneDeps> {
    let (all, settings, server) = (settings, &settings.machines, port.url.as_str());
    let clusters = all.clusters.settings(port.bound);
    let kubeadm = KubeadmSettings {
        catalogue: clusters.bundles.clone(),
        snapshots: all.data_dir.join("clusters"),
        keep: clusters.keep_snapshots,
    };
    let host = settings.host_socket.as_deref().or(host);
    let near = settings.server.as_deref().or(bridge).unwrap_or(server);
    let mut drivers: Vec<Arc<dyn Provider>> = Vec::new();
    let mut inventory = settings.inventory.clone();
    if let Some(host) = host {
        let node = Target::Unix(host.to_owned());
        drivers.push(Arc::new(Local::new(node.clone()).with_server(near)));
        let config = QemuConfig {
            directory: machines_dir(all),
            kernel_folder: settings.kernel_directory.clone(),
            program: program(),
            server: Some(near.to_owned()),
            images: node_images(all),
        };
        drivers.push(Arc::new(Qemu::new(node, config)));
        inventory.extend(settings.local_machines());
    }
    if let Some(config) = settings.redfish.clone() {
        let medium = NodeMedium {
            directory: machines_dir(all),
            kernel_folder: settings.kernel_directory.clone(),
        };
        drivers.push(Arc::new(Redfish::new(config, Arc::new(medium))));
    }
    if let Some(config) = settings.maas.clone() {
        drivers.push(Arc::new(Maas::new(config)));
    }
    Ok(ControlPlaneDeps {
        providers: Providers::new(drivers),
        join_tokens: join_tokens(identities.clone()),
        server: settings.server.clone().unwrap_or_else(|| server.to_owned()),
        inventory,
        storage,
        backups: Some(place(all)?),
        clusters,
        driver: match all.clusters.simulated() {
            true => simulated(),
            false => Box::new(move |hands, _| Arc::new(Kubeadm::new(hands, kubeadm))),
        },
    })
}

/// Kubernetes that is only simulated, on machines that are real: a member runs
/// while its node does, and is clean again with the next life of its machine.
fn simulated() -> DriverFactory {
    Box::new(|_, core: &Core| {
        tracing::warn!("clusters are simulated: no Kubernetes runs ([clusters] simulated)");
        let (sim, core) = (Sim::default(), core.clone());
        sim.follow(move |machine| {
            let node = core.node(machine).ok()?;
            let runs = node.record.condition == NodeCondition::Ready;
            runs.then(|| u64::try_from(node.record.created_at_ms).unwrap_or_default())
        });
        Arc::new(sim)
    })
}

/// How nodes of virtual machines reach registries: as the one of their host.
fn node_images(settings: &Settings) -> NodeImages {
    let Handover { section, files } = Handover::new(&settings.images, IMAGES_DIRECTORY);
    NodeImages { section, files }
}

/// What machines boot is put together there.
fn machines_dir(settings: &Settings) -> PathBuf {
    settings.data_dir.join("machines")
}

/// What servers boot from a CD: the same kernel and the same node as virtual
/// machines, with the configuration of this one boot.
struct NodeMedium {
    directory: PathBuf,
    kernel_folder: Option<PathBuf>,
}

/// Kernel command line: quiet, on the screen and on the serial console.
const COMMAND_LINE: &str = "console=tty0 console=ttyS0 quiet panic=60";
/// The binary that machines run: this one, as others find it too, also when
/// its file was replaced meanwhile.
fn program() -> PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

impl BootMedium for NodeMedium {
    fn medium(
        &self,
        machine: &strata_machines::Target,
        boot: &Boot,
    ) -> std::result::Result<Medium, ProviderError> {
        let refused = |error: &dyn std::error::Error| {
            ProviderError::Refused(format!(
                "cannot build the boot medium: {}",
                strata_types::chain(error)
            ))
        };
        let directory = crate::daemon::make_private(&self.directory);
        directory.map_err(|error| refused(&error))?;
        let kernel = KernelDirectory::find(self.kernel_folder.as_deref());
        let kernel = kernel.map_err(|error| refused(&error))?;
        let base = Base {
            program: program(),
            kernel: kernel.clone(),
            busybox: busybox(),
        };
        // Called on a thread that may block.
        let base = tokio::runtime::Handle::current().block_on(base.ensure(&self.directory));
        let base = base.map_err(|error| refused(&error))?;
        let join = JoinFile {
            server: boot.server.clone(),
            token: boot.join_token.expose().to_owned(),
            name: machine.id().to_string(),
            labels: boot.labels.clone(),
            // A medium is served without encryption, to every client that
            // requests it. The node gets them when it joins.
            images: NodeImages::default(),
        };
        let told = join.archive().map_err(|error| refused(&error))?;
        Ok(Medium {
            kernel: kernel.kernel(),
            initrd: vec![Part::File(base), Part::Bytes(told.into())],
            command_line: COMMAND_LINE.into(),
            loaders: Loaders::debian(),
        })
    }
}

/// Where backups go.
fn place(settings: &Settings) -> Result<BackupTarget> {
    let table = &settings.backup;
    let config = table
        .config(&settings.data_dir)
        .map_err(|why| Failure::new(Exit::Usage, "invalid configuration").because(why))?;
    let host = rustix::system::uname();
    Ok(BackupTarget {
        repository: Repository::new(config),
        data_dir: settings.data_dir.clone(),
        key_file: settings.control.store.key_file.clone(),
        host: host.nodename().to_string_lossy().into_owned(),
        keep: table.keep,
        bytes_per_second: table
            .limit_mb_per_second
            .map(|mb| mb.saturating_mul(1_000_000)),
    })
}

/// The pool, opened if it was ever made: what runs on the node beside it may
/// have volumes there. A server whose pool is broken serves all the same.
pub(crate) async fn storage(settings: &Settings) -> Storage {
    let Some(config) = &settings.storage else {
        return Storage::none();
    };
    let storage = Storage::new(config.clone());
    if let Err(error) = storage.existing().await {
        tracing::error!(%error, "cannot open the storage pool");
    }
    storage
}

/// A token for one machine, made when it is booted.
fn join_tokens(identities: Identities) -> strata_server::JoinTokens {
    Arc::new(move |machine: &str, operation: &str| {
        let node: Name = machine.parse().map_err(Error::from)?;
        let binding = JoinBinding {
            operation: Some(operation.to_owned()),
            ..JoinBinding::to(node)
        };
        let fingerprint = identities.authority.fingerprint();
        let made = identities
            .tokens
            .create_bound_join(binding, fingerprint, Some(TOKEN_TTL));
        let (_, token) = made.map_err(|error| Error::internal(error.to_string()))?;
        Ok(Secret::new(token.expose()))
    })
}
