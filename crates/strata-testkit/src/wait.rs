//! Waiting on conditions: the one place in the tests that sleeps.

use std::panic::Location;
use std::time::{Duration, Instant};

/// How long anything may take on a machine that is busy with other tests.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Polls until the condition holds, and returns what it found. The condition's
/// error names what is still missing; it becomes the text of the failure.
///
/// # Panics
/// When the condition does not hold in time.
#[track_caller]
pub fn wait_for<T>(
    what: &str,
    timeout: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let begin = Instant::now();
        loop {
            let missing = match condition().await {
                Ok(found) => return found,
                Err(missing) => missing,
            };
            assert!(
                begin.elapsed() < timeout,
                "waited {timeout:?} for {what} at {caller}; {missing}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// The same on a thread that may block.
///
/// # Panics
/// When the condition does not hold in time.
#[track_caller]
pub fn wait_for_blocking<T>(
    what: &str,
    timeout: Duration,
    mut condition: impl FnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    loop {
        let missing = match condition() {
            Ok(found) => return found,
            Err(missing) => missing,
        };
        assert!(
            begin.elapsed() < timeout,
            "waited {timeout:?} for {what}; {missing}"
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// A condition that is only yes or no.
pub fn holds(condition: bool) -> Result<(), String> {
    condition.then_some(()).ok_or_else(|| "not yet".to_owned())
}

/// Two values that are to become equal.
pub fn same<T: PartialEq + std::fmt::Debug>(now: T, wanted: &T) -> Result<T, String> {
    if now == *wanted {
        return Ok(now);
    }
    Err(format!("is {now:?}, not {wanted:?}"))
}
