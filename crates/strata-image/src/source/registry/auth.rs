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

/// The least lifetime that a token server guarantees.
const SHORTEST_LIFE: Duration = Duration::from_secs(60);

/// The longest `Authorization` that is kept and sent. Servers that accept 8 KiB
/// of headers are the rule.
const MAX_HEADER: usize = 16 << 10;
/// Of so many repositories at most. A node with more requests some again.
const MAX_ENTRIES: usize = 1024;

/// The `Authorization` of each registry and repository. A registry chooses how
/// long its tokens are, and a user of how many repositories there are any, so
/// both are bounded.
#[derive(Default)]
pub(super) struct Cache(Mutex<HashMap<(String, String), CachedToken>>);

#[derive(Clone)]
struct CachedToken {
    header: HeaderValue,
    since: Instant,
    until: Option<Instant>,
}

impl CachedToken {
    fn is_fresh(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Cache {
    pub(super) fn get(&self, host: &str, repository: &str) -> Option<HeaderValue> {
        let key = (host.to_owned(), repository.to_owned());
        let kept = self.lock().get(&key).cloned()?;
        kept.is_fresh(Instant::now()).then_some(kept.header)
    }

    /// Keeps one. Where there are too many, those that have run out go, and
    /// then the oldest.
    pub(super) fn put(
        &self,
        host: &str,
        repository: &str,
        header: HeaderValue,
        life: Option<Duration>,
    ) {
        let since = Instant::now();
        let token = CachedToken {
            header,
            since,
            until: life.map(|life| since + life),
        };
        let mut all = self.lock();
        all.retain(|_, token| token.is_fresh(since));
        all.insert((host.to_owned(), repository.to_owned()), token);
        if all.len() > MAX_ENTRIES {
            let oldest = all.iter().min_by_key(|(_, token)| token.since);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                all.remove(&key);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), CachedToken>> {
        // A thread that panicked with the lock left whole entries.
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
    if text.len() > MAX_HEADER {
        return Err(SourceError::TooLarge {
            what: "the token or the credentials for the registry".into(),
            limit: MAX_HEADER as u64,
        });
    }
    let mut header = HeaderValue::from_str(text)
        .map_err(|_| SourceError::Settings("the credentials have control characters".into()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> HeaderValue {
        HeaderValue::from_str(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn cache_drops_what_ran_out_and_then_the_oldest() {
        let cache = Cache::default();
        let minute = Some(Duration::from_secs(60));
        cache.put("r", "password", header("Basic"), None);
        for number in 0..MAX_ENTRIES {
            tokio::time::advance(Duration::from_millis(1)).await;
            cache.put("r", &format!("short{number}"), header("Bearer"), minute);
        }
        assert_eq!(cache.lock().len(), MAX_ENTRIES);
        assert_eq!(cache.get("r", "password"), None, "the oldest");
        assert_eq!(cache.get("r", "short0"), Some(header("Bearer")));
        tokio::time::advance(Duration::from_secs(120)).await;
        assert_eq!(cache.get("r", "short0"), None);
        cache.put("r", "new", header("Bearer"), minute);
        assert_eq!(cache.lock().len(), 1);
    }

    #[test]
    fn longest_token_is_bounded() {
        let token = |length: usize| Token {
            token: Some("a".repeat(length)),
            access_token: None,
            expires_in: None,
        };
        let header = |length| token(length).header().unwrap();
        assert!(header(8 << 10).is_ok());
        let refused = header(MAX_HEADER).unwrap_err();
        assert!(matches!(refused, SourceError::TooLarge { .. }), "{refused}");
    }
}
