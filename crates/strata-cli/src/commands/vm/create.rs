//! `strata vm create`: makes virtual machines, or says what it would do.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_api::strata::v1::{CreateVmRequest, GetVmRequest};
use strata_client::NodeClient;
use tonic::Code;

use super::wanted::Wanted;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::documents;
use crate::view::{VmSpecView, VmView};

/// Make a virtual machine, without switching it on
#[derive(Args, Debug)]
#[command(after_help = "\
Files are those of the node's machine, seen from your folder; they are cloned,
not changed.

Examples:
  strata vm create build --image debian.qcow2 --cpus 2 --memory 2GiB
  strata vm create tiny --kernel vmlinuz --initrd initrd --append console=ttyS0
  strata vm create db --image debian.qcow2 --disk 20GiB --user-data seed.yaml
  strata vm create -f vms.yaml --dry-run")]
pub struct Create {
    #[command(flatten)]
    wanted: Wanted,

    #[command(flatten)]
    how: How,
}

/// How virtual machines are made.
#[derive(Args, Debug)]
pub(super) struct How {
    /// Read virtual machines from a file, YAML or JSON; - is stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "Wanted")]
    file: Option<PathBuf>,

    /// Only say what would be done
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
pub(super) async fn make(session: &mut Session, wanted: Wanted, how: How, start: bool) -> Result {
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
    match (how.output.asked(), made.as_slice()) {
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
                    true => format!("would leave {name} as it is\n"),
                    false => format!("would refuse {name}: there is a vm of that name\n"),
                }
            }
            Err(status) if status.code() == Code::NotFound => format!("would {verb} {name}\n"),
            Err(status) => return Err(cannot(node, format!("look at the vm {name}"))(status)),
        };
        session.printer.data(line.as_bytes())?;
    }
    match refused {
        true => Err(Failure::silent(Exit::Refused)),
        false => Ok(()),
    }
}
