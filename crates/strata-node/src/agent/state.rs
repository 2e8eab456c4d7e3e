//! What a node was assigned, on disk: a small file for each instance, written
//! whole or not at all. So a daemon that starts again knows which of its pods
//! and virtual machines are whose, how far it has come with each, and how long
//! it may go on without a server.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strata_types::{Error, Result};

use super::assigned_spec::{AssignedSpec, UnitName};
use super::witness::Witnesses;
use crate::node_dir::make_private;

/// Before the id in the name of a file: an id may be anything a name may be.
const PREFIX: &str = "i-";
const SERVER: &str = "server.json";
const PROMISED: &str = "promised.json";
const CONTROL_PLANE: &str = "control-plane.json";

/// How far the node has come with an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Progress {
    /// Not started for this assignment yet.
    #[default]
    Fresh,
    /// Started as often as this was requested.
    Started(u64),
    /// Could not be made or started, and is not tried again.
    GivenUp,
    /// Stopped, because of the server or its silence.
    Stopped,
}

/// An instance that this node was assigned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Assigned {
    pub(crate) id: String,
    pub(crate) generation: u64,
    /// Whether it is to run.
    pub(crate) wanted: bool,
    /// How often a start was requested.
    pub(crate) starts: u64,
    #[serde(rename = "ask")]
    pub(crate) unit_spec: AssignedSpec,
    #[serde(default)]
    pub(crate) progress: Progress,
    /// The unit that is here was started: it may have data that is nowhere
    /// else.
    #[serde(default)]
    pub(crate) has_run: bool,
    /// Why it could not be made or started.
    #[serde(default)]
    pub(crate) failure: Option<String>,
    /// What it was before under another name, and is still to go.
    #[serde(default, rename = "outgrown")]
    pub(crate) superseded: Vec<UnitName>,
    /// It runs on when the lease ends.
    #[serde(default)]
    pub(crate) available: bool,
    #[serde(default)]
    pub(crate) epoch: u64,
    /// The control plane that assigned it; empty in what an older release
    /// wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) control_plane: String,
}

impl Assigned {
    /// Applies what the server sends now. What was given up is tried again if
    /// anything changed.
    pub(crate) fn update(&mut self, next: Self) {
        (self.available, self.epoch) = (next.available, next.epoch);
        self.control_plane.clone_from(&next.control_plane);
        let same = self.generation == next.generation
            && self.wanted == next.wanted
            && self.starts == next.starts;
        if same {
            return;
        }
        if self.generation != next.generation {
            let name = self.unit_spec.unit();
            if name != next.unit_spec.unit() {
                self.superseded.push(name);
            }
            self.unit_spec = next.unit_spec;
            self.progress = Progress::Fresh;
        }
        if self.progress == Progress::GivenUp {
            self.progress = Progress::Fresh;
        }
        self.failure = None;
        self.generation = next.generation;
        self.wanted = next.wanted;
        self.starts = next.starts;
    }
}

/// What is known of the server, for when it is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerFacts {
    /// 0 until one was received.
    pub(crate) lease_ms: u32,
    /// There is no other server.
    pub(crate) alone: bool,
    /// It ended on purpose.
    pub(crate) farewell: bool,
    /// It records what it promises.
    #[serde(default)]
    pub(crate) records_promises: bool,
    /// It promised that nothing is started elsewhere.
    #[serde(default)]
    pub(crate) waived: bool,
    /// Where the server was reached that was last followed.
    #[serde(default)]
    pub(crate) followed: String,
    /// Where all servers are reached, as the last one reported.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
    /// Grows with each change of the leader.
    #[serde(default)]
    pub(crate) term: u64,
    /// Those that can extend the lease; none where some node cannot.
    #[serde(default)]
    pub(crate) witnesses: Option<Witnesses>,
    /// When the last message was sent that was answered; none of an earlier
    /// release.
    #[serde(default)]
    pub(crate) heard: Option<BootTimestamp>,
    /// The same without the promises of witnesses, which stand for an answer
    /// while no server gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answered: Option<BootTimestamp>,
}

impl ServerFacts {
    /// Whether a server was last followed in this boot of the machine.
    pub(crate) fn is_of_boot(&self, boot: &str) -> bool {
        self.heard.as_ref().is_some_and(|heard| heard.boot == boot)
    }

    /// The same as [`ServerFacts::is_waived`] in this boot of the machine. After
    /// another one everything waits for a server: the machine may have been off,
    /// which proves to the server that nothing runs here, whatever it promised.
    pub(crate) fn is_waived_in(&self, boot: &str, peers: bool) -> bool {
        self.is_waived(peers) && self.is_of_boot(boot)
    }

    /// Whether nothing that runs here is started elsewhere. A server of an
    /// earlier release does not record such a promise: of it, having no peers
    /// and a farewell are taken for one.
    pub(crate) fn is_waived(&self, peers: bool) -> bool {
        match self.records_promises {
            true => self.waived,
            false => self.farewell || !peers,
        }
    }
}

/// A time of the boot clock, and the boot that it is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootTimestamp {
    pub(crate) boot: String,
    pub(crate) at_ms: u64,
}

/// Which control plane was last followed.
#[derive(Serialize, Deserialize)]
struct ControlPlane {
    id: String,
}

/// Where all this is kept: a directory, or the disk of a simulated host.
pub trait StateFiles: std::fmt::Debug + Send + Sync + 'static {
    /// The names of all files.
    fn names(&self) -> Vec<String>;
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Writes a file, whole or not at all; afterwards it is on disk.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// What is kept there.
#[derive(Clone, Debug)]
pub(crate) struct AssignmentStore {
    pub(super) files: Arc<dyn StateFiles>,
}

impl AssignmentStore {
    /// Opens the directory, which is made if missing.
    pub(crate) fn open(dir: PathBuf) -> Result<Self> {
        make_private(&dir).map_err(|error| {
            Error::internal(format!("cannot make the directory of assignments: {error}"))
        })?;
        Ok(Self::over(Arc::new(StateDir(dir))))
    }

    /// The same in any place.
    pub(crate) fn over(files: Arc<dyn StateFiles>) -> Self {
        Self { files }
    }

    /// All instances. A file that cannot be read is logged and left alone.
    pub(crate) fn assigned(&self) -> Vec<Assigned> {
        let mut all = Vec::new();
        for name in self.files.names() {
            if name.ends_with(".new") {
                let _ = self.files.remove(&name);
            } else if name.starts_with(PREFIX)
                && let Some(assigned) = self.read(&name)
            {
                all.push(assigned);
            }
        }
        all
    }

    pub(crate) fn write(&self, assigned: &Assigned) -> Result<()> {
        self.put(&file_of(&assigned.id), assigned)
    }

    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        match self.files.remove(&file_of(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(not_written(&error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn server(&self) -> ServerFacts {
        self.read(SERVER).unwrap_or_default()
    }

    pub(crate) fn write_server(&self, facts: &ServerFacts) -> Result<()> {
        self.put(SERVER, facts)
    }

    /// Until when nothing new is started, as was promised to other nodes.
    pub(crate) fn promised(&self) -> Option<BootTimestamp> {
        self.read(PROMISED)
    }

    pub(crate) fn write_promised(&self, until: &BootTimestamp) -> Result<()> {
        self.put(PROMISED, until)
    }

    /// The control plane that was last followed; none before the first.
    pub(crate) fn control_plane(&self) -> Option<String> {
        let known: ControlPlane = self.read(CONTROL_PLANE)?;
        Some(known.id)
    }

    pub(crate) fn write_control_plane(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.put(CONTROL_PLANE, &ControlPlane { id })
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let bytes = match self.files.read(name) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::error!(file = name, %error, "agent state file not readable");
                }
                return None;
            }
        };
        let read = serde_json::from_slice(&bytes);
        if let Err(error) = &read {
            tracing::error!(file = name, %error, "agent state file damaged; left unchanged");
        }
        read.ok()
    }

    fn put<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let bytes = serde_json::to_vec(value).map_err(io::Error::from);
        let written = bytes.and_then(|bytes| self.files.write(name, &bytes));
        written.map_err(|error| not_written(&error))
    }
}

fn file_of(id: &str) -> String {
    format!("{PREFIX}{id}.json")
}

fn not_written(error: &io::Error) -> Error {
    let text = format!("cannot write down what was assigned: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::exhausted(text).with_hint("make room on the disk of the data directory")
        }
        _ => Error::internal(text),
    }
}

/// A directory of a real host.
#[derive(Debug)]
struct StateDir(PathBuf);

impl StateFiles for StateDir {
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        entries.filter_map(name).collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // The name of an id may end in anything, so nothing is cut off it.
        let (path, temporary) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let is_new = !path.exists();
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        // After a loss of power it is the old one or the new one, never empty:
        // an instance without its assignment would not be held back at the
        // start.
        file.sync_data()?;
        fs::rename(&temporary, &path)?;
        match is_new {
            true => fs::File::open(&self.0)?.sync_all(),
            false => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::assigned_spec::tests::pod;
    use super::*;

    #[test]
    fn assignments_are_read_back_from_disk() {
        let dir = tempfile::tempdir().unwrap();
        let store = AssignmentStore::open(dir.path().join("assignments")).unwrap();
        assert!(store.assigned().is_empty());
        let (one, odd) = (pod("one", "web", 1), pod("..", "odd", 2));
        store.write(&one).unwrap();
        store.write(&odd).unwrap();
        fs::write(dir.path().join("assignments/i-x.json"), "{").unwrap();
        let mut found = store.assigned();
        found.sort_by_key(|assigned| assigned.generation);
        assert_eq!(found, [one, odd]);
        store.remove("one").unwrap();
        store.remove("one").unwrap();
        assert_eq!(store.assigned().len(), 1);
        assert_eq!(store.server(), ServerFacts::default());
        let facts = ServerFacts {
            lease_ms: 10_000,
            alone: true,
            servers: vec!["https://10.0.0.1:7700".into()],
            ..ServerFacts::default()
        };
        store.write_server(&facts).unwrap();
        let old = r#"{"lease_ms":10000,"alone":true,"farewell":true}"#;
        let read: ServerFacts = serde_json::from_str(old).unwrap();
        assert!(read.is_waived(true) && !read.records_promises);
        assert_eq!(store.server(), facts);
    }

    #[test]
    fn same_assignment_changes_nothing_and_a_new_name_supersedes_the_old_unit() {
        let mut now = pod("one", "web", 1);
        now.progress = Progress::GivenUp;
        now.failure = Some("no such image".into());
        let before = now.clone();
        now.update(pod("one", "web", 1));
        assert_eq!(now, before);
        let mut more = pod("one", "web", 1);
        more.starts = 1;
        now.update(more);
        assert_eq!((now.progress, &now.failure), (Progress::Fresh, &None));
        now.progress = Progress::Started(1);
        now.update(pod("one", "other", 2));
        assert_eq!(now.progress, Progress::Fresh);
        assert_eq!(now.superseded, [before.unit_spec.unit()]);
        assert_eq!(now.unit_spec.unit().name.as_str(), "other");
    }
}
