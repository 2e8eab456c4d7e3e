//! `strata pod list`: the pods of the node, once or as they change.

use std::collections::{BTreeMap, HashMap};

use clap::Args;
use strata_api::strata::v1::{ListPodsRequest, WatchPodsRequest};
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, table};
use crate::session::Session;
use crate::values::LabelArg;
use crate::view::PodView;

/// List the pods of the node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod list
  strata pod list -l app=shop -o wide
  strata pod list -o json | jq '.[].status.state'
  strata pod list -w")]
pub struct List {
    /// Only pods with this label, key=value; repeatable
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelArg>,

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
        let labels: HashMap<_, _> = self.label.into_iter().map(|l| (l.0, l.1)).collect();
        if self.watch {
            return watch(session, &node, labels, format).await;
        }
        let pods = list(&node, labels).await?;
        let empty = "no pods; create one with `strata pod run NAME IMAGE`";
        output::rows(session, format, &pods, empty)
    }
}

async fn list(node: &NodeClient, labels: HashMap<String, String>) -> Result<Vec<PodView>> {
    let answer = node.pods().list(ListPodsRequest { labels }).await;
    let pods = answer.map_err(cannot(node, "list the pods"))?;
    let pods = pods.into_inner().pods.into_iter();
    Ok(pods.map(Into::into).collect())
}

/// Lists again after every event of the node.
async fn watch(
    session: &mut Session,
    node: &NodeClient,
    labels: HashMap<String, String>,
    format: Format,
) -> Result {
    let failed = || cannot(node, "watch the pods");
    let answer = node.pods().watch(WatchPodsRequest::default()).await;
    // Watched before it is listed: nothing is missed in between.
    let mut events = answer.map_err(failed())?.into_inner();
    let mut seen = BTreeMap::new();
    let mut header = true;
    loop {
        let changed = changes(&mut seen, list(node, labels.clone()).await?);
        print(session, format, &changed, &mut header)?;
        let event = session.printer.unless_gone(events.message()).await?;
        if event.map_err(failed())?.is_none() {
            return Ok(());
        }
    }
}

fn print(session: &mut Session, format: Format, pods: &[PodView], header: &mut bool) -> Result {
    if pods.is_empty() {
        return Ok(());
    }
    match format {
        Format::Table | Format::Wide => {
            let now = session.now();
            table(session, format == Format::Wide, pods, now, *header)?;
            *header = false;
        }
        Format::Name => output::rows(session, format, pods, "")?,
        Format::Json | Format::Yaml => {
            for pod in pods {
                output::line(session, format, pod)?;
            }
        }
    }
    Ok(())
}

/// The pods that are new or changed, and those that went away, in the state
/// `gone`.
fn changes(seen: &mut BTreeMap<String, PodView>, now: Vec<PodView>) -> Vec<PodView> {
    let now: BTreeMap<String, PodView> = now
        .into_iter()
        .map(|pod| (pod.spec.name.clone(), pod))
        .collect();
    let gone = seen.iter().filter(|(name, _)| !now.contains_key(*name));
    let gone = gone.map(|(_, pod)| {
        let mut pod = pod.clone();
        pod.status.state = "gone";
        pod
    });
    let changed = now.iter().filter(|(name, pod)| {
        let was = seen.get(*name);
        was.is_none_or(|was| was.summary() != pod.summary())
    });
    let changes = gone.chain(changed.map(|(_, pod)| pod.clone())).collect();
    *seen = now;
    changes
}

#[cfg(test)]
mod tests {
    use strata_api::strata::v1;

    use super::*;

    fn pod(name: &str, state: v1::PodState, disk_bytes: u64) -> PodView {
        PodView::from(v1::Pod {
            spec: Some(v1::PodSpec {
                name: name.into(),
                ..Default::default()
            }),
            state: state.into(),
            usage: Some(v1::PodUsage {
                disk_bytes,
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    #[test]
    fn a_watcher_sees_what_changes_and_no_more() {
        use v1::PodState::{Running, Stopped};
        let mut seen = BTreeMap::new();
        let mut step = |pods| {
            changes(&mut seen, pods)
                .into_iter()
                .map(|pod| format!("{} {}", pod.spec.name, pod.status.state))
                .collect::<Vec<_>>()
        };
        let first = vec![pod("a", Running, 1), pod("b", Running, 1)];
        assert_eq!(step(first), ["a running", "b running"]);
        assert!(step(vec![pod("a", Running, 2), pod("b", Running, 2)]).is_empty());
        assert_eq!(step(vec![pod("b", Stopped, 2)]), ["a gone", "b stopped"]);
    }
}
