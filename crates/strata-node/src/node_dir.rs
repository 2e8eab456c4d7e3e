//! What a node keeps on disk.
//!
//! ```text
//! node/run                       the name of this run on the host
//! node/id                        the name of this node
//! node/keeper/init.sock          the parent of outermost cells
//! node/log/daemon.*              the daemon's own log
//! node/freed                     names of cells that were freed
//! node/images/                   the image store, see its own page
//! node/assignments/i-ID.json     an instance that a server assigned, and how far it is
//! node/assignments/server.json   the server's lease
//! node/secrets/                  values that instances are given, in memory
//! node/cells/a/cell.json         cell a; written last, removed first
//! node/cells/a/init.sock
//! node/cells/a/run-17/           run 17 of some executable: its status and logs
//! node/cells/a/cells/b/...       cell a/b
//! ```

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use strata_rootfs::spread;
use strata_types::CellName;
use uuid::Uuid;

/// The node's part of the data directory.
#[derive(Clone, Debug)]
pub struct NodeDir {
    root: PathBuf,
}

impl NodeDir {
    /// Opens, or makes, the node's directory below the data directory.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let root = data_dir.join("node");
        for dir in [
            &root,
            &root.join("keeper"),
            &root.join("log"),
            &root.join("cells"),
        ] {
            make_private(dir)?;
        }
        spread(&root.join("cells"));
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The name under which everything of this run is found on the host.
    pub fn run(&self) -> io::Result<String> {
        self.once("run", || short_id(Uuid::now_v7()))
    }

    /// The name of this node.
    pub fn id(&self) -> io::Result<String> {
        self.once("id", || Uuid::now_v7().to_string())
    }

    /// A text that is made up once and kept.
    fn once(&self, file: &str, make: impl FnOnce() -> String) -> io::Result<String> {
        let path = self.root.join(file);
        match fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(_) => self.keep(&path, make()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.keep(&path, make()),
            Err(error) => Err(error),
        }
    }

    fn keep(&self, path: &Path, text: String) -> io::Result<String> {
        let temporary = path.with_extension("new");
        let _ = fs::remove_file(&temporary);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, path)?;
        Ok(text)
    }

    /// The same for cells of another kind, apart from the others.
    pub(crate) fn within(&self, name: &str) -> io::Result<Self> {
        let root = self.root.join(name);
        make_private(&root.join("cells"))?;
        spread(&root.join("cells"));
        Ok(Self { root })
    }

    /// A directory of the node's, made if missing.
    pub(crate) fn sub(&self, name: &str) -> io::Result<PathBuf> {
        let dir = self.root.join(name);
        make_private(&dir)?;
        spread(&dir);
        Ok(dir)
    }

    pub(crate) fn shim(&self) -> PathBuf {
        self.root.join("keeper")
    }

    pub(crate) fn freed(&self) -> PathBuf {
        self.root.join("freed")
    }

    /// Where the daemon's own log is.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub(crate) fn cells(&self) -> PathBuf {
        self.root.join("cells")
    }

    /// The directory of a cell.
    pub(crate) fn cell(&self, name: &CellName) -> PathBuf {
        let mut path = self.root.clone();
        for label in name.labels() {
            path.push("cells");
            path.push(label.as_str());
        }
        path
    }
}

/// The random end of a UUIDv7: its beginning is the same for minutes.
fn short_id(id: Uuid) -> String {
    let text = id.simple().to_string();
    text[text.len() - 12..].to_owned()
}

/// Makes a directory for this user alone.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_across_restarts() {
        let data = tempfile::tempdir().unwrap();
        let first = NodeDir::open(data.path()).unwrap();
        let (run, id) = (first.run().unwrap(), first.id().unwrap());
        let again = NodeDir::open(data.path()).unwrap();
        assert_eq!(
            (again.run().unwrap(), again.id().unwrap()),
            (run.clone(), id)
        );
        assert_eq!(run.len(), 12);
    }

    #[test]
    fn nested_cells_have_nested_directories() {
        let data = tempfile::tempdir().unwrap();
        let dir = NodeDir::open(data.path()).unwrap();
        let path = dir.cell(&"a/b".parse().unwrap());
        assert!(path.ends_with("node/cells/a/cells/b"));
    }
}
