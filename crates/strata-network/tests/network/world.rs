//! Hosts and pods as network namespaces, and the few things that are done in
//! them: listen, connect, look with the tools that people have.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use strata_network::{Endpoint, Network, NetworkConfig, Owner, Protocol, PublishedPort};
use tempfile::TempDir;

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Moves this thread into a new network namespace.
fn leave() {
    // SAFETY: only the network namespace is left behind; descriptors, memory
    // and everything else stay shared with the other threads.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
}

fn here() -> OwnedFd {
    std::fs::File::open("/proc/thread-self/ns/net")
        .unwrap()
        .into()
}

/// A network namespace that lives as long as this.
pub(crate) struct Namespace(OwnedFd);

impl Namespace {
    pub(crate) fn new() -> Self {
        let made = std::thread::spawn(|| {
            leave();
            here()
        });
        Self(made.join().unwrap())
    }

    /// That of this thread.
    pub(crate) fn current() -> Self {
        Self(here())
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Does something in it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.fd(), kind).unwrap();
                work()
            });
            there
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// A host: the namespace of the thread the test runs in.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) state: TempDir,
    thread: u32,
}

/// Runs a test on a host of its own.
pub(crate) fn on_a_host(test: impl FnOnce(&Host) + Send) {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            leave();
            run("ip link set lo up");
            test(&Host::here());
        });
        if let Err(panic) = done.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

impl Host {
    pub(crate) fn here() -> Self {
        Self {
            namespace: Namespace::current(),
            state: tempfile::tempdir().unwrap(),
            thread: rustix::thread::gettid().as_raw_nonzero().get() as u32,
        }
    }

    pub(crate) fn config(&self, subnet: &str) -> NetworkConfig {
        let (subnet, range) = (subnet.parse().unwrap(), "10.42.0.0/16".parse().unwrap());
        NetworkConfig::new("t1".parse().unwrap(), subnet, range, self.state.path())
    }

    pub(crate) fn open(&self) -> Network {
        let network = Network::open(self.config("10.42.0.0/24")).unwrap();
        network.restore(&[]).unwrap();
        network
    }

    /// Another machine, joined by a cable: it has `192.0.2.<last>`, this host
    /// `192.0.2.1`. `name` is the interface here.
    pub(crate) fn neighbour(&self, name: &str, last: u8) -> Namespace {
        let other = Namespace::new();
        let thread = self.thread;
        other.run(|| {
            run("ip link set lo up");
            run(&format!(
                "ip link add eth0 type veth peer name {name} netns {thread}"
            ));
            run(&format!("ip addr add 192.0.2.{last}/24 dev eth0"));
            run("ip link set eth0 up");
        });
        run(&format!("ip addr replace 192.0.2.1/24 dev {name}"));
        run(&format!("ip link set {name} up"));
        other
    }
}

/// A pod that is attached.
pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) endpoint: Endpoint,
}

impl Pod {
    pub(crate) fn attach(network: &Network, name: &str, ports: &[PublishedPort]) -> Self {
        Self::attach_as(network, name, ports, Owner::Node)
    }

    /// One of a project.
    pub(crate) fn of(network: &Network, name: &str, project: &str) -> Self {
        Self::attach_as(network, name, &[], Owner::Project(project.into()))
    }

    pub(crate) fn attach_as(
        network: &Network,
        name: &str,
        ports: &[PublishedPort],
        owner: Owner,
    ) -> Self {
        let pod = Self {
            namespace: Namespace::new(),
            endpoint: Endpoint {
                name: name.into(),
                aliases: Vec::new(),
                address: network.lease(None).unwrap(),
                ports: ports.to_vec(),
                owner,
            },
        };
        network.attach(pod.namespace.fd(), &pod.endpoint).unwrap();
        pod
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.endpoint.address
    }
}

pub(crate) fn published(host_port: u16, port: u16, protocol: Protocol) -> PublishedPort {
    PublishedPort {
        host_ip: None,
        host_port,
        port,
        protocol,
    }
}

/// Answers every client with its name and the client's address, until dropped.
pub(crate) struct Server {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&*self.stop, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Listens on a TCP port, with IPv6 too where there is any.
pub(crate) fn serve_tcp(namespace: &Namespace, port: u16, name: &'static str) -> Server {
    // A tool that is being started has copies of all sockets for a moment.
    let mut bound = None;
    wait_until("the port is free", || {
        bound = namespace.run(|| TcpListener::bind(("::", port)).ok());
        bound.is_some()
    });
    let listener = bound.unwrap();
    let stop = Arc::new(OwnedFd::from(listener.try_clone().unwrap()));
    let thread = std::thread::spawn(move || {
        while let Ok((mut stream, from)) = listener.accept() {
            let _ = write!(stream, "{name} {}", from.ip().to_canonical());
        }
    });
    Server {
        stop,
        thread: Some(thread),
    }
}

/// Answers on a UDP port.
pub(crate) fn serve_udp(namespace: &Namespace, port: u16, name: &'static str) -> Server {
    let socket = namespace.run(|| UdpSocket::bind(("::", port)).unwrap());
    let stop = Arc::new(OwnedFd::from(socket.try_clone().unwrap()));
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 64];
        // A socket that is shut down reads nothing, forever.
        while let Ok((1.., from)) = socket.recv_from(&mut buffer) {
            let answer = format!("{name} {}", from.ip().to_canonical());
            let _ = socket.send_to(answer.as_bytes(), from);
        }
    });
    Server {
        stop,
        thread: Some(thread),
    }
}

/// Connects and reads what is sent.
pub(crate) fn ask_tcp(from: &Namespace, to: impl Into<IpAddr>, port: u16) -> io::Result<String> {
    let to = SocketAddr::new(to.into(), port);
    from.run(|| {
        let mut stream = TcpStream::connect_timeout(&to, TEST_TIMEOUT)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    })
}

/// Sends a packet and reads the answer.
pub(crate) fn ask_udp(from: &Namespace, to: impl Into<IpAddr>, port: u16) -> io::Result<String> {
    let to = SocketAddr::new(to.into(), port);
    from.run(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.set_read_timeout(Some(TEST_TIMEOUT))?;
        socket.connect(to)?;
        socket.send(b"?")?;
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    })
}

/// Whether nothing answers within a moment.
pub(crate) fn is_cut_off(from: &Namespace, to: impl Into<IpAddr>, port: u16) -> bool {
    let to = SocketAddr::new(to.into(), port);
    from.run(|| TcpStream::connect_timeout(&to, Duration::from_millis(300)).is_err())
}

/// Runs a tool and gives what it prints.
pub(crate) fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Everything of the host that the network could have changed, line by line.
pub(crate) fn picture() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for look in [
        "ip -o link",
        "ip -o addr",
        "ip route show table all",
        "ip -6 route show table all",
        "nft list ruleset",
    ] {
        let lines = run(look);
        // What the kernel does when it has the time: addresses it gives itself,
        // and whether the other end is up.
        let late = |line: &str| line.contains("fe80::") || line.starts_with("local fd73:");
        for line in lines.lines().filter(|line| !late(line)) {
            let words = line.split_whitespace().filter(|word| *word != "linkdown");
            let line = words.collect::<Vec<_>>().join(" ");
            let line = line.replace("NO-CARRIER,", "").replace(",LOWER_UP", "");
            let line = line.replace("state UP", "").replace("state DOWN", "");
            all.insert(format!("{look}: {line}"));
        }
    }
    for version in ["ipv4", "ipv6"] {
        let dir = format!("/proc/sys/net/{version}/conf");
        for interface in std::fs::read_dir(dir).unwrap().flatten() {
            for setting in std::fs::read_dir(interface.path()).unwrap().flatten() {
                let value = std::fs::read_to_string(setting.path()).unwrap_or_default();
                all.insert(format!("{} {}", setting.path().display(), value.trim()));
            }
        }
    }
    let forward = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
    all.insert(format!("ip_forward {forward}"));
    all
}

/// Waits until the host is as it was: the kernel takes its time with some
/// things, like addresses of IPv6 that it gives itself.
pub(crate) fn assert_as_before(before: &BTreeSet<String>) {
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let now = picture();
        let changes: Vec<_> = now.symmetric_difference(before).collect();
        if changes.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "changed: {changes:#?}");
    }
}

/// The same, once it stands still.
pub(crate) fn settled() -> BTreeSet<String> {
    wait_until("addresses are settled", || {
        let links = run("ip -o link");
        let uplinks = links.lines().filter(|line| line.contains(": up"));
        let ready = uplinks.clone().all(|line| line.contains("state UP"));
        ready && run("ip -6 addr").matches("fe80::").count() >= uplinks.count()
    });
    picture()
}

/// Waits until no process has a port of the host.
pub(crate) fn assert_port_is_free(port: u16) {
    wait_until("the port is free", || {
        TcpListener::bind(("0.0.0.0", port)).is_ok()
    });
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + TEST_TIMEOUT;
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

/// Nothing of br_netfilter: the rules for packets do not see what is switched.
pub(crate) fn without_bridge_netfilter() {
    for switch in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
        let path = format!("/proc/sys/net/bridge/{switch}");
        if std::path::Path::new(&path).exists() {
            std::fs::write(path, "0").unwrap();
        }
    }
}
