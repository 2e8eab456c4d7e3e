//! Exports of the records of an embedded store, one an hour, beside its file:
//! what to go on with when the file is damaged.
//!
//! ```text
//! DIR/store/kept/2026-11-18T01-00-00Z.jsonl   sealed, as in the store
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use strata_store::{DumpError, Store};
use strata_tasks::TaskGroup;

/// How often records are exported.
const EXPORT_INTERVAL: Duration = Duration::from_secs(3600);
/// How soon after the start, where the last one is old enough.
const FIRST: Duration = Duration::from_secs(60);
/// So many are kept.
const MOST: usize = 3;

/// Where exports of the store in a directory are.
fn place(store: &Path) -> PathBuf {
    store.join("kept")
}

/// The exports of a store, the oldest first.
fn all(store: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place(store)).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let is_export = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
    let mut all: Vec<_> = paths.filter(is_export).collect();
    // Their names are times.
    all.sort();
    all
}

/// The newest export of a store.
pub(crate) fn newest(store: &Path) -> Option<PathBuf> {
    all(store).pop()
}

/// Exports records every hour, until the group is stopped.
pub(crate) fn start(engine: Arc<dyn Store>, store: PathBuf, tasks: &TaskGroup) {
    tasks.restart("record-export", move || run(engine.clone(), store.clone()));
}

async fn run(engine: Arc<dyn Store>, store: PathBuf) {
    let mut pause = FIRST.max(EXPORT_INTERVAL.saturating_sub(age(&store)));
    loop {
        tokio::time::sleep(pause).await;
        pause = EXPORT_INTERVAL;
        match export(engine.as_ref(), &store).await {
            Ok(path) => tracing::debug!(path = %path.display(), "records exported"),
            Err(error) => tracing::warn!(%error, "store export failed"),
        }
    }
}

/// How old the newest export is; very old when there is none.
fn age(store: &Path) -> Duration {
    let written = newest(store).and_then(|path| path.metadata().ok()?.modified().ok());
    let age = written.and_then(|at| SystemTime::now().duration_since(at).ok());
    age.unwrap_or(EXPORT_INTERVAL)
}

/// Exports the records now, and lets the oldest exports go.
pub(crate) async fn export(engine: &dyn Store, store: &Path) -> Result<PathBuf, DumpError> {
    let dir = place(store);
    std::fs::create_dir_all(&dir)?;
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H-%M-%SZ")
        .to_string();
    let path = dir.join(format!("{now}.jsonl"));
    let part = dir.join("export.part");
    let mut options = tokio::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut writer = tokio::io::BufWriter::new(options.open(&part).await?);
    strata_store::export(engine, &mut writer).await?;
    writer.get_ref().sync_all().await?;
    std::fs::rename(&part, &path)?;
    let mut stored = all(store);
    while stored.len() > MOST {
        std::fs::remove_file(stored.remove(0))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use strata_store::{Memory, Transaction};

    use super::*;

    #[tokio::test]
    async fn few_exports_are_kept_and_the_newest_can_be_imported() {
        let dir = tempfile::tempdir().unwrap();
        let store = Memory::new();
        let put = Transaction::new().put("instance/1", "{}");
        store.commit(put).await.unwrap();
        assert_eq!(newest(dir.path()), None);
        for name in ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"] {
            let old = place(dir.path()).join(format!("{name}.jsonl"));
            std::fs::create_dir_all(place(dir.path())).unwrap();
            std::fs::write(old, "").unwrap();
        }
        let path = export(&store, dir.path()).await.unwrap();
        assert_eq!(newest(dir.path()).as_ref(), Some(&path));
        assert_eq!(all(dir.path()).len(), MOST);
        let text = std::fs::read(path).unwrap();
        let other = Memory::new();
        let many = strata_store::import(&other, &mut text.as_slice()).await;
        assert_eq!(many.unwrap(), 1);
    }
}
