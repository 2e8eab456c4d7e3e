//! What calls of drivers over a network have in common: a bound, and secrets
//! from a configuration.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::{ProviderError, Secret, Target};

/// Bounds a call.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    machine: &Target,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let done = tokio::time::timeout(limit, call).await;
    done.unwrap_or_else(|_| {
        let id = machine.id();
        Err(ProviderError::Unavailable(format!(
            "{what} of {id} is not done after {limit:?}"
        )))
    })
}

/// A secret, as a configuration has it.
pub(crate) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    String::deserialize(from).map(Secret::new)
}
