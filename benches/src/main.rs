//! What the product is measured by, beside its peers, in one run on one
//! machine: every figure that counts is a ratio.
//!
//! `strata-bench [--quick] [--only NAME,NAME] PATH-OF-STRATA`

mod backup;
mod bare;
mod big_image;
mod cluster;
mod cold;
mod containerd;
mod control;
mod control_memory;
mod create;
mod daemon;
mod effort;
mod floor;
mod hypervisor;
mod images;
mod instance;
mod logs;
mod memory;
mod network;
mod nodes;
mod parallel;
mod peers;
mod placement;
mod pods;
mod pool;
mod rest;
mod starts;
mod stats;
mod traffic;
mod usage;
mod veth;
mod vms;
mod world;

use std::path::{Path, PathBuf};

pub(crate) use effort::Effort;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What there is to measure, in the order it is measured in.
const BENCHES: [(&str, &str); 19] = [
    ("starts", "Starting"),
    ("logs", "Logs"),
    ("memory", "Memory"),
    ("pods", "Pods, warm"),
    ("parallel", "Pods at once"),
    ("cold", "Pods, cold"),
    ("images", "Images"),
    ("vms", "Virtual machines"),
    ("network", "Network"),
    ("placement", "Placement, in process"),
    ("create", "Creating instances, until they are scheduled"),
    ("nodes", "Nodes that tell their status"),
    ("rest", "REST"),
    ("instance", "Instances, until they run"),
    ("control-memory", "Memory of the control plane"),
    ("hypervisor", "Machines, until they take instances"),
    ("pool", "Storage pool"),
    ("backup", "Backups"),
    ("cluster", "Clusters"),
];

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // It also plays other parts: in the namespaces of peers and in pods.
    match words.as_slice() {
        [peers::INSIDE, rest @ ..] => return peers::inside(rest),
        [traffic::RECEIVE, port] => return traffic::receive(port),
        [traffic::SEND, address, seconds] => return traffic::send(address, seconds),
        [backup::OURS, work, dir] => return backup::ours(work, Path::new(dir)),
        [bare::BARE, dir] => return bare::serve(dir),
        [traffic::PING, address, times] => return traffic::ping(address, times),
        _ => {}
    }
    let asked = Arguments::parse(&words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(all(&asked))
}

/// The options of the command line.
struct Arguments {
    effort: Effort,
    only: Vec<String>,
    binary: PathBuf,
}

impl Arguments {
    fn parse(words: &[&str]) -> Result<Self> {
        let names: Vec<_> = BENCHES.iter().map(|(name, _)| *name).collect();
        let usage = format!(
            "usage: strata-bench [--quick] [--only NAME,NAME] STRATA\nnames: {}",
            names.join(" ")
        );
        let (mut effort, mut only, mut binary) = (Effort::full(), Vec::new(), None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => effort = Effort::quick(),
                "--only" => {
                    let list = words.next().ok_or(usage.as_str())?;
                    only.extend(list.split(',').map(str::to_owned));
                }
                path if binary.is_none() && !path.starts_with('-') => binary = Some(path.into()),
                _ => return Err(usage.into()),
            }
        }
        if only.iter().any(|name| !names.contains(&name.as_str())) {
            return Err(usage.into());
        }
        Ok(Self {
            effort,
            only,
            binary: binary.ok_or(usage)?,
        })
    }
}

#[allow(clippy::print_stdout)]
async fn all(asked: &Arguments) -> Result {
    for (name, title) in BENCHES {
        if asked.only.is_empty() || asked.only.iter().any(|only| only == name) {
            println!("# {title}\n");
            one(name, &asked.binary, asked.effort).await?;
            println!();
        }
    }
    Ok(())
}

async fn one(name: &str, binary: &Path, effort: Effort) -> Result {
    match name {
        "starts" => starts::run(binary, effort).await,
        "logs" => logs::run(binary, effort).await,
        "memory" => memory::run(binary, effort).await,
        "pods" => pods::run(binary, effort).await,
        "parallel" => parallel::run(binary, effort).await,
        "cold" => cold::run(binary, effort).await,
        "images" => images::run(binary, effort).await,
        "vms" => vms::run(binary, effort).await,
        "network" => network::run(binary, effort).await,
        "placement" => placement::run(effort),
        "create" => create::run(binary, effort).await,
        "nodes" => nodes::run(binary, effort).await,
        "rest" => rest::run(binary, effort).await,
        "instance" => instance::run(binary, effort).await,
        "control-memory" => control_memory::run(binary, effort).await,
        "hypervisor" => hypervisor::run(binary, effort).await,
        "pool" => pool::run(effort).await,
        "backup" => backup::run(effort),
        "cluster" => cluster::run(binary, effort).await,
        _ => Err(format!("nothing is called {name}").into()),
    }
}
