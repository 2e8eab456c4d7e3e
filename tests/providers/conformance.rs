//! What every provider promises, whatever its machines are made of.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use strata_machines::{Boot, Discovered, Power, Provider, ProviderError, Tag, Target};
use strata_testkit::wait_for;
use strata_types::machine::{MachineSpec, PowerState};

/// How long a machine may take, on a host that is busy: a guest without KVM
/// may share two cores with seven other tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);
/// A call is dropped after these, in milliseconds.
const DROPPED_AFTER: [u64; 5] = [0, 1, 5, 30, 150];

/// A boot of its own for each machine: a token is good for one join.
pub(crate) type Boots<'a> = &'a (dyn Fn() -> BoxFuture<'a, Boot> + Sync);

/// A machine of ours, made to measure where that is how they are made.
pub(crate) fn target(provider: &dyn Provider, run: &str, machine: &str) -> Target {
    Target {
        tag: Tag {
            run: run.into(),
            machine: machine.parse().unwrap(),
        },
        spec: MachineSpec {
            provider: provider.kind(),
            handle: String::new(),
            address: String::new(),
            credentials: String::new(),
            cpu: Some(1),
            ram: Some(640),
            disk: None,
            labels: Default::default(),
        },
    }
}

async fn found(provider: &dyn Provider, target: &Target) -> Option<Discovered> {
    let all = provider.discover().await.unwrap();
    let mut ours = all.into_iter().filter(|it| it.handle == target.handle());
    let first = ours.next();
    assert!(ours.next().is_none(), "{} is there twice", target.handle());
    first
}

async fn is(provider: &dyn Provider, target: &Target, power: PowerState) {
    wait_for("the power", TEST_TIMEOUT, async || {
        let now = provider.power_state(target).await.unwrap();
        let seen = found(provider, target).await;
        match now == power && seen.as_ref().is_none_or(|seen| seen.power == power) {
            true => Ok(()),
            false => Err(format!("{now:?}, {seen:?}")),
        }
    })
    .await;
}

/// Not on. Of a machine that is not there the node of its driver knows nothing,
/// which proves nothing.
async fn is_not_on(provider: &dyn Provider, target: &Target) {
    wait_for("the power", TEST_TIMEOUT, async || {
        let now = provider.power_state(target).await.unwrap();
        match (now, found(provider, target).await) {
            (PowerState::Off, None) => Err("off, and not there".to_owned()),
            (PowerState::Off | PowerState::Unknown, _) => Ok(()),
            (PowerState::On, seen) => Err(format!("{seen:?}")),
        }
    })
    .await;
}

/// The whole life of one machine, each step of it twice.
pub(crate) async fn holds_its_promises(provider: &dyn Provider, boots: Boots<'_>) {
    let ours = target(provider, "0a1b2c3d", "m1");
    let theirs = target(provider, "ffffffff", "m1");
    is_not_on(provider, &ours).await;

    provider.boot(&ours, &boots().await).await.unwrap();
    provider.wait(&ours).await.unwrap();
    provider.boot(&ours, &boots().await).await.unwrap();
    let seen = found(provider, &ours).await.unwrap();
    assert_eq!(seen.tag, Some(ours.tag.clone()));
    is(provider, &ours, PowerState::On).await;
    prints_something(provider, &ours).await;

    let taken = provider.boot(&theirs, &boots().await).await.unwrap_err();
    assert!(matches!(taken, ProviderError::Taken(_)), "{taken:?}");
    assert!(!taken.is_transient());
    provider.wipe(&theirs).await.unwrap();
    let seen = found(provider, &ours).await.unwrap();
    assert_eq!(seen.tag, Some(ours.tag.clone()), "it is still ours");
    is(provider, &ours, PowerState::On).await;

    for _ in 0..2 {
        provider.power(&ours, Power::Off).await.unwrap();
        is(provider, &ours, PowerState::Off).await;
    }
    let seen = found(provider, &ours).await.unwrap();
    assert_eq!(seen.tag, Some(ours.tag.clone()), "off, and still ours");
    for _ in 0..2 {
        provider.power(&ours, Power::On).await.unwrap();
        is(provider, &ours, PowerState::On).await;
    }
    provider.power(&ours, Power::Cycle).await.unwrap();
    is(provider, &ours, PowerState::On).await;
    provider.power(&ours, Power::Off).await.unwrap();
    provider.boot(&ours, &boots().await).await.unwrap();
    provider.wait(&ours).await.unwrap();

    for _ in 0..2 {
        provider.wipe(&ours).await.unwrap();
        is_not_on(provider, &ours).await;
        let seen = found(provider, &ours).await.and_then(|seen| seen.tag);
        assert_eq!(seen, None, "it is nobody's");
    }
    let unknown = target(provider, "0a1b2c3d", "never-heard-of");
    provider.wipe(&unknown).await.unwrap();

    // What was given back can be taken again, by anybody.
    provider.boot(&theirs, &boots().await).await.unwrap();
    provider.wait(&theirs).await.unwrap();
    let seen = found(provider, &theirs).await.unwrap();
    assert_eq!(seen.tag, Some(theirs.tag.clone()));
    provider.wipe(&theirs).await.unwrap();
}

async fn prints_something(provider: &dyn Provider, target: &Target) {
    let mut console = provider.console(target).await.unwrap();
    let mut printed = Vec::new();
    let reading = async {
        while !printed.contains(&b'\n') {
            let Some(bytes) = console.next().await else {
                return;
            };
            printed.extend(bytes.unwrap());
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, reading).await.unwrap();
    assert!(printed.ends_with(b"\n"), "{printed:?}");
}

/// Whoever was cut off in the middle asks again, and all is well.
pub(crate) async fn copes_with_dropped_calls(provider: &dyn Provider, boots: Boots<'_>) {
    let ours = target(provider, "0a1b2c3d", "m2");
    for millis in DROPPED_AFTER {
        let within = Duration::from_millis(millis);
        let boot = boots().await;
        let _ = tokio::time::timeout(within, provider.boot(&ours, &boot)).await;
        wait_for("a boot", TEST_TIMEOUT, async || {
            let again = provider.boot(&ours, &boots().await).await;
            again.map_err(|error| {
                assert!(error.is_transient(), "{error:?}");
                error.to_string()
            })
        })
        .await;
        provider.wait(&ours).await.unwrap();
        assert_eq!(
            found(provider, &ours).await.unwrap().tag.as_ref(),
            Some(&ours.tag)
        );
        let _ = tokio::time::timeout(within, provider.wipe(&ours)).await;
        provider.wipe(&ours).await.unwrap();
        is_not_on(provider, &ours).await;
        let left = found(provider, &ours).await.and_then(|left| left.tag);
        assert_eq!(left, None, "after {millis} ms");
    }
}
