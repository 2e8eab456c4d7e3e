//! Encryption at rest: Secrets and ConfigMaps are encrypted by the API server
//! before etcd is given them. The provider is `secretbox` (XSalsa20 and
//! Poly1305), which upstream recommends where no KMS holds the key: `aesgcm`
//! must be rotated every 200,000 writes, and `aescbc` is not authenticated.
//!
//! The key is one of the cluster's secrets, beside its CA keys: a control plane
//! that is built again from a snapshot has it from there.
//!
//! A cluster from before has none. It gets one in two steps, because an API
//! server that does not know the key cannot read what another encrypts, and the
//! control plane is upgraded one machine after the other and may be rolled
//! back: while the key is *pending*, it is there to read with, and writes are
//! in the clear; when every API server knows it, it is promoted.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::RngCore as _;
use serde_json::{Value, json};
use strata_types::Secret;

/// The name of the key that is written with.
pub const KEY: &str = "encryption.key";
/// The name of the key while there may be API servers that do not know it.
const PENDING: &str = "encryption-pending.key";
/// What secretbox takes, in bytes.
const KEY_BYTES: usize = 32;
const RESOURCES: [&str; 2] = ["secrets", "configmaps"];

/// The secrets of a cluster, by name.
type Secrets = BTreeMap<String, Secret>;

/// A new key, as the API server takes it: base64.
pub(in crate::kubeadm) fn new_key() -> Secret {
    let mut key = [0_u8; KEY_BYTES];
    rand::rng().fill_bytes(&mut key);
    Secret::new(STANDARD.encode(key))
}

/// Whether this is the name of such a key, which is no file of the PKI.
pub(in crate::kubeadm) fn is_key(name: &str) -> bool {
    name == KEY || name == PENDING
}

/// The same secrets with a pending key, for a cluster that has none.
pub fn begin(secrets: &Secrets) -> Option<Secrets> {
    if secrets.keys().any(|name| is_key(name)) {
        return None;
    }
    let mut next = secrets.clone();
    next.insert(PENDING.into(), new_key());
    Some(next)
}

/// The same secrets with the pending key as the one to write with, for a
/// cluster whose API servers all know it.
pub fn promote(secrets: &Secrets) -> Option<Secrets> {
    let mut next = secrets.clone();
    let key = next.remove(PENDING)?;
    next.entry(KEY.into()).or_insert(key);
    Some(next)
}

/// The file for the API server: the first provider writes, all read. What was
/// written in the clear stays readable in either case.
pub(super) fn providers(secrets: &Secrets) -> Option<Value> {
    let secretbox = |key: &Secret| json!({"secretbox": {"keys": [{"name": "strata-1", "secret": key.expose()}]}});
    let identity = json!({"identity": {}});
    let providers = match (secrets.get(KEY), secrets.get(PENDING)) {
        (Some(key), _) => [secretbox(key), identity],
        (None, Some(key)) => [identity, secretbox(key)],
        (None, None) => return None,
    };
    Some(json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": RESOURCES, "providers": providers}],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(secrets: &Secrets) -> Vec<String> {
        let file = providers(secrets).unwrap();
        let providers = file["resources"][0]["providers"].as_array().unwrap();
        let names = providers
            .iter()
            .flat_map(|it| it.as_object().unwrap().keys());
        names.cloned().collect()
    }

    #[test]
    fn encryption_key_is_32_random_bytes() {
        let (one, other) = (new_key(), new_key());
        assert_eq!(STANDARD.decode(one.expose()).unwrap().len(), KEY_BYTES);
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "(secret)");
    }

    #[test]
    fn new_cluster_encrypts_and_reads_plaintext_secrets() {
        let secrets = [(KEY.to_owned(), new_key())].into();
        assert_eq!(order(&secrets), ["secretbox", "identity"]);
        let file = providers(&secrets).unwrap();
        let key = &file["resources"][0]["providers"][0]["secretbox"]["keys"][0]["secret"];
        assert_eq!(key, secrets[KEY].expose());
        assert!(begin(&secrets).is_none() && promote(&secrets).is_none());
    }

    #[test]
    fn encryption_key_is_distributed_before_it_is_used() {
        let before: Secrets = [("ca.key".to_owned(), Secret::new("PEM"))].into();
        assert!(providers(&before).is_none() && promote(&before).is_none());
        let pending = begin(&before).unwrap();
        assert_eq!(order(&pending), ["identity", "secretbox"]);
        assert!(
            begin(&pending).is_none(),
            "a second key would orphan the first"
        );
        let promoted = promote(&pending).unwrap();
        assert_eq!(order(&promoted), ["secretbox", "identity"]);
        assert_eq!(promoted[KEY], pending[PENDING]);
        assert_eq!(promoted["ca.key"], before["ca.key"]);
        assert_eq!(promoted.len(), 2);
    }
}
