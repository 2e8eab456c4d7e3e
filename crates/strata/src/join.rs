//! Joining a server: a token is traded for a certificate, once; after that
//! the certificate is renewed by the node itself.
//!
//! A machine inside a machine is handed its certificate by the node around it,
//! which also renews it: what it finds in its directory is all it needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_api::strata::v1::{JoinRequest, RenewCertificateRequest, WhoAmIRequest};
use strata_cli::{Exit, Failure, Global, Result};
use strata_client::{Address, ServerClient, Target};
use strata_identity::{
    CertificateRequest, Clock, Credentials, JoinToken, LiveIdentity, LiveTrust, PrivateKeyPem,
};
use strata_node::images::keep_joined;
use strata_node::{StoredTrust, named_servers};
use strata_tasks::TaskGroup;
use strata_transport::keep_renewed;
use strata_types::ErrorKind;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::NodeArguments;
use crate::daemon::unexpected;

/// Interval of checks for credentials that were handed over.
const HANDOVER_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of retries while the server does not answer whether it rejects this
/// node.
const REJOIN_INTERVAL: Duration = Duration::from_secs(5);

/// The identity of a node in the server's eyes.
pub(crate) struct Joined {
    pub(crate) trust: Arc<LiveTrust>,
    /// Wakes when the certificate has to be replaced.
    stale: watch::Sender<()>,
    /// Renews the certificate; `None` if it was handed over from outside.
    server: Option<Address>,
    directory: PathBuf,
    live: Arc<LiveIdentity>,
    /// How to join again if the server rejects the stored identity.
    rejoin: Option<Rejoin>,
}

/// A token beside an identity of before: for a node that was removed and is to
/// come back.
#[derive(Clone)]
struct Rejoin {
    server: Address,
    token: String,
    name: Option<String>,
    known: Credentials,
}

/// The identity of an earlier join, or of a join now; `None` for a node without
/// a server.
pub(crate) async fn ensure(
    global: &Global,
    arguments: &NodeArguments,
    data_dir: &Path,
) -> Result<Option<Joined>> {
    let handed = data_dir.join(strata_node::HANDED_IDENTITY);
    if let Ok(credentials) = Credentials::read(&handed) {
        return Joined::new(&credentials, None, handed).map(Some);
    }
    let directory = data_dir.join("identity");
    let credentials = match (Credentials::read(&directory), &arguments.join_token) {
        (Ok(known), Some(token)) => {
            let mut joined = Joined::new(&known, Some(server(global)?), directory)?;
            joined.rejoin = Some(Rejoin {
                server: server(global)?,
                token: token.clone(),
                name: arguments.name.clone(),
                known,
            });
            return Ok(Some(joined));
        }
        (Ok(credentials), None) => credentials,
        (Err(_), Some(token)) => {
            let name = arguments.name.as_deref();
            let credentials = join(server(global)?, token, name, data_dir).await?;
            credentials.write(&directory).map_err(unexpected)?;
            credentials
        }
        (Err(_), None) if global.server.is_some() => {
            return Err(Failure::new(
                Exit::Usage,
                "--server requires --join-token on the first start",
            )
            .hint("create one on the server: strata token create --join"));
        }
        (Err(_), None) => return Ok(None),
    };
    Joined::new(&credentials, Some(server(global)?), directory).map(Some)
}

fn server(global: &Global) -> Result<Address> {
    global
        .server
        .clone()
        .ok_or_else(|| Failure::new(Exit::Usage, "joining requires --server https://HOST:PORT"))
}

/// Whether the server rejects these credentials, as it does for a removed node,
/// which joins again with a new token. `None` while the server does not answer.
async fn is_refused(server: Address, known: &Credentials) -> Option<bool> {
    let target = Target::Tls {
        address: server,
        credentials: known.clone(),
    };
    let client = ServerClient::connect(&target).await.ok()?;
    let asked = client.identity().who_am_i(WhoAmIRequest {}).await;
    match asked.map_err(|status| strata_api::error_from_status(&status)) {
        Ok(_) => Some(false),
        Err(error) if error.kind() == ErrorKind::Unauthenticated => {
            tracing::warn!(%error, "the server rejects the identity of this node");
            Some(true)
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => None,
        Err(_) => Some(false),
    }
}

/// Joins again if the server rejects the stored identity. The node does not
/// wait for it: a daemon that starts while no server answers has a lease that
/// continues, and peers that count on it as their witness.
async fn rejoin_if_refused(
    rejoin: Rejoin,
    directory: PathBuf,
    live: Arc<LiveIdentity>,
    trust: Arc<LiveTrust>,
    shutdown: CancellationToken,
) {
    let refused = loop {
        let asked = is_refused(rejoin.server.clone(), &rejoin.known);
        let asked = tokio::select! {
            () = shutdown.cancelled() => return,
            asked = asked => asked,
        };
        if let Some(refused) = asked {
            break refused;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(REJOIN_INTERVAL) => {}
        }
    };
    if !refused {
        return;
    }
    let data_dir = directory.parent().unwrap_or(&directory);
    let name = rejoin.name.as_deref();
    let joined = join(rejoin.server, &rejoin.token, name, data_dir).await;
    let used = joined.and_then(|credentials| {
        credentials.write(&directory).map_err(unexpected)?;
        trust.replace(&credentials.ca_pem).map_err(unexpected)?;
        live.swap(&credentials).map_err(unexpected)
    });
    // What runs here goes on; the log says why no server is followed.
    if let Err(error) = used {
        tracing::warn!(?error, "this node cannot join again");
    }
}

async fn join(
    server: Address,
    token: &str,
    name: Option<&str>,
    data_dir: &Path,
) -> Result<Credentials> {
    let parsed =
        JoinToken::parse(token).ok_or_else(|| Failure::new(Exit::Usage, "not a join token"))?;
    let target = Target::Join {
        address: server,
        fingerprint: parsed.ca_fingerprint(),
    };
    let client = ServerClient::connect(&target).await?;
    let (key, csr_pem) = CertificateRequest::generate().map_err(unexpected)?;
    let request = JoinRequest {
        token: token.to_owned(),
        node_name: name.unwrap_or_default().to_owned(),
        csr_pem,
    };
    let issued = client
        .identity()
        .join(request)
        .await
        .map_err(|status| client.error(&status))?;
    let mut issued = issued.into_inner();
    tracing::info!(name = issued.name, "joined");
    // Before the identity is kept, which is the mark of a finished join.
    if let Some(registries) = issued.registries.take() {
        keep_joined(data_dir, registries).map_err(unexpected)?;
    }
    Ok(credentials(issued, key))
}

fn credentials(
    issued: strata_api::strata::v1::IssuedCertificate,
    key: PrivateKeyPem,
) -> Credentials {
    Credentials {
        ca_pem: issued.ca_pem,
        certificate_pem: issued.certificate_pem,
        key_pem: key,
    }
}

impl Joined {
    fn new(credentials: &Credentials, server: Option<Address>, directory: PathBuf) -> Result<Self> {
        let live = LiveIdentity::new(credentials).map_err(unexpected)?;
        Ok(Self {
            trust: Arc::new(LiveTrust::new(&credentials.ca_pem).map_err(unexpected)?),
            stale: watch::Sender::new(()),
            server,
            directory,
            live: Arc::new(live),
            rejoin: None,
        })
    }

    /// Where the roots that the server names are kept. Roots that were handed
    /// over are kept by the party that did so.
    pub(crate) fn stored_trust(&self) -> Option<StoredTrust> {
        let kept = || StoredTrust::new(&self.directory, self.trust.clone(), self.stale.clone());
        self.server.as_ref().map(|_| kept())
    }

    /// Serves with the certificate, and renews it with whichever of the servers
    /// answers: the one it joined may be gone permanently.
    pub(crate) fn keep(&self, servers: &[Address], tasks: &TaskGroup) -> Arc<LiveIdentity> {
        let configured: Vec<Address> = self.server.iter().chain(servers).cloned().collect();
        let data_dir = self.directory.parent().map(Path::to_path_buf);
        let (live, shutdown) = (self.live.clone(), tasks.shutdown().clone());
        let (server, directory) = (self.server.clone(), self.directory.clone());
        let stale = self.stale.subscribe();
        if let Some(rejoin) = self.rejoin.clone() {
            let (directory, trust) = (directory.clone(), self.trust.clone());
            let (live, shutdown) = (live.clone(), shutdown.clone());
            tasks.restart("rejoin", move || {
                let (rejoin, directory) = (rejoin.clone(), directory.clone());
                let (live, trust) = (live.clone(), trust.clone());
                rejoin_if_refused(rejoin, directory, live, trust, shutdown.clone())
            });
        }
        if server.is_none() {
            let (directory, trust) = (directory.clone(), self.trust.clone());
            let (live, shutdown) = (live.clone(), shutdown.clone());
            tasks.restart("provided-certificate", move || {
                let (directory, live, trust) = (directory.clone(), live.clone(), trust.clone());
                follow_handed(directory, live, trust, shutdown.clone())
            });
        }
        tasks.restart("node-certificate", move || {
            let (live, server, directory) = (live.clone(), server.clone(), directory.clone());
            let (configured, data_dir) = (configured.clone(), data_dir.clone());
            let (stale, shutdown) = (stale.clone(), shutdown.clone());
            async move {
                let current = live.clone();
                let renewing = || {
                    let (directory, current) = (directory.clone(), current.clone());
                    let any = server.as_ref().map(|_| {
                        // Read each time: servers come and go.
                        let named = data_dir.as_deref().map(named_servers);
                        each_once(
                            configured
                                .iter()
                                .cloned()
                                .chain(named.into_iter().flatten()),
                        )
                    });
                    async move {
                        match any {
                            Some(any) => {
                                renew_at_any(any, |server| renew(server, directory.clone())).await
                            }
                            None => read_again(&directory, &current),
                        }
                    }
                };
                keep_renewed("node", live, Clock::system(), renewing, stale, shutdown).await;
            }
        });
        self.live.clone()
    }
}

/// Each of these servers, where it comes first.
fn each_once(servers: impl Iterator<Item = Address>) -> Vec<Address> {
    let mut all = Vec::new();
    for server in servers {
        if !all.contains(&server) {
            all.push(server);
        }
    }
    all
}

/// Renews with the first of the servers that does; otherwise why each does not.
async fn renew_at_any<T, F>(
    servers: Vec<Address>,
    renew: impl Fn(Address) -> F,
) -> std::result::Result<T, String>
where
    F: Future<Output = std::result::Result<T, String>>,
{
    let mut reasons = Vec::new();
    for server in servers {
        let name = server.to_string();
        match renew(server).await {
            Ok(renewed) => return Ok(renewed),
            Err(why) => reasons.push(format!("{name}: {why}")),
        }
    }
    Err(reasons.join("; "))
}

async fn renew(address: Address, directory: PathBuf) -> std::result::Result<Credentials, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let current = Credentials::read(&directory).map_err(|error| text(&error))?;
    let target = Target::Tls {
        address,
        credentials: current,
    };
    let client = ServerClient::connect(&target)
        .await
        .map_err(|error| text(&error))?;
    let (key, csr_pem) = CertificateRequest::generate().map_err(|error| text(&error))?;
    let request = RenewCertificateRequest { csr_pem };
    let issued = client
        .identity()
        .renew_certificate(request)
        .await
        .map_err(|error| text(&error))?;
    let renewed = credentials(issued.into_inner(), key);
    renewed.write(&directory).map_err(|error| text(&error))?;
    Ok(renewed)
}

/// Puts into use what is handed over before it is due, as it is when the CA of
/// the node around is rotated: certificate and roots.
async fn follow_handed(
    directory: PathBuf,
    live: Arc<LiveIdentity>,
    trust: Arc<LiveTrust>,
    shutdown: CancellationToken,
) {
    let mut known = String::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(HANDOVER_POLL_INTERVAL) => {}
        }
        let Ok(found) = Credentials::read(&directory) else {
            continue;
        };
        if let Err(error) = trust.replace(&found.ca_pem) {
            tracing::warn!(%error, "cannot use the CA roots that were handed over");
        }
        if found.certificate_pem != known && live.swap(&found).is_ok() {
            known = found.certificate_pem;
        }
    }
}

/// What was handed over meanwhile, if it lasts longer than what there is.
fn read_again(
    directory: &Path,
    current: &LiveIdentity,
) -> std::result::Result<Credentials, String> {
    let found = Credentials::read(directory).map_err(|error| error.to_string())?;
    let until = found.validity().map_err(|error| error.to_string())?;
    match until.not_after > current.validity().not_after {
        true => Ok(found),
        false => Err("no new certificate was handed over yet".into()),
    }
}

#[cfg(test)]
mod tests {
    use strata_identity::{Ca, CertificateSpec};
    use strata_types::Role;

    use super::*;

    #[test]
    fn handed_over_certificate_is_used_if_it_lasts_longer() {
        strata_identity::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let authority = Ca::open(&directory.path().join("ca")).unwrap();
        let lasting = |seconds| {
            let spec = CertificateSpec::caller("n1".parse().unwrap(), Role::Node);
            let spec = spec.lasting(Duration::from_secs(seconds)).unwrap();
            authority.issue(&spec).unwrap()
        };
        let handed = directory.path().join("handed");
        let first = lasting(600);
        first.write(&handed).unwrap();
        let live = LiveIdentity::new(&first).unwrap();
        assert!(read_again(&handed, &live).is_err(), "it is the same");
        lasting(3600).write(&handed).unwrap();
        let next = read_again(&handed, &live).unwrap();
        assert!(next.validity().unwrap().not_after > live.validity().not_after);
    }
}

#[cfg(test)]
mod renewal_tests {
    use super::*;

    #[tokio::test]
    async fn certificate_is_renewed_at_any_server() {
        let server = |text: &str| text.parse::<Address>().unwrap();
        let (gone, there) = (
            server("https://192.0.2.1:7700"),
            server("https://192.0.2.2:7700"),
        );
        let ask = |address: Address| async move {
            match address.to_string().contains("192.0.2.2") {
                true => Ok(address.to_string()),
                false => Err("no route to host".to_owned()),
            }
        };
        let renewed = renew_at_any(vec![gone.clone(), there], ask).await.unwrap();
        assert!(renewed.contains("192.0.2.2"));
        let twice = [gone.clone(), server("https://192.0.2.2:7700"), gone.clone()];
        assert_eq!(each_once(twice.into_iter()).len(), 2);
        let why = renew_at_any(vec![gone], ask).await.unwrap_err();
        assert!(
            why.contains("192.0.2.1") && why.contains("no route"),
            "{why}"
        );
    }
}
