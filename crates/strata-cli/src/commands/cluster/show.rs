//! `strata cluster show`: one cluster, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::{Cluster, InstanceType};

use super::{ClusterArg, current};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::{cluster_style, cluster_word, pairs, text, time_ms};

/// Show a cluster
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata cluster show dev
  strata cluster show dev -o json | jq -r .status")]
pub struct Show {
    #[command(flatten)]
    one: ClusterArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let cluster = current(&rest, &self.one.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&cluster, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &cluster),
        }
    }
}

fn describe(cluster: &Cluster, now: Timestamp, printer: &Printer) -> String {
    let mut details = Details::new(15);
    details.row("Name", &cluster.name);
    let why = text(cluster.message.clone());
    details.state(
        &cluster_word(cluster),
        why.as_deref(),
        cluster_style(cluster),
        printer.color,
    );
    details.row("Version", &cluster.version);
    details.row("Server", &cluster.server);
    let ready = format!("{} of {} ready", cluster.ready, cluster.machines);
    details.row("Machines", &ready);
    let control = &cluster.control_plane;
    let group = |count: u32, kind: InstanceType, labels: &str| match labels {
        "" => format!("{count} {kind}"),
        labels => format!("{count} {kind}, {labels}"),
    };
    let labels = pairs(&control.labels);
    let told = group(control.count, control.instance_type, &labels);
    details.row("Control plane", &told);
    for pool in &cluster.pools {
        let told = group(pool.count, pool.instance_type, &pairs(&pool.labels));
        details.row("Pool", &format!("{}: {told}", pool.name));
    }
    details.row("Operation", &cluster.operation);
    details.moment("Created", time_ms(cluster.created_at_ms), now);
    details.finish()
}
