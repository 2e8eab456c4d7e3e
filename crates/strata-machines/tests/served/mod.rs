//! A web server of a test's own, that a closure answers for.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// What came in.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// What goes out; `None` drops the connection.
pub(crate) type CannedResponse = Option<(u16, Vec<(&'static str, String)>, String)>;

/// JSON, with this status.
pub(crate) fn json(status: u16, body: &serde_json::Value) -> CannedResponse {
    Some((status, Vec::new(), body.to_string()))
}

/// Text, with this status.
pub(crate) fn text(status: u16, body: &str) -> CannedResponse {
    Some((status, Vec::new(), body.to_owned()))
}

/// The server; it ends with this.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) asked: Arc<Mutex<Vec<RecordedRequest>>>,
    _task: AbortOnDropHandle<()>,
}

impl Served {
    pub(crate) async fn new(
        answer: impl Fn(&RecordedRequest) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), asked.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, log) = (answer.clone(), log.clone());
                tokio::spawn(async move {
                    let service = service_fn(|request| reply(request, &*answer, &log));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            url,
            asked,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// `POST /path` and so on, all requests so far.
    pub(crate) fn log(&self) -> Vec<String> {
        let all = self.asked.lock().unwrap();
        all.iter()
            .map(|asked| format!("{} {}", asked.method, asked.path))
            .collect()
    }
}

type Reply = Result<http::Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>>;

async fn reply(
    request: http::Request<hyper::body::Incoming>,
    answer: &(dyn Fn(&RecordedRequest) -> CannedResponse + Send + Sync),
    log: &Mutex<Vec<RecordedRequest>>,
) -> Reply {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let asked = RecordedRequest {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    log.lock().unwrap().push(asked.clone());
    let (status, headers, body) = answer(&asked).ok_or("the answer is lost")?;
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(body))?)
}
