//! Work that waits for the kernel goes to threads that may wait.

use strata_types::{Error, Result};

/// Runs `work` where it may block. A panic in it is an internal error, not
/// the end of the daemon.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::internal(
            "the daemon stumbled over a bug; its log says where",
        )),
    }
}

/// Runs `work` to its end even if the caller goes away in the middle: a
/// client that vanishes leaves things whole, not half done.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::internal(
            "the daemon stumbled over a bug; its log says where",
        )),
    }
}
