//! `strata store unreadable`: records that the server cannot read. They are of
//! a later release, or damaged; the server keeps them as they are.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use strata_api::rest::UnreadableRecord;
use strata_client::rest::Query;

use crate::commands::bulk::BulkAction;
use crate::failure::{Result, unable};
use crate::output::{self, Column, OutputArgs, Show, TableCell};
use crate::session::Session;

#[derive(Clone, Debug, Subcommand)]
pub enum UnreadableCommand {
    /// List records that the server cannot read
    #[command(visible_alias = "ls")]
    List(List),
    /// Delete a record that the server cannot read, and release its name
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

/// List records that the server cannot read
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata store unreadable list
  strata store unreadable list -o json")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

/// Delete a record that the server cannot read
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The instance is then stopped on its node, and destroyed after
orphan_grace_seconds of the node.

Examples:
  strata store unreadable delete instance/0192f0c1")]
pub struct Delete {
    /// Keys of the records
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl UnreadableCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
        }
    }
}

impl List {
    async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list::<UnreadableRecord>(&Query::new()).await;
        let found = found.map_err(unable("list the unreadable records"))?;
        output::rows(
            session,
            self.output.format(),
            &found,
            "no unreadable records",
        )
    }
}

impl Delete {
    async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let question = format!("Delete {}?", self.keys.join(", "));
        session.confirm(&question, self.yes)?;
        ACTION
            .each_with(session, self.keys, async |_, key| {
                let query = Query::new().with("key", key.clone());
                let gone = rest.delete::<UnreadableRecord>("", &query).await;
                gone.map_err(unable(format!("delete the record {key}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "delete",
    done: "deleted",
    noun: "record",
};

impl Show for UnreadableRecord {
    fn reference(&self) -> String {
        self.key.clone()
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("KEY"),
            Column::new("NAME"),
            Column::new("PROJECT"),
            Column::new("NODE"),
            Column::text("REASON"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        let dash = |text: &str| match text {
            "" => "-".to_owned(),
            text => text.to_owned(),
        };
        vec![
            self.key.clone().into(),
            dash(&self.name).into(),
            dash(&self.project).into(),
            dash(&self.node).into(),
            self.reason.clone().into(),
        ]
    }
}
