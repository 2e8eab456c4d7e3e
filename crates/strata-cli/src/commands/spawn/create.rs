//! `strata spawn create`: a machine inside the machine.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_api::strata::v1::{CreateMachineRequest, GetMachineRequest, MachineSpec};
use tonic::Code;

use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, LabelArg, Millicpus, label_name};
use crate::view::MachineView;

/// Make a machine; answers once its node answers
#[derive(Args, Debug)]
#[command(after_help = "\
The machine has a root, a network and a share of cpu and memory of its own,
and a node that is reached as any other.

Examples:
  strata spawn create n1 --cpu 0.5 --memory 256MiB
  strata spawn create n2 --join https://10.0.0.1:7700 --join-token-file t")]
pub struct Create {
    /// Its name
    #[arg(value_parser = label_name)]
    name: String,

    /// At most so many cpus' worth of time: 0.5 or 500m
    #[arg(long, value_name = "N")]
    cpu: Option<Millicpus>,
    /// At most so much memory
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// The address it wants from the node's subnet
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// The server that it joins
    #[arg(long, value_name = "URL", requires = "join_token_file")]
    join: Option<String>,
    /// A file with the token that it joins with
    #[arg(long, value_name = "FILE", requires = "join", value_hint = ValueHint::FilePath)]
    join_token_file: Option<PathBuf>,
    /// key=value; can be repeated
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelArg>,

    /// Only say what would be done
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
                Ok(_) => format!("there is a machine {name} already\n"),
                Err(status) if status.code() == Code::NotFound => {
                    format!("would create {name}\n")
                }
                Err(status) => {
                    return Err(cannot(&node, format!("look at the machine {name}"))(status));
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
            Some(endpoint) => format!("; its node answers at {endpoint}"),
            None => String::new(),
        };
        session.printer.note(&format!("created {name}{at}"));
        match self.output.asked() {
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
            format!("{} holds no token", file.display()),
        )),
        token => Ok(token.to_owned()),
    }
}
