//! After a run is removed, the host is what it was.

use crate::world::{
    Host, Pod, ask_tcp, assert_as_before, on_a_host, picture, published, run, serve_tcp, settled,
};
use strata_network::{Network, Peer, Protocol, Tag};

fn tag() -> Tag {
    "t1".parse().unwrap()
}

fn use_everything(network: &Network) -> Pod {
    let peer = Peer::new("10.42.7.0/24".parse().unwrap(), [192, 0, 2, 7].into());
    network.set_peers(&[peer]).unwrap();
    Pod::attach(network, "pod", &[published(8080, 80, Protocol::Tcp)])
}

#[test]
fn removing_leaves_the_host_as_it_was() {
    on_a_host(|host| {
        let _world = host.neighbour("up0", 9);
        run("nft add table inet others");
        let before = settled();
        let network = host.open();
        let pod = use_everything(&network);
        let tap = strata_network::Endpoint {
            name: "vm".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: Vec::new(),
            owner: Default::default(),
        };
        let tap = network.attach_tap(&tap).unwrap();
        assert_ne!(picture(), before);
        // The daemon died; no process knows of it.
        drop(network);
        Network::remove(&tag(), host.state.path()).unwrap();
        assert_as_before(&before);
        Network::remove(&tag(), host.state.path()).unwrap();
        assert_as_before(&before);
        assert!(host.state.path().read_dir().unwrap().next().is_none());
        drop((pod, tap));
    });
}

#[test]
fn removing_works_after_others_flushed_the_rules() {
    on_a_host(|host| {
        let _world = host.neighbour("up0", 9);
        let before = settled();
        drop(host.open());
        run("nft flush ruleset");
        Network::remove(&tag(), host.state.path()).unwrap();
        assert_as_before(&before);
    });
}

#[test]
fn the_last_of_two_runs_puts_forwarding_back() {
    on_a_host(|host| {
        let world = host.neighbour("up0", 9);
        let before = settled();
        let second_host = Host::here();
        let first = host.open();
        let mut config = second_host.config("10.42.9.0/24");
        config.tag = "t2".parse().unwrap();
        let second = Network::open(config).unwrap();
        second.restore(&[]).unwrap();
        let pod = Pod::attach(&second, "pod", &[]);
        let _server = serve_tcp(&world, 80, "world");
        let there = std::net::Ipv4Addr::new(192, 0, 2, 9);
        assert!(ask_tcp(&pod.namespace, there, 80).is_ok());
        drop(first);
        Network::remove(&tag(), host.state.path()).unwrap();
        assert!(ask_tcp(&pod.namespace, there, 80).is_ok());
        drop(second);
        Network::remove(&"t2".parse().unwrap(), second_host.state.path()).unwrap();
        assert_as_before(&before);
    });
}

#[test]
fn forwarding_that_was_on_stays_on() {
    on_a_host(|host| {
        let _world = host.neighbour("up0", 9);
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let before = settled();
        drop(host.open());
        Network::remove(&tag(), host.state.path()).unwrap();
        assert_as_before(&before);
    });
}

#[test]
fn opening_twice_changes_nothing() {
    on_a_host(|host| {
        let network = host.open();
        let before = settled();
        drop(network);
        let network = Network::open(host.config("10.42.0.0/24")).unwrap();
        assert_as_before(&before);
        network.restore(&[]).unwrap();
        assert_as_before(&before);
    });
}
