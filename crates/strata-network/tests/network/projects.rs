//! Projects are kept apart: on one bridge, across the overlay, by any protocol.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::world::{
    Host, Namespace, Pod, ask_tcp, ask_udp, is_cut_off, on_a_host, published, run, serve_tcp,
    serve_udp, without_bridge_netfilter,
};
use strata_network::{Endpoint, Network, Owner, Peer, ProjectAccess, Protocol};

fn allowed(pairs: &[(&str, &str)]) -> ProjectAccess {
    let pair = |(from, to): &(&str, &str)| (from.to_string(), to.to_string());
    ProjectAccess {
        allowed: pairs.iter().map(pair).collect(),
        ..ProjectAccess::default()
    }
}

fn address6(pod: &Pod) -> Ipv6Addr {
    let [a, b, c, d] = pod.address().octets();
    let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, 0])];
    Ipv6Addr::new(0xfd73, 0x7472, words[0], words[1], 0, 0, 0, d.into())
}

fn no_answer_by_udp(from: &Namespace, to: impl Into<IpAddr>, port: u16) -> bool {
    let to = SocketAddr::new(to.into(), port);
    from.run(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        let timeout = Some(Duration::from_millis(300));
        socket.set_read_timeout(timeout).unwrap();
        let sent = socket.send_to(b"?", to);
        sent.is_err() || socket.recv(&mut [0; 64]).is_err()
    })
}

#[test]
fn pods_of_different_projects_on_one_node_do_not_reach_each_other() {
    for bridge_netfilter in [false, true] {
        on_a_host(|host| {
            if !bridge_netfilter {
                without_bridge_netfilter();
            }
            let network = host.open();
            let shop = Pod::of(&network, "a", "shop");
            let other = Pod::of(&network, "b", "shop");
            let rival = Pod::of(&network, "c", "rival");
            let plain = Pod::attach(&network, "d", &[]);
            let second = Pod::of(&network, "e", "default");
            let _tcp = serve_tcp(&shop.namespace, 80, "shop");
            let _udp = serve_udp(&shop.namespace, 80, "shop");
            let _plain = serve_tcp(&plain.namespace, 80, "plain");
            let (to, to6) = (shop.address(), address6(&shop));
            // Within a project, and of no project, as ever.
            assert!(ask_tcp(&other.namespace, to, 80).is_ok());
            assert!(ask_tcp(&other.namespace, to6, 80).is_ok());
            assert!(ask_udp(&other.namespace, to, 80).is_ok());
            assert!(ask_tcp(&second.namespace, plain.address(), 80).is_ok());
            for anonymous in [&rival, &plain, &second] {
                let from = &anonymous.namespace;
                assert!(is_cut_off(from, to, 80), "tcp");
                assert!(is_cut_off(from, to6, 80), "tcp, ipv6");
                assert!(no_answer_by_udp(from, to, 80), "udp");
                assert!(no_answer_by_udp(from, to6, 80), "udp, ipv6");
            }
            assert!(is_cut_off(&shop.namespace, plain.address(), 80));
            // The host itself reaches all.
            assert!(ask_tcp(&host.namespace, to, 80).is_ok());
            // It is these rules that do it.
            run("nft delete table bridge strata-t1");
            if bridge_netfilter {
                assert!(is_cut_off(&rival.namespace, to, 80));
                run("nft flush chain inet strata-t1 through");
            }
            assert!(ask_tcp(&rival.namespace, to, 80).is_ok());
        });
    }
}

#[test]
fn neither_broadcasts_nor_link_local_addresses_cross_projects() {
    on_a_host(|host| {
        without_bridge_netfilter();
        let network = host.open();
        let shop = Pod::of(&network, "a", "shop");
        let friend = Pod::of(&network, "b", "shop");
        let rival = Pod::of(&network, "c", "rival");
        let listen = |pod: &Pod| {
            let socket = pod.namespace.run(|| UdpSocket::bind("[::]:7000").unwrap());
            let timeout = Some(Duration::from_millis(500));
            socket.set_read_timeout(timeout).unwrap();
            socket
        };
        let (at_friend, at_rival) = (listen(&friend), listen(&rival));
        shop.namespace.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_broadcast(true).unwrap();
            socket.send_to(b"all", "10.42.0.255:7000").unwrap();
            let group = "[ff02::1%2]:7000";
            let socket = UdpSocket::bind("[::]:0").unwrap();
            let group: SocketAddr = group
                .parse()
                .unwrap_or_else(|_| "[ff02::1]:7000".parse().unwrap());
            let _ = socket.send_to(b"all", group);
        });
        let mut buffer = [0; 16];
        assert!(at_friend.recv(&mut buffer).is_ok());
        assert!(at_rival.recv(&mut buffer).is_err());
        let own = rival
            .namespace
            .run(|| run("ip -6 -o addr show dev eth0 scope link"));
        let own = own.split_whitespace().nth(3).unwrap().to_owned();
        let own = own.split('/').next().unwrap().to_owned();
        let _server = serve_tcp(&rival.namespace, 80, "rival");
        let reached = shop.namespace.run(|| {
            let to = format!("{own}%eth0");
            let ping = std::process::Command::new("ping")
                .args(["-6", "-c1", "-W1", &to])
                .output();
            ping.is_ok_and(|ping| ping.status.success())
        });
        assert!(!reached);
    });
}

#[test]
fn allowed_project_reaches_another_in_one_direction_only() {
    on_a_host(|host| {
        without_bridge_netfilter();
        let network = host.open();
        let shop = Pod::of(&network, "a", "shop");
        let front = Pod::of(&network, "b", "front");
        let plain = Pod::attach(&network, "c", &[]);
        let _shop = serve_tcp(&shop.namespace, 80, "shop");
        let _front = serve_tcp(&front.namespace, 80, "front");
        let _plain = serve_tcp(&plain.namespace, 80, "plain");
        let access = allowed(&[("front", "shop"), ("shop", "default")]);
        network.set_projects(access).unwrap();
        assert!(ask_tcp(&front.namespace, shop.address(), 80).is_ok());
        assert!(ask_tcp(&front.namespace, address6(&shop), 80).is_ok());
        assert!(is_cut_off(&shop.namespace, front.address(), 80));
        assert!(ask_tcp(&shop.namespace, plain.address(), 80).is_ok());
        assert!(is_cut_off(&plain.namespace, shop.address(), 80));
        // It comes after the pods as well, and goes.
        let late = Pod::of(&network, "d", "front");
        assert!(ask_tcp(&late.namespace, shop.address(), 80).is_ok());
        network.set_projects(ProjectAccess::default()).unwrap();
        assert!(is_cut_off(&late.namespace, shop.address(), 80));
        assert!(is_cut_off(&shop.namespace, plain.address(), 80));
    });
}

#[test]
fn a_restart_and_a_repair_keep_projects_apart() {
    on_a_host(|host| {
        without_bridge_netfilter();
        let network = host.open();
        let shop = Pod::of(&network, "a", "shop");
        let rival = Pod::of(&network, "b", "rival");
        let _server = serve_tcp(&shop.namespace, 80, "shop");
        drop(network);
        let network = Network::open(host.config("10.42.0.0/24")).unwrap();
        assert!(is_cut_off(&rival.namespace, shop.address(), 80));
        let running = [shop.endpoint.clone(), rival.endpoint.clone()];
        network.restore(&running).unwrap();
        assert!(is_cut_off(&rival.namespace, shop.address(), 80));
        run("nft flush ruleset");
        let friend = Pod::of(&network, "c", "shop");
        assert!(is_cut_off(&rival.namespace, shop.address(), 80));
        assert!(ask_tcp(&friend.namespace, shop.address(), 80).is_ok());
        // An address of another project is that one's now.
        network.detach(&rival.endpoint).unwrap();
        network.release(rival.address());
        let next = Endpoint {
            owner: Owner::Project("shop".into()),
            ..rival.endpoint.clone()
        };
        let namespace = Namespace::new();
        network.attach(namespace.fd(), &next).unwrap();
        assert!(ask_tcp(&namespace, shop.address(), 80).is_ok());
        Network::remove(&"t1".parse().unwrap(), host.state.path()).unwrap();
        assert_eq!(run("nft list tables"), "");
    });
}

#[test]
fn published_ports_are_for_every_project() {
    for bridge_netfilter in [false, true] {
        on_a_host(|host| {
            if !bridge_netfilter {
                without_bridge_netfilter();
            }
            let network = host.open();
            let ports = [published(8080, 80, Protocol::Tcp)];
            let owner = Owner::Project("shop".into());
            let shop = Pod::attach_as(&network, "a", &ports, owner);
            let rival = Pod::of(&network, "b", "rival");
            let _server = serve_tcp(&shop.namespace, 80, "shop");
            for pod in [&rival, &shop] {
                let answer = ask_tcp(&pod.namespace, network.gateway(), 8080);
                assert!(answer.is_ok(), "br_netfilter: {bridge_netfilter}");
            }
            assert!(is_cut_off(&rival.namespace, shop.address(), 80));
        });
    }
}

#[test]
fn a_pod_cannot_pass_for_one_of_another_project() {
    on_a_host(|here| {
        let there = here.neighbour("up0", 2);
        let network = here.open();
        network.set_peers(&[peer("10.42.1.0/24", 2)]).unwrap();
        let friend = Pod::of(&network, "a", "shop");
        let rival = Pod::of(&network, "b", "rival");
        let (far, shop) = there.run(|| {
            let host = Host::here();
            let far = Network::open(host.config("10.42.1.0/24")).unwrap();
            far.set_peers(&[peer("10.42.0.0/24", 1)]).unwrap();
            let shop = Pod::of(&far, "c", "shop");
            (far, shop)
        });
        let of_shop = |pod: &Pod| ProjectAccess {
            remote: [(pod.address(), "shop".to_owned())].into(),
            ..ProjectAccess::default()
        };
        network.set_projects(of_shop(&shop)).unwrap();
        far.set_projects(of_shop(&friend)).unwrap();
        let heard = shop.namespace.run(|| UdpSocket::bind("[::]:9").unwrap());
        let timeout = Some(Duration::from_millis(400));
        heard.set_read_timeout(timeout).unwrap();
        let send = |from: &Pod, source: IpAddr, to: IpAddr| {
            from.namespace.run(|| {
                let socket = UdpSocket::bind((source, 0)).unwrap();
                for _ in 0..3 {
                    let _ = socket.send_to(b"it is me", (to, 9));
                }
            });
            heard.recv(&mut [0; 64]).is_ok()
        };
        let (own, own6) = (friend.address().into(), address6(&friend).into());
        let (to, to6) = (shop.address().into(), address6(&shop).into());
        assert!(send(&friend, own, to) && send(&friend, own6, to6));
        while heard.recv(&mut [0; 64]).is_ok() {}
        // The rival takes the friend's addresses for its own.
        rival.namespace.run(|| {
            run(&format!("ip addr add {}/32 dev eth0", friend.address()));
            run(&format!(
                "ip addr add {}/128 dev eth0 nodad",
                address6(&friend)
            ));
        });
        assert!(!send(&rival, own, to));
        assert!(!send(&rival, own6, to6));
        // It is these rules that do it, of packets and of frames.
        run("nft flush chain inet strata-t1 arriving");
        run("nft flush chain bridge strata-t1 arriving");
        assert!(send(&rival, own, to));
    });
}

fn peer(subnet: &str, last: u8) -> Peer {
    Peer::new(subnet.parse().unwrap(), Ipv4Addr::new(192, 0, 2, last))
}

#[test]
fn projects_are_kept_apart_across_nodes() {
    on_a_host(|here| {
        let there = here.neighbour("up0", 2);
        let network = here.open();
        network.set_peers(&[peer("10.42.1.0/24", 2)]).unwrap();
        let shop = Pod::of(&network, "a", "shop");
        let plain = Pod::attach(&network, "d", &[]);
        let (far, friend, rival, other) = there.run(|| {
            let host = Host::here();
            let far = Network::open(host.config("10.42.1.0/24")).unwrap();
            far.set_peers(&[peer("10.42.0.0/24", 1)]).unwrap();
            let friend = Pod::of(&far, "b", "shop");
            let rival = Pod::of(&far, "c", "rival");
            let other = Pod::attach(&far, "e", &[]);
            (far, friend, rival, other)
        });
        let _tcp = serve_tcp(&shop.namespace, 80, "shop");
        let _udp = serve_udp(&shop.namespace, 80, "shop");
        let _plain = serve_tcp(&plain.namespace, 80, "plain");
        let (to, to6) = (shop.address(), address6(&shop));
        // Nothing is known of far addresses yet: then nothing passes.
        for anonymous in [&friend, &rival, &other] {
            assert!(is_cut_off(&anonymous.namespace, to, 80));
        }
        assert!(is_cut_off(&rival.namespace, plain.address(), 80));
        assert!(ask_tcp(&other.namespace, plain.address(), 80).is_ok());
        let remote = |pods: &[(&Pod, &str)], pairs| ProjectAccess {
            remote: pods
                .iter()
                .map(|(pod, project)| (pod.address(), project.to_string()))
                .collect(),
            ..allowed(pairs)
        };
        let ours = [(&friend, "shop"), (&rival, "rival")];
        network.set_projects(remote(&ours, &[])).unwrap();
        far.set_projects(remote(&[(&shop, "shop")], &[])).unwrap();
        assert!(ask_tcp(&friend.namespace, to, 80).is_ok());
        assert!(ask_tcp(&friend.namespace, to6, 80).is_ok());
        assert!(ask_udp(&friend.namespace, to, 80).is_ok());
        for anonymous in [&rival, &other] {
            assert!(is_cut_off(&anonymous.namespace, to, 80));
            assert!(is_cut_off(&anonymous.namespace, to6, 80));
            assert!(no_answer_by_udp(&anonymous.namespace, to, 80));
        }
        assert!(is_cut_off(&rival.namespace, plain.address(), 80));
        let pairs = &[("rival", "shop")];
        network.set_projects(remote(&ours, pairs)).unwrap();
        far.set_projects(remote(&[(&shop, "shop")], pairs)).unwrap();
        assert!(ask_tcp(&rival.namespace, to, 80).is_ok());
        let _rival = serve_tcp(&rival.namespace, 80, "rival");
        assert!(is_cut_off(&shop.namespace, rival.address(), 80));
    });
}

/// Prints what it took; the number of rules is what is held.
#[test]
fn two_hundred_endpoints_add_elements_and_no_rules() {
    on_a_host(|host| {
        let network = host.open();
        let rules = || {
            let all = run("nft -a list ruleset");
            all.lines()
                .filter(|line| line.contains(" # handle "))
                .count()
        };
        let projects: Vec<String> = (0..4).map(|n| format!("p{n}")).collect();
        let first: Vec<Pod> = projects.iter().map(|p| Pod::of(&network, p, p)).collect();
        let before = rules();
        let mut took = Vec::new();
        let pods: Vec<Pod> = (0..200)
            .map(|n| {
                let pod = Pod {
                    namespace: Namespace::new(),
                    endpoint: Endpoint {
                        name: format!("pod{n}"),
                        aliases: Vec::new(),
                        address: network.lease(None).unwrap(),
                        ports: Vec::new(),
                        owner: Owner::Project(projects[n % 4].clone()),
                    },
                };
                let start = Instant::now();
                network.attach(pod.namespace.fd(), &pod.endpoint).unwrap();
                took.push(start.elapsed());
                pod
            })
            .collect();
        assert_eq!(rules(), before, "rules do not grow with endpoints");
        took.sort();
        let start = Instant::now();
        network.set_projects(allowed(&[("p0", "p1")])).unwrap();
        println!(
            "attach: median {:?}, worst {:?}; another allowance: {:?}",
            took[took.len() / 2],
            took[took.len() - 1],
            start.elapsed()
        );
        let _server = serve_tcp(&pods[1].namespace, 80, "p1");
        assert!(ask_tcp(&pods[0].namespace, pods[1].address(), 80).is_ok());
        assert!(is_cut_off(&pods[2].namespace, pods[1].address(), 80));
        drop(first);
    });
}
