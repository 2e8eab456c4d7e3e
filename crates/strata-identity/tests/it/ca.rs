//! The CA: what it keeps, what it signs, and what its certificates contain.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use strata_identity::{
    Ca, CaError, CertificateRequest, CertificateSpec, Clock, Credentials, FileError, Name,
    caller_from_certificate,
};
use strata_types::Role;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn der(credentials: &Credentials) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(credentials.certificate_pem.as_bytes()).unwrap()
}

/// What a certificate names and is for: (hosts, serves, calls).
fn says(der: &[u8]) -> (Vec<String>, bool, bool) {
    let (_, certificate) = X509Certificate::from_der(der).unwrap();
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    let hosts = certificate.subject_alternative_name().unwrap();
    let hosts = hosts.map_or(Vec::new(), |hosts| {
        let text = |host: &GeneralName<'_>| match host {
            GeneralName::DNSName(name) => (*name).to_owned(),
            GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
            GeneralName::IPAddress(other) => format!("{} bytes", other.len()),
            other => panic!("{other:?}"),
        };
        hosts.value.general_names.iter().map(text).collect()
    });
    (hosts, usage.server_auth, usage.client_auth)
}

#[test]
fn ca_is_created_once_with_a_private_key() {
    let world = tempfile::tempdir().unwrap();
    let directory = world.path().join("ca");
    let first = Ca::open(&directory).unwrap();
    let again = Ca::open(&directory).unwrap();
    assert_eq!(first.fingerprint(), again.fingerprint());
    assert_eq!(first.ca_pem(), again.ca_pem());
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("ca.key")), 0o600);
    assert_eq!(mode(&directory.join("ca.crt")), 0o644);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    assert!(!format!("{first:?}").contains("PRIVATE"));
}

#[test]
fn concurrent_opens_create_one_ca() {
    let world = tempfile::tempdir().unwrap();
    let directory = world.path().join("ca");
    let fingerprints: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Ca::open(&directory).unwrap().fingerprint()))
            .collect();
        opening.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(fingerprints.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_crash_between_key_and_certificate_is_mended() {
    let world = tempfile::tempdir().unwrap();
    Ca::open(world.path()).unwrap();
    let key = fs::read(world.path().join("ca.key")).unwrap();
    fs::remove_file(world.path().join("ca.crt")).unwrap();
    Ca::open(world.path()).unwrap();
    assert_eq!(fs::read(world.path().join("ca.key")).unwrap(), key);
}

#[test]
fn lost_damaged_or_exposed_ca_key_is_reported_and_never_replaced() {
    let world = tempfile::tempdir().unwrap();
    Ca::open(world.path()).unwrap();
    let key = world.path().join("ca.key");

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = Ca::open(world.path()).unwrap_err();
    assert!(matches!(exposed, CaError::File(FileError::Exposed { .. })));

    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "nonsense").unwrap();
    let damaged = Ca::open(world.path()).unwrap_err();
    assert!(matches!(damaged, CaError::Damaged { .. }));

    let other = tempfile::tempdir().unwrap();
    Ca::open(other.path()).unwrap();
    fs::copy(other.path().join("ca.key"), &key).unwrap();
    let foreign = Ca::open(world.path()).unwrap_err();
    assert!(
        foreign
            .to_string()
            .contains("not the certificate of ca.key")
    );

    fs::remove_file(&key).unwrap();
    let lost = Ca::open(world.path()).unwrap_err();
    assert!(matches!(lost, CaError::KeyLost(_)));
    assert!(!key.exists());
}

#[test]
fn a_certificate_says_who_it_is_for_and_comes_back_as_the_caller() {
    let world = tempfile::tempdir().unwrap();
    let ca = Ca::open(world.path()).unwrap();
    for role in Role::ALL {
        let spec = CertificateSpec::caller(name("some.body_1"), role);
        let credentials = ca.issue(&spec).unwrap();
        let caller = caller_from_certificate(&der(&credentials)).unwrap();
        assert_eq!((caller.name.as_str(), caller.role), ("some.body_1", role));
        let validity = credentials.validity().unwrap();
        assert_eq!(caller.expires_at, Some(validity.not_after));
    }
}

#[test]
fn every_kind_serves_and_calls_as_it_should() {
    let world = tempfile::tempdir().unwrap();
    let ca = Ca::open(world.path()).unwrap();
    let hosts = || ["10.1.2.3", "0.0.0.0", "Db.Example"].map(|host| host.parse().unwrap());
    let say = |spec: CertificateSpec| says(&der(&ca.issue(&spec.with_hosts(hosts())).unwrap()));

    let here = ["localhost", "127.0.0.1", "16 bytes"];
    let given = ["10.1.2.3", "db.example"];
    let server = say(CertificateSpec::server(name("server")));
    assert_eq!(
        server,
        (
            [here.as_slice(), &given]
                .concat()
                .iter()
                .map(|&h| h.into())
                .collect(),
            true,
            false
        )
    );
    let node = say(CertificateSpec::caller(name("n1"), Role::Node));
    let named = ["n1.node.strata.internal"];
    assert_eq!(
        node,
        (
            [named.as_slice(), &given]
                .concat()
                .iter()
                .map(|&h| h.into())
                .collect(),
            true,
            true
        )
    );
    let viewer = say(CertificateSpec::caller(name("v"), Role::Viewer));
    assert_eq!(viewer, (vec![], false, true));
}

#[test]
fn no_node_is_certified_for_the_loopback_however_it_is_named() {
    let world = tempfile::tempdir().unwrap();
    let ca = Ca::open(world.path()).unwrap();
    let node = || CertificateSpec::caller(name("n1"), Role::Node);
    let here = [
        "localhost",
        "LOCALHOST",
        "a.localhost",
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "::ffff:127.0.0.1",
    ];
    let here = here.map(|host| host.parse().unwrap());
    let issued = ca.issue(&node().with_hosts(here)).unwrap();
    let named = vec!["n1.node.strata.internal".to_owned()];
    assert_eq!(says(&der(&issued)).0, named);
    // But where it is alone with its CA.
    let alone = ca.issue(&node().with_loopback()).unwrap();
    assert_eq!(says(&der(&alone)).0.len(), 4);
}

#[test]
fn a_server_certificate_names_no_caller() {
    let world = tempfile::tempdir().unwrap();
    let ca = Ca::open(world.path()).unwrap();
    let credentials = ca.issue(&CertificateSpec::server(name("server"))).unwrap();
    assert!(credentials.caller().is_err());
}

#[test]
fn certificate_lifetimes_end_with_the_ca() {
    let world = tempfile::tempdir().unwrap();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let clock = Clock::from_fn(move || now);
    let ca = Ca::open_with_clock(world.path(), clock).unwrap();
    let lasts = |spec: &CertificateSpec| {
        let validity = ca.issue(spec).unwrap().validity().unwrap();
        assert_eq!(
            now.duration_since(validity.not_before),
            SignedDuration::from_mins(5)
        );
        validity.not_after.duration_since(now).as_hours() / 24
    };
    assert_eq!(lasts(&CertificateSpec::server(name("s"))), 30);
    assert_eq!(lasts(&CertificateSpec::caller(name("n"), Role::Node)), 30);
    let admin = CertificateSpec::caller(name("a"), Role::Admin);
    assert_eq!(lasts(&admin), 365);
    let short = admin
        .clone()
        .lasting(Duration::from_secs(7 * 86_400))
        .unwrap();
    assert_eq!(lasts(&short), 7);

    let end = ca.validity().not_after;
    let late = Clock::from_fn(move || end - SignedDuration::from_hours(1));
    let ca = Ca::open_with_clock(world.path(), late).unwrap();
    assert_eq!(ca.issue(&admin).unwrap().validity().unwrap().not_after, end);
    let after = Ca::open_with_clock(world.path(), Clock::from_fn(move || end)).unwrap();
    assert!(matches!(after.issue(&admin), Err(CaError::Ended(_))));
}

#[test]
fn a_request_is_signed_for_its_key_and_says_what_we_say() {
    let world = tempfile::tempdir().unwrap();
    let ca = Ca::open(world.path()).unwrap();
    let (key_pem, csr) = CertificateRequest::generate().unwrap();
    let request = CertificateRequest::from_pem(&csr).unwrap();
    let spec = CertificateSpec::caller(name("n1"), Role::Node);
    let serial = |pem: &str| {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        X509Certificate::from_der(&der)
            .unwrap()
            .1
            .raw_serial_as_string()
    };
    let first = ca.sign(&request, &spec).unwrap();
    let second = ca.sign(&request, &spec).unwrap();
    assert_ne!(
        serial(&first.certificate_pem),
        serial(&second.certificate_pem)
    );

    let directory = world.path().join("client");
    let credentials = Credentials {
        ca_pem: ca.ca_pem(),
        certificate_pem: first.certificate_pem,
        key_pem,
    };
    credentials.write(&directory).unwrap();
    let read = Credentials::read(&directory).unwrap();
    assert_eq!(read.caller().unwrap().name.as_str(), "n1");
    assert_eq!(read.validity().unwrap(), first.validity);
}

#[test]
fn a_renewal_keeps_the_name_the_role_and_the_lifetime() {
    let world = tempfile::tempdir().unwrap();
    let ca = Ca::open(world.path()).unwrap();
    let hour = Duration::from_secs(3600);
    let spec = CertificateSpec::caller(name("guest"), Role::Admin);
    let first = ca.issue(&spec.lasting(hour).unwrap()).unwrap();
    let renewal = CertificateSpec::renewal_of(&der(&first)).unwrap();
    let second = ca.issue(&renewal).unwrap();
    let (old, new) = (first.caller().unwrap(), second.caller().unwrap());
    assert_eq!((old.name, old.role), (new.name, new.role));
    let lifetime = |credentials: &Credentials| {
        let validity = credentials.validity().unwrap();
        validity.not_after.duration_since(validity.not_before)
    };
    assert_eq!(lifetime(&first), lifetime(&second));
    let server = ca.issue(&CertificateSpec::server(name("server"))).unwrap();
    assert!(CertificateSpec::renewal_of(&der(&server)).is_err());
}
