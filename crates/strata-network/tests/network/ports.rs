//! Published ports: from outside, from the host, from the pod itself, and when
//! another process has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use crate::world::{
    Host, Namespace, Pod, ask_tcp, ask_udp, assert_port_is_free, on_a_host, published, run,
    serve_tcp, serve_udp, wait_until,
};
use strata_network::{Endpoint, Network, Protocol, PublishedPort};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn web(network: &Network) -> Pod {
    let ports = [
        published(8080, 80, Protocol::Tcp),
        published(5353, 53, Protocol::Udp),
    ];
    Pod::attach(network, "web", &ports)
}

fn answers(from: &Namespace, to: impl Into<IpAddr> + Copy) -> (String, String) {
    (
        ask_tcp(from, to, 8080).unwrap(),
        ask_udp(from, to, 5353).unwrap(),
    )
}

#[test]
fn a_published_port_answers_from_everywhere() {
    on_a_host(|host| {
        for bridged_packets_are_filtered in ["0", "1"] {
            let switch = "/proc/sys/net/bridge/bridge-nf-call-iptables";
            let _ = std::fs::write(switch, bridged_packets_are_filtered);
            from_everywhere(host);
            Network::remove(&"t1".parse().unwrap(), host.state.path()).unwrap();
            // It goes with the machine at its other end.
            wait_until("the cable is gone", || !run("ip link").contains("up0"));
        }
    });
}

fn from_everywhere(host: &Host) {
    let world = host.neighbour("up0", 9);
    let network = host.open();
    let (web, other) = (web(&network), Pod::attach(&network, "other", &[]));
    let _tcp = serve_tcp(&web.namespace, 80, "web");
    let _udp = serve_udp(&web.namespace, 53, "web");
    let said = |by: &str| (format!("web {by}"), format!("web {by}"));

    assert_eq!(answers(&world, HOST), said("192.0.2.9"), "from outside");
    assert_eq!(
        answers(&host.namespace, HOST),
        said("192.0.2.1"),
        "own address"
    );
    let loopback = answers(&host.namespace, Ipv4Addr::LOCALHOST);
    assert_eq!(loopback, said("10.42.0.1"), "loopback");
    assert_eq!(answers(&other.namespace, HOST), said("10.42.0.1"), "pod");
    assert_eq!(answers(&web.namespace, HOST), said("10.42.0.1"), "itself");
    let gateway = network.gateway();
    assert_eq!(
        answers(&web.namespace, gateway),
        said("10.42.0.1"),
        "gateway"
    );
}

#[test]
fn a_published_port_answers_on_ipv6_too() {
    on_a_host(|host| {
        let world = host.neighbour("up0", 9);
        run("ip addr add fd00::1/64 dev up0 nodad");
        world.run(|| run("ip addr add fd00::9/64 dev eth0 nodad"));
        std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        let network = host.open();
        let web = web(&network);
        let _tcp = serve_tcp(&web.namespace, 80, "web");
        let _udp = serve_udp(&web.namespace, 53, "web");
        let to: Ipv6Addr = "fd00::1".parse().unwrap();
        let said = |by: &str| (format!("web {by}"), format!("web {by}"));
        assert_eq!(answers(&world, to), said("fd00::9"), "from outside");
        assert_eq!(answers(&host.namespace, to), said("fd00::1"), "host");
        assert_eq!(
            answers(&web.namespace, to),
            said("fd73:7472:a2a::1"),
            "itself"
        );
    });
}

#[test]
fn a_port_of_one_address_answers_there_alone() {
    on_a_host(|host| {
        let world = host.neighbour("up0", 9);
        let network = host.open();
        let port = PublishedPort {
            host_ip: Some(Ipv4Addr::LOCALHOST.into()),
            ..published(8080, 80, Protocol::Tcp)
        };
        let pod = Pod::attach(&network, "pod", &[port]);
        let _server = serve_tcp(&pod.namespace, 80, "pod");
        assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).is_ok());
        assert!(ask_tcp(&world, HOST, 8080).is_err());
        let nowhere = PublishedPort {
            host_ip: Some(Ipv4Addr::new(203, 0, 113, 5).into()),
            ..port
        };
        let endpoint = Endpoint {
            ports: vec![nowhere],
            owner: Default::default(),
            ..pod.endpoint.clone()
        };
        let error = network.reserve_ports(&endpoint).unwrap_err().to_string();
        assert_eq!(
            error,
            "port 203.0.113.5:8080/tcp: this host has no address 203.0.113.5"
        );
    });
}

#[test]
fn a_port_that_another_process_has_is_refused_by_name() {
    on_a_host(|host| {
        let network = host.open();
        let _foreign = TcpListener::bind("127.0.0.1:8080").unwrap();
        let endpoint = Endpoint {
            name: "web".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: vec![
                published(8081, 80, Protocol::Tcp),
                published(8080, 80, Protocol::Tcp),
            ],
            owner: Default::default(),
        };
        let error = network.reserve_ports(&endpoint).unwrap_err();
        assert_eq!(
            error.to_string(),
            "port 8080/tcp is in use by another process on this host"
        );
        // All or none: the other one is free again.
        assert_port_is_free(8081);
        let _foreign = UdpSocket::bind("[::]:5353").unwrap();
        let endpoint = Endpoint {
            ports: vec![published(5353, 53, Protocol::Udp)],
            owner: Default::default(),
            ..endpoint
        };
        let error = network.reserve_ports(&endpoint).unwrap_err();
        assert!(error.to_string().starts_with("port 5353/udp is in use"));
    });
}

#[test]
fn published_port_is_reserved_on_the_host() {
    on_a_host(|host| {
        let network = host.open();
        let web = web(&network);
        assert!(TcpListener::bind("0.0.0.0:8080").is_err());
        assert!(TcpListener::bind("127.0.0.1:8080").is_err());
        assert!(UdpSocket::bind("[::]:5353").is_err());
        let other = Endpoint {
            name: "other".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: vec![published(8080, 9, Protocol::Tcp)],
            owner: Default::default(),
        };
        let error = network.reserve_ports(&other).unwrap_err().to_string();
        assert_eq!(
            error,
            "port 8080/tcp is already published by another endpoint of this node"
        );
        // Another run on the same host.
        let mut config = host.config("10.42.9.0/24");
        config.tag = "t2".parse().unwrap();
        let state = tempfile::tempdir().unwrap();
        config.state = state.path().to_owned();
        let second = Network::open(config).unwrap();
        let error = second.reserve_ports(&Endpoint {
            address: second.lease(None).unwrap(),
            ..other.clone()
        });
        assert!(error.unwrap_err().to_string().contains("8080/tcp"));
        network.detach(&web.endpoint).unwrap();
        assert_port_is_free(8080);
    });
}

#[test]
fn a_reservation_lasts_until_dropped_or_for_as_long_as_the_pod() {
    on_a_host(|host| {
        let network = host.open();
        let endpoint = Endpoint {
            name: "web".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: vec![published(8080, 80, Protocol::Tcp)],
            owner: Default::default(),
        };
        drop(network.reserve_ports(&endpoint).unwrap());
        assert_port_is_free(8080);
        let reservation = network.reserve_ports(&endpoint).unwrap();
        let namespace = Namespace::new();
        network.attach(namespace.fd(), &endpoint).unwrap();
        drop(reservation);
        assert!(TcpListener::bind("0.0.0.0:8080").is_err());
        let _server = serve_tcp(&namespace, 80, "web");
        assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).is_ok());
    });
}

#[test]
fn other_ports_for_the_same_pod_replace_the_old_ones() {
    on_a_host(|host| {
        let network = host.open();
        let mut web = web(&network);
        let _server = serve_tcp(&web.namespace, 80, "web");
        web.endpoint.ports = vec![published(9090, 80, Protocol::Tcp)];
        network.attach(web.namespace.fd(), &web.endpoint).unwrap();
        assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 9090).is_ok());
        assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).is_err());
        assert_port_is_free(8080);
    });
}
