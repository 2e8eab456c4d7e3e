//! Untrusted credentials: tokens, certificates, certificate requests, names.
//! Fuzzed by `fuzz/`.

use crate::token::text::ApiToken;
use crate::{
    CertificateId, CertificateRequest, Fingerprint, Host, JoinToken, Name, caller_from_certificate,
    certificate_from_pem,
};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("token", token),
    ("certificate", certificate),
    ("certificate_request", certificate_request),
];

fn token(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Some(token) = ApiToken::parse(text) {
        assert_eq!(token.write().expose(), text);
    }
    if let Some(token) = JoinToken::parse(text) {
        let _ = token.ca_fingerprint();
    }
    let _ = (
        text.parse::<Fingerprint>(),
        text.parse::<Name>(),
        text.parse::<Host>(),
    );
}

fn certificate(data: &[u8]) {
    let _ = caller_from_certificate(data);
    let _ = CertificateId::of(data);
    if let Ok(text) = str::from_utf8(data)
        && let Some(der) = certificate_from_pem(text)
    {
        let _ = caller_from_certificate(&der);
    }
}

fn certificate_request(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        let _ = CertificateRequest::from_pem(text);
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}
