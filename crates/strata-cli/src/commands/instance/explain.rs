//! `strata instance explain`: why an instance is where it is, and for every
//! other node the first reason against it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::{Instance, Placement, PlacementNode};

use super::InstanceArg;
use crate::failure::{Result, unable};
use crate::output::{self, Column, Format, OutputArgs, Show, TableCell};
use crate::printer::Style;
use crate::session::Session;

/// Explain the placement of an instance, node by node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance explain web
  strata instance explain shop/web -o json | jq -r .summary")]
pub struct Explain {
    #[command(flatten)]
    one: InstanceArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Explain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let query = self.one.scope.query();
        let placement: Placement = rest
            .part::<Instance, _>(&self.one.name, "placement", &query)
            .await
            .map_err(unable(format!("explain the instance {}", self.one.name)))?;
        match self.output.format() {
            format @ (Format::Json | Format::Yaml) => output::document(session, format, &placement),
            format => {
                session.printer.note(&placement.summary);
                output::rows(session, format, &placement.nodes, "no nodes")
            }
        }
    }
}

impl Show for PlacementNode {
    fn reference(&self) -> String {
        format!("node/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NODE"),
            Column::new("FITS"),
            Column::text("REASON"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        let (word, style) = match self.chosen {
            true => ("best", Style::Good),
            false => ("no", Style::Dim),
        };
        vec![
            TableCell::from(&self.name),
            TableCell::styled(word, style),
            TableCell::from(&self.reason),
        ]
    }
}
