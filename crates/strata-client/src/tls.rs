//! TLS of a client: which CA the other side's certificate must come from,
//! and the certificate to show it.

use std::error::Error as StdError;
use std::sync::Arc;

use rustls::ClientConfig;
use strata_identity::{Clock, Credentials, Expect, Fingerprint, LiveError, LiveIdentity, TlsError};

/// Why there is no TLS with what was given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsSetupError {
    #[error(transparent)]
    Identity(#[from] LiveError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl TlsSetupError {
    /// The whole of it in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            line = format!("{line}: {cause}");
            next = cause.source();
        }
        line
    }
}

/// For a caller that shows a certificate. Server or node, either may be
/// behind it: a certificate gives nothing away.
pub(crate) fn with_certificate(
    credentials: &Credentials,
) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let identity = Arc::new(LiveIdentity::new(credentials)?);
    let config = strata_identity::client_config(
        &credentials.ca_pem,
        Some(identity),
        Expect::Any,
        Clock::system(),
    )?;
    Ok(config.into())
}

/// For a node that calls its server with a certificate that is renewed
/// meanwhile.
pub(crate) fn with_identity(
    ca_pem: &str,
    identity: Arc<LiveIdentity>,
) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let config =
        strata_identity::client_config(ca_pem, Some(identity), Expect::Server, Clock::system())?;
    Ok(config.into())
}

/// For a caller whose proof travels in the request.
pub(crate) fn without_certificate(
    ca_pem: &str,
    expect: Expect,
) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let config = strata_identity::client_config(ca_pem, None, expect, Clock::system())?;
    Ok(config.into())
}

/// For a caller that knows the CA by its fingerprint alone.
pub(crate) fn joining(fingerprint: Fingerprint) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let config = strata_identity::joining_client_config(fingerprint, Clock::system())?;
    Ok(config.into())
}
