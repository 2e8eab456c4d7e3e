//! Tests of the token store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use jiff::Timestamp;
use strata_types::ErrorKind;
use tempfile::TempDir;

use super::*;

/// A directory and a clock that stands still until the test moves it.
struct World {
    directory: TempDir,
    now: Arc<AtomicI64>,
}

impl World {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            now: Arc::new(AtomicI64::new(1_800_000_000)),
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("tokens.json")
    }

    fn open(&self) -> Tokens {
        let now = self.now.clone();
        let clock =
            Clock::from_fn(move || Timestamp::from_second(now.load(Ordering::SeqCst)).unwrap());
        Tokens::open_with_clock(&self.file(), clock).unwrap()
    }

    fn pass(&self, time: Duration) {
        let seconds = time.as_secs().try_into().unwrap();
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }
}

fn name() -> Name {
    "ci".parse().unwrap()
}

fn ca() -> Fingerprint {
    Fingerprint::of(b"the CA")
}

#[test]
fn a_token_speaks_for_its_name_and_role_and_survives_a_restart() {
    let world = World::new();
    let (info, text) = world
        .open()
        .create_api(&name(), Role::Operator, None)
        .unwrap();
    let caller = world.open().verify_api(text.expose()).unwrap();
    assert_eq!(
        caller,
        Caller {
            name: name(),
            role: Role::Operator,
            projects: None,
            proof: Proof::Token,
            expires_at: Some(info.expires_at),
        }
    );
    assert_eq!(world.open().list(), [info]);
}

#[test]
fn the_file_is_private_and_does_not_hold_the_secret() {
    let world = World::new();
    let (_, text) = world.open().create_api(&name(), Role::Admin, None).unwrap();
    let secret = text.expose().rsplit('_').next().unwrap();
    assert!(!fs::read_to_string(world.file()).unwrap().contains(secret));
    let mode = fs::metadata(world.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::set_permissions(world.file(), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(
        Tokens::open(&world.file()),
        Err(TokenError::File(FileError::Exposed { .. }))
    ));
}

#[test]
fn a_wrong_secret_an_unknown_id_and_nonsense_all_look_the_same() {
    let world = World::new();
    let tokens = world.open();
    let (_, text) = tokens.create_api(&name(), Role::Admin, None).unwrap();
    let (id, secret) = text.expose().rsplit_once('_').unwrap();
    let other = format!("{id}_{}", secret.chars().rev().collect::<String>());
    let unknown = format!("strata_{}_{secret}", "0".repeat(16));
    for wrong in [other.as_str(), &unknown, "nonsense", ""] {
        assert!(matches!(tokens.verify_api(wrong), Err(TokenError::Unknown)));
    }
}

#[test]
fn a_revoked_token_is_refused_and_revoking_again_is_fine() {
    let world = World::new();
    let tokens = world.open();
    let (info, text) = tokens.create_api(&name(), Role::Viewer, None).unwrap();
    tokens.revoke(&info.id).unwrap();
    tokens.revoke(&info.id).unwrap();
    assert!(matches!(
        tokens.verify_api(text.expose()),
        Err(TokenError::Revoked)
    ));
    assert!(matches!(
        world.open().verify_api(text.expose()),
        Err(TokenError::Revoked)
    ));
    assert!(tokens.list().is_empty());
    let unknown = strata_types::Error::from(tokens.revoke("never-known").unwrap_err());
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[test]
fn an_expired_token_is_refused_and_then_forgotten() {
    let world = World::new();
    let tokens = world.open();
    let (info, text) = tokens
        .create_api(&name(), Role::Viewer, Some(MINUTE))
        .unwrap();
    world.pass(MINUTE - Duration::from_secs(1));
    assert!(tokens.verify_api(text.expose()).is_ok());
    world.pass(Duration::from_secs(1));
    assert!(matches!(
        tokens.verify_api(text.expose()),
        Err(TokenError::Expired)
    ));
    assert!(tokens.list().is_empty());
    tokens.create_api(&name(), Role::Viewer, None).unwrap();
    assert!(!fs::read_to_string(world.file()).unwrap().contains(&info.id));
    assert!(matches!(
        tokens.revoke(&info.id),
        Err(TokenError::NotFound(_))
    ));
}

#[test]
fn of_many_who_join_with_one_token_exactly_one_succeeds() {
    let world = World::new();
    let tokens = world.open();
    let (_, text) = tokens.create_join(&name(), ca(), None).unwrap();
    let (start, won, used) = (Barrier::new(16), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                start.wait();
                match tokens.consume_join(text.expose()) {
                    Ok(_) => won.fetch_add(1, Ordering::SeqCst),
                    Err(TokenError::Used) => used.fetch_add(1, Ordering::SeqCst),
                    Err(error) => panic!("{error}"),
                };
            });
        }
    });
    assert_eq!((won.into_inner(), used.into_inner()), (1, 15));
    assert!(matches!(
        world.open().consume_join(text.expose()),
        Err(TokenError::Used)
    ));
}

#[test]
fn a_join_token_is_short_lived_carries_the_ca_and_opens_nothing_else() {
    let world = World::new();
    let tokens = world.open();
    let (info, text) = tokens.create_join(&name(), ca(), None).unwrap();
    assert_eq!(info.role, Role::Node);
    assert_eq!(
        JoinToken::parse(text.expose()).unwrap().ca_fingerprint(),
        ca()
    );
    assert!(matches!(
        tokens.verify_api(text.expose()),
        Err(TokenError::Unknown)
    ));
    // Nor does it when it is written like an API token.
    let parts: Vec<_> = text.expose().split('_').collect();
    let disguised = format!("strata_{}_{}", parts[2], parts[3]);
    assert!(matches!(
        tokens.verify_api(&disguised),
        Err(TokenError::Unknown)
    ));
    assert!(tokens.verify_join(text.expose()).is_ok());
    world.pass(15 * MINUTE);
    assert!(matches!(
        tokens.verify_join(text.expose()),
        Err(TokenError::Expired)
    ));
    assert!(matches!(
        tokens.consume_join(text.expose()),
        Err(TokenError::Expired)
    ));
}

#[test]
fn a_change_that_cannot_be_written_did_not_happen() {
    let world = World::new();
    let tokens = world.open();
    let (_, text) = tokens.create_join(&name(), ca(), None).unwrap();
    fs::remove_dir_all(world.directory.path()).unwrap();
    assert!(matches!(
        tokens.consume_join(text.expose()),
        Err(TokenError::File(_))
    ));
    assert!(tokens.verify_join(text.expose()).is_ok());
}

#[test]
fn lifetimes_and_roles_are_bounded() {
    let world = World::new();
    let tokens = world.open();
    let field = |error: TokenError| strata_types::Error::from(error).field().map(str::to_owned);
    for ttl in [Duration::ZERO, 366 * DAY] {
        let error = tokens
            .create_api(&name(), Role::Viewer, Some(ttl))
            .unwrap_err();
        assert_eq!(field(error).as_deref(), Some("ttl_seconds"));
    }
    let error = tokens
        .create_join(&name(), ca(), Some(2 * DAY))
        .unwrap_err();
    assert_eq!(field(error).as_deref(), Some("ttl_seconds"));
    let error = tokens.create_api(&name(), Role::Node, None).unwrap_err();
    assert_eq!(field(error).as_deref(), Some("role"));
    assert!(!world.file().exists());
}

#[test]
fn damaged_token_file_is_reported_and_kept() {
    let world = World::new();
    for text in ["", "{}", r#"{"version":2,"tokens":[]}"#] {
        files::replace(&world.file(), text, files::PRIVATE).unwrap();
        assert!(matches!(
            Tokens::open(&world.file()),
            Err(TokenError::Damaged { .. })
        ));
        assert_eq!(fs::read_to_string(world.file()).unwrap(), text);
    }
}

#[test]
fn a_token_can_be_limited_to_projects() {
    let world = World::new();
    let tokens = world.open();
    let shop: Label = "shop".parse().unwrap();
    let (_, text) = tokens
        .create_api_in(&name(), Role::Operator, std::slice::from_ref(&shop), None)
        .unwrap();
    // Also after it was read again.
    let caller = world.open().verify_api(text.expose()).unwrap();
    assert_eq!(caller.projects, Some(vec![shop.clone()]));
    let error = tokens
        .create_api_in(&name(), Role::Admin, &[shop], None)
        .unwrap_err();
    assert!(matches!(error, TokenError::LimitedAdmin));
}
