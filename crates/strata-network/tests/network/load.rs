//! Many at once.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use crate::world::{
    Namespace, Pod, ask_tcp, assert_as_before, on_a_host, published, run, serve_tcp, settled,
    wait_until,
};
use strata_network::{Endpoint, Protocol};

#[test]
fn two_hundred_pods_from_eight_threads() {
    on_a_host(|host| {
        let network = host.open();
        let warm = Pod::attach(&network, "warm", &[]);
        network.detach(&warm.endpoint).unwrap();
        network.release(warm.address());
        // The kernel shows an interface for a while that it already removes.
        wait_until("the interface of the pod to go", || {
            run("ip -o link show master st-t1-br").is_empty()
        });
        let before = settled();
        let pods = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..8u16 {
                let (network, pods) = (&network, &pods);
                scope.spawn(move || {
                    for number in 0..25u16 {
                        let port = 10_000 + thread * 100 + number;
                        let ports = [published(port, 80, Protocol::Tcp)];
                        let pod = Pod::attach(network, &format!("p{port}"), &ports);
                        pods.lock().unwrap().push(pod);
                    }
                });
            }
        });
        let pods = pods.into_inner().unwrap();
        let addresses: BTreeSet<_> = pods.iter().map(Pod::address).collect();
        assert_eq!(addresses.len(), 200);
        for pair in pods.chunks(2).step_by(7) {
            let _server = serve_tcp(&pair[1].namespace, 80, "it");
            let said = ask_tcp(&pair[0].namespace, pair[1].address(), 80).unwrap();
            assert_eq!(said, format!("it {}", pair[0].address()));
            let port = pair[1].endpoint.ports[0].host_port;
            assert!(ask_tcp(&host.namespace, std::net::Ipv4Addr::LOCALHOST, port).is_ok());
        }
        assert_eq!(run("ip -o link show master st-t1-br").lines().count(), 200);
        std::thread::scope(|scope| {
            for some in pods.chunks(25) {
                let network = &network;
                scope.spawn(move || {
                    for pod in some {
                        network.detach(&pod.endpoint).unwrap();
                        network.release(pod.address());
                    }
                });
            }
        });
        network.settle();
        assert_as_before(&before);
    });
}

/// Not a test of speed, which depends on the machine: it prints what it took.
#[test]
fn attach_duration_is_bounded() {
    on_a_host(|host| {
        let network = host.open();
        for with_port in [false, true] {
            let endpoints: Vec<Endpoint> = (0..100)
                .map(|number| Endpoint {
                    name: format!("pod{number}"),
                    aliases: Vec::new(),
                    address: network.lease(None).unwrap(),
                    ports: with_port
                        .then(|| published(10_000 + number, 80, Protocol::Tcp))
                        .into_iter()
                        .collect(),
                    owner: Default::default(),
                })
                .collect();
            let namespaces: Vec<Namespace> = (0..100).map(|_| Namespace::new()).collect();
            let mut attach = Vec::new();
            for (endpoint, namespace) in endpoints.iter().zip(&namespaces) {
                let start = Instant::now();
                network.attach(namespace.fd(), endpoint).unwrap();
                attach.push(start.elapsed());
            }
            let mut detach = Vec::new();
            for endpoint in &endpoints {
                let start = Instant::now();
                network.detach(endpoint).unwrap();
                detach.push(start.elapsed());
                network.release(endpoint.address);
            }
            let start = Instant::now();
            network.settle();
            let settled = start.elapsed();
            attach.sort();
            detach.sort();
            println!(
                "port: {with_port}: attach {:?} (p90 {:?}), detach {:?} (p90 {:?}), settle {settled:?}",
                attach[50], attach[90], detach[50], detach[90]
            );
        }
    });
}
