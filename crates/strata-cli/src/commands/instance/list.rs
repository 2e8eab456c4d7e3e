//! `strata instance list`: the instances of a project, once or as they
//! change.

use clap::Args;
use strata_api::rest::{Instance, InstanceState};
use strata_client::rest::Query;

use crate::commands::scope::ListScope;
use crate::commands::watch;
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::values::object_name;

/// List instances
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance list
  strata instance list -A -o wide
  strata instance list --state failed --on rack1-7
  strata instance list -o json | jq '.[].ip'
  strata instance list -w")]
pub struct List {
    #[command(flatten)]
    scope: ListScope,

    /// Only instances in this state: running, failed, …
    #[arg(long, value_parser = state)]
    state: Option<InstanceState>,

    /// Only instances on this node
    #[arg(id = "on_node", long = "on", value_name = "NODE")]
    #[arg(add = complete::nodes())]
    node: Option<String>,

    /// Only instances of this workload
    #[arg(long, value_parser = object_name, add = complete::workloads())]
    workload: Option<String>,

    /// Only containers, or only virtual machines
    #[arg(long = "type", value_name = "TYPE", value_parser = ["container", "vm"])]
    kind: Option<String>,

    /// Watch for changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let format = self.output.format();
        let rename = |one: &mut Instance| {
            if !matches!(format, Format::Json | Format::Yaml) {
                one.name = self.scope.name(&one.project, &one.name);
            }
        };
        if self.watch {
            return watch::watch(session, &rest, &self.query(), format, rename).await;
        }
        let found = rest.list(&self.query()).await;
        let mut found: Vec<Instance> = found.map_err(unable("list the instances"))?;
        found.iter_mut().for_each(rename);
        found.sort_by(|a, b| (&a.project, &a.name).cmp(&(&b.project, &b.name)));
        let empty = "no instances; create one with `strata instance create NAME --image URI`";
        output::rows(session, format, &found, empty)
    }

    fn query(&self) -> Query {
        self.scope
            .query()
            .maybe("state", self.state.map(InstanceState::as_str))
            .maybe("node", self.node.as_deref())
            .maybe("workload", self.workload.as_deref())
            .maybe("type", self.kind.as_ref().map(|kind| kind.to_uppercase()))
    }
}

/// Reads a state, in capitals or not.
fn state(text: &str) -> std::result::Result<InstanceState, String> {
    let states = InstanceState::ALL;
    let found = states
        .into_iter()
        .find(|s| s.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let words = states.map(|state| state.as_str().to_ascii_lowercase());
        format!("{text:?} is not one of {}", words.join(", "))
    })
}
