//! Every command: one directory per noun, one file per verb.

mod apply;
mod audit;
mod backup;
mod bulk;
mod ca;
mod cell;
mod certificate;
mod cluster;
mod completion;
mod doctor;
mod events;
mod hypervisor;
mod image;
mod instance;
mod interactive;
mod login;
mod logs;
mod machine;
mod node;
mod node_events;
mod operation;
mod operation_wait;
mod pod;
mod pool;
mod project;
mod scope;
mod secret;
mod spawn;
mod spec;
mod storage;
mod store;
mod token;
mod top;
mod usage;
mod version;
mod vm;
mod volume;
pub(crate) mod watch;
mod whoami;
mod workload;

use clap::Subcommand;

pub use audit::{AUDIT, AUDIT_HEAD};
pub use node::NodeCommand;

use crate::failure::{Failure, Result};
use crate::session::Session;

/// Client commands: everything but running the daemons.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Containers and virtual machines, scheduled across nodes
    #[command(subcommand)]
    Instance(instance::InstanceCommand),
    /// Templates of instances
    #[command(subcommand)]
    Workload(workload::WorkloadCommand),
    /// Nodes of the server. The `node` command of the binary, which also starts
    /// the daemon, dispatches its verbs here.
    #[command(skip)]
    Node(NodeCommand),
    /// Projects and their quotas
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Secret values for instances
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Inventory of machines
    #[command(subcommand)]
    Machine(machine::MachineCommand),
    /// Machines as nodes: boot, drain, wipe, autoscale
    #[command(subcommand)]
    Hypervisor(hypervisor::HypervisorCommand),
    /// Kubernetes clusters
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Node pools of a cluster
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// Storage pool: devices and volumes
    #[command(subcommand)]
    Storage(storage::StorageCommand),
    /// Backups of the storage pool and the control-plane state
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Create or update the resources described in a file
    Apply(apply::Apply),
    /// Long-running operations
    #[command(subcommand)]
    Operation(operation::OperationCommand),
    /// Show events of instances, workloads, nodes and projects
    Events(events::Events),
    /// Offline export, import and check of control-plane data
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Cells: isolated cgroups and namespaces on a node
    #[command(subcommand)]
    Cell(cell::CellCommand),
    /// Pods: containers on a node
    #[command(subcommand)]
    Pod(pod::PodCommand),
    /// Virtual machines on a node
    #[command(subcommand)]
    Vm(vm::VmCommand),
    /// Nested nodes, each in a container of a host
    #[command(subcommand)]
    Spawn(spawn::SpawnCommand),
    /// Node-local volumes for pods
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Container images on a node
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Show the output of executables, or the log of the daemon
    Logs(logs::Logs),
    /// Show live resource usage of the cells of a node
    Top(top::Top),
    /// Check what this host supports
    Doctor(doctor::Doctor),
    /// API tokens and join tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Certificates issued by the CA
    #[command(subcommand)]
    Certificate(certificate::CertificateCommand),
    /// Certificate authority and its rotation
    #[command(subcommand)]
    Ca(ca::CaCommand),
    /// Audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Save credentials for a server
    Login(login::Login),
    /// Show the current identity
    Whoami(whoami::Whoami),
    /// Print the completion script for a shell
    Completion(completion::Completion),
    /// Show version and build information
    Version(version::Version),
}

impl Command {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Instance(command) => command.run(session).await,
            Self::Workload(command) => command.run(session).await,
            Self::Node(command) => command.run(session).await,
            Self::Project(command) => command.run(session).await,
            Self::Secret(command) => command.run(session).await,
            Self::Machine(command) => command.run(session).await,
            Self::Hypervisor(command) => command.run(session).await,
            Self::Cluster(command) => command.run(session).await,
            Self::Pool(command) => command.run(session).await,
            Self::Storage(command) => command.run(session).await,
            Self::Backup(command) => command.run(session).await,
            Self::Apply(command) => command.run(session).await,
            Self::Operation(command) => command.run(session).await,
            Self::Events(command) => command.run(session).await,
            Self::Store(command) => command.run(session).await,
            Self::Cell(command) => command.run(session).await,
            Self::Pod(command) => command.run(session).await,
            Self::Vm(command) => command.run(session).await,
            Self::Spawn(command) => command.run(session).await,
            Self::Volume(command) => command.run(session).await,
            Self::Image(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Top(command) => command.run(session).await,
            Self::Doctor(command) => command.run(session),
            Self::Token(command) => command.run(session).await,
            Self::Certificate(command) => command.run(session).await,
            Self::Ca(command) => command.run(session).await,
            Self::Audit(command) => command.run(session).await,
            Self::Login(command) => command.run(session).await,
            Self::Whoami(command) => command.run(session).await,
            Self::Completion(command) => command.run(session),
            Self::Version(command) => command.run(session),
        }
    }
}

/// Prints all failures but the last, which becomes the command's own.
fn last(session: &mut Session, mut failures: Vec<Failure>) -> Result {
    let Some(last) = failures.pop() else {
        return Ok(());
    };
    for failure in failures {
        session.printer.failure(&failure);
    }
    Err(last)
}
