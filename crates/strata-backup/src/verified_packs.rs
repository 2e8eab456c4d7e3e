//! Which packs were found to be good, and when: a file in the cache, from which
//! follows what the next backup reads.
//!
//! Those that changed since are read at once. Decay changes no time, so of the
//! rest those that were verified longest ago are read too, a part at each
//! backup (decision 41).

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::store::StoredFile;

/// Which packs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairScope {
    All,
    /// Those that changed since they were last found to be good, where the
    /// store can report it, and of a directory some of those that were found to
    /// be good longest ago. Snapshots are left where they are.
    Changed,
}

/// A pack that was verified more recently is not read again.
const FRESH_MS: i64 = 7 * 24 * 3600 * 1000;
/// Each backup reads at most this part of all packs again, by their size.
const SHARE: u64 = 14;

/// A pack as it was when it was found to be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredPack", rename_all = "camelCase")]
struct VerifiedPack {
    stamp: u64,
    at_ms: i64,
}

/// The same in the file, where earlier releases wrote the stamp alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredPack {
    Stamp(u64),
    #[serde(rename_all = "camelCase")]
    Pack {
        stamp: u64,
        at_ms: i64,
    },
}

impl From<StoredPack> for VerifiedPack {
    fn from(stored: StoredPack) -> Self {
        match stored {
            StoredPack::Stamp(stamp) => Self { stamp, at_ms: 0 },
            StoredPack::Pack { stamp, at_ms } => Self { stamp, at_ms },
        }
    }
}

/// What was found to be good, by the names of packs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct VerifiedPacks(HashMap<String, VerifiedPack>);

impl VerifiedPacks {
    /// Without a file, or with one that cannot be read, nothing is known.
    pub(crate) fn read(path: Option<&Path>) -> Self {
        let text = path.and_then(|path| std::fs::read(path).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// The packs to read. `is_far`: reading costs, and the store verifies what
    /// it has by itself, so that what did not change is left to it.
    pub(crate) fn due<'a>(
        &self,
        packs: &'a [StoredFile],
        scope: RepairScope,
        is_far: bool,
        now_ms: i64,
    ) -> Vec<&'a StoredFile> {
        if scope == RepairScope::All {
            return packs.iter().collect();
        }
        let as_verified = |pack: &&StoredFile| {
            let known = self.0.get(&pack.name);
            pack.stamp == 0 || known.is_some_and(|known| known.stamp == pack.stamp)
        };
        let (same, mut due): (Vec<_>, Vec<_>) = packs.iter().partition(as_verified);
        if !is_far {
            let total = packs.iter().map(|pack| pack.size).sum::<u64>();
            due.extend(self.oldest(same, total / SHARE, now_ms));
        }
        due
    }

    /// Those that were verified longest ago, up to so many bytes, but at least
    /// one where one is old enough.
    fn oldest<'a>(
        &self,
        packs: Vec<&'a StoredFile>,
        budget: u64,
        now_ms: i64,
    ) -> Vec<&'a StoredFile> {
        let dated = packs.into_iter().filter_map(|pack| {
            let at_ms = self.0.get(&pack.name)?.at_ms;
            // A time to come is that of a clock that was wrong.
            let is_old = at_ms > now_ms || now_ms - at_ms >= FRESH_MS;
            is_old.then_some((at_ms, pack))
        });
        let mut dated: Vec<_> = dated.collect();
        dated.sort_by(|(a, x), (b, y)| (a, &x.name).cmp(&(b, &y.name)));
        let (mut read, mut chosen) = (0, Vec::new());
        for (_, pack) in dated {
            read += pack.size;
            if read > budget && !chosen.is_empty() {
                break;
            }
            chosen.push(pack);
        }
        chosen
    }

    /// What is known once those that were due were read, and those were good.
    pub(crate) fn next(&self, good: &[&StoredFile], due: &[&StoredFile], now_ms: i64) -> Self {
        let due: HashSet<&str> = due.iter().map(|pack| pack.name.as_str()).collect();
        let with_stamp = good.iter().filter(|pack| pack.stamp != 0);
        let next = with_stamp.filter_map(|pack| {
            let read = due.contains(pack.name.as_str()).then_some(VerifiedPack {
                stamp: pack.stamp,
                at_ms: now_ms,
            });
            let before = self.0.get(&pack.name).copied();
            let before = before.filter(|before| before.stamp == pack.stamp);
            Some((pack.name.clone(), read.or(before)?))
        });
        Self(next.collect())
    }

    /// Saves it. A failure costs time at the next backup, no more.
    pub(crate) fn save(&self, path: Option<&Path>) {
        let Some(path) = path else { return };
        let written = serde_json::to_vec(self).map_err(std::io::Error::other);
        let written = written.and_then(|text| {
            if let Some(above) = path.parent() {
                std::fs::create_dir_all(above)?;
            }
            let new = path.with_extension("new");
            std::fs::write(&new, text)?;
            std::fs::rename(&new, path)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "list of verified packs not saved");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1000;

    fn pack(n: u64) -> StoredFile {
        StoredFile {
            name: format!("{n:064x}"),
            size: 100,
            stamp: n + 1,
        }
    }

    fn names(packs: &[&StoredFile]) -> Vec<String> {
        packs.iter().map(|pack| pack.name.clone()).collect()
    }

    #[test]
    fn all_packs_are_read_again_within_28_daily_backups() {
        let packs: Vec<_> = (0..40).map(pack).collect();
        let all: Vec<_> = packs.iter().collect();
        let mut known = VerifiedPacks::default().next(&all, &all, 0);
        let mut read = HashSet::new();
        for day in 1..=28 {
            let now = day * DAY;
            let due = known.due(&packs, RepairScope::Changed, false, now);
            assert!(due.len() <= 2, "day {day}: {due:?}");
            assert!(day >= 7 || due.is_empty(), "day {day}: {due:?}");
            read.extend(names(&due));
            known = known.next(&all, &due, now);
        }
        assert_eq!(read.len(), packs.len());
    }

    #[test]
    fn oldest_packs_are_first_and_a_bucket_is_left_to_its_store() {
        let packs: Vec<_> = (0..3).map(pack).collect();
        let text = format!(
            r#"{{"{}": {{"stamp": 1, "atMs": 9}}, "{}": 2, "{}": {{"stamp": 7, "atMs": 9}}}}"#,
            packs[0].name, packs[1].name, packs[2].name
        );
        let known: VerifiedPacks = serde_json::from_str(&text).unwrap();
        let due = |is_far| known.due(&packs, RepairScope::Changed, is_far, 30 * DAY);
        // One that changed, and one of a release that noted no time.
        let [changed, oldest] = [&packs[2].name, &packs[1].name];
        assert_eq!(names(&due(false)), [changed.clone(), oldest.clone()]);
        assert_eq!(names(&due(true)), std::slice::from_ref(changed));
        let all = known.due(&packs, RepairScope::All, true, 0);
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn pack_that_was_not_read_keeps_its_time() {
        let packs: Vec<_> = (0..2).map(pack).collect();
        let all: Vec<_> = packs.iter().collect();
        let known = VerifiedPacks::default().next(&all, &all, 5);
        let known = known.next(&all, &all[..1], 9);
        let times = [0, 1].map(|n: usize| known.0[&packs[n].name].at_ms);
        assert_eq!(times, [9, 5]);
        let text = serde_json::to_string(&known).unwrap();
        let read: VerifiedPacks = serde_json::from_str(&text).unwrap();
        assert_eq!(read.0, known.0);
    }
}
