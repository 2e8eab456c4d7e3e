//! Work that waits for the kernel, and work that must not be cut short.

use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work`, which blocks for a moment, right here: the runtime's other
/// tasks move to another thread meanwhile. Handing the work over instead
/// would cost two wake-ups on the way of every request.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        // It has one thread, so none of its tasks can move to another.
        Ok(RuntimeFlavor::CurrentThread) => work(),
        _ => tokio::task::block_in_place(work),
    }
}

/// Runs `work` to its end even if the caller goes away in the middle: a
/// client that vanishes leaves things whole, not half done.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match spawn_detached("request", work).await {
        Ok(result) => result,
        Err(_) => Err(Error::internal("internal error; see the daemon log")),
    }
}

/// Begins `work`, which blocks for a moment, on another thread at once; the
/// answer is waited for later.
pub(crate) fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let task = tokio::task::spawn_blocking(work);
    async move {
        match task.await {
            Ok(result) => result,
            Err(_) => Err(Error::internal("internal error; see the daemon log")),
        }
    }
}
