//! What goes from pod to pod, beside two bare namespaces with a cable between
//! them, and beside two on a bridge, which is what pods are on.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use strata_testkit::NetworkNamespace;
use strata_testkit::images::Image;
use strata_testkit::v1::ExecStart;

use crate::traffic::{PING, RECEIVE, SEND};
use crate::world::{PROGRAM, World, pod};
use crate::{Effort, Result};

const PORT: &str = "5201";
/// Where this program is in a pod.
const IN_POD: &str = "/bin/strata-bench";

#[derive(Default)]
struct Figures {
    bits: Vec<f64>,
    trips: Vec<f64>,
}

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let world = World::new(binary).await?;
    let to = receiver_pod(&world).await?;
    let bare = Bare::cable()?;
    let bridged = Bare::bridge()?;
    let seconds = effort.network_seconds.to_string();
    let pings = effort.pings.to_string();
    let mut all: [Figures; 3] = Default::default();
    for _ in 0..effort.network_rounds {
        let asks = [(SEND, &seconds), (PING, &pings)];
        for (what, much) in asks {
            let figures = [
                in_pod(&world, &[IN_POD, what, &to, much]).await?,
                bare.ask(what, much)?,
                bridged.ask(what, much)?,
            ];
            for (known, figure) in all.iter_mut().zip(figures) {
                match what {
                    SEND => known.bits.push(figure),
                    _ => known.trips.push(figure),
                }
            }
        }
    }
    let rows = [
        "strata: pod to pod",
        "two namespaces on a veth",
        "two namespaces on a bridge",
    ];
    println!("| what | throughput | round trip |\n|---|---|---|");
    for (row, figures) in rows.iter().zip(&all) {
        let (bits, trip) = figures.best();
        println!(
            "| {row} | {:.2} Gbit/s | {:.1} µs |",
            bits / 1e9,
            trip / 1e3
        );
    }
    println!();
    let [pods, veth, bridge] = all.map(|figures| figures.best());
    for (name, other, aim) in [("veth", veth, "1.1"), ("bridge", bridge, "-")] {
        let (through, trip) = (other.0 / pods.0, pods.1 / other.1);
        println!("time for the same bytes, pods / {name}: {through:.2} (aim {aim})");
        println!("round trip, pods / {name}: {trip:.2} (aim {aim})");
    }
    Ok(())
}

impl Figures {
    /// The best of the rounds: whatever else the machine does only takes
    /// away, and a round trip that changes processors is another thing.
    fn best(&self) -> (f64, f64) {
        let bits = self.bits.iter().copied().fold(0.0, f64::max);
        let trip = self.trips.iter().copied().fold(f64::INFINITY, f64::min);
        (bits, trip)
    }
}

/// Two pods with this program in them; the address of the one that receives.
async fn receiver_pod(world: &World) -> Result<String> {
    let own = fs::read(std::env::current_exe()?)?;
    let image = Image::busybox()
        .layer()
        .program(IN_POD.trim_start_matches('/'), &own)
        .write_layout(&world.layout("traffic"), "latest");
    world.pull(&image).await?;
    let sender = pod("sender", &image, &[PROGRAM, "sleep", "100000"]);
    world.node.run_pod(sender).await?;
    let receiver = pod("receiver", &image, &[IN_POD, RECEIVE, PORT]);
    let receiver = world.node.run_pod(receiver).await?;
    Ok(format!("{}:{PORT}", receiver.address))
}

async fn in_pod(world: &World, words: &[&str]) -> Result<f64> {
    let start = ExecStart {
        pod: "sender".into(),
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        ..ExecStart::default()
    };
    let done = world.node.exec(start).await?;
    match done.stdout.trim().parse() {
        Ok(figure) => Ok(figure),
        Err(_) => Err(format!("{words:?}: {done:?}").into()),
    }
}

/// Two namespaces without anything of ours, and a receiver in one.
struct Bare {
    sender: NetworkNamespace,
    _receiver_namespace: NetworkNamespace,
    _bridge: Option<NetworkNamespace>,
    receiver: Child,
}

impl Bare {
    fn cable() -> Result<Self> {
        let (one, two) = (NetworkNamespace::new(), NetworkNamespace::new());
        let pid = holder(&two)?;
        one.run(words(&format!(
            "ip link add eth0 type veth peer name eth0 netns {pid}"
        )));
        Self::with(one, two, None)
    }

    fn bridge() -> Result<Self> {
        let (one, two) = (NetworkNamespace::new(), NetworkNamespace::new());
        let middle = NetworkNamespace::new();
        middle.run(words("ip link add br0 type bridge"));
        middle.run(words("ip link set br0 up"));
        for (name, end) in [("port1", &one), ("port2", &two)] {
            let pid = holder(end)?;
            middle.run(words(&format!(
                "ip link add {name} type veth peer name eth0 netns {pid}"
            )));
            middle.run(words(&format!("ip link set {name} master br0 up")));
        }
        Self::with(one, two, Some(middle))
    }

    fn with(
        one: NetworkNamespace,
        two: NetworkNamespace,
        bridge: Option<NetworkNamespace>,
    ) -> Result<Self> {
        for (namespace, address) in [(&one, "10.0.0.1/24"), (&two, "10.0.0.2/24")] {
            namespace.run(["ip", "addr", "add", address, "dev", "eth0"]);
            namespace.run(["ip", "link", "set", "eth0", "up"]);
        }
        let own = std::env::current_exe()?;
        let receiver = two
            .command([&*own.to_string_lossy(), RECEIVE, PORT])
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            sender: one,
            _receiver_namespace: two,
            _bridge: bridge,
            receiver,
        })
    }

    fn ask(&self, what: &str, much: &str) -> Result<f64> {
        let own = std::env::current_exe()?;
        let address = format!("10.0.0.2:{PORT}");
        let said = self
            .sender
            .run([&*own.to_string_lossy(), what, &address, much]);
        Ok(said.trim().parse()?)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.receiver.kill();
        let _ = self.receiver.wait();
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace()
}

/// The process that holds a namespace: `/proc/PID/ns/net`.
fn holder(namespace: &NetworkNamespace) -> Result<String> {
    let path = namespace.path();
    let mut parts = path.iter().skip(2);
    let pid = parts.next().and_then(|pid| pid.to_str());
    Ok(pid.ok_or("a namespace without a process")?.to_owned())
}
