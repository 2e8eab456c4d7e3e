//! Certificates as callers: what is refused, whatever the CA signed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use strata_identity::{CertificateError, caller_from_certificate};

fn certificate(
    names: &[&str],
    organizations: &[&str],
    usage: &[ExtendedKeyUsagePurpose],
) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // The writer holds one value for each type; a further one goes in under
    // the same number by hand.
    for (index, name) in names.iter().enumerate() {
        params
            .distinguished_name
            .push(nth(DnType::CommonName, 3, index), *name);
    }
    for (index, organization) in organizations.iter().enumerate() {
        params
            .distinguished_name
            .push(nth(DnType::OrganizationName, 10, index), *organization);
    }
    params.extended_key_usages = usage.to_vec();
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

fn nth(known: DnType, number: u64, index: usize) -> DnType {
    match index {
        0 => known,
        _ => DnType::CustomDnType(vec![2, 5, 4, number]),
    }
}

const CALLS: &[ExtendedKeyUsagePurpose] = &[ExtendedKeyUsagePurpose::ClientAuth];

#[test]
fn one_name_one_role_and_the_right_to_call_make_a_caller() {
    let der = certificate(&["somebody"], &["strata:operator"], CALLS);
    let caller = caller_from_certificate(&der).unwrap();
    assert_eq!(
        (caller.name.as_str(), caller.role.as_str()),
        ("somebody", "operator")
    );
}

#[test]
fn anything_less_or_more_is_refused() {
    let serves = &[ExtendedKeyUsagePurpose::ServerAuth];
    let refused = [
        (
            certificate(&["a"], &["strata:admin"], &[]),
            CertificateError::NotForCallers,
        ),
        (
            certificate(&["a"], &["strata:admin"], serves),
            CertificateError::NotForCallers,
        ),
        (certificate(&["a"], &[], CALLS), CertificateError::Roles(0)),
        (
            certificate(&["a"], &["system:masters"], CALLS),
            CertificateError::Roles(0),
        ),
        (
            certificate(&["a"], &["strata:viewer", "strata:admin"], CALLS),
            CertificateError::Roles(2),
        ),
        (
            certificate(&["a"], &["strata:server"], CALLS),
            CertificateError::UnknownRole,
        ),
        (
            certificate(&["a"], &["strata:Admin"], CALLS),
            CertificateError::UnknownRole,
        ),
        (
            certificate(&[], &["strata:admin"], CALLS),
            CertificateError::Names(0),
        ),
        (
            certificate(&["a", "b"], &["strata:admin"], CALLS),
            CertificateError::Names(2),
        ),
    ];
    for (der, expected) in refused {
        assert_eq!(caller_from_certificate(&der), Err(expected));
    }
    let spaced = certificate(&["a b"], &["strata:admin"], CALLS);
    assert!(matches!(
        caller_from_certificate(&spaced),
        Err(CertificateError::Name(_))
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(caller_from_certificate(&bytes).is_err());
    }

    #[test]
    fn a_changed_certificate_never_panics(place in any::<prop::sample::Index>(), bits in 1..=255_u8, cut in any::<prop::sample::Index>()) {
        let mut der = certificate(&["a"], &["strata:viewer"], CALLS);
        let place = place.index(der.len());
        der[place] ^= bits;
        let _ = caller_from_certificate(&der);
        let cut = cut.index(der.len());
        prop_assert!(caller_from_certificate(&der[..cut]).is_err());
    }
}
