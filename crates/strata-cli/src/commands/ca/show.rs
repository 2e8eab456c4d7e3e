//! `strata ca show`: the roots, how far a rotation is, and what still depends
//! on the old root.

use clap::Args;
use strata_api::rest::{CaRoot, CertificateAuthority};
use strata_client::rest::Query;

use super::remaining;
use crate::failure::{Result, unable};
use crate::output::{self, Details, Format, OutputArgs};
use crate::session::Session;

/// Show the CA roots and what depends on the old one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata ca show
  strata ca show -o json | jq -r .pem > ca.crt
  strata ca show -o json | jq -r '.nodes[], .certificates[]'")]
pub struct Show {
    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.get("", &Query::new()).await;
        let ca: CertificateAuthority = found.map_err(unable("read the CA"))?.object;
        let format = self.output.format();
        match format {
            Format::Json | Format::Yaml => output::document(session, format, &ca),
            Format::Name => {
                let name = format!("ca/{}\n", ca.current.fingerprint);
                Ok(session.printer.data(name.as_bytes())?)
            }
            Format::Table | Format::Wide => Ok(session.printer.data(describe(&ca).as_bytes())?),
        }
    }
}

fn describe(ca: &CertificateAuthority) -> String {
    let root = |root: &CaRoot| format!("{} until {}", root.fingerprint, root.expires_at);
    let mut details = Details::new(9);
    details.row("Phase", &ca.phase);
    details.row("Current", &root(&ca.current));
    if let Some(next) = &ca.next {
        details.row("Next", &root(next));
        details.row("Remaining", &remaining(ca));
        for node in &ca.nodes {
            details.row("", &format!("node {node}"));
        }
        for serial in &ca.certificates {
            details.row("", &format!("certificate {serial}"));
        }
    }
    details.finish()
}
