//! What others break is repaired, and what a death left half made is cleared.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::world::{Pod, ask_tcp, on_a_host, published, run, serve_tcp, wait_until};
use strata_network::{Endpoint, Network, Peer, Protocol};

fn ruleset() -> String {
    run("nft list ruleset")
}

#[test]
fn flushed_ruleset_is_rebuilt() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[published(8080, 80, Protocol::Tcp)]);
        let _server = serve_tcp(&pod.namespace, 80, "pod");
        let before = ruleset();
        let _watcher = network.watch().unwrap();
        for breach in [
            "nft flush ruleset",
            "nft delete table inet strata-t1",
            "nft flush chain inet strata-t1 publish",
            "nft flush map inet strata-t1 ports4",
            "nft insert rule inet strata-t1 through drop",
        ] {
            run(breach);
            wait_until(breach, || ruleset() == before);
            assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).is_ok());
        }
        assert!(network.check().unwrap());
    });
}

#[test]
fn other_tables_are_left_alone() {
    on_a_host(|host| {
        let network = host.open();
        let _watcher = network.watch().unwrap();
        run("nft add table inet others");
        let before = ruleset();
        let pod = Pod::attach(&network, "pod", &[published(8080, 80, Protocol::Tcp)]);
        network.detach(&pod.endpoint).unwrap();
        run("nft add chain inet others x");
        run("nft delete chain inet others x");
        network.restore(&[]).unwrap();
        let sorted = |text: &str| {
            let mut tables: Vec<String> = text.split("table").map(str::to_owned).collect();
            tables.sort();
            tables
        };
        assert_eq!(sorted(&ruleset()), sorted(&before));
    });
}

#[test]
fn an_uplink_that_comes_later_is_one_too() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        let _watcher = network.watch().unwrap();
        let world = host.neighbour("up0", 9);
        let _server = serve_tcp(&world, 80, "world");
        wait_until("it forwards", || ruleset().contains("\"up0\""));
        let there = Ipv4Addr::new(192, 0, 2, 9);
        assert!(ask_tcp(&pod.namespace, there, 80).is_ok());
    });
}

#[test]
fn without_a_watcher_the_next_change_repairs() {
    on_a_host(|host| {
        let network = host.open();
        let first = Pod::attach(&network, "first", &[published(8080, 80, Protocol::Tcp)]);
        let _server = serve_tcp(&first.namespace, 80, "first");
        run("nft flush ruleset");
        assert!(!network.check().unwrap());
        Pod::attach(&network, "second", &[published(8081, 80, Protocol::Tcp)]);
        assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).is_ok());
        run("nft flush ruleset");
        network.detach(&first.endpoint).unwrap();
        assert!(network.check().unwrap());
        assert!(!ruleset().contains("8080"));
        assert!(ruleset().contains("8081"));
        run("ip link del st-t1-br");
        assert!(!network.check().unwrap());
        let third = Pod::attach(&network, "third", &[]);
        let _server = serve_tcp(&third.namespace, 80, "third");
        assert!(ask_tcp(&host.namespace, third.address(), 80).is_ok());
    });
}

#[test]
fn removed_bridge_and_overlay_are_recreated() {
    on_a_host(|host| {
        let network = host.open();
        let (a, b) = (
            Pod::attach(&network, "a", &[]),
            Pod::attach(&network, "b", &[]),
        );
        let peer = Peer::new("10.42.7.0/24".parse().unwrap(), Ipv4Addr::new(192, 0, 2, 7));
        network.set_peers(&[peer]).unwrap();
        let _server = serve_tcp(&b.namespace, 80, "b");
        // The kernel notes a little late that a bridge has a port.
        let routes = || -> BTreeSet<String> {
            let text = run("ip route").replace("linkdown", "");
            text.lines().map(|line| line.trim().to_owned()).collect()
        };
        let before = routes();
        let _watcher = network.watch().unwrap();
        for breach in [
            "ip link del st-t1-br",
            "ip link set st-t1-br down",
            "ip link del st-t1-vx",
            "ip link set st-t1-vx down",
        ] {
            run(breach);
            wait_until(breach, || routes() == before && network.check().unwrap());
            wait_until("they talk again", || {
                ask_tcp(&a.namespace, b.address(), 80).is_ok()
            });
            assert!(ask_tcp(&host.namespace, b.address(), 80).is_ok());
        }
    });
}

#[test]
fn a_start_clears_what_a_death_left_half_made() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[published(8080, 80, Protocol::Tcp)]);
        let lost = Pod::attach(&network, "lost", &[published(8081, 80, Protocol::Tcp)]);
        // A pair that got no further, and one that is on no bridge.
        run("ip link add st-t1-0aa type veth peer name x");
        run("ip link set st-t1-002 nomaster");
        run("ip link add st-t2-0aa type veth peer name y");
        drop(network);
        let network = Network::open(host.config("10.42.0.0/24")).unwrap();
        // Until then, what was published still is.
        assert!(ruleset().contains("8081"));
        let gone = Endpoint {
            name: "gone".into(),
            aliases: Vec::new(),
            address: Ipv4Addr::new(10, 42, 0, 9),
            ports: Vec::new(),
            owner: Default::default(),
        };
        let known = [pod.endpoint.clone(), gone];
        let restored = network.restore(&known).unwrap();
        assert_eq!(restored.removed.len(), 2);
        assert_eq!(restored.missing, [Ipv4Addr::new(10, 42, 0, 9)]);
        assert!(restored.contested.is_empty());
        let links = run("ip link");
        assert!(!links.contains("st-t1-0aa") && !links.contains("st-t1-003"));
        assert!(links.contains("st-t2-0aa"));
        assert!(!lost.namespace.run(|| run("ip link")).contains("eth0"));
        assert!(ruleset().contains("8080") && !ruleset().contains("8081"));
        let _server = serve_tcp(&pod.namespace, 80, "pod");
        assert!(ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).is_ok());
        // Leases too: 2 and 9 are taken.
        assert!(network.lease(Some(pod.address())).is_err());
        assert!(network.lease(Some(lost.address())).is_ok());
    });
}

#[test]
fn a_port_that_was_taken_meanwhile_stays_published() {
    on_a_host(|host| {
        let network = host.open();
        let port = published(8080, 80, Protocol::Tcp);
        let pod = Pod::attach(&network, "pod", &[port]);
        drop(network);
        let _foreign = serve_tcp(&host.namespace, 8080, "foreign");
        let network = Network::open(host.config("10.42.0.0/24")).unwrap();
        let restored = network
            .restore(std::slice::from_ref(&pod.endpoint))
            .unwrap();
        assert_eq!(restored.contested, [port]);
        let _server = serve_tcp(&pod.namespace, 80, "pod");
        let said = ask_tcp(&host.namespace, Ipv4Addr::LOCALHOST, 8080).unwrap();
        assert!(said.starts_with("pod "), "{said}");
    });
}
