//! What of Kubernetes is in the cache of this machine. Where it cannot be
//! built there is nothing to test with, and that is said.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use strata_testkit::skip;

/// Set by `make test-clusters` where Kubernetes cannot be built, to the reason.
const CANNOT: &str = "STRATA_NO_KUBERNETES";

/// Two versions, one minor apart.
#[derive(Clone, Debug)]
pub(crate) struct Bundles {
    /// The directory of all.
    pub(crate) dir: PathBuf,
    /// The older one: `v1.34.4`.
    pub(crate) old: String,
    /// The newer one: `v1.35.4`.
    pub(crate) new: String,
}

impl Bundles {
    /// The newest patches of 1.34 and 1.35; none where they are not there, and
    /// then the reason is told.
    pub(crate) fn find() -> Option<Self> {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let cache = std::env::var_os("STRATA_CACHE").filter(|it| !it.is_empty());
        let cache = cache.map_or_else(|| home().join(".cache/strata"), PathBuf::from);
        let dir = cache.join("kubernetes");
        if let (Some(old), Some(new)) = (newest(&dir, "1.34"), newest(&dir, "1.35")) {
            return Some(Self { dir, old, new });
        }
        match std::env::var(CANNOT) {
            // Whoever asks for all tests knows that this cannot be had here.
            Ok(why) if !why.is_empty() => {
                let _ = writeln!(std::io::stderr(), "skipped, nothing is proven: {why}");
            }
            _ => skip(format!(
                "no Kubernetes 1.34 and 1.35 in {}; `make kubernetes` builds them",
                dir.display()
            )),
        }
        None
    }

    /// A program of a version.
    pub(crate) fn program(&self, version: &str, name: &str) -> String {
        let path = self.dir.join(version).join("bin").join(name);
        path.display().to_string()
    }
}

fn newest(dir: &std::path::Path, minor: &str) -> Option<String> {
    let start = format!("v{minor}.");
    let patch = |name: &str| name.strip_prefix(&start)?.parse::<u32>().ok();
    let there = fs::read_dir(dir).ok()?.flatten();
    let there = there.filter(|entry| entry.path().join("bundle.json").exists());
    let names = there.filter_map(|entry| entry.file_name().into_string().ok());
    let last = names.filter_map(|name| Some((patch(&name)?, name))).max()?;
    Some(last.1)
}
