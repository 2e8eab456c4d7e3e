//! Sampling the figures of control groups, for their watchers. A sample reads
//! many files of the kernel, so watchers take turns, and after each sample as
//! much time passes as it took: however many watch, and whatever interval they
//! request, sampling takes half a processor at most. Where that is not enough,
//! all watchers receive fewer samples.

use std::time::Instant;

use strata_tasks::spawn_detached;
use tokio::sync::Semaphore;

/// One for the process, since there is one kernel to look at.
static TURN: Semaphore = Semaphore::const_new(1);

/// Looks when it is this watcher's turn.
pub(super) async fn sample<T>(look: impl FnOnce() -> T) -> T {
    // The semaphore is never closed; without a turn there is only the look.
    let turn = TURN.acquire().await.ok();
    let begin = Instant::now();
    let seen = look();
    let took = begin.elapsed();
    spawn_detached("sampling-pause", async move {
        tokio::time::sleep(took).await;
        drop(turn);
    });
    seen
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_watchers_look_one_after_the_other_and_rest_between() {
        const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
        let begin = Instant::now();
        let watchers: Vec<_> = (0..8)
            .map(|_| tokio::spawn(sample(|| std::thread::sleep(MIN_SAMPLE_INTERVAL))))
            .collect();
        for watcher in watchers {
            watcher.await.unwrap();
        }
        let took = begin.elapsed();
        assert!(took >= MIN_SAMPLE_INTERVAL * 15, "{took:?}");
    }
}
