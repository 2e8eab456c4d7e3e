//! What a machine joins with: a bootstrap token that is made for it, lives for
//! minutes and is deleted when the join has ended, well or badly.

use std::time::Duration;

use jiff::Timestamp;
use rand::Rng as _;
use serde_json::json;
use strata_types::Secret;

use super::api::{Api, ApiError};
use super::observe::SYSTEM;

/// Should it not be deleted, it expires by itself.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A token: a public half and a secret one.
pub(super) struct Token {
    id: String,
    secret: Secret,
}

impl Token {
    /// A new one, known to none yet.
    pub(super) fn new() -> Self {
        let mut random = rand::rng();
        let mut word = |length: usize| -> String {
            let letter = |_| LETTERS[random.random_range(0..LETTERS.len())];
            (0..length).map(letter).map(char::from).collect()
        };
        Self {
            id: word(6),
            secret: Secret::new(word(16)),
        }
    }

    /// As kubeadm takes it.
    pub(super) fn text(&self) -> Secret {
        Secret::new(format!("{}.{}", self.id, self.secret.expose()))
    }

    /// Reports the cluster of it.
    pub(super) async fn announce(&self, api: &Api, machine: &str) -> Result<(), ApiError> {
        let ends = Timestamp::now()
            .checked_add(LIFETIME)
            .unwrap_or(Timestamp::MAX);
        let ends = ends.round(jiff::Unit::Second).unwrap_or(ends);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": self.object(), "namespace": "kube-system"},
            "stringData": {
                "description": format!("lets {machine} join"),
                "token-id": self.id,
                "token-secret": self.secret.expose(),
                "expiration": ends.to_string(),
                "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true",
                "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            },
        });
        api.create(&format!("{SYSTEM}/secrets"), &object).await
    }

    /// Has the cluster remove it.
    pub(super) async fn remove_member(&self, api: &Api) -> Result<(), ApiError> {
        let path = format!("{SYSTEM}/secrets/{}", self.object());
        api.delete(&path).await
    }

    fn object(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_token_has_the_kubernetes_format() {
        let token = Token::new();
        let text = token.text();
        let (id, secret) = text.expose().split_once('.').unwrap();
        assert_eq!((id.len(), secret.len()), (6, 16));
        assert!(
            text.expose()
                .bytes()
                .all(|b| b == b'.' || LETTERS.contains(&b))
        );
        assert_ne!(text, Token::new().text());
    }
}
