//! The tree of a backup, read with suspicion: a writer of the repository that
//! has its key can put any name into it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustic_core::repofile::{Node, SnapshotFile, Tree};
use rustic_core::{IndexedTree, Repository, TreeId};

use crate::error::{BackupError, Result};
use crate::session::Session;

/// What a path in a backup leads to.
pub(crate) enum TreeEntry {
    /// The root, which has no node.
    Root(TreeId),
    Node(Box<Node>),
}

/// Goes to a path.
pub(crate) fn find<S: IndexedTree>(
    session: &Session,
    repository: &Repository<S>,
    snapshot: &SnapshotFile,
    path: &str,
) -> Result<TreeEntry> {
    let missing = || BackupError::NoPath {
        id: snapshot.id.to_hex().to_string(),
        path: path.to_owned(),
    };
    let mut found = TreeEntry::Root(snapshot.tree);
    for part in Path::new(path).components() {
        let name = match part {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => name,
            Component::ParentDir | Component::Prefix(_) => return Err(missing()),
        };
        let tree = match &found {
            TreeEntry::Root(tree) => *tree,
            TreeEntry::Node(node) => node.subtree.ok_or_else(missing)?,
        };
        let tree = read(session, repository, tree)?;
        let node = tree.nodes.into_iter().find(|node| node.name() == name);
        found = TreeEntry::Node(Box::new(node.ok_or_else(missing)?));
    }
    Ok(found)
}

pub(crate) fn read<S: IndexedTree>(
    session: &Session,
    repository: &Repository<S>,
    tree: TreeId,
) -> Result<Tree> {
    session.gate.pass()?;
    session.told(
        "reading a directory of the backup",
        repository.get_tree(&tree),
    )
}

/// The name of a node, if it is one that a file can have.
pub(crate) fn name(dir: &Path, node: &Node) -> Result<OsString> {
    let name = node.name().into_owned();
    let bytes = name.as_bytes();
    let bad = matches!(bytes, b"" | b"." | b"..")
        || bytes.len() > 255
        || bytes.contains(&b'/')
        || bytes.contains(&0);
    if bad {
        return Err(BackupError::Hostile {
            dir: Path::new("/").join(dir),
            name: node.name.clone(),
        });
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use rustic_core::repofile::{Metadata, NodeType};

    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let node = |name: &str| Node {
            name: name.to_owned(),
            ..Node::new_node(
                std::ffi::OsStr::new("x"),
                NodeType::File,
                Metadata::default(),
            )
        };
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc",
            "a\\x00b",
            "a\\x2fb",
            &"x".repeat(256),
        ] {
            assert!(name(Path::new(""), &node(bad)).is_err(), "{bad:?}");
        }
        for good in ["a", "...", "a b", "a\\nb", "\\xff", "ä"] {
            assert!(name(Path::new(""), &node(good)).is_ok(), "{good:?}");
        }
    }
}
