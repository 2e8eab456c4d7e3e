//! Certificates are renewed before they end, while everything runs: after two
//! thirds of their lifetime, and again and again until it works.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strata_identity::{
    Ca, CertificateSpec, Clock, Credentials, CredentialsError, LiveIdentity, in_full, renew_at,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Checked this often at least: the wall clock may be set, and a machine may
/// sleep, both of which a long timer would not notice.
const CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// After a failure; doubled up to [`CHECK_INTERVAL`].
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Keeps `identity` renewed until `shutdown`: when it is due, or `stale`
/// reports that it must be replaced, `reissue` is called for new credentials,
/// and they are put into use.
pub async fn keep_renewed<F, R, E>(
    what: &str,
    identity: Arc<LiveIdentity>,
    clock: Clock,
    reissue: F,
    mut stale: watch::Receiver<()>,
    shutdown: CancellationToken,
) where
    F: Fn() -> R,
    R: Future<Output = Result<Credentials, E>>,
    E: Display,
{
    let mut retry = RETRY_INTERVAL;
    let mut is_stale = false;
    loop {
        let wait = match until_due(&identity, &clock) {
            Some(wait) if !is_stale => wait.min(CHECK_INTERVAL),
            _ => match renew(&identity, &reissue).await {
                Ok(()) => {
                    let until = identity.validity().not_after;
                    tracing::info!(what, %until, "certificate renewed");
                    (retry, is_stale) = (RETRY_INTERVAL, false);
                    // New credentials that are due at once are no reason to spin.
                    RETRY_INTERVAL
                }
                Err(error) => {
                    let until = identity.validity().not_after;
                    tracing::warn!(what, %error, %until, "certificate not renewed");
                    let wait = retry;
                    retry = (retry * 2).min(CHECK_INTERVAL);
                    wait
                }
            },
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = changed(&mut stale) => is_stale = true,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// The next change; never, once none can come.
async fn changed(stale: &mut watch::Receiver<()>) {
    if stale.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Keeps a server's own certificate renewed by the CA beside it.
pub async fn keep_served(
    authority: Arc<Ca>,
    spec: CertificateSpec,
    identity: Arc<LiveIdentity>,
    shutdown: CancellationToken,
) {
    let clock = authority.clock().clone();
    let reissue = || std::future::ready(authority.issue(&spec));
    let stale = authority.subscribe();
    keep_renewed("server", identity, clock, reissue, stale, shutdown).await;
}

/// Keeps the credentials in a directory renewed by the CA beside it.
pub async fn keep_written(
    authority: Arc<Ca>,
    spec: CertificateSpec,
    directory: PathBuf,
    shutdown: CancellationToken,
) -> Result<(), CredentialsError> {
    let credentials = Credentials::read(&directory)?;
    let identity = match LiveIdentity::new(&credentials) {
        Ok(identity) => Arc::new(identity),
        Err(_) => return Err(CredentialsError::Mismatch),
    };
    let clock = authority.clock().clone();
    let reissue = || {
        let written = || {
            let credentials = authority.issue(&spec).map_err(|error| in_full(&error))?;
            let wrote = credentials.write(&directory);
            wrote.map_err(|error| in_full(&error))?;
            Ok::<_, String>(credentials)
        };
        std::future::ready(written())
    };
    let stale = authority.subscribe();
    keep_renewed(
        "client directory",
        identity,
        clock,
        reissue,
        stale,
        shutdown,
    )
    .await;
    Ok(())
}

/// How long until renewal is due; `None` when it is.
fn until_due(identity: &LiveIdentity, clock: &Clock) -> Option<Duration> {
    let validity = identity.validity();
    let due = renew_at(validity.not_before, validity.not_after);
    let left: Duration = due.duration_since(clock.now()).try_into().ok()?;
    (!left.is_zero()).then_some(left)
}

async fn renew<F, R, E>(identity: &LiveIdentity, reissue: &F) -> Result<(), String>
where
    F: Fn() -> R,
    R: Future<Output = Result<Credentials, E>>,
    E: Display,
{
    let credentials = reissue().await.map_err(|error| error.to_string())?;
    identity.swap(&credentials).map_err(|error| in_full(&error))
}
