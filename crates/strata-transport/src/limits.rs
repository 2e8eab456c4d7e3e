//! Limits of unauthenticated connections, and timeouts of all connections.
//! Limits of authenticated callers are in [`crate::CallerLimits`].

use std::time::Duration;

/// Bounds of one listener. The defaults suit a rack; tests make them small.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// Of those, how many may be held without a certificate, a valid token or
    /// a known user. When there are more, the one that was idle for longest is
    /// closed, of the source that has most.
    pub unauthenticated: usize,
    /// The same for one source: an IPv4 address or an IPv6 /64.
    pub unauthenticated_per_source: usize,
    /// Connections whose TLS handshake is not done. When there are more, the
    /// oldest is closed, of the source that has most. Together with the
    /// unauthenticated connections fewer than there may be connections, so that
    /// no authenticated caller waits.
    pub handshakes: usize,
    /// The same for one source.
    pub handshakes_per_source: usize,
    /// Handshakes in cryptographic work at once: a signature and a key exchange
    /// each, a fraction of a millisecond. Waiting for bytes of the peer takes
    /// none of these, and sources take turns. Fewer than there are threads, so that a flood of
    /// handshakes leaves a thread for authenticated callers.
    pub handshake_permits: usize,
    /// From accepting a connection until all of the TLS ClientHello is there. A
    /// client on a loaded or emulated machine takes seconds for it. Silent peers
    /// gain nothing by waiting longer: `handshakes` closes the oldest of them as
    /// soon as there are many.
    pub hello_timeout: Duration,
    /// From the ClientHello to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// Timeout of the header of an HTTP/1 request, and of the first request of
    /// an unauthenticated connection.
    pub header_timeout: Duration,
    /// Interval of HTTP/2 keep-alive pings.
    pub keepalive_interval: Duration,
    /// How long it has for the answer.
    pub keepalive_timeout: Duration,
    /// Requests at once on one connection. Further ones wait for a place, and
    /// are refused when none ends for `stream_wait`.
    pub streams: u32,
    /// How long a request waits for a place on its connection while none ends.
    pub stream_wait: Duration,
    /// HTTP/2 streams at once on one connection: requests under way and those
    /// that wait for a place. A client holds back what is more and reports
    /// nothing, so this is well above `streams`.
    pub http2_streams: u32,
    /// Bytes of one request that wait in memory until its handler reads them.
    /// On connections of nodes twice as many.
    pub stream_window: u32,
    /// The same of all requests of one connection. The library closes a
    /// connection where small frames wait for which it counts more than half of
    /// this, at up to 256 bytes each: one for every stream has to fit.
    pub connection_window: u32,
    /// Bytes of one answer that wait in memory for a peer that does not read.
    pub send_buffer: usize,
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
            unauthenticated: 1024,
            unauthenticated_per_source: 256,
            handshakes: 2048,
            handshakes_per_source: 512,
            handshake_permits: 1,
            hello_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(20),
            streams: 256,
            stream_wait: Duration::from_secs(5),
            http2_streams: 1024,
            stream_window: 128 << 10,
            connection_window: 512 << 10,
            send_buffer: 32 << 10,
            drain: Duration::from_secs(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn small_requests_on_all_streams_of_a_connection_fit_its_window() {
        let limits = Limits::default();
        assert!(limits.connection_window / 2 >= limits.http2_streams * 256);
    }
}
