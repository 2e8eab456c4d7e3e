//! Who a machine is. Where the node around has a CA, it hands the machine a
//! certificate of it, and a new one in time: then whoever may call the one may
//! call the other, with the same credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_client::Target;
use strata_identity::{Authority, CertificateSpec, Credentials, Host, in_full};
use strata_types::{Error, Result, Role};
use tokio_util::sync::CancellationToken;

use super::kind::{Made, node_url};
use super::{HANDED_IDENTITY, MachineAsk};
use crate::cells::Executable;

/// As whom a machine is asked whether it answers.
const ASKING: &str = "spawn";
/// For so long.
const ASKING_TTL: Duration = Duration::from_secs(600);

/// Whose certificates machines have that join no server.
#[derive(Clone, Debug)]
pub(super) struct Identities(Option<Arc<Authority>>);

impl Identities {
    pub(super) fn new(authority: Option<Arc<Authority>>) -> Self {
        Self(authority)
    }

    fn authority(&self) -> Result<&Arc<Authority>> {
        self.0.as_ref().ok_or_else(|| {
            Error::wrong_state(
                "this node has no CA of its own, so the machine has to join a server",
            )
            .in_field("machine.server")
            .with_hint("give the server that this node joined, and a join token of it")
        })
    }

    /// Refuses a machine that could not say who it is.
    pub(super) fn check(&self, ask: &MachineAsk) -> Result<()> {
        match ask.join {
            Some(_) => Ok(()),
            None => self.authority().map(drop),
        }
    }

    /// Hands a machine its certificate, unless it joins a server.
    pub(super) fn hand_over(&self, ask: &MachineAsk, made: &Made, folder: &Path) -> Result<()> {
        if ask.join.is_some() {
            return Ok(());
        }
        let issued = issue(self.authority()?, &certificate(ask, made)?)?;
        issued
            .write(&folder.join(HANDED_IDENTITY))
            .map_err(|error| Error::internal(in_full(&error)))
    }

    /// Keeps what was handed over renewed while the machine runs.
    pub(super) fn keep(&self, ask: &MachineAsk, made: &Made, folder: &Path, main: Arc<Executable>) {
        let (None, Ok(authority), Ok(spec)) = (&ask.join, self.authority(), certificate(ask, made))
        else {
            return;
        };
        let (authority, folder) = (authority.clone(), folder.join(HANDED_IDENTITY));
        tokio::spawn(async move {
            let forever = CancellationToken::new();
            tokio::select! {
                kept = strata_transport::keep_written(authority, spec, folder, forever) => {
                    if let Err(error) = kept {
                        tracing::warn!(%error, "a machine's certificate is not renewed");
                    }
                }
                _ = main.ended() => {}
            }
        });
    }

    /// Where and as whom a machine's node is asked. One that joins a server may
    /// not know our CA: it is asked by its socket.
    pub(super) fn target(
        &self,
        ask: &MachineAsk,
        made: &Made,
        main: &Executable,
    ) -> Result<Target> {
        if ask.join.is_some() {
            let socket = format!("/proc/{}/root/run/strata/node.sock", main.pid);
            return Ok(Target::Unix(socket.into()));
        }
        let name = ASKING.parse().map_err(internal)?;
        let spec = CertificateSpec::caller(name, Role::Viewer)
            .lasting(ASKING_TTL)
            .map_err(internal)?;
        Ok(Target::Tls {
            address: node_url(made).parse().map_err(internal)?,
            credentials: issue(self.authority()?, &spec)?,
        })
    }
}

fn issue(authority: &Authority, spec: &CertificateSpec) -> Result<Credentials> {
    authority
        .issue(spec)
        .map_err(|error| Error::internal(in_full(&error)))
}

/// What its certificate says: it is a node, here and by these names.
fn certificate(ask: &MachineAsk, made: &Made) -> Result<CertificateSpec> {
    let name = ask.name.as_str().parse().map_err(internal)?;
    let hosts = [
        Host::from(std::net::IpAddr::from(made.address)),
        ask.name.as_str().parse().map_err(internal)?,
        format!("{}.{}", ask.name, strata_network::DOMAIN)
            .parse()
            .map_err(internal)?,
    ];
    Ok(CertificateSpec::caller(name, Role::Node).with_hosts(hosts))
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}
