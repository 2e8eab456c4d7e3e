//! Completion in shells: commands and flags from the parser, names of what
//! there is from the node or the server. The shell waits for us at every tab,
//! so they get a moment only, and whoever does not answer is passed over in
//! silence.

use std::ffi::OsStr;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use strata_api::rest::{
    Backup, BackupSchedule, Cluster, Instance, KubernetesBundle, Machine, Node, Operation, Pool,
    PoolVolume, Project, Secret, Workload,
};
use strata_api::strata::v1::{
    CellInfo, ListCellsRequest, ListImagesRequest, ListMachinesRequest, ListPodsRequest,
    ListVmsRequest, ListVolumesRequest,
};
use strata_client::rest::{Query, Resource};
use strata_client::{Discovery, NodeClient, Places, ServerClient};

use crate::global::Global;

/// What a shell sets when it wants completions.
pub(crate) const COMPLETE_VARIABLE: &str = "STRATA_COMPLETE";
const REQUEST_TIMEOUT: Duration = Duration::from_millis(400);

/// Answers a shell that asks for completions, and ends the process; returns
/// when this is an ordinary run. Call it first thing in `main`, before any
/// runtime is started.
pub fn complete(parser: impl Fn() -> clap::Command) {
    CompleteEnv::with_factory(parser)
        .var(COMPLETE_VARIABLE)
        .complete();
}

/// Completes the names of cells.
pub(crate) fn cells() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let names = live_cells(&Line::of_process())
            .into_iter()
            .map(|cell| cell.name);
        candidates(names, current)
    })
}

/// Completes the names of the executables in the cell that the line names.
pub(crate) fn executables() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let line = Line::of_process();
        let names = live_cells(&line)
            .into_iter()
            .filter(|cell| line.words.contains(&cell.name))
            .flat_map(|cell| cell.executables)
            .map(|executable| executable.name);
        candidates(names, current)
    })
}

/// Completes the names of images.
pub(crate) fn images() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let names = live_images(&Line::of_process()).into_iter();
        candidates(names, current)
    })
}

/// Completes the names of pods.
pub(crate) fn pods() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let names = ask(&Line::of_process(), async |node| {
            let answer = node.pods().list(ListPodsRequest::default()).await.ok()?;
            let pods = answer.into_inner().pods.into_iter();
            Some(pods.filter_map(|pod| Some(pod.spec?.name)).collect())
        });
        candidates(Vec::into_iter(names), current)
    })
}

/// Completes the names of virtual machines.
pub(crate) fn vms() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let names = ask(&Line::of_process(), async |node| {
            let answer = node.vms().list(ListVmsRequest {}).await.ok()?;
            let vms = answer.into_inner().vms.into_iter();
            Some(vms.filter_map(|vm| Some(vm.spec?.name)).collect())
        });
        candidates(Vec::into_iter(names), current)
    })
}

/// Completes the names of volumes.
pub(crate) fn volumes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let names = ask(&Line::of_process(), async |node| {
            let answer = node.volumes().list(ListVolumesRequest {}).await.ok()?;
            let volumes = answer.into_inner().volumes.into_iter();
            Some(volumes.map(|volume| volume.name).collect())
        });
        candidates(Vec::into_iter(names), current)
    })
}

/// Completes the names of spawned machines.
pub(crate) fn machines() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let names = ask(&Line::of_process(), async |node| {
            let answer = node.spawn().list(ListMachinesRequest {}).await.ok()?;
            let machines = answer.into_inner().machines.into_iter();
            Some(machines.filter_map(|m| Some(m.spec?.name)).collect())
        });
        candidates(Vec::into_iter(names), current)
    })
}

/// Completes the names of instances.
pub(crate) fn instances() -> ArgValueCompleter {
    objects(|one: Instance| one.name, true)
}

/// Completes the names of workloads.
pub(crate) fn workloads() -> ArgValueCompleter {
    objects(|one: Workload| one.name, true)
}

/// Completes the names of nodes.
pub(crate) fn nodes() -> ArgValueCompleter {
    objects(|one: Node| one.name, false)
}

/// Completes the names of secrets.
pub(crate) fn secrets() -> ArgValueCompleter {
    objects(|one: Secret| one.name, true)
}

/// Completes the names of projects.
pub(crate) fn projects() -> ArgValueCompleter {
    objects(|one: Project| one.name, false)
}

/// Completes the ids of long actions.
pub(crate) fn operations() -> ArgValueCompleter {
    objects(|one: Operation| one.id, false)
}

/// Completes the ids of machines of the inventory.
pub(crate) fn inventory() -> ArgValueCompleter {
    objects(|one: Machine| one.id, false)
}

/// Completes the names of volumes of the pool.
pub(crate) fn pool_volumes() -> ArgValueCompleter {
    objects(|one: PoolVolume| one.name, false)
}

/// Completes the names of devices of the pool, which are told with it.
pub(crate) fn devices() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let discovery = Line::of_process().discovery();
        let pool: Option<Pool> = wait_for(async move {
            let target = discovery.server().ok()?;
            let server = ServerClient::connect(&target).await.ok()?;
            let pool = server.rest().get("", &Query::new()).await.ok()?;
            Some(pool.object)
        });
        let devices = pool.into_iter().flat_map(|pool| pool.devices);
        candidates(devices.map(|device| device.name), current)
    })
}

/// Completes the ids of backups.
pub(crate) fn backups() -> ArgValueCompleter {
    objects(|one: Backup| one.id, false)
}

/// Completes the names of schedules of backups.
pub(crate) fn backup_schedules() -> ArgValueCompleter {
    objects(|one: BackupSchedule| one.name, false)
}

/// Completes the names of clusters.
pub(crate) fn clusters() -> ArgValueCompleter {
    objects(|one: Cluster| one.name, false)
}

/// Completes the versions of Kubernetes that can be installed.
pub(crate) fn kubernetes() -> ArgValueCompleter {
    objects(|one: KubernetesBundle| one.version, false)
}

/// Completes what the server has; of the line's project, where it has some in
/// each.
fn objects<T: Resource + 'static>(name: fn(T) -> String, scoped: bool) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let line = Line::of_process();
        let mut query = Query::new();
        if scoped {
            let project = line.project.clone();
            let project = project.or_else(|| std::env::var("STRATA_PROJECT").ok());
            query = query.with("project", project.unwrap_or_else(|| "default".to_owned()));
        }
        let discovery = line.discovery();
        let found: Option<Vec<T>> = wait_for(async move {
            let server = ServerClient::connect(&discovery.server().ok()?)
                .await
                .ok()?;
            server.rest().list(&query).await.ok()
        });
        candidates(found.into_iter().flatten().map(name), current)
    })
}

fn candidates(names: impl Iterator<Item = String>, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    names
        .filter(|name| name.starts_with(&*current))
        .map(CompletionCandidate::new)
        .collect()
}

/// What has been typed so far, as far as it matters here.
#[derive(Debug, Default, PartialEq)]
struct Line {
    words: Vec<String>,
    data_dir: Option<String>,
    node: Option<String>,
    server: Option<String>,
    project: Option<String>,
}

impl Line {
    /// A shell passes the line behind `--`.
    fn of_process() -> Self {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Self::parse(words.skip_while(|word| word != "--").skip(1))
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Self {
        let mut line = Self::default();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            };
            match flag.as_str() {
                "--data-dir" => line.data_dir = value.or_else(|| words.next()),
                "--node" => line.node = value.or_else(|| words.next()),
                "--server" => line.server = value.or_else(|| words.next()),
                "--project" => line.project = value.or_else(|| words.next()),
                _ => line.words.push(word),
            }
        }
        line
    }

    fn discovery(&self) -> Discovery {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let token = std::env::var("STRATA_TOKEN").ok().filter(|t| !t.is_empty());
        self.global().discovery(Places::new(home.as_deref()), token)
    }

    fn global(&self) -> Global {
        let variable = |name: &str| std::env::var(name).ok();
        let of = |said: &Option<String>, name: &str| said.clone().or_else(|| variable(name));
        Global {
            data_dir: of(&self.data_dir, "STRATA_DATA_DIR").map(PathBuf::from),
            node: of(&self.node, "STRATA_NODE").and_then(|node| node.parse().ok()),
            server: of(&self.server, "STRATA_SERVER").and_then(|server| server.parse().ok()),
            credentials: variable("STRATA_CREDENTIALS").map(PathBuf::from),
            ca: variable("STRATA_CA").map(PathBuf::from),
            ..Global::default()
        }
    }
}

fn live_images(line: &Line) -> Vec<String> {
    ask(line, async |node| {
        let answer = node.images().list(ListImagesRequest {}).await.ok()?;
        let images = answer.into_inner().images.into_iter();
        Some(images.map(|image| image.reference).collect())
    })
}

fn live_cells(line: &Line) -> Vec<CellInfo> {
    ask(line, async |node| {
        let answer = node.cells().list(ListCellsRequest::default()).await.ok()?;
        Some(answer.into_inner().cells)
    })
}

/// What the node that the line is about answers; nothing when it does not.
fn ask<T: Default>(line: &Line, question: impl AsyncFnOnce(NodeClient) -> Option<T>) -> T {
    let discovery = line.discovery();
    wait_for(async move {
        let node = NodeClient::connect(&discovery.node().ok()?).await.ok()?;
        question(node).await
    })
    .unwrap_or_default()
}

fn wait_for<T>(work: impl Future<Output = Option<T>>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async {
        tokio::time::timeout(REQUEST_TIMEOUT, work)
            .await
            .ok()
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Line {
        Line::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_line_says_which_node_to_ask() {
        let line = parse("strata --data-dir /a cell stop web --node=unix:/b m");
        assert_eq!(line.data_dir.as_deref(), Some("/a"));
        assert_eq!(line.node.as_deref(), Some("unix:/b"));
        assert_eq!(line.words, ["strata", "cell", "stop", "web", "m"]);
        assert_eq!(parse("strata --data-dir"), parse("strata"));
        let line = parse("strata instance show --project=shop --server localhost:7 w");
        assert_eq!(line.project.as_deref(), Some("shop"));
        assert_eq!(
            line.global().server.unwrap().to_string(),
            "https://localhost:7"
        );
    }

    #[test]
    fn completion_times_out() {
        let line = parse("strata --node unix:/nonexistent/node.sock cell show ");
        assert!(live_cells(&line).is_empty());
    }
}
