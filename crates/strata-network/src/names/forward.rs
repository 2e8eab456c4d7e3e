//! Querying others for names that are not ours.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message::answers;

/// How long one of them may take before the next is queried.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_MESSAGE: usize = 65_535;

/// The servers to query, in order.
#[derive(Clone, Debug)]
pub(super) struct Upstreams(Vec<SocketAddr>);

impl Upstreams {
    /// Those configured, or those of the host; never ourselves.
    pub(super) fn new(configured: &[SocketAddr], ourselves: Ipv4Addr) -> Self {
        let mut all = configured.to_vec();
        if all.is_empty() {
            all = read_resolv_conf(Path::new("/etc/resolv.conf"));
        }
        all.retain(|upstream| upstream.ip() != IpAddr::V4(ourselves));
        Self(all)
    }

    /// Queries one server after the other until one answers.
    pub(super) async fn ask(&self, question: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
        for upstream in &self.0 {
            let asked = async {
                if over_tcp {
                    ask_tcp(*upstream, question).await
                } else {
                    ask_udp(*upstream, question).await
                }
            };
            match timeout(UPSTREAM_TIMEOUT, asked).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => tracing::debug!(%upstream, %error, "DNS upstream failed"),
                Err(_) => tracing::debug!(%upstream, "DNS upstream timed out"),
            }
        }
        None
    }
}

/// A socket for each question: its port is as hard to guess as the kernel
/// makes it, and an answer from elsewhere does not reach it.
async fn ask_udp(upstream: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(upstream).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; MAX_MESSAGE];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if answers(question, &buffer[..length]) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn ask_tcp(upstream: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    send(&mut stream, question).await?;
    let answer = receive(&mut stream).await?;
    if answers(question, &answer) {
        Ok(answer)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Over TCP, every message has its length before it.
pub(super) async fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed).await
}

pub(super) async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

fn read_resolv_conf(path: &Path) -> Vec<SocketAddr> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let server = |line: &str| {
        let rest = line.trim().strip_prefix("nameserver")?;
        let address: IpAddr = rest.split_whitespace().next()?.parse().ok()?;
        Some(SocketAddr::new(address, 53))
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_servers_are_read_without_ourselves() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("resolv.conf");
        let text = "# x\nsearch a\nnameserver 10.0.0.1\n nameserver\t::1 # y\nnameserver bad\n";
        std::fs::write(&file, text).unwrap();
        let servers = read_resolv_conf(&file);
        assert_eq!(servers.len(), 2);
        let upstreams = Upstreams::new(&servers, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(upstreams.0, ["[::1]:53".parse().unwrap()]);
    }
}
