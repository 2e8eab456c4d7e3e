//! Names, queried as a pod does: packets to port 53 of the gateway.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::world::{Host, Namespace, Pod, TEST_TIMEOUT, on_a_host, published, wait_until};
use strata_network::{Network, Protocol};
use tokio_util::sync::CancellationToken;

const A: u16 = 1;
const PTR: u16 = 12;
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// A question, byte by byte.
pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

fn ask_over_udp(from: &Namespace, to: Ipv4Addr, question: &[u8]) -> Vec<u8> {
    from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket.connect((to, 53)).unwrap();
        socket.send(question).unwrap();
        let mut buffer = vec![0; 2048];
        let length = socket.recv(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    })
}

fn ask_over_tcp(from: &Namespace, to: Ipv4Addr, question: &[u8]) -> Vec<u8> {
    from.run(|| {
        let address = SocketAddr::from((to, 53));
        let mut stream = TcpStream::connect_timeout(&address, TEST_TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let length = (question.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], question].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).unwrap();
        answer
    })
}

fn code(answer: &[u8]) -> u8 {
    answer[3] & 0xf
}

/// Serves names while something is done.
pub(crate) fn while_serving(network: &Network, work: impl FnOnce()) {
    let stop = CancellationToken::new();
    std::thread::scope(|scope| {
        let _stop = stop.clone().drop_guard();
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(network.serve_names(stop.clone())).unwrap();
        });
        work();
    });
}

fn open_with_upstream(host: &Host, upstream: SocketAddr) -> Network {
    let mut config = host.config("10.42.0.0/24");
    config.dns_upstreams = vec![upstream];
    let network = Network::open(config).unwrap();
    network.restore(&[]).unwrap();
    network
}

#[test]
fn pods_find_each_other_by_name() {
    on_a_host(|host| {
        let network = host.open();
        let web = Pod::attach(&network, "web", &[]);
        let client = Pod::attach(&network, "asker", &[]);
        let gateway = network.gateway();
        while_serving(&network, || {
            for name in ["web", "WEB.strata.INTERNAL"] {
                let question = question(name, A);
                let answer = ask_over_udp(&client.namespace, gateway, &question);
                assert_eq!((code(&answer), answer[7]), (NO_ERROR, 1), "{name}");
                assert!(answer.ends_with(&web.address().octets()));
                assert_eq!(answer[..2], question[..2]);
                let over_tcp = ask_over_tcp(&client.namespace, gateway, &question);
                assert_eq!(over_tcp, answer);
                assert_eq!(ask_over_udp(&host.namespace, gateway, &question), answer);
            }
            let reverse = question("2.0.42.10.in-addr.arpa", PTR);
            let answer = ask_over_udp(&client.namespace, gateway, &reverse);
            assert!(answer.windows(4).any(|w| w == b"\x03web"));
            let unknown = question("nobody.strata.internal", A);
            let answer = ask_over_udp(&client.namespace, gateway, &unknown);
            assert_eq!(code(&answer), NO_SUCH_NAME);
            network.detach(&web.endpoint).unwrap();
            let gone = question("web.strata.internal", A);
            let answer = ask_over_udp(&client.namespace, gateway, &gone);
            assert_eq!(code(&answer), NO_SUCH_NAME);
        });
    });
}

#[test]
fn a_server_of_the_host_on_the_same_port_is_no_hindrance() {
    on_a_host(|host| {
        let _udp = UdpSocket::bind("0.0.0.0:53").unwrap();
        let network = host.open();
        let web = Pod::attach(&network, "web", &[]);
        while_serving(&network, || {
            let answer = ask_over_udp(&web.namespace, network.gateway(), &question("web", A));
            assert!(answer.ends_with(&web.address().octets()));
        });
    });
}

#[test]
fn a_pod_may_publish_the_port_of_names() {
    on_a_host(|host| {
        let network = host.open();
        let ports = [
            published(53, 53, Protocol::Udp),
            published(53, 53, Protocol::Tcp),
        ];
        let pod = Pod::attach(&network, "dns", &ports);
        while_serving(&network, || {
            let answer = ask_over_udp(&pod.namespace, network.gateway(), &question("dns", A));
            assert!(answer.ends_with(&pod.address().octets()));
        });
    });
}

#[test]
fn hostile_packets_do_no_harm() {
    on_a_host(|host| {
        let network = host.open();
        let pod = Pod::attach(&network, "pod", &[]);
        while_serving(&network, || {
            pod.namespace.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect((network.gateway(), 53)).unwrap();
                let mut loops = question("pod", A);
                // A name that points at itself.
                loops.splice(12.., [0xc0, 12, 0, 1, 0, 1]);
                let mut answer = question("pod", A);
                answer[2] |= 0x80;
                for packet in [&b""[..], b"x", &[0xff; 600], &loops, &answer] {
                    socket.send(packet).unwrap();
                }
            });
            let answer = ask_over_udp(&pod.namespace, network.gateway(), &question("pod", A));
            assert!(answer.ends_with(&pod.address().octets()));
        });
    });
}

#[test]
fn other_names_are_asked_of_others() {
    on_a_host(|host| {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let upstream = udp.local_addr().unwrap();
        let tcp = TcpListener::bind(upstream).unwrap();
        let network = open_with_upstream(host, upstream);
        let pod = Pod::attach(&network, "pod", &[]);
        let answer_to = |question: &[u8]| {
            let mut answer = question.to_vec();
            answer[2] |= 0x80;
            answer[7] = 1;
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 203, 0, 113, 5]);
            answer
        };
        let asked = question("example.org", A);
        while_serving(&network, || {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut buffer = [0; 512];
                    let (length, from) = udp.recv_from(&mut buffer).unwrap();
                    // A forged answer to another question comes first.
                    let forged = answer_to(&question("example.com", A));
                    udp.send_to(&forged, from).unwrap();
                    udp.send_to(&answer_to(&buffer[..length]), from).unwrap();
                });
                let answer = ask_over_udp(&pod.namespace, network.gateway(), &asked);
                assert_eq!(answer, answer_to(&asked));
            });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = tcp.accept().unwrap();
                    let mut buffer = vec![0; 2 + asked.len()];
                    stream.read_exact(&mut buffer).unwrap();
                    let answer = answer_to(&buffer[2..]);
                    let length = (answer.len() as u16).to_be_bytes();
                    stream.write_all(&[&length[..], &answer].concat()).unwrap();
                });
                let answer = ask_over_tcp(&pod.namespace, network.gateway(), &asked);
                assert_eq!(answer, answer_to(&asked));
            });
        });
    });
}

#[test]
fn name_unknown_upstream_is_answered_with_an_error() {
    on_a_host(|host| {
        // No process listens there, and the kernel reports it at once.
        let network = open_with_upstream(host, "127.0.0.1:9".parse().unwrap());
        let pod = Pod::attach(&network, "pod", &[]);
        while_serving(&network, || {
            let asked = question("example.org", A);
            let answer = ask_over_udp(&pod.namespace, network.gateway(), &asked);
            assert_eq!(code(&answer), SERVER_FAILURE);
        });
    });
}

/// A pod that keeps connections open and never ceases to query names that
/// nothing answers leaves room for the others.
#[test]
fn pod_that_takes_all_it_can_get_leaves_room_for_others() {
    on_a_host(|host| {
        let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
        upstream.set_read_timeout(Some(REPEAT)).unwrap();
        let network = open_with_upstream(host, upstream.local_addr().unwrap());
        let greedy = Pod::attach(&network, "greedy", &[]);
        let other = Pod::attach(&network, "other", &[]);
        let gateway = network.gateway();
        while_serving(&network, || {
            let _silent: Vec<TcpStream> = greedy.namespace.run(|| {
                let address = SocketAddr::from((gateway, 53));
                let open = |_| TcpStream::connect_timeout(&address, TEST_TIMEOUT).unwrap();
                (0..100).map(open).collect()
            });
            let own = question("greedy", A);
            let answer = ask_over_tcp(&other.namespace, gateway, &own);
            assert_eq!(code(&answer), NO_ERROR);
            let asked = question("example.org", A);
            let done = AtomicBool::new(false);
            let (sent, passed_on) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    greedy.namespace.run(|| {
                        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                        socket.connect((gateway, 53)).unwrap();
                        // More than are passed on at once, from then on.
                        while !done.load(Ordering::Relaxed) {
                            let number = sent.fetch_add(1, Ordering::Relaxed);
                            let name = format!("n{number}.example.com");
                            let _ = socket.send(&question(&name, A));
                            if number % 100 == 99 {
                                std::thread::sleep(Duration::from_millis(10));
                            }
                        }
                    });
                });
                // Answers what the other one asks, and nothing else.
                scope.spawn(|| {
                    let mut buffer = [0; 512];
                    while !done.load(Ordering::Relaxed) {
                        let Ok((length, from)) = upstream.recv_from(&mut buffer) else {
                            continue;
                        };
                        if buffer[..length].ends_with(&asked[12..]) {
                            buffer[2] |= 0x80;
                            upstream.send_to(&buffer[..length], from).unwrap();
                        } else {
                            passed_on.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
                let _done = SetOnDrop(&done);
                wait_until("the pod has asked often", || {
                    sent.load(Ordering::Relaxed) > 400
                });
                let answer = ask_until_answered(&other.namespace, gateway, &asked);
                assert_eq!(answer[..2], asked[..2]);
                assert_eq!(code(&answer), NO_ERROR);
                assert!(
                    passed_on.load(Ordering::Relaxed) > 0,
                    "the pod was not greedy"
                );
            });
        });
    });
}

/// How long a resolver waits before it repeats a query.
const REPEAT: Duration = Duration::from_millis(250);

/// Repeats a query as resolvers do: a packet may be lost on a busy host.
fn ask_until_answered(from: &Namespace, to: Ipv4Addr, question: &[u8]) -> Vec<u8> {
    from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(REPEAT)).unwrap();
        socket.connect((to, 53)).unwrap();
        let mut buffer = vec![0; 2048];
        let end = Instant::now() + TEST_TIMEOUT;
        while Instant::now() < end {
            socket.send(question).unwrap();
            if let Ok(length) = socket.recv(&mut buffer) {
                buffer.truncate(length);
                return buffer;
            }
        }
        panic!("no answer within {TEST_TIMEOUT:?}");
    })
}

/// Ends the threads of a test that panics too.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
