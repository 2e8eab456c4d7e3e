//! What is set on every socket, so that the loss of the other end is noticed.
//! Watches of Kubernetes send nothing for minutes: the death of a machine would
//! go unnoticed.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Silence after which the other end is probed.
const IDLE: Duration = Duration::from_secs(6);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_PROBES: u32 = 3;
/// The same where something was sent and is not acknowledged.
const UNACKNOWLEDGED_MS: u32 = 15_000;

/// Lets a dead end be noticed after 15 seconds, and sends small pieces at once.
/// A socket that is broken already reports it when it is used.
pub(super) fn prepare(stream: &TcpStream) {
    let set = || -> rustix::io::Result<()> {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
        sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS)?;
        sockopt::set_tcp_nodelay(stream, true)
    };
    if let Err(error) = set().map_err(io::Error::from) {
        tracing::debug!(%error, "socket options not set");
    }
}

/// Shows the client that no server is there: a reset, where a plain end would
/// look like an answer without content.
pub(super) fn refuse(stream: &TcpStream) {
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}
