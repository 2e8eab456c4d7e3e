//! `strata certificate revoke`: makes certificates worthless, and ends what
//! they have open.

use clap::Args;
use strata_api::rest::{Certificate, RevokeRequest, RevokeResult};
use strata_types::Role;

use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::role;

/// Revoke certificates
#[derive(Args, Debug)]
#[command(after_help = "\
A serial number selects the certificate, those it renews and its renewals.
--name selects all present certificates of the name, also those without a
record. Their connections are closed at once; new certificates can be issued
to the same name.

Examples:
  strata certificate revoke 5a0d3f…
  strata certificate revoke --name ann --role operator --reason 'laptop lost'
  strata certificate revoke --name rack1-7 --role node")]
pub struct Revoke {
    /// Serial numbers as shown by `strata certificate list`
    #[arg(
        value_name = "SERIAL",
        required_unless_present_any = ["name", "key"],
        conflicts_with_all = ["name", "key"]
    )]
    serials: Vec<String>,

    /// Revoke all certificates of this name
    #[arg(long, requires = "role", conflicts_with = "key")]
    name: Option<String>,

    /// Role of that name: admin, operator, viewer or node
    #[arg(long, value_parser = role, requires = "name")]
    role: Option<Role>,

    /// Revoke all certificates of the key with this SHA-256
    #[arg(long, value_name = "SHA256")]
    key: Option<String>,

    /// Reason
    #[arg(long)]
    reason: Option<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl Revoke {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let asked = self.requests();
        let words: Vec<String> = asked.iter().map(|(words, _)| words.clone()).collect();
        session.confirm(&format!("Revoke {}?", words.join(", ")), self.yes)?;
        for (words, request) in asked {
            let done = rest.act::<Certificate, RevokeResult>("revoke", &request);
            let done = done.await.map_err(unable(format!("revoke {words}")))?;
            session.printer.note(&format!(
                "revoked {words} ({})",
                human::count(done.certificates, "certificate")
            ));
        }
        Ok(())
    }

    /// The selection, and its description.
    fn requests(&self) -> Vec<(String, RevokeRequest)> {
        let request = RevokeRequest {
            reason: self.reason.clone(),
            ..RevokeRequest::default()
        };
        let serials = self.serials.iter().map(|serial| {
            let request = RevokeRequest {
                serial: Some(serial.clone()),
                ..request.clone()
            };
            (format!("certificate {serial}"), request)
        });
        let key = self.key.iter().map(|key| {
            let request = RevokeRequest {
                key: Some(key.clone()),
                ..request.clone()
            };
            (format!("all of key {key}"), request)
        });
        let name = self.name.iter().zip(self.role).map(|(name, role)| {
            let request = RevokeRequest {
                name: Some(name.clone()),
                role: Some(role.to_string()),
                ..request.clone()
            };
            (format!("all of {role} {name}"), request)
        });
        serials.chain(key).chain(name).collect()
    }
}
