//! One GET, of which only the status matters. The other side is a container:
//! what it sends is bounded, and its body is not read.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The status with which a GET of `path` is answered.
pub(super) async fn status(
    address: SocketAddr,
    path: &str,
) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path)
        .header("host", address.to_string())
        .header("user-agent", "strata")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())?;
    // Driven here, so that giving up on the answer closes the connection. One
    // that closes has mostly been answered: the answer shows it.
    let answer = async { sender.send_request(request).await };
    tokio::pin!(answer);
    let answer = tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error),
        },
    };
    Ok(answer?.status().as_u16())
}
