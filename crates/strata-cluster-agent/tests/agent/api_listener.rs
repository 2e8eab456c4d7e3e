//! The way to the API servers as an agent keeps it: from its file.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::machine::{Machine, TestSwitch};
use crate::world::{TEST_TIMEOUT, wait_until};

fn set(machine: &Machine, listen: u16, servers: &[u8]) {
    let mut config = machine.config(&[]);
    config.listen.set_port(listen);
    let server = |last: &u8| SocketAddr::from(([192, 0, 2, *last], 6443));
    config.servers = servers.iter().map(server).collect();
    machine.write_text(&serde_json::to_vec(&config).unwrap());
}

#[test]
fn servers_and_the_address_are_followed_live() {
    let cable = TestSwitch::new();
    let (one, two) = (cable.machine(1, &[]), cable.machine(2, &[]));
    let ask = |port| one.namespace.ask([127, 0, 0, 1], port).ok();
    let _outside = cable.outside.serve(6443);
    set(&one, 7443, &[100]);
    let from = Some("192.0.2.1".to_owned());
    wait_until("the first", || ask(7443) == from);
    let own = two.namespace.serve(6443);
    set(&one, 7443, &[2]);
    wait_until("the other", || ask(7443) == from);
    drop(own);
    set(&one, 7444, &[100, 2]);
    wait_until("another address", || ask(7444) == from);
    assert_eq!(ask(7443), None);
}

#[test]
fn vanished_server_is_noticed_by_waiting_clients() {
    let cable = TestSwitch::new();
    let one = cable.machine(1, &[]);
    set(&one, 7443, &[100]);
    let listener = cable
        .outside
        .run(|| std::net::TcpListener::bind("0.0.0.0:6443").unwrap());
    let mut stream = None;
    wait_until("a connection", || {
        stream = one
            .namespace
            .run(|| TcpStream::connect("127.0.0.1:7443").ok());
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    // Probes come to the same door; all are held.
    let held = [listener.accept().unwrap(), listener.accept().unwrap()];
    let begin = Instant::now();
    cable.outside.sh("ip link set eth0 down");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let ended = stream.read(&mut [0]);
    let took = begin.elapsed();
    assert!(
        matches!(&ended, Ok(0)) || ended.is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock)
    );
    assert!(took < Duration::from_secs(19), "{took:?}");
    drop(held);
}
