//! The life of a machine: made once, seen, refused when it is asked for
//! wrongly, switched off, switched on again, and gone without a trace.

use std::fs;
use std::io::Write as _;
use std::time::Instant;

use strata_testkit::machines::{HostDaemon, machine};
use strata_testkit::v1::{GetNodeInfoRequest, MachineSpec, PowerOffRequest};
use strata_testkit::{Code, field_of};

use crate::spawn::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_a_node_of_its_own_and_leaves_nothing() {
    let outside = HostDaemon::start(STRATA).await;
    let node = outside.node().await;
    // The first one brings the bridge and the groups that stay with the run.
    node.spawn(machine("first")).await.unwrap();
    node.destroy_machine("first").await.unwrap();
    let (traces, links) = (
        outside.daemon.host().settled().await,
        outside.network.look(),
    );

    let begin = Instant::now();
    let made = node.spawn(machine("n1")).await.unwrap();
    let took = begin.elapsed();
    let _ = writeln!(std::io::stderr(), "spawn: answers after {took:.0?}");
    assert!(made.running && made.reason.is_empty(), "{made:?}");
    assert_eq!(made.endpoint, format!("https://{}:7710", made.address));
    assert_eq!(node.machines().await.unwrap(), std::slice::from_ref(&made));

    // PID 1 of processes of its own, inside those of its cell.
    let status = fs::read_to_string(format!("/proc/{}/status", made.process_id)).unwrap();
    let pids = status
        .lines()
        .find(|line| line.starts_with("NSpid:"))
        .unwrap();
    assert!(pids.ends_with("\t1"), "{pids}");
    let inside = outside.reach(made.clone()).await;
    let mut its = inside.node.client().node();
    let info = its.get_info(GetNodeInfoRequest {}).await.unwrap();
    let info = info.into_inner();
    assert_eq!((info.hostname.as_str(), info.owns_machine), ("n1", true));
    assert_eq!(info.data_dir, "/var/lib/strata");

    // The same again is fine, another of the same name is not.
    assert_eq!(node.spawn(machine("n1")).await.unwrap(), made);
    let other = MachineSpec {
        cpu_millis: Some(500),
        ..machine("n1")
    };
    let refused = node.spawn(other).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);

    drop(inside);
    node.destroy_machine("n1").await.unwrap();
    node.destroy_machine("n1").await.unwrap();
    let gone = node.machine("n1").await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    outside.daemon.host().returns_to(&traces).await;
    assert_eq!(outside.network.look(), links);
    let dirs = outside.daemon.data_dir().join("node/_machines/folders");
    assert_eq!(fs::read_dir(dirs).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_nested_node_spec_is_refused_and_creates_nothing() {
    let outside = HostDaemon::start(STRATA).await;
    let node = outside.node().await;
    let refused = node.spawn(machine("Not a name")).await.unwrap_err();
    assert_eq!(field_of(&refused).as_deref(), Some("machine.name"));
    let foreign = MachineSpec {
        address: "192.0.2.1".into(),
        ..machine("n1")
    };
    let refused = node.spawn(foreign).await.unwrap_err();
    assert_eq!(field_of(&refused).as_deref(), Some("machine.address"));
    let missing = node.destroy_machine("n1").await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert!(node.machines().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn powered_off_nested_node_stays_off_until_started() {
    let outside = HostDaemon::start(STRATA).await;
    let node = outside.node().await;
    let inside = outside.spawn(machine("n1")).await;
    inside.node.allocate("a").await.unwrap();
    let write = "echo kept >/var/lib/kept; echo lost >/etc/lost; cat /etc/lost";
    assert_eq!(inside.node.shell("a", "write", write).await, "lost");
    assert!(!std::path::Path::new("/etc/lost").exists());

    let mut its = inside.node.client().node();
    its.power_off(PowerOffRequest {}).await.unwrap();
    let off = node.machine_until("n1", |machine| !machine.running).await;
    assert_eq!((off.reason.as_str(), off.process_id), ("switched off", 0));

    let on = node.spawn(machine("n1")).await.unwrap();
    assert_eq!((on.id, on.address), (off.id, off.address));
    let inside = outside.reach(node.machine("n1").await.unwrap()).await;
    let found = inside
        .node
        .shell("a", "read", "cat /var/lib/kept; cat /etc/lost || :")
        .await;
    assert_eq!(found, "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_program_was_replaced_still_spawns() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("strata");
    fs::copy(STRATA, &program).unwrap();
    let outside = HostDaemon::start(&program).await;
    // As an upgrade does it: another file of the same name.
    let newer = dir.path().join("newer");
    fs::copy(STRATA, &newer).unwrap();
    fs::rename(&newer, &program).unwrap();
    let made = outside.node().await.spawn(machine("n1")).await.unwrap();
    assert!(made.running);
}
