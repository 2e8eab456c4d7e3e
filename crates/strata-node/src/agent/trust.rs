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
const MAX_BUNDLE_BYTES: usize = 64 << 10;

/// The roots that a joined node trusts, kept with its credentials.
#[derive(Clone, Debug)]
pub struct StoredTrust {
    dir: PathBuf,
    live: Arc<LiveTrust>,
    renew: watch::Sender<()>,
}

impl StoredTrust {
    /// Those in the directory of the node's credentials. `renew` is notified
    /// when the certificate there is to be replaced.
    pub fn new(dir: &Path, live: Arc<LiveTrust>, renew: watch::Sender<()>) -> Self {
        Self {
            dir: dir.to_owned(),
            live,
            renew,
        }
    }

    /// Applies what the server sends. On disk first: a node that dies here
    /// finds the server again by what it has.
    pub(super) fn take(&self, trust: &v1::TrustBundle) -> Result<()> {
        let internal = |error: &dyn std::error::Error| Error::internal(in_full(error));
        if trust.ca_pem.len() > MAX_BUNDLE_BYTES {
            return Err(Error::invalid("ca_pem", "is too long"));
        }
        LiveTrust::new(&trust.ca_pem).map_err(|error| internal(&error))?;
        let known = Credentials::read(&self.dir).map_err(|error| internal(&error))?;
        if known.ca_pem != trust.ca_pem {
            let written = Credentials::write_ca(&self.dir, &trust.ca_pem);
            written.map_err(|error| internal(&error))?;
        }
        let replaced = self.live.replace(&trust.ca_pem);
        if replaced.map_err(|error| internal(&error))? {
            tracing::info!("trusted CA certificates changed");
        }
        let own = known.certificate_id().map_err(|error| internal(&error))?;
        if own.issuer != trust.issuer {
            tracing::info!("CA changed: node certificate is renewed");
            self.renew.send_replace(());
        }
        Ok(())
    }
}
