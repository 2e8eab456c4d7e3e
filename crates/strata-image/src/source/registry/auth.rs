//! What we show a registry: user and password, or a token from its token
//! server, kept until it runs out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use serde::Deserialize;
use tokio::time::Instant;

use super::options::Credentials;
use crate::SourceError;

/// What a token server promises at least.
const SHORTEST_LIFE: Duration = Duration::from_secs(60);

/// The `Authorization` of each registry and repository.
#[derive(Default)]
pub(super) struct Cache(Mutex<HashMap<(String, String), Kept>>);

#[derive(Clone)]
struct Kept {
    header: HeaderValue,
    until: Option<Instant>,
}

impl Cache {
    pub(super) fn get(&self, host: &str, repository: &str) -> Option<HeaderValue> {
        let key = (host.to_owned(), repository.to_owned());
        let kept = self.lock().get(&key).cloned()?;
        let fresh = kept.until.is_none_or(|until| Instant::now() < until);
        fresh.then_some(kept.header)
    }

    pub(super) fn put(
        &self,
        host: &str,
        repository: &str,
        header: HeaderValue,
        life: Option<Duration>,
    ) {
        let until = life.map(|life| Instant::now() + life);
        let key = (host.to_owned(), repository.to_owned());
        self.lock().insert(key, Kept { header, until });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), Kept>> {
        // Whoever died with it left whole entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn basic(credentials: &Credentials) -> Result<HeaderValue, SourceError> {
    let Credentials { user, password } = credentials;
    let text = BASE64_STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {text}"))
}

/// A token server's answer.
#[derive(Deserialize)]
pub(super) struct Token {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Token {
    pub(super) fn header(&self) -> Option<Result<HeaderValue, SourceError>> {
        let token = self.token.as_ref().or(self.access_token.as_ref())?;
        Some(secret(&format!("Bearer {token}")))
    }

    /// A tenth is left for the way.
    pub(super) fn life(&self) -> Duration {
        let promised = self.expires_in.map_or(SHORTEST_LIFE, Duration::from_secs);
        promised.min(Duration::from_secs(86_400)) * 9 / 10
    }
}

fn secret(text: &str) -> Result<HeaderValue, SourceError> {
    let mut header = HeaderValue::from_str(text)
        .map_err(|_| SourceError::Settings("the credentials have control characters".into()))?;
    header.set_sensitive(true);
    Ok(header)
}
