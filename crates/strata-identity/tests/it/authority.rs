//! The CA: what it keeps, what it signs, and what its certificates say.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use strata_identity::{
    Authority, AuthorityError, CertificateRequest, CertificateSpec, Clock, Credentials, FileError,
    Name, caller_from_certificate,
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
fn the_authority_is_made_once_and_its_key_is_private() {
    let world = tempfile::tempdir().unwrap();
    let folder = world.path().join("ca");
    let first = Authority::open(&folder).unwrap();
    let again = Authority::open(&folder).unwrap();
    assert_eq!(first.fingerprint(), again.fingerprint());
    assert_eq!(first.ca_pem(), again.ca_pem());
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("ca.key")), 0o600);
    assert_eq!(mode(&folder.join("ca.crt")), 0o644);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    assert!(!format!("{first:?}").contains("PRIVATE"));
}

#[test]
fn many_who_open_at_once_get_one_authority() {
    let world = tempfile::tempdir().unwrap();
    let folder = world.path().join("ca");
    let fingerprints: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Authority::open(&folder).unwrap().fingerprint()))
            .collect();
        opening.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(fingerprints.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_crash_between_key_and_certificate_is_mended() {
    let world = tempfile::tempdir().unwrap();
    Authority::open(world.path()).unwrap();
    let key = fs::read(world.path().join("ca.key")).unwrap();
    fs::remove_file(world.path().join("ca.crt")).unwrap();
    Authority::open(world.path()).unwrap();
    assert_eq!(fs::read(world.path().join("ca.key")).unwrap(), key);
}

#[test]
fn a_lost_a_damaged_and_an_exposed_key_are_told_and_never_replaced() {
    let world = tempfile::tempdir().unwrap();
    Authority::open(world.path()).unwrap();
    let key = world.path().join("ca.key");

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = Authority::open(world.path()).unwrap_err();
    assert!(matches!(
        exposed,
        AuthorityError::File(FileError::Exposed { .. })
    ));

    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "nonsense").unwrap();
    let damaged = Authority::open(world.path()).unwrap_err();
    assert!(matches!(damaged, AuthorityError::Damaged { .. }));

    let other = tempfile::tempdir().unwrap();
    Authority::open(other.path()).unwrap();
    fs::copy(other.path().join("ca.key"), &key).unwrap();
    let foreign = Authority::open(world.path()).unwrap_err();
    assert!(
        foreign
            .to_string()
            .contains("not the certificate of ca.key")
    );

    fs::remove_file(&key).unwrap();
    let lost = Authority::open(world.path()).unwrap_err();
    assert!(matches!(lost, AuthorityError::KeyLost(_)));
    assert!(!key.exists());
}

#[test]
fn a_certificate_says_who_it_is_for_and_comes_back_as_the_caller() {
    let world = tempfile::tempdir().unwrap();
    let authority = Authority::open(world.path()).unwrap();
    for role in Role::ALL {
        let spec = CertificateSpec::caller(name("some.body_1"), role);
        let credentials = authority.issue(&spec).unwrap();
        let caller = caller_from_certificate(&der(&credentials)).unwrap();
        assert_eq!((caller.name.as_str(), caller.role), ("some.body_1", role));
        let validity = credentials.validity().unwrap();
        assert_eq!(caller.expires_at, Some(validity.not_after));
    }
}

#[test]
fn every_kind_serves_and_calls_as_it_should() {
    let world = tempfile::tempdir().unwrap();
    let authority = Authority::open(world.path()).unwrap();
    let hosts = || ["10.1.2.3", "0.0.0.0", "Db.Example"].map(|host| host.parse().unwrap());
    let say =
        |spec: CertificateSpec| says(&der(&authority.issue(&spec.with_hosts(hosts())).unwrap()));

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
    let authority = Authority::open(world.path()).unwrap();
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
    let issued = authority.issue(&node().with_hosts(here)).unwrap();
    let named = vec!["n1.node.strata.internal".to_owned()];
    assert_eq!(says(&der(&issued)).0, named);
    // But where it is alone with its CA.
    let alone = authority.issue(&node().with_loopback()).unwrap();
    assert_eq!(says(&der(&alone)).0.len(), 4);
}

#[test]
fn a_server_certificate_names_no_caller() {
    let world = tempfile::tempdir().unwrap();
    let authority = Authority::open(world.path()).unwrap();
    let credentials = authority
        .issue(&CertificateSpec::server(name("server")))
        .unwrap();
    assert!(credentials.caller().is_err());
}

#[test]
fn lifetimes_have_defaults_reach_back_a_little_and_end_with_the_authority() {
    let world = tempfile::tempdir().unwrap();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let clock = Clock::from_fn(move || now);
    let authority = Authority::open_with_clock(world.path(), clock).unwrap();
    let lasts = |spec: &CertificateSpec| {
        let validity = authority.issue(spec).unwrap().validity().unwrap();
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

    let end = authority.validity().not_after;
    let late = Clock::from_fn(move || end - SignedDuration::from_hours(1));
    let authority = Authority::open_with_clock(world.path(), late).unwrap();
    assert_eq!(
        authority
            .issue(&admin)
            .unwrap()
            .validity()
            .unwrap()
            .not_after,
        end
    );
    let after = Authority::open_with_clock(world.path(), Clock::from_fn(move || end)).unwrap();
    assert!(matches!(after.issue(&admin), Err(AuthorityError::Ended(_))));
}

#[test]
fn a_request_is_signed_for_its_key_and_says_what_we_say() {
    let world = tempfile::tempdir().unwrap();
    let authority = Authority::open(world.path()).unwrap();
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
    let first = authority.sign(&request, &spec).unwrap();
    let second = authority.sign(&request, &spec).unwrap();
    assert_ne!(
        serial(&first.certificate_pem),
        serial(&second.certificate_pem)
    );

    let folder = world.path().join("client");
    let credentials = Credentials {
        ca_pem: authority.ca_pem(),
        certificate_pem: first.certificate_pem,
        key_pem,
    };
    credentials.write(&folder).unwrap();
    let read = Credentials::read(&folder).unwrap();
    assert_eq!(read.caller().unwrap().name.as_str(), "n1");
    assert_eq!(read.validity().unwrap(), first.validity);
}

#[test]
fn a_renewal_keeps_the_name_the_role_and_the_lifetime() {
    let world = tempfile::tempdir().unwrap();
    let authority = Authority::open(world.path()).unwrap();
    let hour = Duration::from_secs(3600);
    let spec = CertificateSpec::caller(name("guest"), Role::Admin);
    let first = authority.issue(&spec.lasting(hour).unwrap()).unwrap();
    let renewal = CertificateSpec::renewal_of(&der(&first)).unwrap();
    let second = authority.issue(&renewal).unwrap();
    let (old, new) = (first.caller().unwrap(), second.caller().unwrap());
    assert_eq!((old.name, old.role), (new.name, new.role));
    let lifetime = |credentials: &Credentials| {
        let validity = credentials.validity().unwrap();
        validity.not_after.duration_since(validity.not_before)
    };
    assert_eq!(lifetime(&first), lifetime(&second));
    let server = authority
        .issue(&CertificateSpec::server(name("server")))
        .unwrap();
    assert!(CertificateSpec::renewal_of(&der(&server)).is_err());
}
