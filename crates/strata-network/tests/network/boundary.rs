//! What pods reach of the host, of the overlay, and of the cloud around it.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use crate::world::{
    Host, Pod, ask_tcp, ask_udp, is_cut_off, on_a_host, run, serve_tcp, serve_udp, wait_until,
};
use strata_network::{Network, Owner, Peer};

/// A frame of the overlay that carries a datagram from one address to another:
/// what a pod would have to send to pass for an endpoint of another node.
fn injected(vni: u32, mac: [u8; 6], from: Ipv4Addr, to: Ipv4Addr, port: u16) -> Vec<u8> {
    let payload = b"spoofed";
    let length = (8 + payload.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend((20 + length).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    let sum: u32 = ip
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut all = vec![0x08, 0, 0, 0];
    all.extend(&vni.to_be_bytes()[1..]);
    all.push(0);
    all.extend(mac);
    all.extend([6, b's', 10, 42, 9, 0, 0x08, 0x00]);
    all.extend(ip);
    all.extend(4000u16.to_be_bytes());
    all.extend(port.to_be_bytes());
    all.extend(length.to_be_bytes());
    all.extend([0, 0]);
    all.extend(payload);
    all
}

fn with_a_peer(host: &Host) -> Network {
    let network = host.open();
    let peer = Peer::new("10.42.9.0/24".parse().unwrap(), Ipv4Addr::new(192, 0, 2, 9));
    network.set_peers(&[peer]).unwrap();
    network
}

#[test]
fn a_pod_cannot_inject_into_the_overlay_of_its_host() {
    on_a_host(|host| {
        let _there = host.neighbour("up0", 9);
        let network = with_a_peer(host);
        let attacker = Pod::attach(&network, "attacker", &[]);
        let victim = Pod::attach(&network, "victim", &[]);
        let heard = victim
            .namespace
            .run(|| UdpSocket::bind("0.0.0.0:9").unwrap());
        let timeout = Some(Duration::from_millis(400));
        heard.set_read_timeout(timeout).unwrap();
        let vni = u32::from_be_bytes([0, 10, 42, 0]);
        let mac = [6, b's', 10, 42, 0, 0];
        let from = Ipv4Addr::new(10, 42, 9, 77);
        let frame = injected(vni, mac, from, victim.address(), 9);
        let attack = || {
            attacker.namespace.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                for _ in 0..3 {
                    let _ = socket.send_to(&frame, (network.gateway(), 4789));
                }
            });
            heard.recv(&mut [0; 64]).is_ok()
        };
        assert!(!attack());
        // The attack is a real one: without the rules it gets through.
        run("nft flush chain inet strata-t1 arriving");
        run("nft flush chain inet strata-t1 host");
        assert!(attack());
    });
}

#[test]
fn a_pod_cannot_send_overlay_packets_to_other_nodes_and_a_machine_can() {
    on_a_host(|host| {
        let there = host.neighbour("up0", 9);
        let network = with_a_peer(host);
        let pod = Pod::attach(&network, "pod", &[]);
        let machine = Pod::attach_as(&network, "machine", &[], Owner::Machine);
        let to = Ipv4Addr::new(192, 0, 2, 9);
        let _plain = serve_udp(&there, 4000, "there");
        assert!(ask_udp(&pod.namespace, to, 4000).is_ok());
        for port in [4789, 8472] {
            let _server = serve_udp(&there, port, "there");
            assert!(ask_udp(&machine.namespace, to, port).is_ok(), "{port}");
            let answer = pod.namespace.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                let timeout = Some(Duration::from_millis(300));
                socket.set_read_timeout(timeout).unwrap();
                let _ = socket.send_to(b"?", (to, port));
                socket.recv(&mut [0; 64])
            });
            assert!(answer.is_err(), "{port}");
        }
    });
}

#[test]
fn of_the_host_a_pod_reaches_what_the_configuration_allows() {
    on_a_host(|host| {
        let _there = host.neighbour("up0", 9);
        let mut config = host.config("10.42.0.0/24");
        config.host_ports = vec![5000];
        let network = Network::open(config).unwrap();
        network.restore(&[]).unwrap();
        let pod = Pod::attach(&network, "pod", &[]);
        let machine = Pod::attach_as(&network, "machine", &[], Owner::Machine);
        let _open = serve_tcp(&host.namespace, 5000, "host");
        let _door = serve_tcp(&host.namespace, 7700, "host");
        let gateway6: std::net::Ipv6Addr = "fd73:7472:a2a::1".parse().unwrap();
        let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
        for to in [network.gateway(), elsewhere] {
            assert!(ask_tcp(&pod.namespace, to, 5000).is_ok(), "{to}");
            assert!(is_cut_off(&pod.namespace, to, 7700), "{to}");
            assert!(ask_tcp(&machine.namespace, to, 7700).is_ok(), "{to}");
        }
        assert!(is_cut_off(&pod.namespace, gateway6, 7700));
        assert!(ask_tcp(&machine.namespace, gateway6, 7700).is_ok());
        // The other way round it stays open.
        let _server = serve_tcp(&pod.namespace, 80, "pod");
        assert!(ask_tcp(&host.namespace, pod.address(), 80).is_ok());
    });
}

#[test]
fn cloud_metadata_is_blocked_for_pods_by_default() {
    let services: [IpAddr; 8] = [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.169.123",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    ]
    .map(|address| address.parse().unwrap());
    for allowed in [false, true] {
        on_a_host(|host| {
            let there = host.neighbour("up0", 9);
            run("ip addr add fd00:9::1/64 dev up0 nodad");
            there.run(|| {
                run("ip addr add fd00:9::9/64 dev eth0 nodad");
                for service in services {
                    run(&format!("ip addr add {service} dev lo"));
                }
            });
            for service in services {
                let way = if service.is_ipv4() {
                    "192.0.2.9"
                } else {
                    "fd00:9::9"
                };
                run(&format!("ip route add {service} via {way}"));
            }
            let mut config = host.config("10.42.0.0/24");
            config.metadata = allowed;
            let network = Network::open(config).unwrap();
            network.restore(&[]).unwrap();
            let pod = Pod::attach(&network, "pod", &[]);
            let _server = serve_tcp(&there, 80, "metadata");
            for to in services {
                let reached = || ask_tcp(&host.namespace, to, 80).is_ok();
                wait_until("the host reaches the service", reached);
                // Not every kernel forwards IPv6 for single interfaces.
                if !allowed || to.is_ipv4() {
                    assert_eq!(is_cut_off(&pod.namespace, to, 80), !allowed, "{to}");
                }
            }
        });
    }
}

/// Without a route to its node it would take the way out of the host, in the
/// clear.
#[test]
fn packets_for_an_unreachable_node_do_not_leave_by_the_uplink() {
    on_a_host(|host| {
        let there = host.neighbour("up0", 9);
        run("ip route add default via 192.0.2.9");
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        let (world, node) = (Ipv4Addr::new(198, 51, 100, 7), Ipv4Addr::new(10, 42, 77, 7));
        let heard = there.run(|| {
            for address in [world, node] {
                run(&format!("ip addr add {address}/32 dev lo"));
            }
            UdpSocket::bind("0.0.0.0:9").unwrap()
        });
        let timeout = Some(Duration::from_millis(400));
        heard.set_read_timeout(timeout).unwrap();
        let arrives = |to: Ipv4Addr| {
            pod.namespace.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                let _ = socket.send_to(b"?", (to, 9));
            });
            heard.recv(&mut [0; 64]).is_ok()
        };
        assert!(arrives(world));
        assert!(!arrives(node));
        // It is the rule that keeps it in.
        run("nft flush chain inet strata-t1 through");
        assert!(arrives(node));
    });
}
