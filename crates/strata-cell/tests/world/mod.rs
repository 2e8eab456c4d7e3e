//! A keeper, cells and executables for tests.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_cell::log::{Channel, LogReader, Read};
use strata_cell::{
    CellInit, Cgroups, HostPaths, InitError, InitEvent, InitImage, Launch, LogLimits, RunRecord,
    RunState, StartedInit, Stdio,
};
use strata_types::{CellSpec, CommandLine, Ending, ExecutableSpec, Identity};

pub struct World {
    pub folder: tempfile::TempDir,
    pub cgroups: Cgroups,
    pub image: InitImage,
    pub keeper: StartedInit,
}

impl World {
    pub fn new(test: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = format!("test-{test}-{}", std::process::id());
        let cgroups = Cgroups::detect(&HostPaths::default(), &run).unwrap();
        cgroups.root().create_plain().unwrap();
        let image = InitImage::new().unwrap();
        let keeper = CellInit::start_keeper(&image, folder.path(), &cgroups.root()).unwrap();
        Self {
            folder,
            cgroups,
            image,
            keeper,
        }
    }

    pub fn cell(&self, spec: &CellSpec) -> Result<Cell<'_>, InitError> {
        let folder = self
            .folder
            .path()
            .join(spec.name.to_string().replace('/', "+"));
        fs::create_dir(&folder).unwrap();
        self.cgroups.cell(&spec.name).create(spec).unwrap();
        let group = self.cgroups.cell(&spec.name);
        let init = self
            .keeper
            .init
            .start_cell(&self.image, spec, &folder, &group)?;
        Ok(Cell {
            world: self,
            spec: spec.clone(),
            folder,
            init,
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cgroups.remove_all().unwrap();
        self.keeper.init.kill().unwrap();
    }
}

pub struct Cell<'a> {
    pub world: &'a World,
    pub spec: CellSpec,
    pub folder: PathBuf,
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
        let folder = self.folder.join(run.to_string());
        fs::create_dir(&folder).unwrap();
        let spec = ExecutableSpec {
            name: "main".parse().unwrap(),
            cell: self.spec.name.clone(),
            command: CommandLine::from_field("command", command).unwrap(),
            description: String::new(),
            identity,
            environment: vec!["GREETING=hello".to_owned().try_into().unwrap()],
            working_directory: None,
            stop_grace: Duration::from_secs(1),
            stop_signal: 15,
            restart: ExecutableSpec::default_restart(),
        };
        RunRecord::create(&folder, &spec).unwrap();
        if let Some(map) = self.spec.id_map {
            RunRecord::hand_over(&folder, map).unwrap();
        }
        let group = self
            .world
            .cgroups
            .cell(&self.spec.name)
            .create_run(run)
            .unwrap();
        let logs = LogLimits::default();
        let launch = Launch {
            spec: &spec,
            run,
            folder: &folder,
            logs,
            group: &group,
            stdio,
            sandboxed,
            as_init: false,
            host_cgroups: self.spec.host_cgroups,
        };
        let pid = self.init.init.start(&launch)?;
        Ok((folder, pid))
    }

    /// Runs a command in the cell's sandbox; answers its ending and output.
    pub fn run_sandboxed(&self, run: u64, command: &str, identity: Identity) -> (Ending, String) {
        let events = CellInit::connect(&self.folder).unwrap().events;
        let launched = self.launch_with(run, command, identity, Stdio::Logged, true);
        let (folder, _) = launched.unwrap();
        wait_exit(&events, run);
        (ending(&folder), output(&folder, Channel::Stdout))
    }

    /// Runs a command to its end; answers its ending and its output.
    pub fn run(&self, run: u64, command: &str) -> (Ending, String) {
        let events = CellInit::connect(&self.folder).unwrap().events;
        let (folder, _) = self.launch(run, command).unwrap();
        wait_exit(&events, run);
        (ending(&folder), output(&folder, Channel::Stdout))
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

pub fn ending(folder: &Path) -> Ending {
    match RunRecord::read(folder).unwrap().state {
        RunState::Ended(ending) => ending,
        state => panic!("not ended: {state:?}"),
    }
}

pub fn output(folder: &Path, channel: Channel) -> String {
    let mut reader = LogReader::from_start(folder, channel).unwrap();
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Read::Some {}
    reader.finish(&mut out);
    let lines: Vec<_> = out
        .iter()
        .map(|e| String::from_utf8_lossy(&e.line))
        .collect();
    lines.join("\n")
}

pub fn spec(name: &str) -> CellSpec {
    CellSpec::named(name.parse().unwrap())
}
