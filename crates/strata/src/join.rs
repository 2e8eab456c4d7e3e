//! Joining a server: a token is traded for a certificate, once; after that
//! the certificate is renewed by the node itself.
//!
//! A machine inside a machine is handed its certificate by the node around it,
//! which also renews it: what it finds in its folder is all it needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_api::strata::v1::{JoinRequest, RenewCertificateRequest};
use strata_cli::{Exit, Failure, Global, Result};
use strata_client::{Address, ServerClient, Target};
use strata_identity::{
    CertificateRequest, Clock, Credentials, JoinToken, LiveIdentity, PrivateKeyPem,
};
use strata_transport::keep_renewed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::NodeArguments;
use crate::daemon::unexpected;

/// The identity of a node in the server's eyes.
pub(crate) struct Joined {
    pub(crate) ca_pem: String,
    /// Who renews it; whoever handed it over, when none.
    server: Option<Address>,
    folder: PathBuf,
    live: Arc<LiveIdentity>,
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
        (Ok(credentials), _) => credentials,
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
            ca_pem: credentials.ca_pem.clone(),
            server,
            folder,
            live: Arc::new(live),
        })
    }

    /// Serves with the certificate, and renews it with the server.
    pub(crate) fn keep(
        &self,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Arc<LiveIdentity> {
        let (live, shutdown) = (self.live.clone(), shutdown.clone());
        let (server, folder) = (self.server.clone(), self.folder.clone());
        tasks.spawn(async move {
            let current = live.clone();
            let renewing = || {
                let (server, folder, current) = (server.clone(), folder.clone(), current.clone());
                async move {
                    match server {
                        Some(server) => renew(server, folder).await,
                        None => read_again(&folder, &current),
                    }
                }
            };
            keep_renewed("node", live, Clock::system(), renewing, shutdown).await;
        });
        self.live.clone()
    }
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
    use std::time::Duration;

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
