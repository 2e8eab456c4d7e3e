//! Backups by a malicious author who has the key.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustic_core::repofile::{Metadata, Node, NodeType, SnapshotFile};
use rustic_core::{BackupOptions, ReadSource, ReadSourceEntry, RusticResult};
use tokio_util::sync::CancellationToken;

use super::{RestoreOptions, run};
use crate::error::BackupError;
use crate::gate::Gate;
use crate::progress::{Reporter, Silent};
use crate::session::Session;
use crate::{Location, RepositoryConfig, Secret, store};

/// Nodes as they come, in the root of the backup.
struct Forged(Vec<(PathBuf, Node)>);

impl ReadSource for Forged {
    type Open = &'static [u8];
    type Iter = std::vec::IntoIter<RusticResult<ReadSourceEntry<Self::Open>>>;

    fn size(&self) -> RusticResult<Option<u64>> {
        Ok(None)
    }

    fn entries(&self) -> Self::Iter {
        let forge = |(path, node): &(PathBuf, Node)| {
            Ok(ReadSourceEntry {
                path: path.clone(),
                node: node.clone(),
                open: Some(&b"harm"[..]),
            })
        };
        self.0.iter().map(forge).collect::<Vec<_>>().into_iter()
    }
}

fn session(dir: &Path) -> Session {
    let config = RepositoryConfig {
        location: Location::Directory(dir.join("repo")),
        password: Secret::new("p"),
        compression: 1,
        cache: None,
    };
    let store = store::open(&config.location).expect("a directory");
    let gate = Gate::new(CancellationToken::new(), None);
    Session::new(
        Arc::new(config),
        Arc::default(),
        store,
        gate,
        Reporter::new(Arc::new(Silent)),
    )
}

fn node(name: &str, kind: NodeType) -> Node {
    let meta = Metadata {
        mode: Some(0o644),
        size: 4,
        ..Metadata::default()
    };
    Node {
        name: name.to_owned(),
        ..Node::new_node(OsStr::new("x"), kind, meta)
    }
}

fn link(name: &str, target: &Path) -> Node {
    node(name, NodeType::from_link(target))
}

/// Forges a backup and restores it; returns the result and what lies beside the
/// target.
fn restore(nodes: Vec<(PathBuf, Node)>) -> (Result<super::Restored, BackupError>, Vec<String>) {
    let world = tempfile::tempdir().expect("a directory");
    fs::create_dir(world.path().join("outside")).expect("a directory");
    let session = session(world.path());
    let repository = session.open_or_make().expect("a repository");
    let indexed = repository.to_indexed_ids().expect("an index");
    let mut options = BackupOptions::default();
    options.parent_opts.force = true;
    let nodes = nodes.into_iter().map(|(path, mut node)| {
        if let NodeType::Symlink { linktarget, .. } = &mut node.node_type {
            *linktarget = linktarget.replace("WORLD", &world.path().display().to_string());
        }
        (path, node)
    });
    let forged = Forged(nodes.collect());
    let made = indexed.archive(&options, &forged, SnapshotFile::default(), &["/".into()]);
    made.expect("a forged backup");
    let ask = RestoreOptions {
        from: "/".to_owned(),
        to: world.path().join("target"),
    };
    let restored = run(&session, "latest", &ask);
    let beside = fs::read_dir(world.path())
        .expect("a directory")
        .chain(fs::read_dir(world.path().join("outside")).expect("a directory"));
    let mut names: Vec<_> = beside
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| !["repo", "target", "outside"].contains(&name.as_str()))
        .collect();
    names.sort();
    (restored, names)
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in ["../x", "a/../../x", "..", "/x", "\\x2e\\x2e\\x2fx"] {
        let (restored, beside) = restore(vec![("/x".into(), node(name, NodeType::File))]);
        assert!(
            matches!(restored, Err(BackupError::Hostile { .. })),
            "{name}: {restored:?}"
        );
        assert_eq!(beside, Vec::<String>::new());
    }
}

#[test]
fn a_link_is_not_written_through() {
    // The same name twice: first a link that leads out, then a directory with
    // a file in it.
    let (restored, beside) = restore(vec![
        ("/a".into(), link("a", Path::new("WORLD/outside"))),
        ("/a".into(), node("a", NodeType::Dir)),
        ("/a/x".into(), node("x", NodeType::File)),
    ]);
    assert!(restored.is_err(), "{restored:?}");
    assert_eq!(beside, Vec::<String>::new());

    // Or a file that would be opened through the link.
    let (restored, beside) = restore(vec![
        ("/a".into(), link("a", Path::new("WORLD/outside/x"))),
        ("/a".into(), node("a", NodeType::File)),
    ]);
    assert!(restored.is_err(), "{restored:?}");
    assert_eq!(beside, Vec::<String>::new());
}

#[test]
fn a_size_that_lies_is_refused() {
    let mut lies = node("x", NodeType::File);
    lies.meta.size = 1 << 50;
    let (restored, _) = restore(vec![("/x".into(), lies)]);
    assert!(
        matches!(restored, Err(BackupError::Damaged { .. })),
        "{restored:?}"
    );
}
