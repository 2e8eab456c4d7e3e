//! An assignment that comes again, the same or with other values of secrets,
//! at any moment of the start of its pod.

use strata_testkit::pods::idle;
use strata_testkit::v1::{AssignedSecret, Assignment, PodState};
use strata_testkit::{TEST_TIMEOUT, wait_for};

use crate::agent::{run, world};

/// Starts that are disturbed: a moment in which it matters is short.
const STARTS: usize = 8;

/// Assignments that are sent one right after the other.
const AT_ONCE: usize = 20;

/// An instance that is given one secret in two files.
fn given(id: &str, image: &str, value: &str) -> Assignment {
    let secret = |reference: &str| AssignedSecret {
        reference: reference.into(),
        value: Some(value.into()),
    };
    Assignment {
        secrets: vec![secret("db"), secret("db:/etc/password")],
        ..run(id, idle(id, image))
    }
}

/// Assigns instances again and again until they run, with each of these values
/// in turn.
async fn redelivered(values: [&str; 2]) {
    let mut world = world().await;
    let server = world.followed().await;
    for number in 0..STARTS {
        let id = format!("web{number}");
        let mut turn = values.iter().cycle();
        wait_for("the instance to run", TEST_TIMEOUT, async || {
            for value in turn.by_ref().take(AT_ONCE) {
                server.assign(&given(&id, &world.image, value)).await;
            }
            let reports = server.reports();
            let mut own = reports.iter().filter(|report| report.id == id);
            let failed = own.clone().find(|one| one.state() == PodState::Failed);
            assert!(failed.is_none(), "{failed:?}");
            let runs = own.any(|one| one.state() == PodState::Running);
            runs.then_some(()).ok_or_else(|| format!("{reports:?}"))
        })
        .await;
        let seen = world
            .node
            .says(&id, "cat /run/secrets/db /etc/password")
            .await;
        let whole = values.map(|value| value.repeat(2));
        assert!(whole.contains(&seen), "{seen}");
        server.withdraw(&id).await;
        server.becomes(&id, PodState::Unspecified).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn assignment_that_comes_again_disturbs_no_start() {
    redelivered(["one", "one"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn value_of_a_secret_that_changes_disturbs_no_start() {
    redelivered(["one", "two"]).await;
}
