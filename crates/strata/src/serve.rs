//! Listeners: bound before anything is promised, named as they really are.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use strata_cli::{Exit, Failure};
use strata_identity::{Host, LiveIdentity, LiveTrust};
use strata_tasks::TaskGroup;
use strata_transport::{Serve, bind_unix};
use tokio::net::{TcpListener, UnixListener};

/// A bound TCP port, and how to reach it.
pub(crate) struct Port {
    listener: TcpListener,
    /// As it was configured, for the certificate.
    pub(crate) host: Option<Host>,
    /// Where it really is.
    pub(crate) bound: SocketAddr,
    /// With the port it really has.
    pub(crate) url: String,
}

impl Port {
    /// Binds `HOST:PORT`; port 0 takes a free one.
    pub(crate) async fn bind(flag: &str, address: &str) -> Result<Self, Failure> {
        let bad = |why: String| {
            Failure::new(
                Exit::Usage,
                format!("cannot listen on {address}, given with {flag}"),
            )
            .because(why)
        };
        let Some((host, _)) = address.rsplit_once(':') else {
            return Err(bad("HOST:PORT is expected, such as 127.0.0.1:7700".into()));
        };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            bad(error.to_string()).hint("another daemon may use it; port 0 picks a free one")
        })?;
        let bound = listener
            .local_addr()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            listener,
            host: host.parse().ok(),
            url: url(host, bound),
            bound,
        })
    }

    /// Serves over TLS until the group is stopped.
    pub(crate) fn serve(
        self,
        task: &'static str,
        tls: Arc<rustls::ServerConfig>,
        serve: Serve,
        tasks: &TaskGroup,
    ) {
        let shutdown = tasks.shutdown().clone();
        tasks.critical(task, serve.tls(self.listener, tls, shutdown));
    }
}

/// What to connect to: an address that means "all of them" is reached, from
/// here, by the loopback.
fn url(host: &str, bound: SocketAddr) -> String {
    let port = bound.port();
    match host {
        "0.0.0.0" => format!("https://127.0.0.1:{port}"),
        "[::]" | "::" | "" => format!("https://[::1]:{port}"),
        host => format!("https://{host}:{port}"),
    }
}

/// Binds a node's socket, for root alone or for a group as well.
pub(crate) fn bind_socket(path: &Path, group: Option<u32>) -> Result<UnixListener, Failure> {
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(
            Exit::Refused,
            format!("cannot listen on {}: {error}", path.display()),
        )
    };
    let listener = bind_unix(path, mode).map_err(|error| failed(&error))?;
    if let Some(gid) = group {
        std::os::unix::fs::chown(path, None, Some(gid)).map_err(|error| failed(&error))?;
    }
    Ok(listener)
}

/// Serves on a socket until the group is stopped.
pub(crate) fn serve_socket(listener: UnixListener, serve: Serve, tasks: &TaskGroup) {
    let shutdown = tasks.shutdown().clone();
    tasks.critical("socket-listener", serve.unix(listener, shutdown));
}

/// The hosts a certificate for `port` names, beyond this machine itself.
pub(crate) fn hosts(port: &Port, further: &[String], live: &[&str]) -> Vec<Host> {
    let further = further
        .iter()
        .map(String::as_str)
        .chain(live.iter().copied());
    port.host
        .iter()
        .cloned()
        .chain(further.filter_map(|host| host.parse().ok()))
        .collect()
}

/// The TLS of a port: a certificate that a client presents has to be of these
/// roots; those without one are the auth layer's to answer.
pub(crate) fn tls(
    trust: Arc<LiveTrust>,
    identity: Arc<LiveIdentity>,
) -> Result<Arc<rustls::ServerConfig>, Failure> {
    let clock = strata_identity::Clock::system();
    strata_identity::server_config_with_trust(trust, identity, clock)
        .map_err(|error| Failure::new(Exit::Unexpected, format!("cannot set up TLS: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_can_be_connected_to() {
        let bound = "0.0.0.0:7700".parse().unwrap();
        assert_eq!(url("0.0.0.0", bound), "https://127.0.0.1:7700");
        assert_eq!(url("[::]", bound), "https://[::1]:7700");
        assert_eq!(url("node-1.example", bound), "https://node-1.example:7700");
    }
}
