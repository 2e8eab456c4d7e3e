//! `strata certificate renew`: has the server sign the certificate in a folder
//! anew, for a new key, and takes over the roots that are trusted now.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_api::strata::v1::RenewCertificateRequest;
use strata_client::Contexts;
use strata_identity::{CertificateRequest, Credentials};

use crate::failure::{Exit, Failure, Result, cannot};
use crate::session::Session;
use crate::view::time_s;

/// Have the server sign a certificate anew, for a new key
#[derive(Args, Debug)]
#[command(after_help = "\
The folder has ca.crt, client.crt and client.key, as `strata certificate issue`
writes them. Without one it is --credentials, or that of the login in use.

Examples:
  strata certificate renew ./grafana
  strata certificate renew")]
pub struct Renew {
    /// The folder of the certificate
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

impl Renew {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let folder = match self.folder.or(session.discovery.credentials.clone()) {
            Some(folder) => folder,
            None => of_login(session)?,
        };
        // As whom, whatever else is known.
        session.discovery.credentials = Some(folder.clone());
        session.discovery.token = None;
        let (key_pem, csr_pem) = CertificateRequest::generate().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot make a key").because(why.to_string())
        })?;
        let server = session.server().await?;
        let what = format!("renew the certificate in {}", folder.display());
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
        credentials.write(&folder).map_err(|why| {
            let what = format!("cannot write into {}", folder.display());
            Failure::new(Exit::Unexpected, what).because(why.to_string())
        })?;
        let until = until.map_or(String::new(), |at| format!(", good until {at}"));
        session.printer.note(&format!(
            "renewed {} in {}{until}",
            renewed.name,
            folder.display()
        ));
        Ok(())
    }
}

fn of_login(session: &Session) -> Result<PathBuf> {
    let logins = session.discovery.places.logins.as_ref();
    let contexts = logins.map(|file| Contexts::read(file)).transpose()?;
    let folder = contexts.and_then(|all| all.current()?.credentials.clone());
    folder.ok_or_else(|| {
        Failure::new(Exit::Usage, "no certificate was named")
            .hint("give its folder: strata certificate renew FOLDER")
    })
}
