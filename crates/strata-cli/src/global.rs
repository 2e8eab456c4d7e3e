//! The arguments that every command takes: where to connect to, and how
//! loud to be.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_client::{Address, Discovery, Places};

use crate::printer::Color;

/// Global flags, flattened beside the subcommand.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// Data directory of a daemon on this host; DIR/client holds its address
    /// and credentials
    #[arg(long, value_name = "DIR", env = "STRATA_DATA_DIR", global = true)]
    #[arg(value_hint = ValueHint::DirPath, hide_env_values = true, help_heading = "Connection")]
    pub data_dir: Option<PathBuf>,

    /// Server, as https://HOST:PORT
    #[arg(long, value_name = "URL", env = "STRATA_SERVER", global = true)]
    #[arg(hide_env_values = true, help_heading = "Connection")]
    pub server: Option<Address>,

    /// Node, as https://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL", env = "STRATA_NODE", global = true)]
    #[arg(hide_env_values = true, help_heading = "Connection")]
    pub node: Option<Address>,

    /// Directory with ca.crt, client.crt and client.key
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "STRATA_CREDENTIALS",
        global = true
    )]
    #[arg(value_hint = ValueHint::DirPath, hide_env_values = true, help_heading = "Connection")]
    pub credentials: Option<PathBuf>,

    /// CA of the server, for a token in STRATA_TOKEN
    #[arg(long, value_name = "FILE", env = "STRATA_CA", global = true)]
    #[arg(value_hint = ValueHint::FilePath, hide_env_values = true, help_heading = "Connection")]
    pub ca: Option<PathBuf>,

    /// When to use colour; NO_COLOR is honoured
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true)]
    #[arg(hide_possible_values = true, help_heading = "Output")]
    pub color: Color,

    /// Print only results and errors
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
}

impl Global {
    /// What was said about where to connect to. A token is never an argument:
    /// arguments can be read by every user of the machine.
    pub fn discovery(&self, places: Places, token: Option<String>) -> Discovery {
        Discovery {
            node: self.node.clone(),
            server: self.server.clone(),
            data_dir: self.data_dir.clone(),
            credentials: self.credentials.clone(),
            token,
            ca: self.ca.clone(),
            places,
        }
    }
}
