//! Clusters as the product makes them, by the command line, with machines
//! inside the machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use strata_testkit::{Daemon, NetworkNamespace};

use super::bundles::{Bundle, Bundles};
use crate::Result;

/// How long anything of a cluster may take on a busy machine.
const TIMEOUT: &str = "900";
/// Two clusters of two, and one more.
const MACHINES: u32 = 5;

/// A control plane, its machines, and a network of their own.
pub(crate) struct World {
    pub(crate) daemon: Daemon,
    pub(crate) network: NetworkNamespace,
    pub(crate) binary: PathBuf,
}

impl World {
    pub(crate) async fn start(binary: &Path, bundles: &Bundles) -> Self {
        let network = NetworkNamespace::new();
        let config = format!(
            "[machines]\nlocal = {MACHINES}\n[images]\nhigh_water = 100\n\
             [clusters]\nbundles = {:?}\n",
            bundles.dir
        );
        let daemon = Daemon::build(binary)
            .config(&config)
            .within(&network)
            .start()
            .await;
        Self {
            daemon,
            network,
            binary: binary.to_owned(),
        }
    }

    /// Something of the command line, until it has been done; how long it took.
    pub(crate) fn done(&self, words: &str) -> Result<Duration> {
        let begin = Instant::now();
        self.cli(words)?;
        Ok(begin.elapsed())
    }

    /// What the command line prints.
    pub(crate) fn cli(&self, words: &str) -> Result<String> {
        let mut command = self.within(&self.binary);
        command
            .args(words.split(' '))
            .env("STRATA_DATA_DIR", self.daemon.data_dir());
        finish(command)
    }

    /// Makes a cluster of one and one.
    pub(crate) fn create(&self, name: &str, bundle: &Bundle) -> Result<Created> {
        let begin = Instant::now();
        let version = bundle.version();
        let id = self.cli(&format!(
            "cluster create {name} --version {version} --workers 1 --detach"
        ))?;
        let id = id.trim();
        self.cli(&format!("operation wait {id}"))?;
        let completed = begin.elapsed();
        self.ready(name, 2, bundle)?;
        Ok(Created {
            ready: begin.elapsed(),
            completed,
            steps: steps(&self.cli(&format!("operation log {id} -o json"))?),
        })
    }

    /// Waits until kubectl sees so many nodes, all of them ready.
    pub(crate) fn ready(&self, name: &str, count: usize, bundle: &Bundle) -> Result {
        let file = self.daemon.scratch().join(format!("{name}.kubeconfig"));
        let path = file.display();
        self.cli(&format!("cluster kubeconfig {name} --output {path}"))?;
        let mut command = self.within(&bundle.program("kubectl"));
        command.arg("--kubeconfig").arg(&file);
        command.args(["wait", "--for=condition=Ready", "nodes", "--all"]);
        let told = finish(command)?;
        match told.lines().count() {
            seen if seen == count => Ok(()),
            _ => Err(format!("{count} nodes were to be ready: {told}").into()),
        }
    }

    /// A program in the network of this world, with an end.
    pub(crate) fn within(&self, program: &Path) -> Command {
        let mut command = self.network.command(["timeout", TIMEOUT]);
        command.arg(program);
        command
    }
}

/// How long a new cluster took.
pub(crate) struct Created {
    /// Until kubectl saw both nodes ready.
    pub(crate) ready: Duration,
    /// Until the operation was completed.
    pub(crate) completed: Duration,
    /// The steps of the operation, in their order.
    pub(crate) steps: Vec<(String, Duration)>,
}

/// How long each step took, from the log of its operation.
fn steps(log: &str) -> Vec<(String, Duration)> {
    let lines = log.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let at = seconds(line["at"].as_str()?)?;
        let step = line["step"].as_str()?.to_owned();
        Some((step, at, line["text"].as_str()?.to_owned()))
    });
    let (mut begun, mut done) = (Vec::new(), Vec::new());
    for (step, at, text) in lines {
        match text.as_str() {
            "begins" => begun.push((step, at)),
            "done" => {
                let place = begun.iter().position(|(name, _)| *name == step);
                if let Some((step, begin)) = place.map(|place| begun.remove(place)) {
                    let took = (at - begin).max(0.0);
                    done.push((step, Duration::from_secs_f64(took)));
                }
            }
            _ => {}
        }
    }
    done
}

/// Of the day: all there is to subtract, except at midnight.
fn seconds(at: &str) -> Option<f64> {
    let (_, time) = at.strip_suffix('Z')?.split_once('T')?;
    let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
    parts.try_fold(0.0, |sum, part| Some(sum * 60.0 + part?))
}

/// Runs a command to its end, which must be good; what it printed.
pub(crate) fn finish(mut command: Command) -> Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {told}", output.status).into())
}
