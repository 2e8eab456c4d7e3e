//! `strata cell list`: the cells of the node, once or as they change.

use std::collections::BTreeMap;

use clap::Args;
use strata_api::strata::v1::{ListCellsRequest, WatchCellsRequest};
use strata_client::NodeClient;
use strata_types::CellName;

use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, table};
use crate::session::Session;
use crate::values::cell_name;
use crate::view::CellView;

/// List the cells of the node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata cell list
  strata cell list --under web -o wide
  strata cell list -o json | jq '.[].usage.memory_bytes'")]
pub struct List {
    /// Only this cell and its nested cells
    #[arg(long, value_name = "NAME", value_parser = cell_name)]
    #[arg(add = complete::cells())]
    under: Option<CellName>,

    /// Watch for changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let under = self.under.map(|name| name.to_string()).unwrap_or_default();
        let format = self.output.format();
        if self.watch {
            return watch(session, &node, under, format).await;
        }
        let answer = node
            .cells()
            .list(ListCellsRequest { under })
            .await
            .map_err(cannot(&node, "list the cells"))?;
        let cells: Vec<CellView> = answer
            .into_inner()
            .cells
            .into_iter()
            .map(Into::into)
            .collect();
        let empty = "no cells; create one with `strata cell allocate NAME`";
        output::rows(session, format, &cells, empty)
    }
}

async fn watch(session: &mut Session, node: &NodeClient, under: String, format: Format) -> Result {
    let failed = || cannot(node, "watch the cells");
    let request = WatchCellsRequest {
        under,
        interval_ms: None,
    };
    let mut snapshots = node
        .cells()
        .watch(request)
        .await
        .map_err(failed())?
        .into_inner();
    let mut seen = BTreeMap::new();
    let mut header = true;
    while let Some(snapshot) = snapshots.message().await.map_err(failed())? {
        let cells: Vec<CellView> = snapshot.cells.into_iter().map(Into::into).collect();
        let changed = changes(&mut seen, cells);
        if changed.is_empty() {
            continue;
        }
        match format {
            Format::Table | Format::Wide => {
                let now = session.now();
                table(session, format == Format::Wide, &changed, now, header)?;
                header = false;
            }
            Format::Name => output::rows(session, format, &changed, "")?,
            Format::Json | Format::Yaml => {
                for cell in &changed {
                    output::line(session, format, cell)?;
                }
            }
        }
    }
    Ok(())
}

/// The cells that are new or changed since the last snapshot, and those that
/// went away, in the state `gone`.
fn changes(seen: &mut BTreeMap<String, CellView>, now: Vec<CellView>) -> Vec<CellView> {
    let now: BTreeMap<String, CellView> = now
        .into_iter()
        .map(|cell| (cell.name.clone(), cell))
        .collect();
    let gone = seen
        .iter()
        .filter(|(name, _)| !now.contains_key(*name))
        .map(|(_, cell)| CellView {
            state: "gone",
            ..cell.clone()
        });
    let changed = now
        .values()
        .filter(|cell| {
            seen.get(&cell.name)
                .is_none_or(|was| was.summary() != cell.summary())
        })
        .cloned();
    let changes = gone.chain(changed).collect();
    *seen = now;
    changes
}

#[cfg(test)]
mod tests {
    use strata_api::strata::v1;

    use super::*;

    fn cell(name: &str, state: v1::CellState, memory_bytes: u64) -> CellView {
        CellView::from(v1::CellInfo {
            name: name.into(),
            state: state.into(),
            usage: Some(v1::CellUsage {
                memory_bytes,
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    #[test]
    fn a_watcher_sees_what_changes_and_no_more() {
        use v1::CellState::{Dead, Ready};
        let mut seen = BTreeMap::new();
        let mut step = |cells| {
            changes(&mut seen, cells)
                .into_iter()
                .map(|cell| format!("{} {}", cell.name, cell.state))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            step(vec![cell("a", Ready, 1), cell("b", Ready, 1)]),
            ["a ready", "b ready"]
        );
        assert!(step(vec![cell("a", Ready, 2), cell("b", Ready, 2)]).is_empty());
        assert_eq!(step(vec![cell("b", Dead, 2)]), ["a gone", "b dead"]);
    }
}
