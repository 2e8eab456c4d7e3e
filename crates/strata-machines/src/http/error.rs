//! Why a request brought no answer, and what that means for a provider.

use std::error::Error;
use std::time::Duration;

use strata_http::{Failure, TrustError};

use crate::ProviderError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{0:?} is not an address: expected https://HOST[:PORT]")]
    Address(String),
    #[error("{host} names {to:?}, which is not its own: nothing was sent there")]
    Elsewhere { host: String, to: String },
    #[error("{0} is without TLS: that needs `insecure = true` with its credentials")]
    Clear(String),
    #[error("{what}: {why}")]
    Settings { what: String, why: String },
    #[error("{host} cannot be reached: {why}")]
    Broken { host: String, why: String },
    #[error("{host} is not trusted: {why}; name its CA with `ca_file`, or set `insecure = true`")]
    Untrusted { host: String, why: String },
    #[error("{host} did not answer within {after:?}")]
    Late { host: String, after: Duration },
    #[error("{host} sends more than {most} bytes")]
    TooLarge { host: String, most: usize },
    #[error("{host} answers with an unexpected document: {why}")]
    Nonsense { host: String, why: String },
}

impl HttpError {
    pub(super) fn of(host: &str, error: &(dyn Error + 'static)) -> Self {
        let host = host.to_owned();
        match Failure::of(error) {
            Failure::Untrusted(why) => Self::Untrusted { host, why },
            Failure::Broken(why) => Self::Broken { host, why },
        }
    }

    pub(super) fn of_body(host: &str, error: &(dyn Error + 'static), most: usize) -> Self {
        if error.is::<http_body_util::LengthLimitError>() {
            let host = host.to_owned();
            return Self::TooLarge { host, most };
        }
        Self::of(host, error)
    }
}

impl From<TrustError> for HttpError {
    fn from(TrustError { what, why }: TrustError) -> Self {
        Self::Settings { what, why }
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
