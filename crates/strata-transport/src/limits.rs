//! How much of the machine strangers may take before they have said who they
//! are, and how long anybody may keep us waiting.

use std::time::Duration;

/// Bounds of one listener. The defaults suit a rack; tests make them small.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// Of those, how many may be held without a certificate or a known user.
    /// The rest is kept for nodes and people who have one, so that a crowd of
    /// strangers cannot lock them out.
    pub strangers: usize,
    /// TLS handshakes at once: they cost a signature each.
    pub handshakes: usize,
    /// From accepting a connection to the end of its TLS handshake.
    pub handshake_timeout: Duration,
    /// For the header of an HTTP/1 request, and for a stranger's first
    /// request on any connection.
    pub header_timeout: Duration,
    /// How often an HTTP/2 connection is asked whether it is still there.
    pub keepalive_interval: Duration,
    /// How long it has for the answer.
    pub keepalive_timeout: Duration,
    /// Requests at once on one connection.
    pub streams: u32,
    /// At the end, how long requests under way have to finish.
    pub drain: Duration,
}

impl Limits {
    /// Of a server: every node has a connection of its own.
    pub fn of_a_server() -> Self {
        Self {
            connections: 32_768,
            ..Self::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            strangers: 1024,
            handshakes: 128,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(20),
            streams: 256,
            drain: Duration::from_secs(3),
        }
    }
}
