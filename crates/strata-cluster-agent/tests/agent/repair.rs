//! What others break, and what breaks by itself.

use crate::machine::TestSwitch;
use crate::world::wait_until;

#[test]
fn flushed_or_removed_network_state_is_restored() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2]);
    let mut two = cable.machine(2, &[1]);
    let (a, b) = (one.pod(&[]), two.pod(&[]));
    let _server = b.namespace.serve(80);
    let _world = cable.outside.serve(80);
    let reaches = || a.namespace.ask(b.address, 80).is_ok();
    let gets_out = || a.namespace.ask([192, 0, 2, 100], 80).is_ok();
    assert!(reaches() && gets_out());
    for harm in [
        "nft flush ruleset",
        "nft flush chain inet strata-pod-network leaving",
        "nft insert rule inet strata-pod-network arriving drop",
        "ip route flush dev strata-pods proto static",
        "ip neigh del 10.244.2.0 dev strata-pods",
        "bridge fdb del 06:73:0a:f4:02:00 dev strata-pods dst 192.0.2.2",
        "bridge fdb append 06:73:0a:f4:02:00 dev strata-pods dst 192.0.2.77",
        "ip addr flush dev strata-pods",
        "ip link set strata-pods down",
        "ip link del strata-pods",
        "ip link set strata-pods mtu 1300",
        // Unless it was quicker to make its own.
        "ip link del strata-pods; ip link add strata-pods type vxlan id 1 dstport 1 || true",
        "sysctl -qw net.ipv4.ip_forward=0",
    ] {
        one.namespace.sh(harm);
        wait_until(harm, || reaches() && gets_out());
        one.wait_for_peers(&[2]);
    }
    let link = one.namespace.sh("ip link show strata-pods");
    assert!(link.contains("mtu 1450"), "{link}");
}

#[test]
fn once_set_it_is_left_alone() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2, 3]);
    let _pod = one.pod(&[]);
    let look = || {
        let links = one.namespace.sh("ip -o link; ip addr; ip route; ip neigh");
        format!("{links}{}", one.namespace.sh("nft -a list ruleset"))
    };
    wait_until("it stands still", || look() == look());
    let news = one.namespace.sh("timeout 1 nft monitor || true");
    assert_eq!(news, "", "rules are made anew for nothing");
    let news = one
        .namespace
        .sh("timeout 1 ip -4 monitor address route neigh || true");
    assert!(!news.contains("strata-pods"), "{news}");
}

#[test]
fn pods_do_not_notice_that_the_agent_was_killed() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2]);
    let mut two = cable.machine(2, &[1]);
    let (a, b) = (one.pod(&[]), two.pod(&[]));
    let _server = b.namespace.serve(80);
    let index =
        |machine: &crate::machine::Machine| machine.namespace.sh("ip -o link show strata-pods");
    let before = index(&one);
    one.kill();
    assert!(a.namespace.ask(b.address, 80).is_ok());
    // What changed while it was dead is handled when it is back.
    one.write(&[2, 3]);
    one.start();
    one.wait_for_peers(&[2, 3]);
    assert_eq!(index(&one), before, "the same device");
    assert!(a.namespace.ask(b.address, 80).is_ok());
    one.kill();
    one.write(&[3]);
    one.start();
    one.wait_for_peers(&[3]);
}

#[test]
fn a_broken_file_changes_nothing_and_a_mended_one_is_followed() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2]);
    for broken in [&b"{"[..], b"", b"{\"version\": 7}"] {
        one.write_text(broken);
        // It works on, with what it knew before.
        one.namespace
            .sh("nft flush ruleset; ip link del strata-pods");
        one.wait_for_peers(&[2]);
    }
    std::fs::remove_file(one.config_path()).unwrap();
    one.wait_for_peers(&[2]);
    one.write(&[3]);
    one.wait_for_peers(&[3]);
    // One that comes only after the agent.
    one.kill();
    std::fs::remove_file(one.config_path()).unwrap();
    one.start();
    one.write(&[2, 3]);
    one.wait_for_peers(&[2, 3]);
}
