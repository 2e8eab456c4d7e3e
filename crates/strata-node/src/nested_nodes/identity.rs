//! The identity of a machine. Where the host node has a CA, it issues the
//! machine a certificate, and renews it in time: then a principal that may call
//! the one may call the other, with the same credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_client::Target;
use strata_identity::{Ca, CertificateSpec, Credentials, Host, in_full};
use strata_tasks::TaskGroup;
use strata_types::{Error, Result, Role};
use tokio_util::sync::CancellationToken;

use super::kind::{NestedNodeAllocation, node_url};
use super::{HANDED_IDENTITY, NestedNodeSpec};
use crate::cells::Executable;

/// The principal of the readiness check of a machine.
const PROBE_SUBJECT: &str = "spawn";
const PROBE_CERTIFICATE_TTL: Duration = Duration::from_secs(600);

/// Whose certificates machines have that join no server.
#[derive(Clone, Debug)]
pub(super) struct Identities(Option<Arc<Ca>>);

impl Identities {
    pub(super) fn new(authority: Option<Arc<Ca>>) -> Self {
        Self(authority)
    }

    fn authority(&self) -> Result<&Arc<Ca>> {
        self.0.as_ref().ok_or_else(|| {
            Error::wrong_state(
                "this node has no CA of its own, so the machine has to join a server",
            )
            .in_field("machine.server")
            .with_hint("give the server that this node joined, and a join token of it")
        })
    }

    /// Refuses a machine that could not prove its identity.
    pub(super) fn check(&self, unit_spec: &NestedNodeSpec) -> Result<()> {
        match unit_spec.join {
            Some(_) => Ok(()),
            None => self.authority().map(drop),
        }
    }

    /// Hands a machine its certificate, unless it joins a server.
    pub(super) fn hand_over(
        &self,
        unit_spec: &NestedNodeSpec,
        allocated: &NestedNodeAllocation,
        dir: &Path,
    ) -> Result<()> {
        if unit_spec.join.is_some() {
            return Ok(());
        }
        let issued = issue(self.authority()?, &certificate(unit_spec, allocated)?)?;
        issued
            .write(&dir.join(HANDED_IDENTITY))
            .map_err(|error| Error::internal(in_full(&error)))
    }

    /// Keeps what was handed over renewed while the machine runs.
    pub(super) fn keep(
        &self,
        tasks: &TaskGroup,
        unit_spec: &NestedNodeSpec,
        allocated: &NestedNodeAllocation,
        dir: &Path,
        main: Arc<Executable>,
    ) {
        let (None, Ok(authority), Ok(spec)) = (
            &unit_spec.join,
            self.authority(),
            certificate(unit_spec, allocated),
        ) else {
            return;
        };
        let (authority, dir) = (authority.clone(), dir.join(HANDED_IDENTITY));
        let node = unit_spec.name.clone();
        tasks.restart("nested-node-certificate", move || {
            let (authority, spec) = (authority.clone(), spec.clone());
            let node = node.clone();
            let (dir, main) = (dir.clone(), main.clone());
            async move {
                let forever = CancellationToken::new();
                tokio::select! {
                    kept = strata_transport::keep_written(authority, spec, dir, forever) => {
                        if let Err(error) = kept {
                            tracing::warn!(%node, %error, "nested node certificate not renewed");
                        }
                    }
                    _ = main.ended() => {}
                }
            }
        });
    }

    /// Where and as which principal a machine's node is queried. One that joins
    /// a server may not know our CA: it is queried by its socket.
    pub(super) fn target(
        &self,
        unit_spec: &NestedNodeSpec,
        allocated: &NestedNodeAllocation,
        main: &Executable,
    ) -> Result<Target> {
        if unit_spec.join.is_some() {
            let socket = format!("/proc/{}/root/run/strata/node.sock", main.pid);
            return Ok(Target::Unix(socket.into()));
        }
        let name = PROBE_SUBJECT.parse().map_err(internal)?;
        let spec = CertificateSpec::caller(name, Role::Viewer)
            .lasting(PROBE_CERTIFICATE_TTL)
            .map_err(internal)?;
        Ok(Target::Tls {
            address: node_url(allocated).parse().map_err(internal)?,
            credentials: issue(self.authority()?, &spec)?,
        })
    }
}

fn issue(authority: &Ca, spec: &CertificateSpec) -> Result<Credentials> {
    authority
        .issue(spec)
        .map_err(|error| Error::internal(in_full(&error)))
}

/// What its certificate certifies: it is a node, here and by these names.
fn certificate(
    unit_spec: &NestedNodeSpec,
    allocated: &NestedNodeAllocation,
) -> Result<CertificateSpec> {
    let name = unit_spec.name.as_str().parse().map_err(internal)?;
    let hosts = [
        Host::from(std::net::IpAddr::from(allocated.address)),
        unit_spec.name.as_str().parse().map_err(internal)?,
        format!("{}.{}", unit_spec.name, strata_network::DOMAIN)
            .parse()
            .map_err(internal)?,
    ];
    Ok(CertificateSpec::caller(name, Role::Node).with_hosts(hosts))
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}
