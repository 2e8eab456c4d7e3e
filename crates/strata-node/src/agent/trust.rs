//! The roots that the server has its nodes trust: kept beside the node's
//! certificate, in force at once, and a reason to renew the certificate when
//! another root signs by now.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_api::strata::v1;
use strata_identity::{Credentials, LiveTrust, in_full};
use strata_types::{Error, Result};
use tokio::sync::watch;

/// No bundle of two roots comes near it.
const LARGEST: usize = 64 << 10;

/// The roots that a joined node trusts, kept with its credentials.
#[derive(Clone, Debug)]
pub struct KeptTrust {
    folder: PathBuf,
    live: Arc<LiveTrust>,
    renew: watch::Sender<()>,
}

impl KeptTrust {
    /// Those in the folder of the node's credentials. `renew` is told when the
    /// certificate there is to be another.
    pub fn new(folder: &Path, live: Arc<LiveTrust>, renew: watch::Sender<()>) -> Self {
        Self {
            folder: folder.to_owned(),
            live,
            renew,
        }
    }

    /// Takes in what the server says. On disk first: a node that dies here
    /// finds the server again by what it has.
    pub(super) fn take(&self, trust: &v1::TrustBundle) -> Result<()> {
        let internal = |error: &dyn std::error::Error| Error::internal(in_full(error));
        if trust.ca_pem.len() > LARGEST {
            return Err(Error::invalid("ca_pem", "is too long"));
        }
        LiveTrust::new(&trust.ca_pem).map_err(|error| internal(&error))?;
        let known = Credentials::read(&self.folder).map_err(|error| internal(&error))?;
        if known.ca_pem != trust.ca_pem {
            let written = Credentials::write_ca(&self.folder, &trust.ca_pem);
            written.map_err(|error| internal(&error))?;
        }
        let replaced = self.live.replace(&trust.ca_pem);
        if replaced.map_err(|error| internal(&error))? {
            tracing::info!("the roots that are trusted have changed");
        }
        let own = known.certificate_id().map_err(|error| internal(&error))?;
        if own.issuer != trust.issuer {
            tracing::info!("another root signs: the certificate is renewed");
            self.renew.send_replace(());
        }
        Ok(())
    }
}
