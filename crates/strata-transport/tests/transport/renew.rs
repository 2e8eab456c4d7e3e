//! Renewal: when it is due, until it works, and on disk too. Time is paused,
//! so months pass at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use strata_identity::{Ca, CertificateSpec, Clock, Credentials, LiveIdentity};
use strata_transport::{keep_renewed, keep_served, keep_written};
use strata_types::Role;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::world::name;

struct World {
    directory: TempDir,
    authority: Arc<Ca>,
    clock: Clock,
}

/// The wall clock follows the paused one.
fn world() -> World {
    let (start, begin) = (
        Timestamp::from_second(1_800_000_000).unwrap(),
        Instant::now(),
    );
    let clock = Clock::from_fn(move || start + SignedDuration::try_from(begin.elapsed()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let authority = Ca::open_with_clock(directory.path(), clock.clone()).unwrap();
    World {
        directory,
        authority: Arc::new(authority),
        clock,
    }
}

fn days(since: Timestamp, until: Timestamp) -> i64 {
    until.duration_since(since).as_hours() / 24
}

#[tokio::test(start_paused = true)]
async fn a_served_certificate_is_exchanged_after_two_thirds_of_its_life() {
    let world = world();
    let spec = CertificateSpec::server(name("server"));
    let first = world.authority.issue(&spec).unwrap();
    let identity = Arc::new(LiveIdentity::new(&first).unwrap());
    let before = identity.validity();
    let shutdown = CancellationToken::new();
    let keep = keep_served(
        world.authority.clone(),
        spec,
        identity.clone(),
        shutdown.clone(),
    );
    let task = tokio::spawn(keep);
    while identity.validity() == before {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(days(before.not_before, world.clock.now()), 20);
    assert_eq!(days(world.clock.now(), identity.validity().not_after), 29);
    shutdown.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_until_it_works() {
    let world = world();
    let spec = CertificateSpec::caller(name("n1"), Role::Node);
    let first = world.authority.issue(&spec).unwrap();
    let identity = Arc::new(LiveIdentity::new(&first).unwrap());
    let before = identity.validity();
    let (shutdown, tries) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let reissue = {
        let (authority, tries) = (world.authority.clone(), tries.clone());
        move || {
            let issued = match tries.fetch_add(1, Ordering::SeqCst) {
                0..5 => Err("the server is away".to_owned()),
                _ => authority.issue(&spec).map_err(|error| error.to_string()),
            };
            std::future::ready(issued)
        }
    };
    let clock = world.clock.clone();
    let stale = world.authority.subscribe();
    tokio::spawn(keep_renewed(
        "node",
        identity.clone(),
        clock,
        reissue,
        stale,
        shutdown,
    ));
    while identity.validity() == before {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(tries.load(Ordering::SeqCst), 6);
    // 5 + 10 + 20 + 40 + 80 seconds: soon, and not in a rush.
    assert_eq!(days(before.not_before, world.clock.now()), 20);
}

#[tokio::test(start_paused = true)]
async fn credentials_on_disk_are_exchanged_as_well() {
    let world = world();
    let directory = world.directory.path().join("client");
    let spec = CertificateSpec::caller(name("admin"), Role::Admin);
    world
        .authority
        .issue(&spec)
        .unwrap()
        .write(&directory)
        .unwrap();
    let before = Credentials::read(&directory).unwrap();
    let shutdown = CancellationToken::new();
    let keep = keep_written(world.authority.clone(), spec, directory.clone(), shutdown);
    tokio::spawn(keep);
    let exchanged = loop {
        tokio::time::sleep(Duration::from_secs(6 * 3600)).await;
        let now = Credentials::read(&directory).unwrap();
        if now.certificate_pem != before.certificate_pem {
            break now;
        }
    };
    assert_ne!(exchanged.key_pem.expose(), before.key_pem.expose());
    let validity = before.validity().unwrap();
    assert_eq!(days(validity.not_before, world.clock.now()), 243);
}
