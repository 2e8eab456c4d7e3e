//! One value, sealed: AES-256-GCM-SIV under a data key, bound to its name.
//!
//! ```text
//! "\0SV1" | id of the data key, 4 bytes | nonce, 12 bytes | ciphertext, tag of 16 bytes
//! ```
//!
//! The name of the record is authenticated with it, so a value that is put
//! under another name does not open. SIV, because all servers make nonces at
//! random for years on one key: a nonce that comes twice then reveals only
//! whether two values are equal.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce, RandomizedNonceKey};
use bytes::{Bytes, BytesMut};

/// What a sealed value begins with. No record begins so: they are text.
const MAGIC: &[u8; 4] = b"\0SV1";
const NONCE: usize = 12;
const TAG: usize = 16;
const HEADER: usize = MAGIC.len() + size_of::<u32>() + NONCE;

/// How much longer a value is when it is sealed.
pub(crate) const OVERHEAD: usize = HEADER + TAG;
/// The length of a key.
pub(super) const KEY: usize = 32;

/// Why a value does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotOpened {
    #[error("it is not sealed")]
    Plain,
    #[error("it was sealed with key {0}, which this store does not have")]
    UnknownKey(u32),
    #[error("it was changed, or belongs to another record or store")]
    Forged,
}

/// Something could not be sealed: the random numbers or the cipher failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value cannot be sealed")]
pub(super) struct NotSealed;

/// A key that seals. It is never printed.
pub(super) struct SealingKey(RandomizedNonceKey);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(sealing key)")
    }
}

impl SealingKey {
    pub(super) fn new(bytes: &[u8; KEY]) -> Result<Self, NotSealed> {
        let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, bytes);
        key.map(Self).map_err(|_| NotSealed)
    }

    /// Seals `value` as that of `name`.
    pub(super) fn seal(&self, id: u32, name: &str, value: &[u8]) -> Result<Bytes, NotSealed> {
        let mut sealed = BytesMut::with_capacity(value.len() + OVERHEAD);
        sealed.extend_from_slice(MAGIC);
        sealed.extend_from_slice(&id.to_be_bytes());
        sealed.extend_from_slice(&[0; NONCE]);
        sealed.extend_from_slice(value);
        let aad = Aad::from(authenticated(id, name));
        let plain = sealed.get_mut(HEADER..).ok_or(NotSealed)?;
        let made = self.0.seal_in_place_separate_tag(aad, plain);
        let (nonce, tag) = made.map_err(|_| NotSealed)?;
        let place = sealed.get_mut(HEADER - NONCE..HEADER).ok_or(NotSealed)?;
        place.copy_from_slice(nonce.as_ref());
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.freeze())
    }

    /// Opens what [`Self::seal`] made.
    pub(super) fn open(&self, id: u32, name: &str, sealed: &[u8]) -> Result<Bytes, NotOpened> {
        let nonce = sealed.get(HEADER - NONCE..HEADER);
        let nonce = nonce.and_then(|it| Nonce::try_assume_unique_for_key(it).ok());
        let nonce = nonce.ok_or(NotOpened::Forged)?;
        let mut value = BytesMut::from(sealed.get(HEADER..).ok_or(NotOpened::Forged)?);
        let aad = Aad::from(authenticated(id, name));
        let opened = self.0.open_in_place(nonce, aad, &mut value);
        let length = opened.map_err(|_| NotOpened::Forged)?.len();
        value.truncate(length);
        Ok(value.freeze())
    }
}

/// What is authenticated beside the value.
fn authenticated(id: u32, name: &str) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

/// Which key sealed a value; none if it is not sealed.
pub(super) fn key_id(value: &[u8]) -> Option<u32> {
    let rest = value.strip_prefix(MAGIC)?;
    Some(u32::from_be_bytes(*rest.first_chunk()?))
}

/// How long a value was before it was sealed; its length if it is not.
pub(crate) fn plain_length(value: &[u8]) -> usize {
    match key_id(value) {
        Some(_) => value.len().saturating_sub(OVERHEAD),
        None => value.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> SealingKey {
        SealingKey::new(&[byte; KEY]).unwrap()
    }

    proptest! {
        #[test]
        fn sealed_value_opens_only_under_its_name_and_key(
            value: Vec<u8>, name in "[a-z/]{1,9}", other in "[a-z/]{1,9}", at: prop::sample::Index,
        ) {
            let sealed = key(1).seal(7, &name, &value).unwrap();
            prop_assert_eq!(sealed.len(), value.len() + OVERHEAD);
            prop_assert_eq!(plain_length(&sealed), value.len());
            prop_assert_eq!(key_id(&sealed), Some(7));
            prop_assert_eq!(key(1).open(7, &name, &sealed).unwrap(), value);
            prop_assert_eq!(key(2).open(7, &name, &sealed), Err(NotOpened::Forged));
            if other != name {
                prop_assert_eq!(key(1).open(7, &other, &sealed), Err(NotOpened::Forged));
            }
            let mut changed = sealed.to_vec();
            let at = HEADER - NONCE + at.index(changed.len() - (HEADER - NONCE));
            changed[at] ^= 1;
            prop_assert_eq!(key(1).open(7, &name, &changed), Err(NotOpened::Forged));
        }

        #[test]
        fn any_bytes_are_refused_without_a_fuss(bytes: Vec<u8>) {
            let _ = key_id(&bytes);
            prop_assert!(key(1).open(1, "a", &bytes).is_err());
        }
    }

    #[test]
    fn equal_values_are_sealed_differently() {
        let seal = || key(1).seal(1, "a", b"value").unwrap();
        assert_ne!(seal(), seal());
    }

    #[test]
    fn records_are_not_taken_for_sealed_ones() {
        for plain in [&b""[..], b"{}", b"\0", b"\0SV", b"\0SV1\0\0"] {
            assert_eq!(key_id(plain), None);
        }
    }
}
