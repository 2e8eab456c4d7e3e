//! The names of images that were removed, so that removing twice is
//! distinguished from removing what never was. Bounded: the oldest are dropped.
//! A file that cannot be written costs only that.

use std::fs;
use std::path::PathBuf;

use strata_image::Digest;

/// How many are remembered. The file is written again each time.
const MAX_NAMES: usize = 2048;

#[derive(Default)]
pub(super) struct RemovedNames {
    /// The oldest first.
    names: Vec<(String, Digest)>,
    file: PathBuf,
}

impl RemovedNames {
    /// Reads what was kept: a digest and a name on each line.
    pub(super) fn open(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let names = text.lines().filter_map(|line| {
            let (digest, name) = line.split_once(' ')?;
            Some((name.to_owned(), digest.parse().ok()?))
        });
        Self {
            names: names.collect(),
            file,
        }
    }

    pub(super) fn all(&self) -> &[(String, Digest)] {
        &self.names
    }

    pub(super) fn add(&mut self, removed: impl IntoIterator<Item = (String, Digest)>) {
        let before = self.names.len();
        for image in removed {
            self.names.retain(|known| *known != image);
            self.names.push(image);
        }
        if self.names.len() == before {
            return;
        }
        let excess = self.names.len().saturating_sub(MAX_NAMES);
        self.names.drain(..excess);
        let lines: String = self
            .names
            .iter()
            .map(|(name, digest)| format!("{digest} {name}\n"))
            .collect();
        let new = self.file.with_extension("new");
        let kept = fs::write(&new, lines).and_then(|()| fs::rename(&new, &self.file));
        if let Err(error) = kept {
            tracing::warn!(%error, "names of removed images not saved");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_after_a_restart_and_the_oldest_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("removed");
        let image = |i: usize| (format!("r/{i}:v"), Digest::of(i.to_string().as_bytes()));
        let mut removed = RemovedNames::open(file.clone());
        removed.add((0..MAX_NAMES + 5).map(image));
        let again = RemovedNames::open(file);
        assert_eq!(again.all().len(), MAX_NAMES);
        assert_eq!(again.all()[0], image(5));
    }
}
