//! The CAs and keys of a cluster, and the certificates that are made from them
//! here. Names of files are those of kubeadm's own directory, so that it finds
//! all of them there and makes none itself: machines come and go, and the keys
//! that prove identities stay with the server.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use strata_types::Secret;

use super::apiserver::encryption;
use crate::DriverError;

/// Signs the API servers, kubelets and users.
pub(super) const CLUSTER: &str = "ca";
/// Signs the members of etcd and their clients.
pub(super) const ETCD: &str = "etcd/ca";
const FRONT_PROXY: &str = "front-proxy-ca";
const YEARS: u64 = 10;
const DAY: u64 = 24 * 60 * 60;
/// Before the first second, for a machine whose clock is behind.
const SKEW: u64 = 5 * 60;

/// A certificate and its key, as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: Secret,
}

/// All that a cluster needs to be born with.
pub(super) fn secrets() -> Result<BTreeMap<String, Secret>, DriverError> {
    let mut all = BTreeMap::new();
    // The names are those that kubeadm would give.
    for (file, name) in [
        (CLUSTER, "kubernetes"),
        (FRONT_PROXY, "front-proxy-ca"),
        (ETCD, "etcd-ca"),
    ] {
        let made = ca(name)?;
        all.insert(format!("{file}.crt"), Secret::new(made.certificate));
        all.insert(format!("{file}.key"), made.key);
    }
    let accounts = new_key()?;
    all.insert("sa.pub".into(), Secret::new(accounts.public_key_pem()));
    all.insert("sa.key".into(), Secret::new(accounts.serialize_pem()));
    all.insert(encryption::KEY.into(), encryption::new_key());
    Ok(all)
}

/// A client certificate of this CA.
pub(super) fn client(
    secrets: &BTreeMap<String, Secret>,
    ca: &str,
    name: &str,
    group: Option<&str>,
    lifetime: Duration,
) -> Result<Identity, DriverError> {
    let certificate = of(secrets, &format!("{ca}.crt"))?;
    let key = of(secrets, &format!("{ca}.key"))?;
    let key = KeyPair::from_pem(key).map_err(wrong("the key of the CA"))?;
    let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(wrong("the CA"))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, group);
    lasts(&mut params, lifetime.as_secs());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let own = new_key()?;
    let signed = params.signed_by(&own, &issuer);
    let signed = signed.map_err(wrong("a certificate"))?;
    Ok(Identity {
        certificate: signed.pem(),
        key: Secret::new(own.serialize_pem()),
    })
}

/// What the kubelet of a machine is known by. It gets itself the next one.
pub(super) fn node(
    secrets: &BTreeMap<String, Secret>,
    machine: &str,
) -> Result<Identity, DriverError> {
    let name = format!("system:node:{machine}");
    let lifetime = Duration::from_secs(365 * DAY);
    client(secrets, CLUSTER, &name, Some("system:nodes"), lifetime)
}

/// When the first certificate of these ends, in Unix seconds.
pub(super) fn first_end(pem: &str) -> Option<i64> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
    found
        .filter_map(|der| {
            let (_, parsed) = x509_parser::parse_x509_certificate(&der).ok()?;
            Some(parsed.validity().not_after.timestamp())
        })
        .min()
}

/// One of a cluster's secrets.
pub(super) fn of<'a>(
    secrets: &'a BTreeMap<String, Secret>,
    name: &str,
) -> Result<&'a str, DriverError> {
    let found = secrets.get(name).map(Secret::expose);
    found.ok_or_else(|| DriverError::Secrets {
        what: name.to_owned(),
        why: "it is not among the cluster's secrets".into(),
    })
}

pub(super) fn der(pem: &str) -> Result<CertificateDer<'static>, DriverError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(wrong("a certificate"))
}

fn ca(name: &str) -> Result<Identity, DriverError> {
    let key = new_key()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, None);
    lasts(&mut params, YEARS * 365 * DAY);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
    ];
    let signed = params.self_signed(&key).map_err(wrong("a CA"))?;
    Ok(Identity {
        certificate: signed.pem(),
        key: Secret::new(key.serialize_pem()),
    })
}

fn new_key() -> Result<KeyPair, DriverError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(wrong("a key"))
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    subject
}

/// In whole seconds: DER has no others.
fn lasts(params: &mut CertificateParams, seconds: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(SKEW));
    params.not_after = epoch + Duration::from_secs(now.saturating_add(seconds));
}

fn wrong<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> DriverError {
    move |error| DriverError::Secrets {
        what: what.to_owned(),
        why: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_certificate_is_signed_by_the_ca_and_expires() {
        let secrets = secrets().unwrap();
        let hour = Duration::from_secs(3600);
        let made = client(&secrets, CLUSTER, "ada", Some("system:masters"), hour).unwrap();
        let (ca, leaf) = (
            der(of(&secrets, "ca.crt").unwrap()).unwrap(),
            der(&made.certificate).unwrap(),
        );
        let (_, ca) = x509_parser::parse_x509_certificate(&ca).unwrap();
        let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).unwrap();
        leaf.verify_signature(Some(ca.public_key())).unwrap();
        ca.verify_signature(Some(ca.public_key())).unwrap();
        assert!(ca.is_ca() && !leaf.is_ca());
        assert_eq!(leaf.issuer(), ca.subject());
        assert_eq!(leaf.subject().to_string(), "O=system:masters, CN=ada");
        let left = leaf.validity().time_to_expiration().unwrap();
        assert!(left.whole_minutes() >= 58 && left.whole_minutes() <= 60);
        let ends = first_end(&format!(
            "{}{}",
            made.certificate,
            secrets["ca.crt"].expose()
        ));
        assert_eq!(ends, Some(leaf.validity().not_after.timestamp()));
    }

    #[test]
    fn pki_file_names_match_kubeadm() {
        let secrets = secrets().unwrap();
        let names: Vec<&str> = secrets.keys().map(String::as_str).collect();
        let expected = [
            "ca.crt",
            "ca.key",
            "encryption.key",
            "etcd/ca.crt",
            "etcd/ca.key",
            "front-proxy-ca.crt",
            "front-proxy-ca.key",
            "sa.key",
            "sa.pub",
        ];
        assert_eq!(names, expected);
        assert!(
            secrets["sa.pub"]
                .expose()
                .starts_with("-----BEGIN PUBLIC KEY")
        );
        assert!(
            secrets["sa.key"]
                .expose()
                .starts_with("-----BEGIN PRIVATE KEY")
        );
    }
}
