//! A certificate request of an unauthenticated party. Its key is taken, once
//! the request has proven that it holds it; its subject and extensions are not
//! even read: what a certificate says is ours to decide.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, SubjectPublicKeyInfo};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::PrivateKeyPem;

/// A certificate request with proof of possession of its key.
#[derive(Debug)]
pub struct CertificateRequest {
    pub(crate) key: SubjectPublicKeyInfo,
}

/// Why a request is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No honest request is that long.
    #[error("is {0} bytes long; the maximum is {max}", max = CertificateRequest::MAX)]
    TooLong(usize),
    /// Not PEM, or PEM of something else.
    #[error("is not a PEM block \"CERTIFICATE REQUEST\"")]
    NotPem,
    /// PEM of something that is no PKCS#10.
    #[error("is not a PKCS#10 certificate request")]
    Malformed,
    /// Signed by another key, or a damaged request.
    #[error("is not signed by the key it names")]
    Signature,
    /// A key that TLS here would not use.
    #[error(
        "has a key of a kind that is not supported; use ECDSA P-256, P-384, Ed25519 or RSA of 2048 bits and more"
    )]
    Key,
}

impl From<RequestError> for strata_types::Error {
    fn from(error: RequestError) -> Self {
        Self::invalid("csr_pem", error.to_string())
    }
}

impl CertificateRequest {
    /// The longest request that is parsed: an RSA key of 8192 bits takes less
    /// than half of it.
    pub const MAX: usize = 8 * 1024;

    /// Reads a request and checks its proof.
    pub fn from_pem(pem: &str) -> Result<Self, RequestError> {
        if pem.len() > Self::MAX {
            return Err(RequestError::TooLong(pem.len()));
        }
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| RequestError::NotPem)?;
        let (rest, request) =
            X509CertificationRequest::from_der(&der).map_err(|_| RequestError::Malformed)?;
        if !rest.is_empty() {
            return Err(RequestError::Malformed);
        }
        let info = &request.certification_request_info;
        let key =
            SubjectPublicKeyInfo::from_der(info.subject_pki.raw).map_err(|_| RequestError::Key)?;
        request
            .verify_signature()
            .map_err(|_| RequestError::Signature)?;
        Ok(Self { key })
    }

    /// A fresh key and the request for it, for holders that have a server sign:
    /// the key never leaves them.
    pub fn generate() -> Result<(PrivateKeyPem, String), rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let request = CertificateParams::default().serialize_request(&key)?;
        Ok((PrivateKeyPem::new(key.serialize_pem()), request.pem()?))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use proptest::prelude::*;
    use rcgen::{CustomExtension, PublicKeyData as _};

    use super::*;

    fn pem(der: &[u8]) -> String {
        let body = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    }

    fn der() -> Vec<u8> {
        let (_, pem) = CertificateRequest::generate().unwrap();
        CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .unwrap()
            .to_vec()
    }

    #[test]
    fn takes_the_key_and_nothing_else() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["evil.example".to_owned()]).unwrap();
        params.distinguished_name = crate::issue::subject("root", "admin");
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])];
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let request = CertificateRequest::from_pem(&pem).unwrap();
        assert_eq!(request.key.der_bytes(), key.public_key_raw());
    }

    #[test]
    fn refuses_a_request_that_its_key_did_not_sign() {
        let mut der = der();
        *der.last_mut().unwrap() ^= 1;
        let refused = CertificateRequest::from_pem(&pem(&der)).unwrap_err();
        assert_eq!(refused, RequestError::Signature);
    }

    #[test]
    fn says_what_is_wrong_and_in_which_field() {
        let long = "x".repeat(CertificateRequest::MAX + 1);
        let error = strata_types::Error::from(CertificateRequest::from_pem(&long).unwrap_err());
        assert_eq!(error.field(), Some("csr_pem"));
        assert_eq!(error.message(), "is 8193 bytes long; the maximum is 8192");
        let key = KeyPair::generate().unwrap().serialize_pem();
        for (text, expected) in [
            ("", RequestError::NotPem),
            (&key, RequestError::NotPem),
            (&pem(b"hello"), RequestError::Malformed),
            (&pem(&[der(), vec![0]].concat()), RequestError::Malformed),
        ] {
            assert_eq!(CertificateRequest::from_pem(text).unwrap_err(), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused(text in ".*") {
            prop_assert!(CertificateRequest::from_pem(&text).is_err());
        }

        #[test]
        fn any_bytes_in_pem_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(CertificateRequest::from_pem(&pem(&bytes)).is_err());
        }

        #[test]
        fn a_changed_byte_never_smuggles_in_another_key(place in any::<prop::sample::Index>(), bits in 1..=255_u8) {
            let mut der = der();
            let honest = CertificateRequest::from_pem(&pem(&der)).unwrap();
            let place = place.index(der.len());
            der[place] ^= bits;
            if let Ok(changed) = CertificateRequest::from_pem(&pem(&der)) {
                prop_assert_eq!(changed.key, honest.key);
            }
        }

        #[test]
        fn a_cut_request_is_refused(length in any::<prop::sample::Index>()) {
            let der = der();
            prop_assert!(CertificateRequest::from_pem(&pem(&der[..length.index(der.len())])).is_err());
        }
    }
}
