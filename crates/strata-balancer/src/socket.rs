//! What is set on every socket, so that the other end is missed when it is
//! gone. Watches of Kubernetes say nothing for minutes: nobody would notice
//! that a machine has died.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Silence after which the other end is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(6);
const BETWEEN_ASKING: Duration = Duration::from_secs(3);
const TIMES: u32 = 3;
/// The same where something was sent and is not acknowledged.
const UNACKNOWLEDGED_MS: u32 = 15_000;

/// Lets a dead end be noticed after 15 seconds, and sends small pieces at
/// once. A socket that is broken already tells so when it is used.
pub(super) fn prepare(stream: &TcpStream) {
    let set = || -> rustix::io::Result<()> {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, IDLE)?;
        sockopt::set_tcp_keepintvl(stream, BETWEEN_ASKING)?;
        sockopt::set_tcp_keepcnt(stream, TIMES)?;
        sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS)?;
        sockopt::set_tcp_nodelay(stream, true)
    };
    if let Err(error) = set().map_err(io::Error::from) {
        tracing::debug!(%error, "a socket could not be prepared");
    }
}

/// Lets the client see that nobody is there: a reset, where a plain end
/// would look like an answer without content.
pub(super) fn refuse(stream: &TcpStream) {
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}
