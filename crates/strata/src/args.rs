//! What the binary understands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use strata_cli::{Global, NodeCommand};

const ABOUT: &str = "Strata turns machines into a datacenter: one binary, from metal to workload.";

/// Everything the binary understands.
#[derive(Parser)]
#[command(name = "strata", version, about = ABOUT, after_help = strata_cli::AFTER_HELP)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) role: Role,
}

/// The daemons, and everything that talks to them.
#[derive(Subcommand)]
pub(crate) enum Role {
    /// Run everything on this machine: the server and a node
    #[command(
        after_help = "Examples:\n  strata up\n  strata up --data-dir /srv/strata --listen 0.0.0.0:7700"
    )]
    Up(UpArguments),
    /// Run the control plane alone
    #[command(after_help = "Examples:\n  strata server --listen 0.0.0.0:7700")]
    Server(ServerArguments),
    /// Run the node daemon alone, as PID 1 it owns the machine; with a verb,
    /// look after the nodes of a server
    #[command(
        after_help = "Examples:\n  strata node\n  strata node --server https://10.0.0.1:7700 --join-token strata_join_…\n  strata node list"
    )]
    Node(NodeArguments),
    /// Stop a run and remove everything it made on this machine
    #[command(
        after_help = "Examples:\n  strata down\n  strata down --data-dir /srv/strata --purge --yes"
    )]
    Down(DownArguments),
    /// Begin again on an empty machine, from a repository of backups
    #[command(
        after_help = "Nothing may run on the data folder. Afterwards `strata up` finds everything as\nit was when the backup was taken.\n\nExamples:\n  strata restore --repository /mnt/backup --password-file backup.password\n  strata restore 4bba301e --data-dir /srv/strata --config strata.toml"
    )]
    Restore(RestoreArguments),
    #[command(flatten)]
    Client(strata_cli::Command),
}

/// What every daemon takes.
#[derive(Args, Clone, Default)]
pub(crate) struct Common {
    /// A file of settings; flags win over it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Free all cells when told to end; they go on otherwise
    #[arg(long)]
    pub(crate) stop_workloads: bool,
}

#[derive(Args, Clone)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) store: NewStore,
    #[command(flatten)]
    pub(crate) listen: Listen,
    #[command(flatten)]
    pub(crate) node: NodeListen,
}

#[derive(Args, Clone)]
pub(crate) struct RestoreArguments {
    /// The backup, by its id or the beginning of it
    #[arg(default_value = "latest")]
    pub(crate) backup: String,
    /// The repository: a folder, or s3:https://HOST/BUCKET/PREFIX; as the
    /// configuration says unless told
    #[arg(long, value_name = "PLACE")]
    pub(crate) repository: Option<String>,
    /// The file with the repository's password
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
    /// Go on as the control plane that was backed up: machines that it had
    /// brought up are its own. Only when that one is gone for good
    #[arg(long)]
    pub(crate) take_over: bool,
    /// API tokens and certificates of people work as at the time of the
    /// backup, also those revoked since. Default: all of them are revoked
    #[arg(long)]
    pub(crate) keep_credentials: bool,
    /// Certificates of nodes are revoked too: every node joins again
    #[arg(long)]
    pub(crate) revoke_nodes: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone)]
pub(crate) struct ServerArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) store: NewStore,
    #[command(flatten)]
    pub(crate) listen: Listen,
}

#[derive(Args, Clone)]
pub(crate) struct NodeArguments {
    /// What to do with the nodes of a server, instead of being one
    #[command(subcommand)]
    pub(crate) verb: Option<NodeCommand>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) node: NodeListen,
    /// Trade this token for a certificate of the server given with --server
    #[arg(
        long,
        value_name = "TOKEN",
        env = "STRATA_JOIN_TOKEN",
        hide_env_values = true
    )]
    pub(crate) join_token: Option<String>,
    /// The name to join under; made by the server unless told
    #[arg(long, value_name = "NAME", requires = "join_token")]
    pub(crate) name: Option<String>,
}

impl NodeArguments {
    /// A flag of the daemon that was given beside a verb. The parser's own
    /// rule for this would refuse the flags that every command has, too.
    pub(crate) fn misplaced(&self) -> Option<&'static str> {
        let flags = [
            ("--config", self.common.config.is_some()),
            ("--stop-workloads", self.common.stop_workloads),
            ("--node-listen", self.node.node_listen.is_some()),
            ("--node-socket", self.node.node_socket.is_some()),
            ("--name", self.name.is_some()),
        ];
        let given = flags.into_iter().find(|(_, given)| *given);
        given.map(|(flag, _)| flag)
    }
}

/// Whether a store is made.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct NewStore {
    /// Begin with an empty store beside identities that are there already, or
    /// with the store of another control plane. Instances on nodes stay there,
    /// and are unknown
    #[arg(long)]
    pub(crate) new_store: bool,
}

/// Where the server listens.
#[derive(Args, Clone, Default)]
pub(crate) struct Listen {
    /// Where the server listens; port 0 takes a free one [default: 127.0.0.1:7700]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
}

/// Where a node listens.
#[derive(Args, Clone, Default)]
pub(crate) struct NodeListen {
    /// Where the node listens; port 0 takes a free one [default: 127.0.0.1:7710]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) node_listen: Option<String>,
    /// The node's Unix socket [default: /run/strata/node.sock, or DIR/node.sock with --data-dir DIR]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) node_socket: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DownArguments {
    /// Also remove the data folder: identities, tokens, logs
    #[arg(long)]
    pub(crate) purge: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Tell what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
