//! The peer of REST: an axum handler in a process of its own that answers the
//! same bytes and does nothing else, on the same TLS settings.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::routing::get;
use strata_identity::{Clock, Credentials, LiveIdentity, server_config_optional_client};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Result;

/// Makes this program be the peer.
pub(crate) const BARE: &str = "--bare";

/// The peer, while it runs.
pub(crate) struct Bare {
    child: Child,
    pub(crate) url: String,
    _dir: tempfile::TempDir,
}

impl Bare {
    /// Answers `one` at `/one` and `list` at `/list`.
    pub(crate) fn start(credentials: &Credentials, one: &[u8], list: &[u8]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        credentials.write(dir.path())?;
        fs::write(dir.path().join("one"), one)?;
        fs::write(dir.path().join("list"), list)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(BARE)
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no standard output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(Self {
            child,
            url: line.trim().to_owned(),
            _dir: dir,
        })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the peer's process.
#[allow(clippy::print_stdout)]
pub(crate) fn serve(dir: &str) -> Result {
    let dir = Path::new(dir);
    let credentials = Credentials::read(dir)?;
    let identity = Arc::new(LiveIdentity::new(&credentials)?);
    let tls = server_config_optional_client(&credentials.ca_pem, identity, Clock::system())?;
    let answer = |bytes: Vec<u8>| {
        let bytes: &'static [u8] = bytes.leak();
        get(move || std::future::ready(([("content-type", "application/json")], bytes)))
    };
    let app = axum::Router::new()
        .route("/one", answer(fs::read(dir.join("one"))?))
        .route("/list", answer(fs::read(dir.join("list"))?));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        println!("https://{}", tcp.local_addr()?);
        let acceptor = tls.into();
        axum::serve(TlsListener { tcp, acceptor }, app).await?;
        Ok(())
    })
}

/// Connections that are kept: their handshakes may take turns.
struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((tcp, from)) = self.tcp.accept().await else {
                continue;
            };
            let _ = tcp.set_nodelay(true);
            if let Ok(stream) = self.acceptor.accept(tcp).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
