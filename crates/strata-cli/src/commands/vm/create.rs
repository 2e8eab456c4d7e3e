//! `strata vm create`: makes virtual machines, or says what it would do.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_api::strata::v1::{CreateVmRequest, GetVmRequest};
use strata_client::NodeClient;
use tonic::Code;

use super::spec_args::VmSpecArgs;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::documents;
use crate::view::{VmSpecView, VmView};

/// Create virtual machines without starting them
#[derive(Args, Debug)]
#[command(after_help = "\
Files are on the host of the node, relative to your directory; they are
cloned, not changed.

Examples:
  strata vm create build --image debian.qcow2 --cpus 2 --memory 2GiB
  strata vm create tiny --kernel vmlinuz --initrd initrd --append console=ttyS0
  strata vm create db --image debian.qcow2 --disk 20GiB --user-data seed.yaml
  strata vm create -f vms.yaml --dry-run")]
pub struct Create {
    #[command(flatten)]
    wanted: VmSpecArgs,

    #[command(flatten)]
    how: VmCreateOptions,
}

/// Options of VM creation.
#[derive(Args, Debug)]
pub(super) struct VmCreateOptions {
    /// Read virtual machines from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "VmSpecArgs")]
    file: Option<PathBuf>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        make(session, self.wanted, self.how, false).await
    }
}

/// Makes the virtual machines that were described.
pub(super) async fn make(
    session: &mut Session,
    wanted: VmSpecArgs,
    how: VmCreateOptions,
    start: bool,
) -> Result {
    let vms: Vec<VmSpecView> = match &how.file {
        Some(file) => documents(file, &mut session.input, "virtual machines")?,
        None => vec![wanted.view(session)?],
    };
    let node = session.node().await?;
    let verb = if start { "run" } else { "create" };
    if how.dry_run {
        return dry_run(session, &node, vms, verb).await;
    }
    let mut made: Vec<VmView> = Vec::new();
    for vm in vms {
        let name = vm.name.clone();
        let request = CreateVmRequest {
            vm: Some(vm.into()),
            start,
        };
        let answer = node.vms().create(request).await;
        let vm = answer.map_err(cannot(&node, format!("{verb} the vm {name}")))?;
        let vm = VmView::from(vm.into_inner());
        let said = match (start, &vm.status.address) {
            (false, _) => format!("created {name}"),
            (true, None) => format!("started {name}"),
            (true, Some(address)) => format!("started {name} on {address}"),
        };
        session.printer.note(&said);
        made.push(vm);
    }
    match (how.output.requested(), made.as_slice()) {
        (None, _) => Ok(()),
        (Some(format), [one]) => output::one(session, format, one),
        (Some(format), several) => output::rows(session, format, several, ""),
    }
}

async fn dry_run(
    session: &mut Session,
    node: &NodeClient,
    vms: Vec<VmSpecView>,
    verb: &str,
) -> Result {
    let mut refused = false;
    for vm in vms {
        let name = vm.name.clone();
        let request = GetVmRequest { name: name.clone() };
        let line = match node.vms().get(request).await {
            Ok(answer) => {
                let there = VmView::from(answer.into_inner()).spec;
                let same = there.with_defaults() == vm.with_defaults();
                refused |= !same;
                match same {
                    true => format!("{name} already exists, would not change\n"),
                    false => format!("would reject {name}: a VM of that name already exists\n"),
                }
            }
            Err(status) if status.code() == Code::NotFound => format!("would {verb} {name}\n"),
            Err(status) => return Err(cannot(node, format!("read the vm {name}"))(status)),
        };
        session.printer.data(line.as_bytes())?;
    }
    match refused {
        true => Err(Failure::silent(Exit::Refused)),
        false => Ok(()),
    }
}
