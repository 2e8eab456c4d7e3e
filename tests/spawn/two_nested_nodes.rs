//! Two machines are two nodes on one host.

use strata_testkit::machines::TwoNodes;
use strata_testkit::pods::idle;
use strata_testkit::{TEST_TIMEOUT, same, wait_for};

use crate::spawn::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn two_machines_reach_each_other_by_address_and_by_name() {
    let world = TwoNodes::start(STRATA).await;
    let (one, two) = (&world.one, &world.two);
    assert_ne!(one.machine.address, two.machine.address);
    one.node.allocate("a").await.unwrap();
    for host in [two.machine.address.as_str(), "two", "two.strata.internal"] {
        let name = host.replace('.', "-");
        let knock = format!("bash -c \"exec 3<>/dev/tcp/{host}/7710\" && echo open");
        assert_eq!(one.node.shell("a", &name, &knock).await, "open");
    }
    // What runs in one is not in the other.
    assert!(two.node.names().await.is_empty());

    let made = one.node.run_pod(idle("p", &one.busybox())).await.unwrap();
    let other = two.node.run_pod(idle("p", &two.busybox())).await.unwrap();
    assert_ne!(made.address, other.address);
    // Out of the machine, behind its address.
    let knock = format!("nc -w 5 {} 7710 </dev/null", two.machine.address);
    wait_for("a way out", TEST_TIMEOUT, async || {
        let done = one.node.sh("p", &knock).await;
        let done = done.map_err(|status| status.to_string())?;
        let left = done.ended.exit_code;
        same(left, &Some(0)).map_err(|why| format!("{why}: {}", done.stderr))
    })
    .await;
}
