//! A request ends with its credential: revoked or expired, read or not, in both
//! directions.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use strata_identity::{
    Ca, Caller, CertificateId, Clock, Proof, Revocation, Revocations, TokenText, Tokens,
};
use strata_transport::{AuthLayer, AuthService, Peer};
use strata_types::Role;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::{Layer as _, ServiceExt as _};

use crate::world::{POLICY, name};

/// Longer than anything here takes, on a clock that runs by itself.
const LONG: Duration = Duration::from_secs(20);

struct World {
    _directory: TempDir,
    clock: Clock,
    tokens: Arc<Tokens>,
    revocations: Arc<Revocations>,
    authority: Ca,
    app: AuthService<axum::Router>,
    /// How reading the body of a request ended.
    read: mpsc::UnboundedReceiver<Result<(), String>>,
}

/// Sends without end, faster than any client reads.
async fn flood() -> Body {
    let chunk = |()| Some((Ok::<_, Infallible>(Bytes::from_static(b"more\n")), ()));
    Body::from_stream(stream::unfold((), move |now| {
        std::future::ready(chunk(now))
    }))
}

/// Sends one chunk, and nothing more.
async fn quiet() -> Body {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"one\n"))]);
    Body::from_stream(first.chain(stream::pending()))
}

/// Reports when it is dropped.
struct Dropped(mpsc::UnboundedSender<Result<(), String>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(Ok(()));
    }
}

/// Sends one chunk and then nothing, and reports when its client is gone.
async fn held(State(told): State<mpsc::UnboundedSender<Result<(), String>>>) -> Body {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"one\n"))]);
    let dropped = Dropped(told);
    Body::from_stream(first.chain(stream::pending()).inspect(move |_| {
        let _ = &dropped;
    }))
}

/// Reads all there is, in a task that outlives the answer.
async fn reads(
    State(told): State<mpsc::UnboundedSender<Result<(), String>>>,
    request: Request<Body>,
) -> Body {
    tokio::spawn(async move {
        let mut body = request.into_body();
        let ended = loop {
            match body.frame().await {
                None => break Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => break Err(strata_types::chain(&error)),
            }
        };
        let _ = told.send(ended);
    });
    quiet().await
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let clock = Clock::from_fn(move || {
            let start = Timestamp::from_second(1_800_000_000).unwrap();
            start.checked_add(began.elapsed()).unwrap()
        });
        let file = directory.path().join("tokens.json");
        let tokens = Arc::new(Tokens::open_with_clock(&file, clock.clone()).unwrap());
        let revocations = Arc::<Revocations>::default();
        let auth = AuthLayer::new(POLICY, Some(tokens.clone()), clock.clone());
        let authority = Ca::open(&directory.path().join("ca")).unwrap();
        let auth = auth.with_revocations(revocations.clone());
        let auth = auth.with_trust(authority.trust());
        let (told, read) = mpsc::unbounded_channel();
        let (_, health) = tonic_health::server::health_reporter();
        let routes = tonic::service::Routes::new(health).into_axum_router();
        let routes = routes
            .route("/event", get(flood))
            .route("/node", get(quiet))
            .route("/operation", get(held).with_state(told.clone()))
            .route("/instance", get(std::future::pending::<StatusCode>))
            .route("/version", get(async || "ok"))
            .route("/instance/{id}/exec", post(reads).with_state(told));
        Self {
            app: auth.layer(routes),
            _directory: directory,
            clock,
            tokens,
            revocations,
            authority,
            read,
        }
    }

    fn token(&self) -> (String, TokenText) {
        let minute = Some(Duration::from_secs(60));
        let (info, text) = self
            .tokens
            .create_api(&name("tina"), Role::Operator, minute)
            .unwrap();
        (info.id, text)
    }

    fn certificate(&self, serial: &str) -> CertificateId {
        CertificateId {
            serial: serial.to_owned(),
            key: format!("key of {serial}"),
            name: name("vic"),
            role: Role::Operator,
            issued_at: self.clock.now(),
            expires_at: self.clock.now().checked_add(LONG).unwrap(),
            issuer: self.authority.issuer(),
        }
    }

    async fn send(&self, request: Request<Body>) -> Response {
        self.app.clone().oneshot(request).await.unwrap()
    }

    async fn with_token(&self, path: &str, token: &TokenText) -> Response {
        let mut request = request(Method::GET, path, Body::empty());
        let bearer = format!("Bearer {}", token.expose()).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        self.send(request).await
    }

    async fn with_certificate(&self, path: &str, id: &CertificateId) -> Response {
        self.send(showing(request(Method::GET, path, Body::empty()), id))
            .await
    }
}

fn request(method: Method, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request.body(body).unwrap()
}

fn showing(mut request: Request<Body>, id: &CertificateId) -> Request<Body> {
    let caller = Caller {
        name: id.name.clone(),
        role: id.role,
        projects: None,
        proof: Proof::Certificate,
        expires_at: Some(id.expires_at),
    };
    request.extensions_mut().insert(Arc::new(Peer {
        remote: None,
        local: None,
        certificate: None,
        caller: Ok(Some(caller)),
        certificate_id: Some(Arc::new(id.clone())),
    }));
    request
}

/// Reads until it ends, and returns how.
async fn end_of(response: Response) -> String {
    let mut body = response.into_body();
    loop {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return format!("{trailers:?}");
                }
            }
            Some(Err(error)) => return strata_types::chain(&error),
            None => return "it ended in order".into(),
        }
        tokio::task::yield_now().await;
    }
}

async fn goes_on(body: &mut Body) -> bool {
    let frame = tokio::time::timeout(Duration::from_millis(5), body.frame()).await;
    matches!(frame, Ok(Some(Ok(_))) | Err(_))
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_ends_its_streams_and_no_others() {
    let world = World::new();
    let ((id, token), (_, other)) = (world.token(), world.token());
    let response = world.with_token("/node", &token).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut another = world.with_token("/node", &other).await.into_body();
    let reading = tokio::spawn(end_of(response));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!reading.is_finished());
    world.tokens.revoke(&id).unwrap();
    let ended = reading.await.unwrap();
    assert!(ended.contains("the token was revoked"), "{ended}");
    assert!(goes_on(&mut another).await);
    let again = world.with_token("/version", &token).await;
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
}

/// What a peer with a window of no size holds is released all the same.
#[tokio::test(start_paused = true)]
async fn answer_that_is_not_read_ends_with_its_proof() {
    let mut world = World::new();
    let (id, token) = world.token();
    let unread = world.with_token("/operation", &token).await;
    assert_eq!(unread.status(), StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.read.try_recv().is_err(), "it goes on until then");
    world.tokens.revoke(&id).unwrap();
    let dropped = tokio::time::timeout(LONG, world.read.recv()).await;
    assert_eq!(dropped.unwrap(), Some(Ok(())));
    let ended = end_of(unread).await;
    assert!(ended.contains("the token was revoked"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn retired_root_ends_the_streams_of_its_certificates_and_no_others() {
    let world = World::new();
    let old = world.certificate("a1");
    world.authority.introduce().unwrap();
    world.authority.activate().unwrap();
    let new = world.certificate("a2");
    assert_ne!(old.issuer, new.issuer);
    let reading = tokio::spawn(end_of(world.with_certificate("/node", &old).await));
    let mut another = world.with_certificate("/node", &new).await.into_body();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!reading.is_finished());
    world.authority.retire().unwrap();
    let ended = reading.await.unwrap();
    assert!(ended.contains("a retired CA root"), "{ended}");
    assert!(goes_on(&mut another).await);
    let again = world.with_certificate("/version", &old).await;
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
    let still = world.with_certificate("/version", &new).await;
    assert_eq!(still.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_always_has_something_to_say_ends_too() {
    let world = World::new();
    let (id, token) = world.token();
    let reading = tokio::spawn(end_of(world.with_token("/event", &token).await));
    // Nothing ever rests here, so the paused clock does not move by itself.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!reading.is_finished());
    world.tokens.revoke(&id).unwrap();
    let ended = reading.await.unwrap();
    assert!(ended.contains("the token was revoked"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_certificate_ends_its_streams_by_serial_key_and_name() {
    let world = World::new();
    let all = |id: &CertificateId| {
        [
            Revocation::Serial {
                serial: id.serial.clone(),
            },
            Revocation::Key {
                key: id.key.clone(),
            },
            Revocation::Name {
                name: id.name.clone(),
                role: id.role,
                until: id.issued_at,
            },
        ]
    };
    for n in 0..3 {
        let id = world.certificate(&format!("a{n}"));
        let response = world.with_certificate("/node", &id).await;
        assert_eq!(response.status(), StatusCode::OK);
        let reading = tokio::spawn(end_of(response));
        // What is of another does nothing to it.
        let [other, ..] = all(&world.certificate("ff"));
        world.revocations.add(&other);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!reading.is_finished());
        let revocation = &all(&id)[n];
        world.revocations.add(revocation);
        let ended = reading.await.unwrap();
        assert!(ended.contains("was revoked"), "{revocation:?}: {ended}");
        let again = world.with_certificate("/version", &id).await;
        assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
        world.revocations.remove(revocation);
    }
}

#[tokio::test(start_paused = true)]
async fn expiry_ends_a_stream_to_the_second() {
    let world = World::new();
    let id = world.certificate("aa");
    let began = Instant::now();
    let by_certificate = end_of(world.with_certificate("/node", &id).await).await;
    assert!(
        by_certificate.contains("the certificate has expired"),
        "{by_certificate}"
    );
    assert_eq!(began.elapsed().as_secs(), LONG.as_secs());
    let (_, token) = world.token();
    let by_token = end_of(world.with_token("/node", &token).await).await;
    assert!(by_token.contains("the token has expired"), "{by_token}");
    assert_eq!(began.elapsed().as_secs(), LONG.as_secs() + 60);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_waited_for_is_not_given_any_more() {
    let world = World::new();
    let id = world.certificate("aa");
    let (waiting, revoked) = tokio::join!(world.with_certificate("/instance", &id), async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        world.revocations.add(&Revocation::Key {
            key: id.key.clone(),
        });
    });
    let () = revoked;
    assert_eq!(waiting.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn revoked_stream_stops_reading_its_request() {
    let mut world = World::new();
    let id = world.certificate("aa");
    let (said, saying) = mpsc::channel::<Result<Bytes, Infallible>>(4);
    let saying = tokio_stream::wrappers::ReceiverStream::new(saying);
    let body = Body::from_stream(saying);
    let request = request(Method::POST, "/instance/x/exec", body);
    // The answer is held and never read.
    let _answer = world.send(showing(request, &id)).await;
    said.send(Ok(Bytes::from_static(b"ls\n"))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(world.read.try_recv().is_err());
    world
        .revocations
        .add(&Revocation::Serial { serial: id.serial });
    let ended = world.read.recv().await.unwrap().unwrap_err();
    assert!(ended.contains("was revoked"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn rejected_grpc_caller_gets_the_reason() {
    let world = World::new();
    let id = world.certificate("aa");
    // A message of no bytes: every service.
    let body = Body::from(vec![0_u8; 5]);
    let mut request = request(Method::POST, "/grpc.health.v1.Health/Watch", body);
    let kind = "application/grpc".parse().unwrap();
    request.headers_mut().insert("content-type", kind);
    let response = world.send(showing(request, &id)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let reading = tokio::spawn(end_of(response));
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(!reading.is_finished());
    world
        .revocations
        .add(&Revocation::Serial { serial: id.serial });
    let trailers = reading.await.unwrap();
    assert!(trailers.contains("\"grpc-status\": \"16\""), "{trailers}");
    assert!(
        trailers.contains("was%20revoked") || trailers.contains("was revoked"),
        "{trailers}"
    );
}
