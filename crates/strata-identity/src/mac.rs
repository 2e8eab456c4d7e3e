//! HMAC-SHA-256 (RFC 2104), for datagrams between nodes that share a key which
//! their server gave them.

use sha2::{Digest as _, Sha256};

const BLOCK: usize = 64;

/// The code of a message under a key.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; BLOCK];
    match key.len() > BLOCK {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let with = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(with(0x36));
    let inner = inner.chain_update(message).finalize();
    let outer = Sha256::new().chain_update(with(0x5c));
    outer.chain_update(inner).finalize().into()
}

/// Whether a code is that of a message, in a time that does not depend on where
/// they differ.
pub fn is_hmac_sha256(key: &[u8], message: &[u8], code: &[u8]) -> bool {
    let expected = hmac_sha256(key, message);
    let differ = expected
        .iter()
        .zip(code)
        .fold(0, |all, (a, b)| all | (a ^ b));
    code.len() == expected.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn codes_are_those_of_rfc_4231() {
        let first = hmac_sha256(&[0x0b; 20], b"Hi There");
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex(&first), expected);
        let long = "Test Using Larger Than Block-Size Key - Hash Key First";
        let sixth = hmac_sha256(&[0xaa; 131], long.as_bytes());
        let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(hex(&sixth), expected);
        assert!(is_hmac_sha256(&[0x0b; 20], b"Hi There", &first));
        assert!(!is_hmac_sha256(&[0x0b; 20], b"Hi there", &first));
        assert!(!is_hmac_sha256(&[0x0b; 20], b"Hi There", &first[..31]));
    }
}
