//! `strata spawn create`: a nested node.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_api::strata::v1::{CreateMachineRequest, GetMachineRequest, MachineSpec};
use tonic::Code;

use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, LabelArg, Millicpus, label_name};
use crate::view::MachineView;

/// Create a nested node and wait until it responds
#[derive(Args, Debug)]
#[command(after_help = "\
A nested node has its own root file system, network and limits of CPU and
memory, and is reached like any other node.

Examples:
  strata spawn create n1 --cpu 0.5 --memory 256MiB
  strata spawn create n2 --join https://10.0.0.1:7700 --join-token-file t")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    /// CPU limit, e.g. 0.5 or 500m
    #[arg(long, value_name = "N")]
    cpu: Option<Millicpus>,
    /// Memory limit
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// IP address from the subnet of the node
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Server to join
    #[arg(long, value_name = "URL", requires = "join_token_file")]
    join: Option<String>,
    /// File with the join token
    #[arg(long, value_name = "FILE", requires = "join", value_hint = ValueHint::FilePath)]
    join_token_file: Option<PathBuf>,
    /// Label, key=value; repeatable
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelArg>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let token = self.join_token_file.as_deref().map(token).transpose()?;
        let name = self.name;
        let node = session.node().await?;
        if self.dry_run {
            let request = GetMachineRequest { name: name.clone() };
            let line = match node.spawn().get(request).await {
                Ok(_) => format!("{name} already exists\n"),
                Err(status) if status.code() == Code::NotFound => {
                    format!("would create {name}\n")
                }
                Err(status) => {
                    return Err(cannot(&node, format!("read the machine {name}"))(status));
                }
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let request = CreateMachineRequest {
            machine: Some(MachineSpec {
                name: name.clone(),
                cpu_millis: self.cpu.map(|Millicpus(n)| n),
                memory_bytes: self.memory.map(|Bytes(n)| n),
                address: self.address.unwrap_or_default(),
                server: self.join.unwrap_or_default(),
                join_token: token.unwrap_or_default(),
                labels: self.label.into_iter().map(|l| (l.0, l.1)).collect(),
                node_name: String::new(),
            }),
        };
        let answer = node.spawn().create(request).await;
        let machine = answer.map_err(cannot(&node, format!("create the machine {name}")))?;
        let machine = MachineView::from(machine.into_inner());
        let at = match &machine.status.endpoint {
            Some(endpoint) => format!("; its node listens at {endpoint}"),
            None => String::new(),
        };
        session.printer.note(&format!("created {name}{at}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &machine),
            None => Ok(()),
        }
    }
}

/// A token is never an argument: arguments can be read by every user of the
/// machine.
fn token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|why| Failure::file("read", file, &why))?;
    match text.trim() {
        "" => Err(Failure::new(
            Exit::Usage,
            format!("{} contains no token", file.display()),
        )),
        token => Ok(token.to_owned()),
    }
}
