//! A shim, cells and executables for tests.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub)]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{OpenTreeFlags, open_tree};
use strata_cell::log::{Channel, LogReader, Read};
use strata_cell::{
    CellInit, Cgroups, HostPaths, InitError, InitEvent, InitImage, Launch, LogLimits, MountOp,
    RunGroup, RunRecord, RunState, StartedInit, Stdio,
};
use strata_types::{CellSpec, CommandLine, Ending, ExecutableSpec, Identity, RootMode};

pub struct World {
    pub dir: tempfile::TempDir,
    pub cgroups: Cgroups,
    pub image: InitImage,
    pub shim: StartedInit,
}

impl World {
    pub fn new(test: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run = format!("test-{test}-{}", std::process::id());
        let cgroups = Cgroups::detect(&HostPaths::default(), &run).unwrap();
        cgroups.root().create_plain().unwrap();
        let image = InitImage::new().unwrap();
        let shim = CellInit::start_shim(&image, dir.path(), &cgroups.root()).unwrap();
        Self {
            dir,
            cgroups,
            image,
            shim,
        }
    }

    pub fn cell(&self, spec: &CellSpec) -> Result<Cell<'_>, InitError> {
        let dir = self
            .dir
            .path()
            .join(spec.name.to_string().replace('/', "+"));
        fs::create_dir(&dir).unwrap();
        self.cgroups.cell(&spec.name).create(spec).unwrap();
        let group = self.cgroups.cell(&spec.name);
        let init = self.shim.init.start_cell(&self.image, spec, &dir, &group)?;
        Ok(Cell {
            world: self,
            spec: spec.clone(),
            dir,
            init,
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cgroups.remove_all().unwrap();
        self.shim.init.kill().unwrap();
    }
}

pub struct Cell<'a> {
    pub world: &'a World,
    pub spec: CellSpec,
    pub dir: PathBuf,
    pub init: StartedInit,
}

impl Cell<'_> {
    pub fn launch(&self, run: u64, command: &str) -> Result<(PathBuf, i32), InitError> {
        self.launch_as(run, command, Identity::default())
    }

    pub fn launch_as(
        &self,
        run: u64,
        command: &str,
        identity: Identity,
    ) -> Result<(PathBuf, i32), InitError> {
        self.launch_with(run, command, identity, Stdio::Logged, false)
    }

    pub fn launch_with(
        &self,
        run: u64,
        command: &str,
        identity: Identity,
        stdio: Stdio<'_>,
        sandboxed: bool,
    ) -> Result<(PathBuf, i32), InitError> {
        let mut spec = self.executable(command);
        spec.identity = identity;
        let run = self.prepare(run, &spec);
        let pid = run.start(&spec, stdio, sandboxed)?;
        Ok((run.dir, pid))
    }

    pub fn executable(&self, command: &str) -> ExecutableSpec {
        ExecutableSpec {
            name: "main".parse().unwrap(),
            cell: self.spec.name.clone(),
            command: CommandLine::from_field("command", command).unwrap(),
            description: String::new(),
            identity: Identity::default(),
            environment: vec!["GREETING=hello".to_owned().try_into().unwrap()],
            working_directory: None,
            stop_grace: Duration::from_secs(1),
            stop_signal: 15,
            restart: ExecutableSpec::default_restart(),
        }
    }

    /// The directory and the cgroup of a run, which is started later, or
    /// several times until one start succeeds.
    pub fn prepare(&self, run: u64, spec: &ExecutableSpec) -> Run<'_> {
        let dir = self.dir.join(run.to_string());
        fs::create_dir(&dir).unwrap();
        RunRecord::create(&dir, spec).unwrap();
        if let Some(map) = self.spec.id_map {
            RunRecord::hand_over(&dir, map).unwrap();
        }
        let cgroup = self.world.cgroups.cell(&self.spec.name);
        let group = cgroup.create_run(run, self.spec.id_map).unwrap();
        Run {
            cell: self,
            run,
            dir,
            group,
        }
    }

    /// Runs a command in the cell's sandbox; answers its ending and output.
    pub fn run_sandboxed(&self, run: u64, command: &str, identity: Identity) -> (Ending, String) {
        let events = CellInit::connect(&self.dir).unwrap().events;
        let launched = self.launch_with(run, command, identity, Stdio::Logged, true);
        let (dir, _) = launched.unwrap();
        wait_exit(&events, run);
        (ending(&dir), output(&dir, Channel::Stdout))
    }

    /// Runs a command to its end; answers its ending and its output.
    pub fn run(&self, run: u64, command: &str) -> (Ending, String) {
        let events = CellInit::connect(&self.dir).unwrap().events;
        let (dir, _) = self.launch(run, command).unwrap();
        wait_exit(&events, run);
        (ending(&dir), output(&dir, Channel::Stdout))
    }
}

pub struct Run<'a> {
    cell: &'a Cell<'a>,
    run: u64,
    pub dir: PathBuf,
    group: RunGroup,
}

impl Run<'_> {
    pub fn start(
        &self,
        spec: &ExecutableSpec,
        stdio: Stdio<'_>,
        sandboxed: bool,
    ) -> Result<i32, InitError> {
        self.start_with(spec, stdio, sandboxed, None)
    }

    /// Starts it unless this boot time has passed.
    pub fn start_before(&self, spec: &ExecutableSpec, end: Duration) -> Result<i32, InitError> {
        self.start_with(spec, Stdio::Logged, false, Some(end))
    }

    fn start_with(
        &self,
        spec: &ExecutableSpec,
        stdio: Stdio<'_>,
        sandboxed: bool,
        not_after: Option<Duration>,
    ) -> Result<i32, InitError> {
        self.cell.init.init.start(&Launch {
            spec,
            run: self.run,
            dir: &self.dir,
            logs: LogLimits::default(),
            group: &self.group,
            stdio,
            sandboxed,
            as_init: false,
            main: false,
            host_cgroups: self.cell.spec.host_cgroups,
            environment: &[],
            not_after,
        })
    }
}

pub fn wait_exit(events: &strata_cell::InitEvents, run: u64) {
    use rustix::event::{PollFd, PollFlags, poll};
    loop {
        poll(&mut [PollFd::new(events, PollFlags::IN)], None).unwrap();
        if events.next().unwrap() == InitEvent::Exited(run) {
            return;
        }
    }
}

pub fn ending(dir: &Path) -> Ending {
    match RunRecord::read(dir).unwrap().state {
        RunState::Ended(ending) => ending,
        state => panic!("not ended: {state:?}"),
    }
}

pub fn output(dir: &Path, channel: Channel) -> String {
    let mut reader = LogReader::from_start(dir, channel).unwrap();
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Read::Some {}
    reader.finish(&mut out);
    let lines: Vec<_> = out
        .iter()
        .map(|e| String::from_utf8_lossy(&e.line))
        .collect();
    lines.join("\n")
}

/// A detached copy of the mount at a path.
pub fn tree(path: &Path) -> OwnedFd {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(rustix::fs::CWD, path, flags).unwrap()
}

pub fn proc() -> MountOp {
    MountOp::New {
        kind: "proc",
        path: "/proc",
        read_only: false,
    }
}

/// A cell that is handed its root.
pub fn handed(name: &str) -> CellSpec {
    let mut spec = spec(name);
    spec.root = RootMode::Handed;
    spec.isolated_network = true;
    spec
}

pub fn spec(name: &str) -> CellSpec {
    CellSpec::named(name.parse().unwrap())
}
