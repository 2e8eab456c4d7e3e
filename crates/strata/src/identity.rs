//! The identities of one run: its CA, its tokens, and what local root finds
//! in `DIR/client`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_cli::{Exit, Failure};
use strata_identity::{
    Ca, CertificateId, CertificateSpec, Credentials, Host, LiveIdentity, Name, PrivateKeyPem,
    Tokens,
};
use strata_server::core::Core;
use strata_tasks::{TaskGroup, spawn_detached};
use strata_transport::{keep_renewed, keep_served, keep_written};
use strata_types::Role;

const ADMIN: &str = "local-admin";
const TOKEN_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The CA and the tokens of a run that has its own.
#[derive(Clone)]
pub(crate) struct Identities {
    pub(crate) authority: Arc<Ca>,
    pub(crate) tokens: Arc<Tokens>,
}

fn failure(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Unexpected, format!("cannot {what}: {error}"))
}

/// The directory for clients on this machine.
pub(crate) fn client_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("client")
}

impl Identities {
    /// Opens the CA and the tokens, and makes sure that `DIR/client` works.
    pub(crate) fn open(data_dir: &Path) -> Result<Self, Failure> {
        let authority = Ca::open(&data_dir.join("ca")).map_err(|e| failure("open the CA", e))?;
        let tokens = Tokens::open(&data_dir.join("tokens.json"))
            .map_err(|e| failure("open the tokens", e))?;
        let identities = Self {
            authority: Arc::new(authority),
            tokens: Arc::new(tokens),
        };
        identities.ensure_client(&client_dir(data_dir))?;
        Ok(identities)
    }

    fn admin() -> Result<CertificateSpec, Failure> {
        let name: Name = ADMIN
            .parse()
            .map_err(|e| failure("name the local admin", e))?;
        Ok(CertificateSpec::caller(name, Role::Admin))
    }

    fn ensure_client(&self, directory: &Path) -> Result<(), Failure> {
        if !self.is_good(directory) {
            let credentials = self
                .authority
                .issue(&Self::admin()?)
                .map_err(|e| failure("issue the local admin's certificate", e))?;
            credentials
                .write(directory)
                .map_err(|e| failure("write the local admin's certificate", e))?;
        }
        let file = directory.join("token");
        let known = fs::read_to_string(&file).unwrap_or_default();
        if self.tokens.verify_api(known.trim()).is_err() {
            let name = ADMIN
                .parse()
                .map_err(|e| failure("name the local admin", e))?;
            let (_, token) = self
                .tokens
                .create_api(&name, Role::Admin, Some(TOKEN_TTL))
                .map_err(|e| failure("make the local admin's token", e))?;
            write_private(&file, token.expose())
                .map_err(|e| failure("write the local admin's token", e))?;
        }
        Ok(())
    }

    /// Whether the credentials there are of this CA and not about to end.
    fn is_good(&self, directory: &Path) -> bool {
        let Ok(credentials) = Credentials::read(directory) else {
            return false;
        };
        let issuer = credentials.certificate_id().map(|id| id.issuer);
        let is_ours = credentials.ca_pem.trim() == self.authority.ca_pem().trim()
            && issuer.is_ok_and(|issuer| issuer == self.authority.issuer());
        let lives = credentials
            .validity()
            .is_ok_and(|validity| validity.not_after > self.authority.clock().now());
        is_ours && lives
    }

    /// Keeps `DIR/client` renewed.
    pub(crate) fn keep_client(&self, data_dir: &Path, tasks: &TaskGroup) -> Result<(), Failure> {
        let (authority, spec) = (self.authority.clone(), Self::admin()?);
        let (directory, shutdown) = (client_dir(data_dir), tasks.shutdown().clone());
        tasks.restart("admin-certificate", move || {
            let (authority, spec) = (authority.clone(), spec.clone());
            let kept = keep_written(authority, spec, directory.clone(), shutdown.clone());
            async move {
                if let Err(error) = kept.await {
                    tracing::warn!(%error, "cannot renew the certificate of the local admin");
                }
            }
        });
        Ok(())
    }

    /// Records the certificates that this process makes for itself and for
    /// those on this machine.
    pub(crate) fn record(&self, data_dir: &Path, core: &Core) {
        let recording = {
            let core = core.clone();
            move |id: CertificateId| {
                let core = core.clone();
                spawn_detached("certificate-record", async move {
                    if let Err(error) = core.certificates().record(&id, "server").await {
                        tracing::warn!(name = %id.name, %error, "cannot record an issued certificate");
                    }
                });
            }
        };
        // The local admin's is from before there was a store to write into.
        let local = Credentials::read(&client_dir(data_dir)).ok();
        let local = local.and_then(|local| local.certificate_id().ok());
        if let Some(id) = local.filter(|id| core.certificates().get(&id.serial).is_err()) {
            recording(id);
        }
        self.authority.on_issue(recording);
    }

    /// The certificate of a node of this CA, renewed while it serves. Its key
    /// is kept in a file: a node is known by its key.
    pub(crate) fn serving_node(
        &self,
        spec: CertificateSpec,
        key: &Path,
        hosts: &[Host],
        tasks: &TaskGroup,
    ) -> Result<Arc<LiveIdentity>, Failure> {
        let spec = spec.with_hosts(hosts.iter().cloned());
        let key = PrivateKeyPem::open(key).map_err(|e| failure("open the key of the node", e))?;
        let credentials = self.authority.issue_to(&key, &spec);
        let credentials = credentials.map_err(|e| failure("issue a certificate", e))?;
        let live = LiveIdentity::new(&credentials).map_err(|e| failure("use a certificate", e))?;
        let live = Arc::new(live);
        let (authority, identity) = (self.authority.clone(), live.clone());
        let (shutdown, own) = (tasks.shutdown().clone(), Arc::new((key, spec)));
        tasks.restart("node-certificate", move || {
            let (authority, identity) = (authority.clone(), identity.clone());
            let (shutdown, own) = (shutdown.clone(), own.clone());
            async move {
                let clock = authority.clock().clone();
                let reissue = || std::future::ready(authority.issue_to(&own.0, &own.1));
                let stale = authority.subscribe();
                keep_renewed("node", identity, clock, reissue, stale, shutdown).await;
            }
        });
        Ok(live)
    }

    /// A certificate of this CA that is renewed while it serves.
    pub(crate) fn serving(
        &self,
        spec: CertificateSpec,
        hosts: &[Host],
        tasks: &TaskGroup,
    ) -> Result<Arc<LiveIdentity>, Failure> {
        let spec = spec.with_hosts(hosts.iter().cloned());
        let credentials = self
            .authority
            .issue(&spec)
            .map_err(|e| failure("issue a certificate", e))?;
        let live = LiveIdentity::new(&credentials).map_err(|e| failure("use a certificate", e))?;
        let live = Arc::new(live);
        let (authority, identity) = (Arc::downgrade(&self.authority), live.clone());
        let again = spec.clone();
        self.authority.on_serving_change(move || {
            let Some(issued) = authority.upgrade().map(|ca| ca.issue(&again)) else {
                return;
            };
            let swapped = issued.map(|credentials| identity.swap(&credentials));
            if !matches!(swapped, Ok(Ok(()))) {
                tracing::error!("cannot reissue the server certificate for the new CA root");
            }
        });
        let (authority, identity) = (self.authority.clone(), live.clone());
        let shutdown = tasks.shutdown().clone();
        tasks.restart("server-certificate", move || {
            let (authority, identity) = (authority.clone(), identity.clone());
            keep_served(authority, spec.clone(), identity, shutdown.clone())
        });
        Ok(live)
    }
}

/// Writes a secret for this user alone, whole or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?
        .write_all(text.as_bytes())?;
    fs::rename(&temporary, path)
}
