//! Joining a server: a token is traded for a certificate, once; after that
//! the certificate is renewed by the node itself.

use std::path::Path;
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
    server: Address,
    folder: std::path::PathBuf,
    live: Arc<LiveIdentity>,
}

/// The identity of an earlier join, or of one that is made now; none for a
/// node that was never told to join.
pub(crate) async fn ensure(
    global: &Global,
    arguments: &NodeArguments,
    data_dir: &Path,
) -> Result<Option<Joined>> {
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
    let live = LiveIdentity::new(&credentials).map_err(unexpected)?;
    Ok(Some(Joined {
        ca_pem: credentials.ca_pem.clone(),
        server: server(global)?,
        folder,
        live: Arc::new(live),
    }))
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
    /// Serves with the certificate, and renews it with the server.
    pub(crate) fn keep(
        &self,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Arc<LiveIdentity> {
        let (live, shutdown) = (self.live.clone(), shutdown.clone());
        let (server, folder) = (self.server.clone(), self.folder.clone());
        tasks.spawn(async move {
            let renewing = || renew(server.clone(), folder.clone());
            keep_renewed("node", live, Clock::system(), renewing, shutdown).await;
        });
        self.live.clone()
    }
}

async fn renew(
    address: Address,
    folder: std::path::PathBuf,
) -> std::result::Result<Credentials, String> {
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
