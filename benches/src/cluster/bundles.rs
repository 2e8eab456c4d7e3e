//! What of Kubernetes is in the cache of this machine. `make kubernetes`
//! builds it; without it there is nothing to measure.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Result;

/// A version in the cache.
pub(crate) struct Bundle {
    /// `[1, 34, 4]`, to compare.
    number: [u32; 3],
    pub(crate) dir: PathBuf,
}

impl Bundle {
    /// `v1.34.4`.
    pub(crate) fn version(&self) -> String {
        let [major, minor, patch] = self.number;
        format!("v{major}.{minor}.{patch}")
    }

    /// The tag of the image that holds the namespaces of a pod.
    pub(crate) fn pause(&self) -> Result<String> {
        let told: Value = serde_json::from_slice(&fs::read(self.dir.join("bundle.json"))?)?;
        let pause = told["pause"].as_str().ok_or("a bundle without pause")?;
        Ok(pause.to_owned())
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }
}

/// The version that is measured, and the one it is upgraded to, where both are
/// there.
pub(crate) struct Bundles {
    pub(crate) dir: PathBuf,
    pub(crate) first: Bundle,
    pub(crate) next: Option<Bundle>,
}

impl Bundles {
    /// The reason where there is none.
    pub(crate) fn find() -> std::result::Result<Self, String> {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let cache = std::env::var_os("STRATA_CACHE").filter(|it| !it.is_empty());
        let cache = cache.map_or_else(|| home().join(".cache/strata"), PathBuf::from);
        let dir = cache.join("kubernetes");
        let mut all = all(&dir);
        all.sort_by_key(|bundle| bundle.number);
        let Some(oldest) = all.first().map(|bundle| bundle.number) else {
            let dir = dir.display();
            return Err(format!(
                "no Kubernetes in {dir}; `make kubernetes` builds it"
            ));
        };
        // The newest patch of the oldest minor version and of the one after it.
        let mut newest = |minor: u32| {
            let meant = |it: &Bundle| it.number[..2] == [oldest[0], minor];
            let place = all.iter().rposition(meant)?;
            Some(all.remove(place))
        };
        let first = newest(oldest[1]).ok_or("the version is gone")?;
        let next = newest(oldest[1] + 1);
        Ok(Self { dir, first, next })
    }
}

fn all(dir: &Path) -> Vec<Bundle> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let whole = paths.filter(|path| path.join("bundle.json").exists());
    let read = |dir: PathBuf| {
        let name = dir.file_name()?.to_str()?.strip_prefix('v')?;
        let parts: Option<Vec<u32>> = name.split('.').map(|part| part.parse().ok()).collect();
        let number = parts?.try_into().ok()?;
        Some(Bundle { number, dir })
    };
    whole.filter_map(read).collect()
}
