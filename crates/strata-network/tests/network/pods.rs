//! Pods reach each other, the host and the world, and only from where they
//! are.

use std::net::Ipv4Addr;

use crate::world::{
    Namespace, Pod, ask_tcp, ask_udp, assert_as_before, assert_port_is_free, is_cut_off, on_a_host,
    picture, run, serve_tcp, serve_udp, settled,
};
use strata_network::{Endpoint, NetworkError};

#[test]
fn pods_reach_each_other_and_the_host_reaches_them() {
    on_a_host(|host| {
        let network = host.open();
        let (a, b) = (
            Pod::attach(&network, "a", &[]),
            Pod::attach(&network, "b", &[]),
        );
        let _tcp = serve_tcp(&b.namespace, 80, "b");
        let _udp = serve_udp(&b.namespace, 80, "b");
        let from_a = format!("b {}", a.address());
        assert_eq!(ask_tcp(&a.namespace, b.address(), 80).unwrap(), from_a);
        assert_eq!(ask_udp(&a.namespace, b.address(), 80).unwrap(), from_a);
        let said = ask_tcp(&host.namespace, b.address(), 80).unwrap();
        assert_eq!(said, "b 10.42.0.1");
    });
}

#[test]
fn pods_reach_each_other_over_ipv6() {
    on_a_host(|host| {
        let network = host.open();
        let a = Pod::attach(&network, "a", &[]);
        let b = Pod::attach(&network, "b", &[]);
        let _server = serve_tcp(&b.namespace, 80, "b");
        let to: std::net::Ipv6Addr = "fd73:7472:a2a::3".parse().unwrap();
        assert_eq!(ask_tcp(&a.namespace, to, 80).unwrap(), "b fd73:7472:a2a::2");
        assert!(ask_tcp(&host.namespace, to, 80).is_ok());
    });
}

#[test]
fn a_pod_reaches_the_world_under_the_hosts_address() {
    on_a_host(|host| {
        let world = host.neighbour("up0", 9);
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        let _tcp = serve_tcp(&world, 80, "world");
        let _udp = serve_udp(&world, 80, "world");
        let there = Ipv4Addr::new(192, 0, 2, 9);
        assert_eq!(
            ask_tcp(&pod.namespace, there, 80).unwrap(),
            "world 192.0.2.1"
        );
        assert_eq!(
            ask_udp(&pod.namespace, there, 80).unwrap(),
            "world 192.0.2.1"
        );
    });
}

#[test]
fn the_world_does_not_reach_what_is_not_published() {
    on_a_host(|host| {
        let world = host.neighbour("up0", 9);
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        let _server = serve_tcp(&pod.namespace, 80, "pod");
        world.run(|| run("ip route add 10.42.0.0/24 via 192.0.2.1"));
        assert!(is_cut_off(&world, pod.address(), 80));
        // It is this rule that does it.
        run("nft flush chain inet strata-t1 through");
        assert!(ask_tcp(&world, pod.address(), 80).is_ok());
    });
}

#[test]
fn two_uplinks_do_not_become_a_router() {
    on_a_host(|host| {
        let left = host.neighbour("up0", 9);
        let right = Namespace::new();
        let thread = rustix::thread::gettid().as_raw_nonzero();
        right.run(|| {
            run(&format!(
                "ip link add eth0 type veth peer name up1 netns {thread}"
            ));
            run("ip addr add 198.51.100.9/24 dev eth0");
            run("ip link set eth0 up");
            run("ip route add default via 198.51.100.1");
        });
        run("ip addr add 198.51.100.1/24 dev up1");
        run("ip link set up1 up");
        left.run(|| run("ip route add default via 192.0.2.1"));
        let _server = serve_tcp(&right, 80, "right");
        let there = Ipv4Addr::new(198, 51, 100, 9);
        assert!(is_cut_off(&left, there, 80));
        let network = host.open();
        assert!(is_cut_off(&left, there, 80));
        let pod = Pod::attach(&network, "pod", &[]);
        assert!(ask_tcp(&pod.namespace, there, 80).is_ok());
    });
}

#[test]
fn a_pod_cannot_use_an_address_that_is_not_of_the_subnet() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        // Another rule keeps pods from the host's own ports.
        run("nft flush chain inet strata-t1 host");
        let _server = serve_tcp(&host.namespace, 80, "host");
        assert!(ask_tcp(&pod.namespace, network.gateway(), 80).is_ok());
        pod.namespace.run(|| {
            run("ip addr add 172.16.0.5/32 dev eth0");
            run("ip route replace default via 10.42.0.1 src 172.16.0.5");
            run("ip route replace 10.42.0.0/24 dev eth0 src 172.16.0.5");
        });
        run("ip route add 172.16.0.5/32 dev st-t1-br");
        assert!(is_cut_off(&pod.namespace, network.gateway(), 80));
        // It is these rules that do it, of packets and of frames.
        run("nft flush chain inet strata-t1 arriving");
        run("nft flush chain bridge strata-t1 arriving");
        assert!(ask_tcp(&pod.namespace, network.gateway(), 80).is_ok());
    });
}

#[test]
fn a_pod_does_not_reach_what_listens_on_the_hosts_loopback() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        // Another rule keeps pods from the host's own ports.
        run("nft flush chain inet strata-t1 host");
        let _server = serve_tcp(&host.namespace, 6000, "host");
        pod.namespace.run(|| {
            run("ip addr del 127.0.0.1/8 dev lo");
            run("ip route add 127.0.0.1/32 via 10.42.0.1 src 10.42.0.2");
            std::fs::write("/proc/sys/net/ipv4/conf/eth0/route_localnet", "1").unwrap();
        });
        assert!(is_cut_off(&pod.namespace, Ipv4Addr::LOCALHOST, 6000));
        // It is this rule that does it.
        run("nft flush chain inet strata-t1 arriving");
        assert!(ask_tcp(&pod.namespace, Ipv4Addr::LOCALHOST, 6000).is_ok());
    });
}

#[test]
fn attaching_again_changes_nothing_and_moves_to_another_namespace() {
    on_a_host(|host| {
        let network = host.open();
        let mut pod = Pod::attach(&network, "pod", &[]);
        let before = pod.namespace.run(|| run("ip -4 -o addr"));
        network.attach(pod.namespace.fd(), &pod.endpoint).unwrap();
        assert_eq!(pod.namespace.run(|| run("ip -4 -o addr")), before);
        // The old namespace lives on while the pod starts in a new one.
        let old = std::mem::replace(&mut pod.namespace, Namespace::new());
        network.attach(pod.namespace.fd(), &pod.endpoint).unwrap();
        network.settle();
        assert!(!old.run(|| run("ip link")).contains("eth0"));
        let _server = serve_tcp(&pod.namespace, 80, "moved");
        assert!(ask_tcp(&host.namespace, pod.address(), 80).is_ok());
    });
}

#[test]
fn detaching_leaves_nothing_and_can_be_repeated() {
    on_a_host(|host| {
        let network = host.open();
        let first = Pod::attach(&network, "first", &[]);
        network.detach(&first.endpoint).unwrap();
        let before = settled();
        let ports = [crate::world::published(
            8080,
            80,
            strata_network::Protocol::Tcp,
        )];
        let pod = Pod::attach(&network, "pod", &ports);
        assert_ne!(picture(), before);
        network.detach(&pod.endpoint).unwrap();
        network.detach(&pod.endpoint).unwrap();
        network.settle();
        assert_as_before(&before);
        assert!(!pod.namespace.run(|| run("ip link")).contains("eth0"));
    });
}

#[test]
fn a_failed_attach_leaves_nothing() {
    on_a_host(|host| {
        let network = host.open();
        let before = settled();
        let namespace = Namespace::new();
        namespace.run(|| run("ip link add eth0 type bridge"));
        let ports = vec![crate::world::published(
            8080,
            80,
            strata_network::Protocol::Tcp,
        )];
        let endpoint = Endpoint {
            name: "pod".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports,
            owner: Default::default(),
        };
        let error = network.attach(namespace.fd(), &endpoint).unwrap_err();
        assert!(matches!(error, NetworkError::InterfaceTaken { .. }));
        assert_as_before(&before);
        // The port is free again.
        assert_port_is_free(8080);
        assert!(namespace.run(|| run("ip link")).contains("eth0"));
    });
}

#[test]
fn a_foreign_address_and_a_taken_one_are_refused() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        let namespace = Namespace::new();
        let mut other = Endpoint {
            name: "other".into(),
            aliases: Vec::new(),
            ..pod.endpoint.clone()
        };
        let error = network.attach(namespace.fd(), &other).unwrap_err();
        assert_eq!(
            error.to_string(),
            "address 10.42.0.2 belongs to pod, not to other"
        );
        other.address = Ipv4Addr::new(10, 43, 0, 2);
        let error = network.attach(namespace.fd(), &other).unwrap_err();
        assert!(matches!(error, NetworkError::ForeignAddress { .. }));
    });
}

#[test]
fn a_pod_that_starts_again_at_once_is_reached_at_once() {
    on_a_host(|host| {
        let network = host.open();
        let mut pod = Pod::attach(&network, "pod", &[]);
        let mut old = Vec::new();
        for _ in 0..8 {
            let server = serve_tcp(&pod.namespace, 80, "pod");
            assert!(ask_tcp(&host.namespace, pod.address(), 80).is_ok());
            drop(server);
            network.detach(&pod.endpoint).unwrap();
            // What ran before is not affected and is still there.
            old.push(std::mem::replace(&mut pod.namespace, Namespace::new()));
            network.attach(pod.namespace.fd(), &pod.endpoint).unwrap();
        }
        network.settle();
        assert_eq!(run("ip -o link show master st-t1-br").lines().count(), 1);
        network.detach(&pod.endpoint).unwrap();
        network.settle();
        assert!(run("ip link show st-t1-br").contains("mtu 1450"));
    });
}

#[test]
fn spoofed_source_addresses_are_dropped_on_the_bridge() {
    on_a_host(|host| {
        let network = host.open();
        let victim = Pod::attach(&network, "victim", &[]);
        let thief = Pod::attach(&network, "thief", &[]);
        let _server = serve_tcp(&victim.namespace, 80, "victim");
        assert!(
            ask_tcp(&host.namespace, victim.address(), 80)
                .unwrap()
                .starts_with("victim")
        );
        // Takes the victim's addresses, and announces them by broadcast.
        let (mac, address) = (victim.endpoint.mac(), victim.address());
        thief.namespace.run(|| {
            run("ip link set eth0 down");
            run(&format!("ip link set eth0 address {mac}"));
            run("ip link set eth0 up");
            run(&format!("ip addr add {address}/24 dev eth0"));
        });
        let _false_server = serve_tcp(&thief.namespace, 80, "thief");
        for _ in 0..20 {
            // What it sends is dropped, so nothing learns of it.
            thief.namespace.run(|| {
                let _ = std::net::UdpSocket::bind("0.0.0.0:0")
                    .and_then(|socket| socket.send_to(b"x", ("10.42.0.1", 9)));
            });
            let said = ask_tcp(&host.namespace, victim.address(), 80).unwrap();
            assert!(said.starts_with("victim"), "{said}");
        }
    });
}
