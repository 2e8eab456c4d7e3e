//! The overlay between two hosts.

use std::net::Ipv4Addr;

use crate::world::{
    Host, Namespace, Pod, ask_tcp, ask_udp, is_cut_off, on_a_host, run, serve_tcp, serve_udp,
};
use strata_network::{Network, NetworkError, Peer};

fn peer(subnet: &str, last: u8) -> Peer {
    Peer::new(subnet.parse().unwrap(), Ipv4Addr::new(192, 0, 2, last))
}

/// Does something on another host, with a state of its own.
fn on<T: Send>(machine: &Namespace, work: impl FnOnce(&Host) -> T + Send) -> T {
    machine.run(|| work(&Host::here()))
}

#[test]
fn pods_of_two_hosts_reach_each_other() {
    on_a_host(|here| {
        let there = here.neighbour("up0", 2);
        let network = here.open();
        network.set_peers(&[peer("10.42.1.0/24", 2)]).unwrap();
        let pod = Pod::attach(&network, "a", &[]);
        let (other_network, other) = on(&there, |host| {
            let network = Network::open(host.config("10.42.1.0/24")).unwrap();
            network.set_peers(&[peer("10.42.0.0/24", 1)]).unwrap();
            let pod = Pod::attach(&network, "b", &[]);
            (network, pod)
        });
        let _tcp = serve_tcp(&other.namespace, 80, "b");
        let _udp = serve_udp(&other.namespace, 80, "b");
        let _back = serve_tcp(&pod.namespace, 80, "a");
        let to = other.address();
        assert_eq!(ask_tcp(&pod.namespace, to, 80).unwrap(), "b 10.42.0.2");
        assert_eq!(ask_udp(&pod.namespace, to, 80).unwrap(), "b 10.42.0.2");
        let said = ask_tcp(&other.namespace, pod.address(), 80).unwrap();
        assert_eq!(said, "a 10.42.1.2");
        assert_eq!(ask_tcp(&here.namespace, to, 80).unwrap(), "b 10.42.0.1");
        let to6: std::net::Ipv6Addr = "fd73:7472:a2a:100::2".parse().unwrap();
        let said = ask_tcp(&pod.namespace, to6, 80).unwrap();
        assert_eq!(said, "b fd73:7472:a2a::2");
        // One that is no peer any more is not let in.
        on(&there, |_| {
            other_network
                .set_peers(&[peer("10.42.0.0/24", 77)])
                .unwrap();
        });
        assert!(is_cut_off(&pod.namespace, to, 80));
    });
}

#[test]
fn peers_are_set_to_exactly_those_given() {
    on_a_host(|host| {
        let _there = host.neighbour("up0", 2);
        let network = host.open();
        let kernel = || {
            (
                run("ip route"),
                run("ip neigh"),
                run("bridge fdb show dev st-t1-vx"),
            )
        };
        network.set_peers(&[peer("10.42.1.0/24", 2)]).unwrap();
        let one = kernel();
        let two = [peer("10.42.1.0/24", 2), peer("10.42.2.0/24", 3)];
        network.set_peers(&two).unwrap();
        assert!(run("ip route").contains("10.42.2.0/24 via 10.42.2.1 dev st-t1-vx"));
        network.set_peers(&two[..1]).unwrap();
        assert_eq!(kernel(), one);
        // A node that moved keeps its subnet.
        network.set_peers(&[peer("10.42.1.0/24", 9)]).unwrap();
        let entries = run("bridge fdb show dev st-t1-vx");
        assert!(entries.contains("192.0.2.9") && !entries.contains("192.0.2.2"));
        network.set_peers(&two).unwrap();
        // Another daemon finds what the first left.
        drop(network);
        let network = host.open();
        network.set_peers(&two[..1]).unwrap();
        assert_eq!(run("ip route"), one.0);
        network.set_peers(&[]).unwrap();
        assert!(!run("ip link").contains("st-t1-vx"));
        let own = network.set_peers(&[peer("10.42.0.0/24", 2)]);
        assert!(matches!(own, Err(NetworkError::PeerSubnet(_))));
    });
}
