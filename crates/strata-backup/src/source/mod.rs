//! The directories that are saved, as one tree with places of our choosing.
//!
//! Where a directory really lies has no part in what is stored: the frozen
//! copies that backups are made of have other paths every time, and a file is
//! recognised as unchanged by its place in the backup, its size, its times
//! and its inode number.

mod node;
mod read;
mod root;
mod walk;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustic_core::{ReadSource, RusticResult};

use crate::error::{BackupError, Result};
use crate::gate::Gate;
use crate::progress::Reporter;
pub(crate) use node::mode_from_go;
use read::SourceFile;
use walk::Walk;

/// A directory or file to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it lies now. It must not change while it is saved.
    pub path: PathBuf,
    /// Where it is in the backup: `/volumes/web`.
    pub at: String,
}

/// All sources of one backup.
pub(crate) struct Roots {
    shared: Arc<Shared>,
    /// Whether they are measured beforehand, for the time that remains.
    measure: bool,
}

pub(crate) struct Shared {
    sources: Vec<Source>,
    /// The time of directories that only lead to a source.
    taken_at: jiff::Timestamp,
    gate: Arc<Gate>,
    reporter: Arc<Reporter>,
}

impl Roots {
    pub(crate) fn new(
        sources: Vec<Source>,
        taken_at: jiff::Timestamp,
        measure: bool,
        gate: Arc<Gate>,
        reporter: Arc<Reporter>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            sources: in_order(sources)?,
            taken_at,
            gate,
            reporter,
        });
        Ok(Self { shared, measure })
    }

    /// The places, in their order.
    pub(crate) fn places(&self) -> Vec<PathBuf> {
        let places = self.shared.sources.iter();
        places.map(|source| PathBuf::from(&source.at)).collect()
    }
}

impl ReadSource for Roots {
    type Open = SourceFile;
    type Iter = Walk;

    fn size(&self) -> RusticResult<Option<u64>> {
        let shared = &self.shared;
        Ok(self
            .measure
            .then(|| walk::measure(&shared.sources, &shared.gate))
            .flatten())
    }

    fn entries(&self) -> Walk {
        Walk::new(self.shared.clone())
    }
}

/// Sorts sources as a walk through the backup would meet them, and refuses
/// places that are not plain paths or lie in each other.
fn in_order(mut sources: Vec<Source>) -> Result<Vec<Source>> {
    for source in &sources {
        let bad = |why| BackupError::BadPlace {
            at: source.at.clone(),
            why,
        };
        let path = Path::new(&source.at);
        if !path.is_absolute() {
            return Err(bad("it does not begin with a slash"));
        }
        let plain = path
            .components()
            .skip(1)
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.components().collect::<PathBuf>().as_os_str() != path.as_os_str() {
            return Err(bad("it is not a plain path"));
        }
        if source.at.contains('\0') {
            return Err(bad("it holds a null byte"));
        }
    }
    sources.sort_by(|a, b| Path::new(&a.at).cmp(Path::new(&b.at)));
    for pair in sources.windows(2) {
        if Path::new(&pair[1].at).starts_with(&pair[0].at) {
            return Err(BackupError::BadPlace {
                at: pair[1].at.clone(),
                why: "another source is there or above it",
            });
        }
    }
    if sources.is_empty() {
        return Err(BackupError::BadPlace {
            at: String::new(),
            why: "there is nothing to save",
        });
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(places: &[&str]) -> Vec<Source> {
        let source = |at: &&str| Source {
            path: "/tmp".into(),
            at: (*at).to_owned(),
        };
        places.iter().map(source).collect()
    }

    #[test]
    fn places_come_as_a_walk_meets_them() {
        let ordered = in_order(sources(&[
            "/volumes/b",
            "/state",
            "/volumes/a-b",
            "/volumes/a",
        ]));
        let ordered = ordered.expect("good places");
        let places: Vec<_> = ordered.iter().map(|source| source.at.as_str()).collect();
        assert_eq!(
            places,
            ["/state", "/volumes/a", "/volumes/a-b", "/volumes/b"]
        );
    }

    #[test]
    fn places_that_are_no_plain_paths_are_refused() {
        for bad in ["", "state", "/a/../b", "/a/./b", "/a//b", "/a/", "/a\0"] {
            assert!(in_order(sources(&[bad])).is_err(), "{bad:?}");
        }
        assert!(in_order(sources(&["/a", "/a/b"])).is_err());
        assert!(in_order(sources(&["/a", "/a"])).is_err());
        assert!(in_order(sources(&["/"])).is_ok());
        assert!(in_order(Vec::new()).is_err());
    }
}
