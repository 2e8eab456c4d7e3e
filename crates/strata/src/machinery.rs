//! Where machines come from and how they come in, put together: drivers,
//! tokens to join with, and a door.
//!
//! Machines on this one see no loopback but their own. So that they reach a
//! server that listens on the loopback alone, it listens on the first address
//! of the node's bridge as well: from there only what is on this machine gets
//! to it, and it asks for certificates as everywhere.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_backup::Repository;
use strata_cli::{Exit, Failure, Result};
use strata_client::Target;
use strata_clusters::kubeadm::{Kubeadm, KubeadmSettings};
use strata_identity::{JoinBinding, Name};
use strata_machines::image::{Base, IMAGES_DIRECTORY, JoinFile, KernelFolder, NodeImages, busybox};
use strata_machines::iso::{self, Loaders, Part};
use strata_machines::maas::Maas;
use strata_machines::qemu::{Qemu, QemuConfig};
use strata_machines::redfish::{BootMedium, Redfish};
use strata_machines::{Boot, Local, Provider, ProviderError, Providers, Secret};
use strata_node::images::Handover;
use strata_server::Machinery;
use strata_server::operations::{Place, Storage};
use strata_types::Error;
use tokio::net::{TcpListener, TcpSocket};

use crate::config::Settings;
use crate::identity::Identities;
use crate::serve::Port;

/// A machine may have to be installed before it joins.
const TOKEN_TTL: Duration = Duration::from_secs(60 * 60);
/// Machines that come at once.
const BACKLOG: u32 = 1024;

/// How machines of this one reach the server.
pub(crate) struct Door {
    /// What they connect to.
    pub(crate) url: String,
    /// Where to listen besides, where the server does not do so already.
    pub(crate) listener: Option<TcpListener>,
}

impl Door {
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
                    format!("cannot listen on {address} for machines of this one: {error}"),
                )
                .hint("is another run on the same subnet? see [network] subnet")
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
    door: Option<&str>,
    port: &Port,
    storage: Storage,
) -> Result<Machinery> {
    let (all, settings, server) = (settings, &settings.machines, port.url.as_str());
    let clusters = all.clusters.settings(port.bound);
    let kubeadm = KubeadmSettings {
        catalogue: clusters.bundles.clone(),
        snapshots: all.data_dir.join("clusters"),
        keep: clusters.keep_snapshots,
    };
    let host = settings.host_socket.as_deref().or(host);
    let near = settings.server.as_deref().or(door).unwrap_or(server);
    let mut drivers: Vec<Arc<dyn Provider>> = Vec::new();
    let mut inventory = settings.inventory.clone();
    if let Some(host) = host {
        let node = Target::Unix(host.to_owned());
        drivers.push(Arc::new(Local::new(node.clone()).with_server(near)));
        let config = QemuConfig {
            folder: machines_folder(all),
            kernel_folder: settings.kernel_folder.clone(),
            program: program(),
            server: Some(near.to_owned()),
            images: node_images(all),
        };
        drivers.push(Arc::new(Qemu::new(node, config)));
        inventory.extend(settings.local_machines());
    }
    if let Some(config) = settings.redfish.clone() {
        let medium = Medium {
            folder: machines_folder(all),
            kernel_folder: settings.kernel_folder.clone(),
        };
        drivers.push(Arc::new(Redfish::new(config, Arc::new(medium))));
    }
    if let Some(config) = settings.maas.clone() {
        drivers.push(Arc::new(Maas::new(config)));
    }
    Ok(Machinery {
        providers: Providers::new(drivers),
        join_tokens: join_tokens(identities.clone()),
        server: settings.server.clone().unwrap_or_else(|| server.to_owned()),
        inventory,
        storage,
        backups: Some(place(all)?),
        clusters,
        driver: Box::new(move |hands| Arc::new(Kubeadm::new(hands, kubeadm))),
    })
}

/// How nodes of virtual machines reach registries: as the one of their host.
fn node_images(settings: &Settings) -> NodeImages {
    let Handover { section, files } = Handover::new(&settings.images, IMAGES_DIRECTORY);
    NodeImages { section, files }
}

/// What machines boot is put together there.
fn machines_folder(settings: &Settings) -> PathBuf {
    settings.data_dir.join("machines")
}

/// What servers boot from a CD: the same kernel and the same node as virtual
/// machines, with what this one boot is told.
struct Medium {
    folder: PathBuf,
    kernel_folder: Option<PathBuf>,
}

/// The kernel says little, on the screen and on the serial console.
const COMMAND_LINE: &str = "console=tty0 console=ttyS0 quiet panic=60";
/// The binary that machines run: this one, as others find it too, also when
/// its file was replaced meanwhile.
fn program() -> PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

impl BootMedium for Medium {
    fn medium(
        &self,
        machine: &strata_machines::Target,
        boot: &Boot,
    ) -> std::result::Result<iso::Medium, ProviderError> {
        let refused = |error: &dyn std::error::Error| {
            ProviderError::Refused(format!(
                "what it boots cannot be made: {}",
                strata_types::chain(error)
            ))
        };
        let folder = crate::daemon::make_private(&self.folder);
        folder.map_err(|error| refused(&error))?;
        let kernel = KernelFolder::find(self.kernel_folder.as_deref());
        let kernel = kernel.map_err(|error| refused(&error))?;
        let base = Base {
            program: program(),
            kernel: kernel.clone(),
            busybox: busybox(),
        };
        // Asked for on a thread that may block.
        let base = tokio::runtime::Handle::current().block_on(base.ensure(&self.folder));
        let base = base.map_err(|error| refused(&error))?;
        let join = JoinFile {
            server: boot.server.clone(),
            token: boot.join_token.expose().to_owned(),
            name: machine.id().to_string(),
            labels: boot.labels.clone(),
            // A medium is served without encryption, to whoever asks for it.
            images: NodeImages::default(),
        };
        let told = join.archive().map_err(|error| refused(&error))?;
        Ok(iso::Medium {
            kernel: kernel.kernel(),
            initrd: vec![Part::File(base), Part::Bytes(told.into())],
            command_line: COMMAND_LINE.into(),
            loaders: Loaders::debian(),
        })
    }
}

/// Where backups go.
fn place(settings: &Settings) -> Result<Place> {
    let table = &settings.backup;
    let config = table.config(&settings.data_dir).map_err(|why| {
        Failure::new(Exit::Usage, "the configuration cannot be used").because(why)
    })?;
    let host = rustix::system::uname();
    Ok(Place {
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
        tracing::error!(%error, "the storage pool cannot be opened");
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
