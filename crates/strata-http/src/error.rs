//! Why a request brought no answer.

use std::error::Error;
use std::io;

use crate::one_line;

/// What stands at the bottom of an error: the reason, without the layers that
/// passed it on.
pub fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut at = error;
    loop {
        // What an io::Error is made of is not its source.
        let inner = at
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn Error + 'static));
        match inner.or_else(|| at.source()) {
            Some(next) => at = next,
            None => return at,
        }
    }
}

/// Why there was no answer, by what stands at the bottom of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The certificate of the server is not trusted.
    Untrusted(String),
    /// No connection, or one that ended.
    Broken(String),
}

impl Failure {
    /// Of an error of a client.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let root = root_cause(error);
        match root.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(why)) => {
                Self::Untrusted(one_line(&why.to_string()))
            }
            _ => Self::Broken(one_line(&root.to_string())),
        }
    }
}
