//! `strata certificate issue`: makes a key on this machine, has the server
//! sign a certificate for it, and writes both where asked.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_api::strata::v1::{IssueCertificateRequest, Role as WireRole};
use strata_identity::{CertificateRequest, Credentials};
use strata_types::Role;

use crate::failure::{Exit, Failure, Result, cannot};
use crate::session::Session;
use crate::values::{Span, role};
use crate::view::time_s;

/// Make a key here and have the server sign a certificate for it
#[derive(Args, Debug)]
#[command(after_help = "\
Writes ca.crt, client.crt and client.key into the folder, for you alone. The
key never leaves this machine.

Examples:
  strata certificate issue --role viewer --name grafana --out ./grafana
  strata certificate issue --role node --name rack1-7 --out ./rack1-7 --ttl 30d")]
pub struct Issue {
    /// What the holder may do: admin, operator, viewer or node
    #[arg(long, value_parser = role)]
    role: Role,

    /// Whom the certificate names
    #[arg(long)]
    name: String,

    /// The folder to write into
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// How long it is good for; else the default of the role
    #[arg(long, value_name = "DURATION")]
    ttl: Option<Span>,

    /// Replace credentials that are in the folder already
    #[arg(long)]
    force: bool,
}

impl Issue {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let taken = self.out.join("client.key").exists();
        if taken && !self.force {
            return Err(Failure::new(
                Exit::Refused,
                format!("there are credentials in {} already", self.out.display()),
            )
            .hint("choose another folder, or replace them with --force"));
        }
        let (key_pem, csr_pem) = CertificateRequest::generate().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot make a key").because(why.to_string())
        })?;
        let server = session.server().await?;
        let request = IssueCertificateRequest {
            name: self.name.clone(),
            role: WireRole::from(self.role).into(),
            csr_pem,
            ttl_seconds: self.ttl.map_or(0, |ttl| ttl.0.as_secs()),
        };
        let issued = server
            .identity()
            .issue_certificate(request)
            .await
            .map_err(cannot(
                &server,
                format!("issue a certificate for {}", self.name),
            ))?
            .into_inner();
        let expires =
            time_s(issued.expires_at).map_or(String::new(), |at| format!(", good until {at}"));
        let credentials = Credentials {
            ca_pem: issued.ca_pem,
            certificate_pem: issued.certificate_pem,
            key_pem,
        };
        credentials.write(&self.out).map_err(|why| {
            Failure::new(
                Exit::Unexpected,
                format!("cannot write into {}", self.out.display()),
            )
            .because(why.to_string())
        })?;
        session.printer.note(&format!(
            "issued {} ({}) into {}{expires}",
            self.name,
            self.role,
            self.out.display()
        ));
        Ok(())
    }
}
