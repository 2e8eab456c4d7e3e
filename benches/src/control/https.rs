//! REST over one TLS connection that is kept open, one request after the
//! other. By hand and over HTTP/1.1, so that the client costs little beside
//! what is measured.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use strata_identity::{Clock, Credentials, Expect, LiveIdentity, client_config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::text;
use crate::Result;

pub(crate) struct KeptAlive {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl KeptAlive {
    /// To `https://HOST:PORT`, with these credentials.
    pub(crate) async fn open(url: &str, credentials: &Credentials) -> Result<Self> {
        let identity = Some(Arc::new(LiveIdentity::new(credentials)?));
        let mut config =
            client_config(&credentials.ca_pem, identity, Expect::Any, Clock::system())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tcp = TcpStream::connect(url.trim_start_matches("https://")).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        Ok(Self {
            stream: stream.await?,
            buffer: Vec::new(),
        })
    }

    /// The body of what is at `path`.
    pub(crate) async fn get(&mut self, path: &str) -> std::result::Result<&[u8], String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.stream
            .write_all(request.as_bytes())
            .await
            .map_err(text)?;
        self.stream.flush().await.map_err(text)?;
        self.buffer.clear();
        let (body, length) = loop {
            self.more().await?;
            if let Some(found) = head(&self.buffer)? {
                break found;
            }
        };
        while self.buffer.len() < body + length {
            self.more().await?;
        }
        Ok(&self.buffer[body..body + length])
    }

    async fn more(&mut self) -> std::result::Result<(), String> {
        match self.stream.read_buf(&mut self.buffer).await.map_err(text)? {
            0 => Err("the server hung up".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Where the body begins and how long it is, once the head is there.
fn head(bytes: &[u8]) -> std::result::Result<Option<(usize, usize)>, String> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 200 ") {
        return Err(head);
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let length = length.ok_or("the answer does not say how long it is")?;
    Ok(Some((end + 4, length)))
}
