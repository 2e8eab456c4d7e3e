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

/// Generate a key and issue a certificate for it
#[derive(Args, Debug)]
#[command(after_help = "\
Writes ca.crt, client.crt and client.key to the directory, readable only by
you. The key never leaves this host.

Examples:
  strata certificate issue --role viewer --name grafana --out ./grafana
  strata certificate issue --role node --name rack1-7 --out ./rack1-7 --ttl 30d")]
pub struct Issue {
    /// Role of the holder: admin, operator, viewer or node
    #[arg(long, value_parser = role)]
    role: Role,

    /// Subject of the certificate
    #[arg(long)]
    name: String,

    /// Directory to write to
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Validity [default: that of the role]
    #[arg(long, value_name = "DURATION")]
    ttl: Option<Span>,

    /// Overwrite existing credentials in the directory
    #[arg(long)]
    force: bool,
}

impl Issue {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let taken = self.out.join("client.key").exists();
        if taken && !self.force {
            return Err(Failure::new(
                Exit::Refused,
                format!("{} already contains credentials", self.out.display()),
            )
            .hint("choose another directory, or overwrite them with --force"));
        }
        let (key_pem, csr_pem) = CertificateRequest::generate().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot generate a key").because(why.to_string())
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
            time_s(issued.expires_at).map_or(String::new(), |at| format!(", valid until {at}"));
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
