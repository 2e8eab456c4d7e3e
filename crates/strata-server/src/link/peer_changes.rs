//! Which nodes changed since a node was last sent its peers. Where there are
//! many, changes are gathered for a while: a node that comes or goes is
//! announced to all of them, and when all come back at once, each is sent all.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// How long changes are gathered, for each node there is.
const DEBOUNCE_PER_NODE: Duration = Duration::from_micros(500);
const MAX_DEBOUNCE: Duration = Duration::from_secs(5);

/// The nodes that changed.
#[derive(Debug, Default)]
pub(super) struct PeerChanges {
    names: BTreeSet<String>,
    due_at: Option<Instant>,
}

impl PeerChanges {
    /// These changed, in a cluster of so many.
    pub(super) fn changed(&mut self, names: HashSet<String>, nodes: usize) {
        self.names.extend(names);
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let gather = DEBOUNCE_PER_NODE.saturating_mul(nodes).min(MAX_DEBOUNCE);
        self.due_at.get_or_insert(Instant::now() + gather);
    }

    /// Until it is time to send them.
    pub(super) async fn due(&self) {
        match self.due_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Those that are to be sent.
    pub(super) fn take(&mut self) -> BTreeSet<String> {
        self.due_at = None;
        std::mem::take(&mut self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_are_gathered_for_longer_where_there_are_many_nodes() {
        for (nodes, wait) in [(2, 1), (1000, 500), (100_000, 5000)] {
            let mut news = PeerChanges::default();
            let begin = Instant::now();
            news.changed(["a".to_owned()].into(), nodes);
            tokio::time::sleep(Duration::from_micros(100)).await;
            news.changed(["b".to_owned()].into(), nodes);
            news.due().await;
            let waited = begin.elapsed();
            let (least, most) = (Duration::from_millis(wait), Duration::from_millis(wait + 5));
            assert!(waited >= least && waited <= most, "{nodes}: {waited:?}");
            assert_eq!(news.take().len(), 2);
            assert!(news.take().is_empty());
        }
    }
}
