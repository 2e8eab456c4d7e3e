//! The repository's key, for what the engine has no call for: locks, and packs
//! that are put together from what is left of damaged ones.

use aes256ctr_poly1305aes::aead::Aead as _;
use aes256ctr_poly1305aes::{Aes256CtrPoly1305Aes, Key, Nonce};
use bytes::Bytes;
use rand::RngCore as _;
use rustic_core::repofile::MasterKey;
use sha2::{Digest as _, Sha256};

use crate::error::{BackupError, Result};

const NONCE: usize = 16;

/// Encrypts and decrypts as all of the repository is.
pub(crate) struct Cipher(Aes256CtrPoly1305Aes);

impl Cipher {
    pub(crate) fn new(key: &MasterKey) -> Self {
        let mut whole = Key::default();
        let parts = [&key.encrypt, &key.mac.k, &key.mac.r];
        for (to, from) in whole.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        Self(Aes256CtrPoly1305Aes::new(&whole))
    }

    pub(crate) fn seal(&self, text: &[u8]) -> Result<Bytes> {
        let mut nonce = Nonce::default();
        rand::rng().fill_bytes(&mut nonce);
        let sealed = self.0.encrypt(&nonce, text);
        let sealed = sealed.map_err(|_| BackupError::Panicked {
            doing: "encrypting",
        })?;
        Ok([&nonce[..], &sealed].concat().into())
    }

    /// Nothing for what was not sealed with this key, or is damaged.
    pub(crate) fn open(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = bytes.split_at_checked(NONCE)?;
        self.0.decrypt(Nonce::from_slice(nonce), sealed).ok()
    }
}

/// The name of a file of the repository: the hash of what is in it.
pub(crate) fn name_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
