//! Credentials on disk: private, replaced as a pair, mended after a crash.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use strata_identity::{
    Ca, CertificateSpec, Credentials, CredentialsError, FileError, LiveIdentity,
};
use strata_types::Role;
use tempfile::TempDir;

struct World {
    directory: TempDir,
    ca: Ca,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ca = Ca::open(&directory.path().join("ca")).unwrap();
        Self { directory, ca }
    }

    fn client(&self) -> std::path::PathBuf {
        self.directory.path().join("client")
    }

    fn issue(&self) -> Credentials {
        let spec = CertificateSpec::caller("somebody".parse().unwrap(), Role::Admin);
        self.ca.issue(&spec).unwrap()
    }
}

#[test]
fn credentials_are_private_and_round_trip() {
    let world = World::new();
    let credentials = world.issue();
    credentials.write(&world.client()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.client()), 0o700);
    let mut names: Vec<_> = fs::read_dir(world.client())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["ca.crt", "client.crt", "client.key"]);
    for name in names {
        assert_eq!(mode(&world.client().join(name)), 0o600);
    }
    let read = Credentials::read(&world.client()).unwrap();
    assert_eq!(read.ca_pem, credentials.ca_pem);
    assert_eq!(read.certificate_pem, credentials.certificate_pem);
    assert_eq!(read.key_pem.expose(), credentials.key_pem.expose());
}

#[test]
fn printing_them_does_not_show_the_key() {
    let credentials = World::new().issue();
    let secret = credentials.key_pem.expose().lines().nth(1).unwrap();
    assert!(!format!("{credentials:?}").contains(secret));
    let live = LiveIdentity::new(&credentials).unwrap();
    assert!(!format!("{live:?}").contains(secret));
}

#[test]
fn an_exchange_that_was_cut_short_is_completed_by_the_next_reader() {
    let world = World::new();
    let (old, new) = (world.issue(), world.issue());
    let client = world.client();

    // Before the key moved: the old pair stands.
    old.write(&client).unwrap();
    fs::write(client.join("client.crt.next"), &new.certificate_pem).unwrap();
    let read = Credentials::read(&client).unwrap();
    assert_eq!(read.certificate_pem, old.certificate_pem);

    // After the key moved: the new pair is made whole, on disk as well.
    fs::write(client.join("client.key"), new.key_pem.expose()).unwrap();
    let read = Credentials::read(&client).unwrap();
    assert_eq!(read.certificate_pem, new.certificate_pem);
    let on_disk = fs::read_to_string(client.join("client.crt")).unwrap();
    assert_eq!(on_disk, new.certificate_pem);
    assert!(!client.join("client.crt.next").exists());
}

#[test]
fn unusable_credentials_are_reported() {
    let world = World::new();
    let client = world.client();
    let missing = Credentials::read(&client).unwrap_err();
    assert!(matches!(missing, CredentialsError::Missing(_)));

    world.issue().write(&client).unwrap();
    fs::write(client.join("client.crt"), world.issue().certificate_pem).unwrap();
    let mismatch = Credentials::read(&client).unwrap_err();
    assert!(matches!(mismatch, CredentialsError::Mismatch));

    fs::write(client.join("client.key"), "nonsense").unwrap();
    let key = Credentials::read(&client).unwrap_err();
    assert!(matches!(key, CredentialsError::Key));

    fs::set_permissions(client.join("client.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = Credentials::read(&client).unwrap_err();
    assert!(matches!(
        exposed,
        CredentialsError::File(FileError::Exposed { .. })
    ));
}

#[test]
fn an_exchange_that_fails_leaves_the_old_certificate_in_use() {
    let world = World::new();
    let live = LiveIdentity::new(&world.issue()).unwrap();
    let before = live.validity();
    let mut mixed = world.issue();
    mixed.key_pem = world.issue().key_pem;
    assert!(live.swap(&mixed).is_err());
    assert_eq!(live.validity(), before);
    live.swap(&world.issue()).unwrap();
}

#[test]
fn credentials_are_read_as_a_pair_while_they_are_replaced() {
    let world = World::new();
    world.issue().write(&world.client()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                Credentials::read(&world.client()).unwrap();
                reads += 1;
            }
            reads
        });
        for _ in 0..100 {
            world.issue().write(&world.client()).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
}
