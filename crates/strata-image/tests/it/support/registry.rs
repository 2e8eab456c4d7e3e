//! A registry with fault knobs: it answers what the test sets, byte for byte,
//! and records the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use strata_image::{Digest, Reference, Registries, RegistryOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::image::BuiltImage;

#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub path: String,
    pub head: String,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The first byte that was requested.
    pub fn from(&self) -> usize {
        let range = self.header("range").and_then(|r| r.strip_prefix("bytes="));
        range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap())
    }
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Close after this many bytes of the body.
    pub cut: Option<usize>,
    /// Send nothing more after what was sent, forever.
    pub hang: bool,
    /// Send the body byte by byte, this far apart.
    pub drip: Option<std::time::Duration>,
}

impl Reply {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            cut: None,
            hang: false,
            drip: None,
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::ok(r#"{"errors":[{"code":"X","message":"told so"}]}"#)
        }
    }

    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.headers.push((key.into(), value.into()));
        self
    }
}

type Rule = dyn FnMut(&RecordedRequest) -> Option<Reply> + Send;

pub struct Fake {
    pub address: SocketAddr,
    pub asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Fake {
    /// Serves an image as `repo:tag`; `rule` may answer otherwise.
    pub async fn start(
        made: &BuiltImage,
        rule: impl FnMut(&RecordedRequest) -> Option<Reply> + Send + 'static,
    ) -> Self {
        Self::start_tls(made, rule, None).await
    }

    pub async fn start_tls(
        made: &BuiltImage,
        rule: impl FnMut(&RecordedRequest) -> Option<Reply> + Send + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, made) = (Arc::clone(&asked), made.clone());
        let rule: Arc<Mutex<Box<Rule>>> = Arc::new(Mutex::new(Box::new(rule)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, made, rule) = (Arc::clone(&log), made.clone(), Arc::clone(&rule));
                let tls = tls.clone();
                tokio::spawn(async move {
                    let answer = |asked: RecordedRequest| {
                        log.lock().unwrap().push(asked.clone());
                        let told = (rule.lock().unwrap())(&asked);
                        told.unwrap_or_else(|| honest(&made, &asked))
                    };
                    match tls {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, answer).await,
                            Err(_) => None,
                        },
                        None => serve(stream, answer).await,
                    }
                });
            }
        });
        Self { address, asked }
    }

    pub fn reference(&self) -> Reference {
        format!("{}/repo:tag", self.address).parse().unwrap()
    }

    /// Sources that may use this one in the clear, and do not wait long.
    pub fn registries(&self) -> Registries {
        Registries::new(self.options()).unwrap()
    }

    pub fn options(&self) -> RegistryOptions {
        RegistryOptions {
            plain_http: vec![self.address.to_string()],
            system_authorities: Vec::new(),
            stall_timeout: std::time::Duration::from_millis(200),
            ..RegistryOptions::default()
        }
    }

    pub fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// How often this path was requested.
    pub fn count(&self, part: &str) -> usize {
        self.asked()
            .iter()
            .filter(|a| a.path.contains(part))
            .count()
    }
}

/// What a good registry answers, ranges included.
pub fn honest(made: &BuiltImage, asked: &RecordedRequest) -> Reply {
    if asked.path == "/v2/repo/manifests/tag" {
        return Reply::ok(made.manifest.clone());
    }
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    let contents = made.contents();
    let content = contents.iter().find(|c| Digest::of(c).to_string() == name);
    let Some(content) = content else {
        return Reply::status(404);
    };
    let from = asked.from();
    if from == 0 {
        return Reply::ok(content.clone());
    }
    if from >= content.len() {
        return Reply::status(416);
    }
    let range = format!("bytes {from}-{}/{}", content.len() - 1, content.len());
    Reply {
        status: 206,
        ..Reply::ok(&content[from..]).with("Content-Range", range)
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl FnOnce(RecordedRequest) -> Reply,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    let reply = answer(RecordedRequest { path, head });
    let mut text = format!(
        "HTTP/1.1 {} X\r\nConnection: close\r\nContent-Length: {}\r\n",
        reply.status,
        reply.body.len()
    );
    for (key, value) in &reply.headers {
        text.push_str(&format!("{key}: {value}\r\n"));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).await.ok()?;
    if let Some(pause) = reply.drip {
        for byte in &reply.body {
            stream.write_u8(*byte).await.ok()?;
            stream.flush().await.ok()?;
            tokio::time::sleep(pause).await;
        }
    }
    let sent = reply.cut.unwrap_or(reply.body.len());
    stream.write_all(&reply.body[..sent]).await.ok()?;
    stream.flush().await.ok()?;
    if reply.hang {
        std::future::pending::<()>().await;
    }
    stream.shutdown().await.ok()
}
