//! Pods of different machines, and the world.

use crate::machine::TestSwitch;
use crate::world::wait_until;

#[test]
fn pods_of_all_machines_reach_each_other_under_their_own_addresses() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2, 3]);
    let mut two = cable.machine(2, &[1, 3]);
    let mut three = cable.machine(3, &[1, 2]);
    let pods = [one.pod(&[]), two.pod(&[]), three.pod(&[]), one.pod(&[])];
    let _servers = pods.each_ref().map(|pod| pod.namespace.serve(80));
    for from in &pods {
        for to in &pods {
            let said = from.namespace.ask(to.address, 80).unwrap();
            assert_eq!(said, from.address.to_string());
        }
    }
    // The machine itself, under its address in the pod network.
    let said = one.namespace.ask(pods[1].address, 80).unwrap();
    assert_eq!(said, "10.244.1.0");
    // Also when it sends under another, as it does to services.
    one.namespace.sh(
        "ip route replace 10.244.2.0/24 via 10.244.2.0 dev strata-pods onlink \
         proto static src 192.0.2.1",
    );
    let said = one.namespace.ask(pods[1].address, 80).unwrap();
    assert_eq!(said, "10.244.1.0");
    let mtu = pods[0].namespace.sh("ip link show eth0");
    assert!(mtu.contains("mtu 1450"), "{mtu}");
}

#[test]
fn the_world_sees_the_machine_and_published_ports_lead_to_the_pod() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2]);
    let pod = one.pod(&[(8080, 80)]);
    let _world = cable.outside.serve(80);
    let said = pod.namespace.ask([192, 0, 2, 100], 80).unwrap();
    assert_eq!(said, "192.0.2.1");
    let _server = pod.namespace.serve(80);
    let said = cable.outside.ask([192, 0, 2, 1], 8080).unwrap();
    assert_eq!(said, "192.0.2.100");
}

#[test]
fn a_machine_comes_and_goes_while_the_others_run() {
    let cable = TestSwitch::new();
    let mut one = cable.machine(1, &[2]);
    let mut two = cable.machine(2, &[1]);
    let (a, b) = (one.pod(&[]), two.pod(&[]));
    let _server = b.namespace.serve(80);
    assert!(a.namespace.ask(b.address, 80).is_ok());
    let mut three = cable.machine(3, &[1, 2]);
    let c = three.pod(&[]);
    assert!(c.namespace.is_cut_off(b.address, 80), "not yet a peer");
    two.write(&[1, 3]);
    wait_until("it is let in", || {
        c.namespace
            .ask(b.address, 80)
            .is_ok_and(|said| said == c.address.to_string())
    });
    two.write(&[3]);
    two.wait_for_peers(&[3]);
    assert!(a.namespace.is_cut_off(b.address, 80), "a peer no more");
    assert!(c.namespace.ask(b.address, 80).is_ok());
}

#[test]
fn without_a_network_in_the_file_nothing_of_it_is_left() {
    let cable = TestSwitch::new();
    let one = cable.machine(1, &[2]);
    let mut config = one.config(&[]);
    config.network = None;
    one.write_text(&serde_json::to_vec(&config).unwrap());
    wait_until("it is gone", || {
        let links = one.namespace.sh("ip -br link");
        !links.contains("strata-pods") && one.namespace.sh("nft list tables").is_empty()
    });
}
