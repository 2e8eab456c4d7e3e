//! `strata machine add`: tells the server of machines, one in flags or many in
//! a file. The same again changes nothing.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};
use strata_api::rest::{Machine, MachineSpec, NewMachine, ProviderKind};

use super::{all, inventory};
use crate::commands::last;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, LabelArg, label_name};

/// Register machines
#[derive(Args, Debug)]
#[command(after_help = "\
A file is YAML or JSON, or TOML if its name ends in .toml: a list of machines,
by itself or under `machines` or `machine`. Adding the same machine again
succeeds. Secrets are in the server configuration, by name.

Examples:
  strata machine add m1 --provider local --cpu 2 --ram 4GB
  strata machine add rack1-7 --provider redfish --address https://10.0.9.7 \\
    --credentials-name rack1 --label zone=eu
  strata machine add -f inventory.yaml")]
pub struct Add {
    /// Machine ID, also the name of its node
    #[arg(value_parser = label_name, required_unless_present = "file")]
    id: Option<String>,

    /// Read machines from a file; - is stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["id", "provider", "handle", "address", "credentials_name"])]
    #[arg(conflicts_with_all = ["cpu", "ram", "disk", "labels"])]
    file: Option<PathBuf>,

    /// Provider: local, qemu, redfish, maas or sim
    #[arg(long, value_name = "KIND", required_unless_present = "file")]
    #[arg(value_parser = provider(), hide_possible_values = true)]
    provider: Option<ProviderKind>,

    /// ID at the provider [default: the machine ID]
    #[arg(long)]
    handle: Option<String>,

    /// URL of its management interface, as https://HOST
    #[arg(long, value_name = "URL")]
    address: Option<String>,

    // `--credentials` itself is what the caller proves itself with.
    /// Name of the credentials in the server configuration
    #[arg(long, value_name = "NAME")]
    credentials_name: Option<String>,

    /// CPU threads, for providers that size machines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpu: Option<u32>,

    /// Memory, for providers that size machines
    #[arg(long, value_name = "SIZE")]
    ram: Option<Bytes>,

    /// Disk, for providers that size machines
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,

    /// Label of its node, as key=value; repeatable
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<LabelArg>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

fn provider() -> impl clap::builder::TypedValueParser<Value = ProviderKind> {
    let words = ProviderKind::ALL.map(ProviderKind::as_str);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<ProviderKind>())
}

impl Add {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let (dry_run, output) = (self.dry_run, self.output);
        let new = match &self.file {
            Some(file) => inventory::read(file, &mut session.input)?,
            None => self.given().into_iter().collect(),
        };
        let rest = session.rest().await?;
        let known = all(&rest).await?;
        let known = |id: &str| known.iter().any(|machine| machine.id == id);
        let mut failures = Vec::new();
        let mut added = Vec::new();
        for machine in new {
            let id = &machine.id;
            let line = match (known(id), dry_run) {
                (true, _) => format!("{id} already exists"),
                (false, true) => format!("would add {id}"),
                (false, false) => format!("added {id}"),
            };
            if dry_run {
                session.printer.data(format!("{line}\n").as_bytes())?;
                continue;
            }
            match rest.create::<Machine>(&machine).await {
                Ok(machine) => {
                    session.printer.note(&line);
                    added.push(machine);
                }
                Err(error) => failures.push(unable(format!("add the machine {id}"))(error)),
            }
        }
        if let Some(format) = output.requested() {
            match (self.file.is_some(), added.as_slice()) {
                (false, [one]) => output::one(session, format, one)?,
                (_, several) => output::rows(session, format, several, "")?,
            }
        }
        last(session, failures)
    }

    /// The one in flags. The parser has seen to it that there is one.
    fn given(&self) -> Option<NewMachine> {
        let text = |said: &Option<String>| said.clone().unwrap_or_default();
        let labels = self.labels.iter();
        Some(NewMachine {
            id: self.id.clone()?,
            spec: MachineSpec {
                provider: self.provider?,
                handle: text(&self.handle),
                address: text(&self.address),
                credentials: text(&self.credentials_name),
                cpu: self.cpu,
                ram: self.ram.map(inventory::megabytes),
                disk: self.disk.map(inventory::gigabytes),
                labels: labels
                    .map(|LabelArg(key, value)| (key.clone(), value.clone()))
                    .collect(),
            },
        })
    }
}
