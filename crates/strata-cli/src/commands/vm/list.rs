//! `strata vm list`: the virtual machines of the node, once or as they
//! change.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use strata_api::strata::v1::ListVmsRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, table};
use crate::session::Session;
use crate::view::VmView;

/// There is no stream of what happens to them, so they are looked at again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// List the virtual machines of the node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm list
  strata vm list -o wide
  strata vm list -o json | jq '.[].status.address'")]
pub struct List {
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let format = self.output.format();
        if !self.watch {
            let vms = list(&node).await?;
            let empty = "no virtual machines; create one with `strata vm run NAME --image FILE`";
            return output::rows(session, format, &vms, empty);
        }
        let mut seen: BTreeMap<String, VmView> = BTreeMap::new();
        let mut header = true;
        loop {
            let vms = list(&node).await?;
            let changed = changes(&mut seen, vms);
            for vm in &changed {
                match format {
                    Format::Json | Format::Yaml => output::line(session, format, vm)?,
                    Format::Name => output::one(session, format, vm)?,
                    Format::Table | Format::Wide => {}
                }
            }
            if matches!(format, Format::Table | Format::Wide) && !changed.is_empty() {
                let now = session.now();
                table(session, format == Format::Wide, &changed, now, header)?;
                header = false;
            }
            let wait = tokio::time::sleep(POLL_INTERVAL);
            session.printer.unless_gone(wait).await?;
        }
    }
}

async fn list(node: &NodeClient) -> Result<Vec<VmView>> {
    let answer = node.vms().list(ListVmsRequest {}).await;
    let vms = answer.map_err(cannot(node, "list the virtual machines"))?;
    let vms = vms.into_inner().vms.into_iter();
    Ok(vms.map(Into::into).collect())
}

/// Those that are new or changed, and those that went away, in the state
/// `gone`.
fn changes(seen: &mut BTreeMap<String, VmView>, now: Vec<VmView>) -> Vec<VmView> {
    let now: BTreeMap<_, _> = now
        .into_iter()
        .map(|vm| (vm.spec.name.clone(), vm))
        .collect();
    let gone = seen.iter().filter(|(name, _)| !now.contains_key(*name));
    let gone = gone.map(|(_, vm)| {
        let mut vm = vm.clone();
        vm.status.state = "gone";
        vm
    });
    let changed = now.iter().filter(|(name, vm)| {
        let was = seen.get(*name);
        was.is_none_or(|was| was.summary() != vm.summary())
    });
    let changes = gone.chain(changed.map(|(_, vm)| vm.clone())).collect();
    *seen = now;
    changes
}

#[cfg(test)]
mod tests {
    use strata_api::strata::v1;

    use super::*;

    #[test]
    fn a_watcher_sees_what_changes_and_no_more() {
        let vm = |name: &str, state: v1::PodState| {
            VmView::from(v1::Vm {
                spec: Some(v1::VmSpec {
                    name: name.into(),
                    ..Default::default()
                }),
                state: state.into(),
                ..Default::default()
            })
        };
        use v1::PodState::{Running, Stopped};
        let mut seen = BTreeMap::new();
        assert_eq!(changes(&mut seen, vec![vm("a", Running)]).len(), 1);
        assert!(changes(&mut seen, vec![vm("a", Running)]).is_empty());
        assert_eq!(changes(&mut seen, vec![vm("a", Stopped)]).len(), 1);
        let gone = changes(&mut seen, Vec::new());
        assert_eq!(gone[0].status.state, "gone");
    }
}
