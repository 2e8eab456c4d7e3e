//! What calls of drivers over a network have in common: a bound, and secrets
//! from a configuration, and what others leave out.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::{ProviderError, Secret, Target};

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

/// Reads `null` as if the field was absent: vendors write it for empty lists
/// too.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}
