//! A machine that goes down and comes up again: what is seen to in its cells
//! is there again, in order; whatever else ran in cells is not.

use std::fs;

use strata_testkit::machines::{HostDaemon, NestedNode, machine};
use strata_testkit::v1::ExecutableRestart::{Always, OnFailure};
use strata_testkit::v1::{CellState, ExecutableInfo, ExecutableState, PowerOffRequest};
use strata_testkit::{Node, supervised};

use crate::spawn::STRATA;
use crate::spawn::nested_kills::kill;

/// In the order in which they are started, which is not that of their names.
const ORDER: [(&str, &str); 3] = [("zoo", "first"), ("ant/in", "second"), ("zoo", "a-third")];

async fn populate(node: &Node) {
    for cell in ["zoo", "ant", "ant/in", "plain"] {
        node.allocate(cell).await.unwrap();
    }
    for (cell, name) in ORDER {
        let policy = if name == "second" { OnFailure } else { Always };
        let wanted = supervised(cell, name, "sleep 1000", policy);
        node.start_as(wanted).await.unwrap();
    }
    node.start("plain", "main", "sleep 1000").await.unwrap();
    node.start("zoo", "plain", "sleep 1000").await.unwrap();
    node.start_as(supervised("zoo", "done", "true", OnFailure))
        .await
        .unwrap();
    node.wait("zoo", "done").await.unwrap();
    node.start_as(supervised("zoo", "stopped", "sleep 1000", Always))
        .await
        .unwrap();
    node.stop("zoo", "stopped").await.unwrap();
    node.start_as(supervised("zoo", "loops", "false", Always))
        .await
        .unwrap();
}

/// Whether all is as it should be after a reboot.
async fn is_back(node: &Node) {
    let mut pids = Vec::new();
    let runs = |now: &ExecutableInfo| now.state() == ExecutableState::Running;
    for (cell, name) in ORDER {
        let now = node.executable_until(cell, name, runs).await;
        pids.push(now.process_id);
    }
    assert!(pids.is_sorted(), "{pids:?}");
    let loops = |now: &ExecutableInfo| now.state() == ExecutableState::Waiting;
    node.executable_until("zoo", "loops", loops).await;
    for name in ["plain", "done", "stopped"] {
        let now = node.executable("zoo", name).await.unwrap();
        assert_eq!(now.state(), ExecutableState::Exited, "{now:?}");
    }
    let plain = node.get("plain").await.unwrap();
    assert_eq!(plain.state(), CellState::Dead, "{plain:?}");
}

async fn world() -> (HostDaemon, NestedNode) {
    let outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("n1")).await;
    populate(&inside.node).await;
    (outside, inside)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_died_comes_back_with_what_is_seen_to() {
    let (outside, inside) = world().await;
    let node = outside.node().await;
    let before = inside.machine.process_id;
    kill(before);
    let back = node
        .machine_until("n1", |now| now.running && now.process_id != before)
        .await;
    let inside = outside.reach(back).await;
    is_back(&inside.node).await;
    // It is in hand: a free is a free.
    inside.node.free("zoo").await.unwrap();
    assert_eq!(inside.node.names().await, ["ant", "ant/in", "plain"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_switched_off_and_on_has_what_is_seen_to() {
    let (outside, inside) = world().await;
    let node = outside.node().await;
    let mut its = inside.node.client().node();
    its.power_off(PowerOffRequest {}).await.unwrap();
    node.machine_until("n1", |now| !now.running).await;
    // Nothing was started again while everything ended: none had to be killed.
    let logs = outside.daemon.data_dir().join("node/_machines/cells/n1");
    let mut said = String::new();
    for run in fs::read_dir(logs).unwrap().flatten() {
        let files = fs::read_dir(run.path()).into_iter().flatten().flatten();
        for file in files {
            said += &String::from_utf8_lossy(&fs::read(file.path()).unwrap_or_default());
        }
    }
    assert!(said.contains("stopping all processes"), "{said}");
    assert!(!said.contains("did not exit in time"), "{said}");

    let on = node.spawn(machine("n1")).await.unwrap();
    let inside = outside.reach(on).await;
    is_back(&inside.node).await;
}
