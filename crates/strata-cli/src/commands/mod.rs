//! Every command: one folder per noun, one file per verb.

mod apply;
mod audit;
mod backup;
mod begun;
mod ca;
mod cell;
mod certificate;
mod cluster;
mod completion;
mod doctor;
mod each;
mod events;
mod happened;
mod hypervisor;
mod image;
mod instance;
mod login;
mod logs;
mod machine;
mod node;
mod operation;
mod pod;
mod pool;
mod project;
mod scope;
mod secret;
mod spawn;
mod spec;
mod storage;
mod store;
mod talk;
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

pub use audit::AUDIT;
pub use node::NodeCommand;

use crate::failure::{Failure, Result};
use crate::session::Session;

/// What the command line can do beside running the daemons.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Containers and virtual machines, on whichever node has room
    #[command(subcommand)]
    Instance(instance::InstanceCommand),
    /// Templates of instances
    #[command(subcommand)]
    Workload(workload::WorkloadCommand),
    /// The nodes of the server. The binary's `node`, which is the daemon as
    /// well, hands its verbs over as these.
    #[command(skip)]
    Node(NodeCommand),
    /// Whose instances are whose, and how much each may have
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Values that instances are given and nobody is shown
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// The inventory: machines that can be brought up
    #[command(subcommand)]
    Machine(machine::MachineCommand),
    /// Machines that host instances: brought up, emptied, taken down
    #[command(subcommand)]
    Hypervisor(hypervisor::HypervisorCommand),
    /// Kubernetes clusters made of machines
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// The workers of a cluster, pool by pool
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// The storage pool: its room, its devices, its volumes
    #[command(subcommand)]
    Storage(storage::StorageCommand),
    /// Backups of the pool and of Strata's own state
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Make or change what a file describes
    Apply(apply::Apply),
    /// Long actions of the server
    #[command(subcommand)]
    Operation(operation::OperationCommand),
    /// What happened to instances, workloads, nodes and projects
    Events(events::Events),
    /// The records of a control plane that does not run
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Isolated places on a node, and what runs in them
    #[command(subcommand)]
    Cell(cell::CellCommand),
    /// Containers on a node
    #[command(subcommand)]
    Pod(pod::PodCommand),
    /// Virtual machines on a node
    #[command(subcommand)]
    Vm(vm::VmCommand),
    /// Machines inside the machine: nodes of their own
    #[command(subcommand)]
    Spawn(spawn::SpawnCommand),
    /// Volumes that a node keeps for its pods
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Images on a node: what containers are made of
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// The output of what runs, or of the daemon itself
    Logs(logs::Logs),
    /// What the cells of a node use, live
    Top(top::Top),
    /// What this machine can and cannot do for Strata
    Doctor(doctor::Doctor),
    /// Tokens for the API and for nodes that join
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Certificates of this installation's own CA
    #[command(subcommand)]
    Certificate(certificate::CertificateCommand),
    /// The roots of that CA, and their rotation
    #[command(subcommand)]
    Ca(ca::CaCommand),
    /// Who was allowed to do what, and who was not
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Remember a server and the proof for it
    Login(login::Login),
    /// Who the server says is calling
    Whoami(whoami::Whoami),
    /// Print the completion script of a shell
    Completion(completion::Completion),
    /// What this binary was built from
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
