//! Boot media for BMCs to read: a small HTTP server. Each medium has a path
//! that cannot be guessed, and is there until its machine boots again, is
//! wiped, or its time is up. BMCs read by pieces, so ranges are served.
//!
//! A medium is a file without a name: when this process dies, nothing stays.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rand::RngCore as _;
use strata_bootimage::Medium;
use strata_tasks::{TaskGroup, spawn_detached};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::config::MediaConfig;
use super::range::{self, ByteRange};
use crate::ProviderError;

/// How many may read at the same time.
const MAX_READERS: usize = 64;
/// How long a request may take to be sent.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read from a medium at a time.
const CHUNK_BYTES: u64 = 64 << 10;

type Body = BoxBody<Bytes, io::Error>;

struct Item {
    owner: String,
    file: Arc<File>,
    len: u64,
    until: Instant,
}

#[derive(Default)]
struct Items(Mutex<HashMap<String, Item>>);

impl Items {
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Item>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.retain(|_, item| item.until > now);
        all
    }
}

/// The server, which ends with this.
pub(super) struct BootMediaServer {
    items: Arc<Items>,
    base: String,
    serve: Duration,
    _server: DropGuard,
}

impl BootMediaServer {
    pub(super) async fn open(config: &MediaConfig, serve: Duration) -> Result<Self, ProviderError> {
        let listener = TcpListener::bind(config.listen).await.map_err(|error| {
            ProviderError::Unavailable(format!("cannot listen on {}: {error}", config.listen))
        })?;
        let bound = listener.local_addr().unwrap_or(config.listen);
        let base = match &config.url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None if bound.ip().is_unspecified() => {
                return Err(ProviderError::Refused(format!(
                    "{bound} is not an address that BMCs reach: say `url` in [machines.redfish.media]"
                )));
            }
            None => format!("http://{bound}"),
        };
        let items = Arc::new(Items::default());
        let (listener, served, stop) =
            (Arc::new(listener), items.clone(), CancellationToken::new());
        TaskGroup::from(stop.clone()).restart("boot-media-server", move || {
            listen(listener.clone(), served.clone(), serve)
        });
        Ok(Self {
            items,
            base,
            serve,
            _server: stop.drop_guard(),
        })
    }

    /// Writes a medium, and returns where it is. The owner's former one is
    /// gone.
    pub(super) async fn put(
        &self,
        owner: &str,
        medium: Medium,
        directory: &Path,
    ) -> Result<String, ProviderError> {
        let (secret, directory) = (random(), directory.to_owned());
        let name = secret.clone();
        let written = tokio::task::spawn_blocking(move || write(&medium, &directory, &name)).await;
        let written = written.unwrap_or_else(|error| Err(error.to_string()));
        let (file, len) = written.map_err(|why| {
            ProviderError::Refused(format!("the boot medium cannot be written: {why}"))
        })?;
        let item = Item {
            owner: owner.to_owned(),
            file: Arc::new(file),
            len,
            until: Instant::now() + self.serve,
        };
        let mut all = self.items.guard();
        all.retain(|_, item| item.owner != owner);
        // By their endings BMCs know what a file is.
        let path = format!("/{secret}/boot.iso");
        all.insert(path.clone(), item);
        drop(all);
        // Its room on the disk goes with its time.
        let (items, serve) = (Arc::downgrade(&self.items), self.serve);
        spawn_detached("boot-media-expiry", async move {
            tokio::time::sleep(serve + Duration::from_millis(1)).await;
            if let Some(items) = items.upgrade() {
                drop(items.guard());
            }
        });
        Ok(format!("{}{path}", self.base))
    }

    /// Its medium is not served any more.
    pub(super) fn remove(&self, owner: &str) {
        self.items.guard().retain(|_, item| item.owner != owner);
    }
}

fn random() -> String {
    let mut bytes = [0; 24];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// No other user may read the file, and as soon as it is open it has no name.
fn write(medium: &Medium, directory: &Path, name: &str) -> Result<(File, u64), String> {
    let path = directory.join(format!("strata-{name}.iso"));
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let reported = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
    let file = options.open(&path).map_err(|error| reported(&error))?;
    std::fs::remove_file(&path).map_err(|error| reported(&error))?;
    let mut to = io::BufWriter::with_capacity(1 << 20, &file);
    let len = medium.write(&mut to).map_err(|error| error.to_string())?;
    io::Write::flush(&mut to).map_err(|error| reported(&error))?;
    drop(to);
    Ok((file, len))
}

async fn listen(listener: Arc<TcpListener>, items: Arc<Items>, longest: Duration) {
    let readers = Arc::new(Semaphore::new(MAX_READERS));
    loop {
        let Ok(permit) = readers.clone().acquire_owned().await else {
            return;
        };
        let (stream, _): (_, SocketAddr) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "boot media: no connection could be taken");
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let items = items.clone();
        spawn_detached("boot-media-connection", async move {
            let _permit = permit;
            let service = service_fn(|request| {
                let answer = answer(&items, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A reader that goes away or never finishes is dropped.
            let _ = tokio::time::timeout(longest, connection).await;
        });
    }
}

fn answer<B>(items: &Items, request: &Request<B>) -> Response<Body> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut no = bare(StatusCode::METHOD_NOT_ALLOWED);
        no.headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return no;
    }
    let found = items.guard();
    let Some(item) = found.get(request.uri().path()) else {
        return bare(StatusCode::NOT_FOUND);
    };
    let (file, len) = (item.file.clone(), item.len);
    drop(found);
    let asked = request
        .headers()
        .get(RANGE)
        .and_then(|value| value.to_str().ok());
    let (status, from, to) = match range::parse(asked, len) {
        ByteRange::All => (StatusCode::OK, 0, len),
        ByteRange::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        ByteRange::Nothing => {
            let mut no = bare(StatusCode::RANGE_NOT_SATISFIABLE);
            set(&mut no, CONTENT_RANGE, &format!("bytes */{len}"));
            return no;
        }
    };
    let mut response = bare(status);
    if request.method() == Method::GET {
        *response.body_mut() = pieces(file, from, to);
    }
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    set(&mut response, CONTENT_LENGTH, &(to - from).to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        set(
            &mut response,
            CONTENT_RANGE,
            &format!("bytes {from}-{}/{len}", to - 1),
        );
    }
    response
}

fn set(response: &mut Response<Body>, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn bare(status: StatusCode) -> Response<Body> {
    let body = Empty::new()
        .map_err(|never: Infallible| match never {})
        .boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The file from here to there. It stays open while it is read, also when it is
/// not served any more.
fn pieces(file: Arc<File>, from: u64, to: u64) -> Body {
    let read = stream::unfold(from, move |at| {
        let file = file.clone();
        async move {
            let count = CHUNK_BYTES.min(to.saturating_sub(at));
            if count == 0 {
                return None;
            }
            let piece = tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; count as usize];
                file.read_exact_at(&mut piece, at)?;
                Ok(Bytes::from(piece))
            });
            let piece = piece
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error)));
            // After an error there is nothing more.
            let next = if piece.is_ok() { at + count } else { to };
            Some((piece.map(Frame::data), next))
        }
    });
    StreamBody::new(read).boxed()
}
