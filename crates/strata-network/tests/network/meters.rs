//! What one pod takes of what the host has once for all.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::names::{question, while_serving};
use crate::world::{Pod, ask_tcp, on_a_host, serve_tcp, wait_until};
use strata_network::Network;

/// Queries that a pod may send at once.
const BURST: usize = 4000;

/// As many connections as can be made, up to `most`.
fn connect(pod: &Pod, to: SocketAddr, most: usize) -> Vec<TcpStream> {
    pod.namespace.run(|| {
        let mut open = Vec::new();
        while open.len() < most {
            match TcpStream::connect_timeout(&to, Duration::from_secs(2)) {
                Ok(stream) => open.push(stream),
                Err(_) => break,
            }
        }
        open
    })
}

#[test]
fn connections_of_one_pod_leave_room_in_the_table_of_the_host() {
    on_a_host(|host| {
        let there = host.neighbour("up0", 9);
        let mut config = host.config("10.42.0.0/24");
        config.connections = Some(40);
        config.host_ports = vec![5000];
        let network = Network::open(config).unwrap();
        network.restore(&[]).unwrap();
        let pod = Pod::attach(&network, "pod", &[]);
        let other = Pod::attach(&network, "other", &[]);
        // The kernel completes the handshakes of connections in the backlog.
        let held = there.run(|| TcpListener::bind("0.0.0.0:9").unwrap());
        let _server = serve_tcp(&there, 80, "there");
        let to = Ipv4Addr::new(192, 0, 2, 9);
        let open = connect(&pod, SocketAddr::from((to, 9)), 60);
        assert_eq!(open.len(), 40);
        // Nor to the host itself, where those count, too.
        let _open_host = host
            .namespace
            .run(|| TcpListener::bind("0.0.0.0:5000").unwrap());
        let gateway = SocketAddr::from((network.gateway(), 5000));
        assert_eq!(connect(&other, gateway, 3).len(), 3);
        let more = connect(&pod, gateway, 60);
        assert_eq!(more.len(), 0);
        assert!(ask_tcp(&other.namespace, to, 80).is_ok());
        // What is closed makes room again.
        drop((open, more, held));
        let _held = there.run(|| TcpListener::bind("0.0.0.0:9").unwrap());
        wait_until("connections can be made again", || {
            connect(&pod, SocketAddr::from((to, 9)), 1).len() == 1
        });
    });
}

/// Each within its own bound, many pods would fill the table together, and the
/// host could begin no connection.
#[test]
fn connections_of_all_pods_leave_room_in_the_table_of_the_host() {
    on_a_host(|host| {
        let there = host.neighbour("up0", 9);
        let mut config = host.config("10.42.0.0/24");
        config.connections = Some(200);
        config.all_connections = Some(640);
        // A backlog has 128 connections, so each pod has a port for itself.
        let ports = [5001, 5002, 5003, 5004, 5005, 5006];
        config.host_ports = ports.to_vec();
        let network = Network::open(config).unwrap();
        network.restore(&[]).unwrap();
        let bind = |port| TcpListener::bind(("0.0.0.0", port)).unwrap();
        let held = [&there, &host.namespace].map(|at| at.run(|| ports.map(bind)));
        let _server = serve_tcp(&there, 80, "there");
        let there_at = Ipv4Addr::new(192, 0, 2, 9);
        let pods = ports.map(|port| Pod::attach(&network, &format!("pod{port}"), &[]));
        let mut open: Vec<_> = Vec::new();
        for (n, (pod, port)) in pods.iter().zip(ports).enumerate() {
            // Through the host and to it: they count together.
            let to = if n % 2 == 0 {
                there_at
            } else {
                network.gateway()
            };
            open.extend(try_connect(pod, SocketAddr::from((to, port)), 125));
        }
        let many = open.len();
        // Groups are not equally full: an honest pod finds room before that.
        assert!((400..=640).contains(&many), "{many} of 640");
        assert!(ask_tcp(&host.namespace, there_at, 80).is_ok());
        drop((open, held));
        wait_until("connections can be made again", || {
            ask_tcp(&pods[5].namespace, there_at, 80).is_ok()
        });
    });
}

/// The connections that are made of so many attempts.
fn try_connect(pod: &Pod, to: SocketAddr, times: usize) -> Vec<TcpStream> {
    pod.namespace.run(|| {
        let wait = Duration::from_millis(50);
        let attempts = (0..times).map(|_| TcpStream::connect_timeout(&to, wait));
        attempts.filter_map(Result::ok).collect()
    })
}

#[test]
fn questions_of_one_pod_leave_room_in_the_queue_of_the_resolver() {
    on_a_host(|host| {
        let network = host.open();
        let flooder = Pod::attach(&network, "flooder", &[]);
        let other = Pod::attach(&network, "other", &[]);
        let query = question("other", 1);
        let resolver = (network.gateway(), 53);
        while_serving(&network, || {
            let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        flooder.namespace.run(|| {
                            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                            socket.connect(resolver).unwrap();
                            while !over.load(Ordering::Relaxed) {
                                let _ = socket.send(&query);
                                sent.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    });
                }
                wait_until("the flooder to have spent its burst", || {
                    sent.load(Ordering::Relaxed) > 2 * BURST
                });
                let answered = other.namespace.run(|| {
                    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                    socket.connect(resolver).unwrap();
                    socket
                        .set_read_timeout(Some(Duration::from_secs(1)))
                        .unwrap();
                    let ask = |_: &usize| {
                        socket.send(&query).is_ok() && socket.recv(&mut [0; 512]).is_ok()
                    };
                    (0..40).filter(ask).count()
                });
                over.store(true, Ordering::Relaxed);
                assert!(answered >= 36, "{answered} of 40");
            });
        });
    });
}

/// To other hosts a pod has the address of its node, which they allow only so
/// many handshakes.
#[test]
fn pods_leave_the_handshakes_of_their_node_to_it() {
    on_a_host(|host| {
        let there = host.neighbour("up0", 9);
        let network = host.open();
        let _api = serve_tcp(&there, 7700, "api");
        let _other = serve_tcp(&there, 80, "there");
        let to = |port: u16| SocketAddr::from((Ipv4Addr::new(192, 0, 2, 9), port));
        let begin = |pod: &Pod, to: SocketAddr, times: usize| {
            pod.namespace.run(|| {
                let wait = Duration::from_millis(100);
                let sockets = (0..times).map(|_| TcpStream::connect_timeout(&to, wait));
                sockets.filter(Result::is_ok).count()
            })
        };
        let pods: Vec<_> = (0..10)
            .map(|number| Pod::attach(&network, &format!("pod{number}"), &[]))
            .collect();
        let since = Instant::now();
        let of_one = begin(&pods[0], to(7700), 60);
        let most = 20 + 5 * (since.elapsed().as_secs() as usize + 2);
        assert!((15..=most).contains(&of_one), "{of_one} of at most {most}");
        // Others have their own share, and other ports have none.
        assert!(ask_tcp(&pods[1].namespace, to(7700).ip(), 7700).is_ok());
        assert!(begin(&pods[0], to(80), 60) > 50);
        // All together leave the node the rest.
        let others = pods[1..].iter();
        let of_all: usize = others.map(|pod| begin(pod, to(7700), 24)).sum();
        let most = 100 + 25 * (since.elapsed().as_secs() as usize + 2);
        assert!(of_one + of_all <= most, "{of_one} and {of_all} of {most}");
        assert!(ask_tcp(&host.namespace, to(7700).ip(), 7700).is_ok());
    });
}
