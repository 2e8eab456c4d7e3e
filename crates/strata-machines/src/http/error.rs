//! Why a request brought no answer, and what that means for a provider.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::plain;
use crate::ProviderError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{0:?} is no address: https://HOST[:PORT] is one")]
    Address(String),
    #[error("{host} names {to:?}, which is not its own: nothing was sent there")]
    Elsewhere { host: String, to: String },
    #[error("{0} is without TLS: that needs `insecure = true` with its credentials")]
    Clear(String),
    #[error("{what}: {why}")]
    Settings { what: String, why: String },
    #[error("{host} cannot be reached: {why}")]
    Broken { host: String, why: String },
    #[error(
        "{host} is not trusted: {why}; name its authority with `ca_file`, or say `insecure = true`"
    )]
    Untrusted { host: String, why: String },
    #[error("{host} did not answer within {after:?}")]
    Late { host: String, after: Duration },
    #[error("{host} sends more than {most} bytes")]
    TooLarge { host: String, most: usize },
    #[error("{host} answers with something else than was asked for: {why}")]
    Nonsense { host: String, why: String },
}

impl HttpError {
    /// By what stands at the bottom of the error.
    pub(super) fn of(host: &str, error: &(dyn Error + 'static)) -> Self {
        let host = host.to_owned();
        let mut at: Option<&(dyn Error + 'static)> = Some(error);
        let mut last = error.to_string();
        while let Some(error) = at {
            last = error.to_string();
            let inner = error.downcast_ref::<io::Error>();
            // What an io::Error is made of is not its source.
            let inner = inner
                .and_then(io::Error::get_ref)
                .map(|e| e as &(dyn Error + 'static));
            let shown = inner.unwrap_or(error);
            if let Some(rustls::Error::InvalidCertificate(why)) = shown.downcast_ref() {
                let why = plain(&why.to_string());
                return Self::Untrusted { host, why };
            }
            at = inner.or_else(|| error.source());
        }
        let why = plain(&last);
        Self::Broken { host, why }
    }

    pub(super) fn of_body(host: &str, error: &(dyn Error + 'static), most: usize) -> Self {
        if error.is::<http_body_util::LengthLimitError>() {
            let host = host.to_owned();
            return Self::TooLarge { host, most };
        }
        Self::of(host, error)
    }
}

impl From<HttpError> for ProviderError {
    fn from(error: HttpError) -> Self {
        let text = error.to_string();
        match error {
            HttpError::Broken { .. } | HttpError::Late { .. } => Self::Unavailable(text),
            _ => Self::Refused(text),
        }
    }
}
