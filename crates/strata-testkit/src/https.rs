//! Plain HTTPS, one request per connection, with whatever proof or none:
//! what `curl` would do.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use strata_identity::{Clock, Credentials, Expect, LiveIdentity, client_config};

/// A place to send requests to.
#[derive(Clone, Debug)]
pub struct Https {
    address: String,
    config: Arc<ClientConfig>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct HttpsResponse {
    /// The HTTP status.
    pub status: u16,
    /// Header lines, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl HttpsResponse {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(n, _)| n == name).map(|(_, value)| &**value)
    }
}

impl Https {
    /// A client that trusts the CA in `ca` and shows the certificate in
    /// `credentials`, if any.
    ///
    /// # Panics
    /// When a file cannot be read.
    pub fn new(url: &str, ca: &Path, credentials: Option<&Path>) -> Self {
        let ca_pem = std::fs::read_to_string(ca).expect("the CA can be read");
        let identity = credentials.map(|dir| {
            let credentials = Credentials::read(dir).expect("credentials can be read");
            Arc::new(LiveIdentity::new(&credentials).expect("credentials can be used"))
        });
        let config = client_config(&ca_pem, identity, Expect::Any, Clock::system());
        let mut config = config.expect("TLS can be set up");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            address: url.trim_start_matches("https://").to_owned(),
            config: Arc::new(config),
        }
    }

    /// GET, with these further headers.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> io::Result<HttpsResponse> {
        self.send("GET", path, headers)
    }

    /// Sends a request without a body and reads the answer to its end.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> io::Result<HttpsResponse> {
        self.send_with(method, path, headers, "")
    }

    /// Sends a request with this body, if it is not empty, and reads the
    /// answer to its end.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<HttpsResponse> {
        let host = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(self.config.clone(), host).map_err(io::Error::other)?;
        let socket = TcpStream::connect(&self.address)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut stream = StreamOwned::new(tls, socket);
        let mut lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        if !body.is_empty() {
            lines += &format!("content-length: {}\r\n", body.len());
        }
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n{body}"
        )?;
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            // A peer that only closes has sent all it had to send.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !bytes.is_empty() => {}
            done => drop(done?),
        }
        parse(&String::from_utf8_lossy(&bytes))
    }
}

fn parse(text: &str) -> io::Result<HttpsResponse> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, format!("no answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    Ok(HttpsResponse {
        status: status.and_then(|s| s.parse().ok()).ok_or_else(broken)?,
        headers: headers.collect(),
        body: body.to_owned(),
    })
}
