//! Addresses of pods and of VMs.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::mpsc;
use std::time::Duration;

use crate::world::{TEST_TIMEOUT, on_a_host, run, wait_until};
use strata_network::{Endpoint, Mac, Network};
use tokio_util::sync::CancellationToken;

#[test]
fn an_exhausted_subnet_says_so_and_recovers() {
    on_a_host(|host| {
        let network = Network::open(host.config("10.42.0.0/29")).unwrap();
        let all: Vec<Ipv4Addr> = (0..5).map(|_| network.lease(None).unwrap()).collect();
        let error = network.lease(None).unwrap_err().to_string();
        assert!(
            error.contains("10.42.0.0/29") && error.contains("all 5"),
            "{error}"
        );
        network.release(all[2]);
        assert_eq!(network.lease(None).unwrap(), all[2]);
    });
}

#[test]
fn tap_stays_on_the_bridge_while_its_file_is_open() {
    on_a_host(|host| {
        let network = host.open();
        let endpoint = Endpoint {
            name: "vm".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: Vec::new(),
            owner: Default::default(),
        };
        let tap = network.attach_tap(&endpoint).unwrap();
        assert!(run("ip link show st-t1-002").contains("master st-t1-br"));
        let tap_again = network.attach_tap(&endpoint).unwrap();
        drop(tap);
        network.settle();
        let ports = || run("ip -o link show master st-t1-br").lines().count();
        assert_eq!(ports(), 1);
        drop(tap_again);
        wait_until("it is gone", || ports() == 0);
        network.detach(&endpoint).unwrap();
    });
}

/// The sum that an IP header carries.
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A frame as the firmware of a VM sends it: a broadcast that requests an
/// address for this NIC.
fn discover(mac: Mac) -> Vec<u8> {
    let mut dhcp = vec![0; 240];
    dhcp[0..3].copy_from_slice(&[1, 1, 6]);
    dhcp[4..8].copy_from_slice(&[1, 2, 3, 4]);
    dhcp[28..34].copy_from_slice(&mac.0);
    dhcp[236..240].copy_from_slice(&[99, 130, 83, 99]);
    dhcp.extend([53, 1, 1, 255]);
    let mut udp = vec![0, 68, 0, 67];
    udp.extend((8 + dhcp.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(dhcp);
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp.len() as u16).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut frame = vec![0; 10]; // The header of virtio.
    frame.extend([0xff; 6]);
    frame.extend(mac.0);
    frame.extend([8, 0]);
    frame.extend(ip);
    frame.extend(udp);
    frame
}

#[test]
fn dhcp_answers_known_nics_and_ignores_unknown_ones() {
    on_a_host(|host| {
        let network = host.open();
        let endpoint = Endpoint {
            name: "vm".into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: Vec::new(),
            owner: Default::default(),
        };
        let mut tap = std::fs::File::from(network.attach_tap(&endpoint).unwrap());
        let stop = CancellationToken::new();
        std::thread::scope(|scope| {
            let (ready, is_ready) = mpsc::channel();
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.enable_all().build().unwrap();
                let ready = ready;
                runtime.block_on(async {
                    let serving = network.serve_leases(stop.clone());
                    let telling = async { ready.send(()).unwrap() };
                    // The first poll of the server opens its socket.
                    let (served, ()) = tokio::join!(biased; serving, telling);
                    served.unwrap();
                });
            });
            is_ready.recv_timeout(TEST_TIMEOUT).unwrap();
            let _stop = stop.clone().drop_guard();
            // As guests do: again, when no server answers.
            let ask = |tap: &mut std::fs::File| {
                tap.write_all(&discover(Mac([2, 9, 9, 9, 9, 9]))).unwrap();
                tap.write_all(&discover(endpoint.mac())).unwrap();
                read_reply(tap)
            };
            let reply = (0..20).find_map(|_| ask(&mut tap)).expect("an answer");
            // Ethernet 14, IP 20, UDP 8 after the header of virtio.
            let dhcp = &reply[10 + 42..];
            assert_eq!(dhcp[28..34], endpoint.mac().0, "the stranger was answered");
            assert_eq!(dhcp[4..8], [1, 2, 3, 4]);
            assert_eq!(dhcp[16..20], endpoint.address.octets());
        });
    });
}

/// The next frame that is from the server's port; none when none comes soon.
fn read_reply(tap: &mut std::fs::File) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4096];
    let timeout = Duration::from_secs(1).try_into().unwrap();
    loop {
        let mut ready = [rustix::event::PollFd::new(
            tap,
            rustix::event::PollFlags::IN,
        )];
        let count = rustix::event::poll(&mut ready, Some(&timeout)).unwrap();
        if count == 0 {
            return None;
        }
        let Ok(length) = tap.read(&mut frame) else {
            continue;
        };
        let is_ip = frame[10 + 12..10 + 14] == [8, 0];
        if is_ip && frame[10 + 34..10 + 36] == [0, 67] {
            frame.truncate(length);
            return Some(frame);
        }
    }
}
