//! `strata cluster versions`: what can be installed.

use clap::Args;
use strata_api::rest::KubernetesBundle;
use strata_client::rest::Query;

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List the Kubernetes versions that can be installed
#[derive(Args, Debug)]
#[command(after_help = "\
Each is a bundle on the server's host; docs/kubernetes.md describes how to
build them.

Examples:
  strata cluster versions
  strata cluster versions -o name")]
pub struct Versions {
    #[command(flatten)]
    output: OutputArgs,
}

impl Versions {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list::<KubernetesBundle>(&Query::new()).await;
        let found = found.map_err(unable("list the versions"))?;
        let empty = "no versions; docs/kubernetes.md describes how to build them";
        output::rows(session, self.output.format(), &found, empty)
    }
}
