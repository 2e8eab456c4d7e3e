//! `strata cluster delete`: gives the machines of clusters back, with all that
//! ran on them gone.

use clap::Args;

use super::current;
use crate::commands::begun::{Doing, Staying};
use crate::commands::each::preview;
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Delete clusters with all that runs in them
#[derive(Args, Debug)]
#[command(after_help = "\
What else is under way with it is called off. Its snapshots go with it.
Ctrl-C leaves it to the server.

Examples:
  strata cluster delete dev
  strata cluster delete dev test --yes --detach")]
pub struct Delete {
    /// The clusters
    #[arg(value_name = "NAME", required = true, add = complete::clusters())]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

const WORDS: Doing = Doing {
    doing: "deleting",
    done: "deleted",
};

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let names = &self.names;
        if self.dry_run {
            return preview(session, names, async |name| {
                let cluster = current(&rest, name, "look at").await?;
                let many = usize::try_from(cluster.machines).unwrap_or(usize::MAX);
                let many = human::count(many, "machine");
                Ok(format!("would delete {name} and give back {many}"))
            })
            .await;
        }
        let question = format!("Delete {} with all that runs there?", names.join(", "));
        session.confirm(&question, self.yes)?;
        let begin = async |name: &str| {
            let begun = rest.delete_cluster(name).await;
            begun.map_err(unable(format!("delete the cluster {name}")))
        };
        let staying = &self.staying;
        staying.each(session, &rest, &WORDS, names, begin).await
    }
}
