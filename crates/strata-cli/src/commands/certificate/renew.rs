//! `strata certificate renew`: has the server sign the certificate in a directory
//! anew, for a new key, and takes over the roots that are trusted now.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_api::strata::v1::RenewCertificateRequest;
use strata_client::Contexts;
use strata_identity::{CertificateRequest, Credentials};

use crate::failure::{Exit, Failure, Result, cannot};
use crate::session::Session;
use crate::view::time_s;

/// Renew a certificate with a new key
#[derive(Args, Debug)]
#[command(after_help = "\
The directory holds ca.crt, client.crt and client.key, as written by `strata
certificate issue` [default: --credentials, or those of the current context].

Examples:
  strata certificate renew ./grafana
  strata certificate renew")]
pub struct Renew {
    /// Directory of the certificate
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

impl Renew {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let directory = match self.directory.or(session.discovery.credentials.clone()) {
            Some(directory) => directory,
            None => of_login(session)?,
        };
        // As whom, whatever else is known.
        session.discovery.credentials = Some(directory.clone());
        session.discovery.token = None;
        let (key_pem, csr_pem) = CertificateRequest::generate().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot generate a key").because(why.to_string())
        })?;
        let server = session.server().await?;
        let what = format!("renew the certificate in {}", directory.display());
        let renewed = server
            .identity()
            .renew_certificate(RenewCertificateRequest { csr_pem })
            .await
            .map_err(cannot(&server, what))?
            .into_inner();
        let until = time_s(renewed.expires_at);
        let credentials = Credentials {
            ca_pem: renewed.ca_pem,
            certificate_pem: renewed.certificate_pem,
            key_pem,
        };
        credentials.write(&directory).map_err(|why| {
            let what = format!("cannot write into {}", directory.display());
            Failure::new(Exit::Unexpected, what).because(why.to_string())
        })?;
        let until = until.map_or(String::new(), |at| format!(", valid until {at}"));
        session.printer.note(&format!(
            "renewed {} in {}{until}",
            renewed.name,
            directory.display()
        ));
        Ok(())
    }
}

fn of_login(session: &Session) -> Result<PathBuf> {
    let logins = session.discovery.places.logins.as_ref();
    let contexts = logins.map(|file| Contexts::read(file)).transpose()?;
    let directory = contexts.and_then(|all| all.current()?.credentials.clone());
    directory.ok_or_else(|| {
        Failure::new(Exit::Usage, "no certificate specified")
            .hint("pass its directory: strata certificate renew DIRECTORY")
    })
}
