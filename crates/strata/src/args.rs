//! Command line of the binary.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use strata_cli::{Global, NodeCommand};

const ABOUT: &str = "Strata turns machines into a datacenter: one binary, from metal to workload.";

/// Command line of the binary.
#[derive(Parser)]
#[command(name = "strata", version, about = ABOUT, after_help = strata_cli::AFTER_HELP)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) role: Role,
}

/// The daemons, and the client commands.
#[derive(Subcommand)]
pub(crate) enum Role {
    /// Run the server and a node on this host
    #[command(
        after_help = "Examples:\n  strata up\n  strata up --data-dir /srv/strata --listen 0.0.0.0:7700"
    )]
    Up(UpArguments),
    /// Run only the control plane
    #[command(after_help = "Examples:\n  strata server --listen 0.0.0.0:7700")]
    Server(ServerArguments),
    /// Run only the node daemon, or manage the nodes of a server
    #[command(
        after_help = "Examples:\n  strata node\n  strata node --server https://10.0.0.1:7700 --join-token strata_join_…\n  strata node list"
    )]
    Node(NodeArguments),
    /// Stop the daemon and remove everything it created on this host
    #[command(
        after_help = "Examples:\n  strata down\n  strata down --data-dir /srv/strata --purge --yes"
    )]
    Down(DownArguments),
    /// Disaster recovery: rebuild a server from a backup repository
    #[command(
        after_help = "Nothing may run on the data directory. Afterwards `strata up` finds everything as\nit was when the backup was taken.\n\nExamples:\n  strata restore --repository /mnt/backup --password-file backup.password\n  strata restore 4bba301e --data-dir /srv/strata --config strata.toml"
    )]
    Restore(RestoreArguments),
    #[command(flatten)]
    Client(strata_cli::Command),
}

/// Flags of every daemon.
#[derive(Args, Clone, Default)]
pub(crate) struct Common {
    /// Configuration file; flags override it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Stop all workloads on shutdown [default: they keep running]
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
    /// Backup ID, or a unique prefix of it
    #[arg(default_value = "latest")]
    pub(crate) backup: String,
    /// Repository: a directory, or s3:https://HOST/BUCKET/PREFIX [default: that
    /// of the configuration]
    #[arg(long, value_name = "PLACE")]
    pub(crate) repository: Option<String>,
    /// File with the password of the repository
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
    /// Continue as the control plane that was backed up, with its machines.
    /// Only if that one no longer exists
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Keep API tokens and user certificates as of the backup, including those
    /// revoked since [default: revoke all]
    #[arg(long)]
    pub(crate) keep_credentials: bool,
    /// Revoke node certificates too: every node must join again
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
    /// Manage the nodes of a server instead of running the daemon
    #[command(subcommand)]
    pub(crate) verb: Option<NodeCommand>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) node: NodeListen,
    /// Join token of the server given with --server
    #[arg(
        long,
        value_name = "TOKEN",
        env = "STRATA_JOIN_TOKEN",
        hide_env_values = true
    )]
    pub(crate) join_token: Option<String>,
    /// Name of the node [default: chosen by the server]
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

/// Flags of store creation.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct NewStore {
    /// Start with an empty store beside existing identities, or with the store
    /// of another control plane. Instances on nodes are kept as unknown
    /// instances
    #[arg(long)]
    pub(crate) new_store: bool,
}

/// Listen address of the server.
#[derive(Args, Clone, Default)]
pub(crate) struct Listen {
    /// Listen address of the server; port 0 picks a free one [default:
    /// 127.0.0.1:7700]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
}

/// Listen addresses of a node.
#[derive(Args, Clone, Default)]
pub(crate) struct NodeListen {
    /// Listen address of the node; port 0 picks a free one [default:
    /// 127.0.0.1:7710]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) node_listen: Option<String>,
    /// Unix socket of the node [default: /run/strata/node.sock, or
    /// DIR/node.sock with --data-dir DIR]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) node_socket: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DownArguments {
    /// Also remove the data directory: identities, tokens, logs
    #[arg(long)]
    pub(crate) purge: bool,
    /// Skip the confirmation prompt
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be removed, without removing anything
    #[arg(long)]
    pub(crate) dry_run: bool,
}
