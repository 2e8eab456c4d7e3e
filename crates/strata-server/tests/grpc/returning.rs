//! A node that was lost, and whose witnesses have extended its lease meanwhile,
//! is back: what another node has by now is withdrawn by the Welcome itself, and
//! what none has is its own again.

use std::time::Duration;

use strata_api::strata::v1::{self, server_message};
use strata_store::{Memory, Store as _, Transaction};
use strata_types::Role;

use crate::nodes::{follow_as, hello};
use crate::world::World;

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// n1 is lost, and n2 its witness. Both instances were on n1; `web` is on n2 by
/// now, and `db` nowhere.
async fn world() -> World {
    let store = Memory::new();
    for (number, node, condition) in [(0, "n1", "lost"), (1, "n2", "ready")] {
        let record = serde_json::json!({
            "name": node, "subnet": format!("10.42.{number}.0/24"), "condition": condition,
            "createdAtMs": 0, "changedAtMs": 0, "follows": true, "holdsLeases": true,
            "witnesses": ["n1", "n2"],
        });
        let put = Transaction::new().put(format!("node/{node}"), record.to_string());
        store.commit(put).await.unwrap();
    }
    for (id, node, epoch) in [("web", Some("n2"), 2), ("db", None, 1)] {
        let record = serde_json::json!({
            "id": id, "name": id, "project": "default", "wanted": "running",
            "spec": { "type": "CONTAINER", "uri": "oci:/x" }, "generation": 1,
            "state": "SCHEDULING", "node": node, "epoch": epoch,
            "leaving": [{ "node": "n1", "epoch": 1, "lost": true, "generation": 1 }],
            "createdAtMs": 0, "changedAtMs": 0,
        });
        let put = Transaction::new().put(format!("instance/{id}"), record.to_string());
        store.commit(put).await.unwrap();
    }
    World::over_store(tempfile::tempdir().unwrap(), store).await
}

#[tokio::test]
async fn welcome_withdraws_what_another_node_has_and_the_rest_is_assigned_again() {
    use server_message::Message::{Assignment, Complete, Withdrawal};
    let world = world().await;
    let own = world.issue("n1", Role::Node);
    let hello = v1::Hello {
        holds_leases: true,
        ..hello()
    };
    let mut link = follow_as(&world, &own, hello).await.unwrap();
    let withdrawn = link.welcome.withdrawn.iter();
    let withdrawn: Vec<_> = withdrawn
        .map(|one| (&*one.id, one.epoch, one.kill))
        .collect();
    assert_eq!(withdrawn, [("web", 2, true)]);
    let mut seen = Vec::new();
    let about = async {
        loop {
            let message = link.from_server.message().await.unwrap().unwrap().message;
            match message {
                Some(Withdrawal(one)) => seen.push(("withdrawal", one.id, one.epoch, one.kill)),
                Some(Assignment(one)) => seen.push(("assignment", one.id, one.epoch, false)),
                Some(Complete(_)) => return seen,
                _ => {}
            }
        }
    };
    let mut seen = tokio::time::timeout(WAIT_TIMEOUT, about).await.unwrap();
    seen.sort();
    let expected = [
        ("assignment", "db".to_owned(), 2, false),
        ("withdrawal", "web".to_owned(), 2, true),
    ];
    assert_eq!(seen, expected);
}
