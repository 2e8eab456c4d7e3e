//! What a node was assigned, on disk: a small file for each instance, written
//! whole or not at all. So a daemon that starts again knows which of its pods
//! and virtual machines are whose, how far it has come with each, and how long
//! it may go on without a server.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strata_types::{Error, Result};

use super::ask::{Ask, UnitName};
use super::witness::Witnesses;
use crate::folder::make_private;

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
    /// Started as often as this was asked for.
    Started(u64),
    /// Could not be made or started, and is not tried again.
    GivenUp,
    /// Stopped, because the server or its silence said so.
    Stopped,
}

/// An instance that this node was assigned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Assigned {
    pub(crate) id: String,
    pub(crate) generation: u64,
    /// Whether it is to run.
    pub(crate) wanted: bool,
    /// How often a start was asked for.
    pub(crate) starts: u64,
    pub(crate) ask: Ask,
    #[serde(default)]
    pub(crate) progress: Progress,
    /// Why it could not be made or started.
    #[serde(default)]
    pub(crate) failure: Option<String>,
    /// What it was before under another name, and is still to go.
    #[serde(default)]
    pub(crate) outgrown: Vec<UnitName>,
    /// It runs on when the lease ends.
    #[serde(default)]
    pub(crate) available: bool,
    /// Of its placement.
    #[serde(default)]
    pub(crate) epoch: u64,
    /// The control plane that assigned it; empty in what an older release
    /// wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) control_plane: String,
}

impl Assigned {
    /// Takes in what the server says now. What was given up is tried again if
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
            let name = self.ask.unit();
            if name != next.ask.unit() {
                self.outgrown.push(name);
            }
            self.ask = next.ask;
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
    /// 0 until one was told.
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
    /// Where all servers are reached, as the last one said.
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
    pub(crate) heard: Option<Heard>,
}

impl ServerFacts {
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
pub(crate) struct Heard {
    pub(crate) boot: String,
    pub(crate) at_ms: u64,
}

/// Which control plane was last followed.
#[derive(Serialize, Deserialize)]
struct ControlPlane {
    id: String,
}

/// The folder of all this.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// Opens the folder, which is made if missing.
    pub(crate) fn open(folder: PathBuf) -> Result<Self> {
        make_private(&folder).map_err(|error| {
            Error::internal(format!("cannot make the folder of assignments: {error}"))
        })?;
        Ok(Self { folder })
    }

    /// All instances. A file that cannot be read is told and left alone.
    pub(crate) fn assigned(&self) -> Vec<Assigned> {
        let mut all = Vec::new();
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(".new") {
                let _ = fs::remove_file(entry.path());
            } else if name.starts_with(PREFIX)
                && let Some(assigned) = read(&entry.path())
            {
                all.push(assigned);
            }
        }
        all
    }

    pub(crate) fn write(&self, assigned: &Assigned) -> Result<()> {
        let path = self.path(&assigned.id);
        write(&path, assigned).map_err(|error| not_written(&error))
    }

    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(not_written(&error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn server(&self) -> ServerFacts {
        read(&self.folder.join(SERVER)).unwrap_or_default()
    }

    pub(crate) fn write_server(&self, facts: &ServerFacts) -> Result<()> {
        let path = self.folder.join(SERVER);
        write(&path, facts).map_err(|error| not_written(&error))
    }

    /// Until when nothing new is started, as was promised to other nodes.
    pub(crate) fn promised(&self) -> Option<Heard> {
        read(&self.folder.join(PROMISED))
    }

    pub(crate) fn write_promised(&self, until: &Heard) -> Result<()> {
        let path = self.folder.join(PROMISED);
        write(&path, until).map_err(|error| not_written(&error))
    }

    /// The control plane that was last followed; none before the first.
    pub(crate) fn control_plane(&self) -> Option<String> {
        let known: ControlPlane = read(&self.folder.join(CONTROL_PLANE))?;
        Some(known.id)
    }

    pub(crate) fn write_control_plane(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        let path = self.folder.join(CONTROL_PLANE);
        write(&path, &ControlPlane { id }).map_err(|error| not_written(&error))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{PREFIX}{id}.json"))
    }
}

fn not_written(error: &io::Error) -> Error {
    let text = format!("cannot write down what was assigned: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::exhausted(text).with_hint("make room on the disk of the data folder")
        }
        _ => Error::internal(text),
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::error!(path = %path.display(), %error, "it cannot be read");
            }
            return None;
        }
    };
    let read = serde_json::from_slice(&bytes);
    if let Err(error) = &read {
        tracing::error!(path = %path.display(), %error, "it is damaged, and left alone");
    }
    read.ok()
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    // The name of an id may end in anything, so nothing is cut off it.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let bytes = serde_json::to_vec(value)?;
    let is_new = !path.exists();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(&bytes)?;
    // After a loss of power it is the old one or the new one, never empty: an
    // instance without its assignment would not be held back at the start.
    file.sync_data()?;
    fs::rename(&temporary, path)?;
    match path.parent().filter(|_| is_new) {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::tests::pod;
    use super::*;

    #[test]
    fn what_was_assigned_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path().join("assignments")).unwrap();
        assert!(kept.assigned().is_empty());
        let (one, odd) = (pod("one", "web", 1), pod("..", "odd", 2));
        kept.write(&one).unwrap();
        kept.write(&odd).unwrap();
        fs::write(folder.path().join("assignments/i-x.json"), "{").unwrap();
        let mut found = kept.assigned();
        found.sort_by_key(|assigned| assigned.generation);
        assert_eq!(found, [one, odd]);
        kept.remove("one").unwrap();
        kept.remove("one").unwrap();
        assert_eq!(kept.assigned().len(), 1);
        assert_eq!(kept.server(), ServerFacts::default());
        let facts = ServerFacts {
            lease_ms: 10_000,
            alone: true,
            servers: vec!["https://10.0.0.1:7700".into()],
            ..ServerFacts::default()
        };
        kept.write_server(&facts).unwrap();
        let old = r#"{"lease_ms":10000,"alone":true,"farewell":true}"#;
        let read: ServerFacts = serde_json::from_str(old).unwrap();
        assert!(read.is_waived(true) && !read.records_promises);
        assert_eq!(kept.server(), facts);
    }

    #[test]
    fn the_same_again_changes_nothing_and_another_name_outgrows_the_old_one() {
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
        assert_eq!(now.outgrown, [before.ask.unit()]);
        assert_eq!(now.ask.unit().name.as_str(), "other");
    }
}
