//! Joining a server: a token is traded for a certificate, once; after that
//! the certificate is renewed by the node itself.
//!
//! A machine inside a machine is handed its certificate by the node around it,
//! which also renews it: what it finds in its folder is all it needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_api::strata::v1::{JoinRequest, RenewCertificateRequest, WhoAmIRequest};
use strata_cli::{Exit, Failure, Global, Result};
use strata_client::{Address, ServerClient, Target};
use strata_identity::{
    CertificateRequest, Clock, Credentials, JoinToken, LiveIdentity, LiveTrust, PrivateKeyPem,
};
use strata_node::{KeptTrust, named_servers};
use strata_transport::keep_renewed;
use strata_types::ErrorKind;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::NodeArguments;
use crate::daemon::unexpected;

/// How often what was handed over is looked at.
const HANDED_INTERVAL: Duration = Duration::from_secs(5);
/// How often a server that does not answer is asked whether it refuses this node.
const REJOIN_INTERVAL: Duration = Duration::from_secs(5);

/// The identity of a node in the server's eyes.
pub(crate) struct Joined {
    pub(crate) trust: Arc<LiveTrust>,
    /// Says that the certificate is to be another.
    stale: watch::Sender<()>,
    /// Who renews it; whoever handed it over, when none.
    server: Option<Address>,
    folder: PathBuf,
    live: Arc<LiveIdentity>,
    /// How to join anew, should the server refuse the identity of before.
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

/// The identity of an earlier join, or of one that is made now; none for a
/// node that was never told to join.
pub(crate) async fn ensure(
    global: &Global,
    arguments: &NodeArguments,
    data_dir: &Path,
) -> Result<Option<Joined>> {
    let handed = data_dir.join(strata_node::HANDED_IDENTITY);
    if let Ok(credentials) = Credentials::read(&handed) {
        return Joined::new(&credentials, None, handed).map(Some);
    }
    let folder = data_dir.join("identity");
    let credentials = match (Credentials::read(&folder), &arguments.join_token) {
        (Ok(known), Some(token)) => {
            let mut joined = Joined::new(&known, Some(server(global)?), folder)?;
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
            let credentials = join(server(global)?, token, arguments.name.as_deref()).await?;
            credentials.write(&folder).map_err(unexpected)?;
            credentials
        }
        (Err(_), None) if global.server.is_some() => {
            return Err(
                Failure::new(Exit::Usage, "--server needs --join-token the first time")
                    .hint("make one on the server: strata token create --join"),
            );
        }
        (Err(_), None) => return Ok(None),
    };
    Joined::new(&credentials, Some(server(global)?), folder).map(Some)
}

fn server(global: &Global) -> Result<Address> {
    global.server.clone().ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "a node that joins needs --server https://HOST:PORT",
        )
    })
}

/// Whether the server refuses these credentials, as it does those of a node
/// that was removed: that one comes back with a new token. None while it does
/// not answer: then it has not said so.
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
            tracing::warn!(%error, "the server refuses the identity of this node");
            Some(true)
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => None,
        Err(_) => Some(false),
    }
}

/// Joins anew where the server refuses the identity of before. The node does
/// not wait for it: a daemon that starts while no server answers has a lease
/// that goes on, and peers that count on it as their witness.
async fn rejoin_if_refused(
    rejoin: Rejoin,
    folder: PathBuf,
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
    let joined = join(rejoin.server, &rejoin.token, rejoin.name.as_deref()).await;
    let used = joined.and_then(|credentials| {
        credentials.write(&folder).map_err(unexpected)?;
        trust.replace(&credentials.ca_pem).map_err(unexpected)?;
        live.swap(&credentials).map_err(unexpected)
    });
    // What runs here goes on; the log says why no server is followed.
    if let Err(error) = used {
        tracing::warn!(?error, "this node cannot join anew");
    }
}

async fn join(server: Address, token: &str, name: Option<&str>) -> Result<Credentials> {
    let parsed = JoinToken::parse(token)
        .ok_or_else(|| Failure::new(Exit::Usage, "that is no join token"))?;
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
    let issued = issued.into_inner();
    tracing::info!(name = issued.name, "joined");
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
    fn new(credentials: &Credentials, server: Option<Address>, folder: PathBuf) -> Result<Self> {
        let live = LiveIdentity::new(credentials).map_err(unexpected)?;
        Ok(Self {
            trust: Arc::new(LiveTrust::new(&credentials.ca_pem).map_err(unexpected)?),
            stale: watch::Sender::new(()),
            server,
            folder,
            live: Arc::new(live),
            rejoin: None,
        })
    }

    /// Where the roots that the server names are kept. What was handed over is
    /// kept by whoever did that.
    pub(crate) fn kept_trust(&self) -> Option<KeptTrust> {
        let kept = || KeptTrust::new(&self.folder, self.trust.clone(), self.stale.clone());
        self.server.as_ref().map(|_| kept())
    }

    /// Serves with the certificate, and renews it with whichever of the servers
    /// answers: the one it joined may be gone for good.
    pub(crate) fn keep(
        &self,
        servers: &[Address],
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Arc<LiveIdentity> {
        let configured: Vec<Address> = self.server.iter().chain(servers).cloned().collect();
        let data_dir = self.folder.parent().map(Path::to_path_buf);
        let (live, shutdown) = (self.live.clone(), shutdown.clone());
        let (server, folder) = (self.server.clone(), self.folder.clone());
        let stale = self.stale.subscribe();
        if let Some(rejoin) = self.rejoin.clone() {
            let (folder, trust) = (folder.clone(), self.trust.clone());
            let (live, shutdown) = (live.clone(), shutdown.clone());
            tasks.spawn(rejoin_if_refused(rejoin, folder, live, trust, shutdown));
        }
        if server.is_none() {
            let (folder, trust) = (folder.clone(), self.trust.clone());
            let (live, shutdown) = (live.clone(), shutdown.clone());
            tasks.spawn(async move { follow_handed(folder, live, trust, shutdown).await });
        }
        tasks.spawn(async move {
            let current = live.clone();
            let renewing = || {
                let (folder, current) = (folder.clone(), current.clone());
                let any = server.as_ref().map(|_| {
                    // Asked each time: servers come and go.
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
                            renew_at_any(any, |server| renew(server, folder.clone())).await
                        }
                        None => read_again(&folder, &current),
                    }
                }
            };
            keep_renewed("node", live, Clock::system(), renewing, stale, shutdown).await;
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

async fn renew(address: Address, folder: PathBuf) -> std::result::Result<Credentials, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let current = Credentials::read(&folder).map_err(|error| text(&error))?;
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
    renewed.write(&folder).map_err(|error| text(&error))?;
    Ok(renewed)
}

/// Puts into use what is handed over before it is due, as it is when the CA of
/// the node around is rotated: certificate and roots.
async fn follow_handed(
    folder: PathBuf,
    live: Arc<LiveIdentity>,
    trust: Arc<LiveTrust>,
    shutdown: CancellationToken,
) {
    let mut known = String::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(HANDED_INTERVAL) => {}
        }
        let Ok(found) = Credentials::read(&folder) else {
            continue;
        };
        if let Err(error) = trust.replace(&found.ca_pem) {
            tracing::warn!(%error, "the roots that were handed over are not used");
        }
        if found.certificate_pem != known && live.swap(&found).is_ok() {
            known = found.certificate_pem;
        }
    }
}

/// What was handed over meanwhile, if it lasts longer than what there is.
fn read_again(folder: &Path, current: &LiveIdentity) -> std::result::Result<Credentials, String> {
    let found = Credentials::read(folder).map_err(|error| error.to_string())?;
    let until = found.validity().map_err(|error| error.to_string())?;
    match until.not_after > current.validity().not_after {
        true => Ok(found),
        false => Err("nobody has handed over a new one yet".into()),
    }
}

#[cfg(test)]
mod tests {
    use strata_identity::{Authority, CertificateSpec};
    use strata_types::Role;

    use super::*;

    #[test]
    fn what_is_handed_over_is_taken_when_it_lasts_longer() {
        strata_identity::install_crypto_provider();
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(&folder.path().join("ca")).unwrap();
        let lasting = |seconds| {
            let spec = CertificateSpec::caller("n1".parse().unwrap(), Role::Node);
            let spec = spec.lasting(Duration::from_secs(seconds)).unwrap();
            authority.issue(&spec).unwrap()
        };
        let handed = folder.path().join("handed");
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
