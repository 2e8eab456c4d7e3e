//! `Idempotency-Key`: a request that comes twice has its effect once. The
//! second time the first answer is given again; the same key with another
//! request is refused.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, LOCATION, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use strata_api::rest::IDEMPOTENCY_KEY;
use strata_identity::{Caller, Proof};
use strata_tasks::spawn_detached;
use strata_types::{Error, ErrorKind};
use tower::ServiceExt as _;

use super::RestState;
use super::extract::read;
use super::rejection::{Answer, Rejection};
use crate::core::{ChangedRecord, ClaimOutcome, StoredResponse};

const REPLAYED: &str = "idempotency-replayed";

/// Reads the body of a request that changes something, and handles it once
/// where it has a key.
pub(super) async fn once(State(state): State<RestState>, request: Request, next: Next) -> Response {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    // All of it before any answer: a client that still writes does not read.
    let body = match read(&parts, body).await {
        Ok(body) => body,
        Err(rejection) => return rejection.into_response(),
    };
    // A command may take longer than a claim lasts: it is run as often as it is
    // requested. And credentials are not kept.
    let path = parts.uri.path().trim_end_matches('/');
    let as_often = path.ends_with("/exec") || path.ends_with("/kubeconfig");
    if as_often || !parts.headers.contains_key(IDEMPOTENCY_KEY) {
        let request = Request::from_parts(parts, Body::from(body));
        return next.run(request).await;
    }
    match keyed(state, parts, body, next).await {
        Ok(response) => response,
        Err(rejection) => rejection.into_response(),
    }
}

async fn keyed(state: RestState, parts: Parts, body: Bytes, next: Next) -> Answer {
    let key = key(&parts)?;
    let Some(caller) = parts.extensions.get::<Caller>() else {
        let why = "no credentials presented";
        return Err(Error::new(ErrorKind::Unauthenticated, why).into());
    };
    let print = fingerprint(&parts, caller, &body);
    let claim = state.core.claim(&space(caller), key, &print).await?;
    let claim = match claim {
        ClaimOutcome::Mine(claim) => claim,
        ClaimOutcome::Answered(given, created) => {
            return replay(&state, &parts, given, created).await;
        }
        ClaimOutcome::Created(record) => return made(&state, &parts, &record).await,
        ClaimOutcome::Changed(record) => return changed(&state, &parts, &record).await,
        ClaimOutcome::Busy => return Ok(busy()),
        ClaimOutcome::Other => {
            let why = "was used for another request within the last day";
            return Err(Error::invalid("Idempotency-Key", why).into());
        }
    };
    // To the end and with its answer kept, also when the client goes away:
    // then it will come again.
    let handled = spawn_detached("idempotent-request", async move {
        let request = Request::from_parts(parts, Body::from(body));
        let response = claim.handle(next.run(request)).await;
        let (response, given) = given(response).await;
        if let Err(error) = state.core.settle_claim(&claim, given).await {
            tracing::warn!(key = claim.key(), %error, "reply of an idempotent request not saved");
        }
        response
    });
    handled
        .await
        .map_err(|error| Error::internal(format!("a request was not finished: {error}")).into())
}

fn key(parts: &Parts) -> Answer<&str> {
    let mut all = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = all.next().and_then(|key| key.to_str().ok());
    let plain = |key: &&str| {
        (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match (key.filter(plain), all.next()) {
        (Some(key), None) => Ok(key),
        _ => {
            let why = "must be one word of 1 to 255 visible ASCII characters";
            Err(Rejection::unreadable(Error::invalid(
                "Idempotency-Key",
                why,
            )))
        }
    }
}

/// Whose keys these are. Several tokens can have one name, and each has keys of
/// its own; its expiry, to the nanosecond, distinguishes one from another. Of
/// certificates those of one name and role are one caller, who renews them.
fn space(caller: &Caller) -> String {
    let (name, role, proof) = (&caller.name, caller.role, caller.proof);
    match (proof, caller.expires_at) {
        (Proof::Token, Some(end)) => format!("{proof}.{name}.{}", end.as_nanosecond()),
        _ => format!("{proof}.{name}.{}", role.as_str()),
    }
}

/// Of all that decides the answer.
fn fingerprint(parts: &Parts, caller: &Caller, body: &Bytes) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(parts.method.as_str().as_bytes());
    add(parts.uri.path().as_bytes());
    add(parts.uri.query().unwrap_or("").as_bytes());
    for name in [CONTENT_TYPE, IF_MATCH] {
        let value = parts.headers.get(name);
        add(value.map_or(b"", |value| value.as_bytes()));
    }
    add(caller.role.as_str().as_bytes());
    for project in caller.projects.iter().flatten() {
        add(project.as_str().as_bytes());
    }
    add(body);
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The answer, and what of it is kept: nothing, where a later try may go
/// better.
async fn given(response: Response) -> (Response, Option<StoredResponse>) {
    let (parts, body) = response.into_parts();
    // Made by our own handlers, which answer from memory.
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            tracing::warn!(status = %parts.status, %error, "reply of an idempotent request not read");
            Bytes::new()
        }
    };
    let later = parts.status.is_server_error() || parts.status == StatusCode::TOO_MANY_REQUESTS;
    let given = std::str::from_utf8(&body).ok().filter(|_| !later);
    let given = given.map(|body| StoredResponse {
        status: parts.status.as_u16(),
        headers: [CONTENT_TYPE, ETAG, LOCATION]
            .iter()
            .filter_map(|name| {
                let value = parts.headers.get(name)?.to_str().ok()?;
                Some((name.to_string(), value.to_owned()))
            })
            .collect(),
        body: Some(body.to_owned()),
    });
    (Response::from_parts(parts, Body::from(body)), given)
}

async fn replay(
    state: &RestState,
    parts: &Parts,
    given: StoredResponse,
    created: Option<String>,
) -> Answer {
    let body = match given.body {
        Some(body) => Bytes::from(body),
        // It was too large to be kept: as it is now.
        None => {
            let location = given.headers.iter().find(|(name, _)| name == "location");
            let path = location.map(|(_, path)| path.clone());
            let path = path.or_else(|| created.as_deref().map(path_of));
            let shown = show(state, parts, &path.unwrap_or_default()).await;
            shown.map(|(body, _)| body).unwrap_or_default()
        }
    };
    let mut response = Response::builder()
        .status(given.status)
        .header(REPLAYED, "true");
    for (name, value) in given.headers {
        response = response.header(name, value);
    }
    response
        .body(Body::from(body))
        .map_err(|error| Error::internal(format!("a kept answer is none: {error}")).into())
}

/// The answer to a request that created a record and was not answered, because
/// its server died: as the record is now.
async fn made(state: &RestState, parts: &Parts, record: &str) -> Answer {
    let path = path_of(record);
    let mut response = Response::builder()
        .status(StatusCode::CREATED)
        .header(REPLAYED, "true")
        .header(LOCATION, path.split('?').next().unwrap_or_default());
    let mut body = Bytes::new();
    // One that was deleted since is not made a second time.
    if let Some((shown, headers)) = show(state, parts, &path).await {
        body = shown;
        for name in [CONTENT_TYPE, ETAG] {
            if let Some(value) = headers.get(&name) {
                response = response.header(name, value);
            }
        }
    }
    response
        .body(Body::from(body))
        .map_err(|error| Error::internal(format!("an answer cannot be made: {error}")).into())
}

/// The answer to a request that changed or deleted a record and was not
/// answered, because its server died: with the record as it is now, where the
/// answer shows it.
async fn changed(state: &RestState, parts: &Parts, record: &ChangedRecord) -> Answer {
    let mut response = Response::builder()
        .status(record.status)
        .header(REPLAYED, "true");
    let mut body = Bytes::new();
    let is_shown = record.status == StatusCode::OK.as_u16();
    if is_shown && let Some((shown, headers)) = show(state, parts, &path_of(&record.key)).await {
        body = shown;
        for name in [CONTENT_TYPE, ETAG] {
            if let Some(value) = headers.get(&name) {
                response = response.header(name, value);
            }
        }
    }
    response
        .body(Body::from(body))
        .map_err(|error| Error::internal(format!("an answer cannot be made: {error}")).into())
}

/// Where the record of a key of the store is shown.
fn path_of(record: &str) -> String {
    match record.split_once('/') {
        Some(("secret", rest)) => match rest.split_once('/') {
            Some((project, name)) => format!("/secret/{name}?project={project}"),
            None => format!("/secret/{rest}"),
        },
        _ => format!("/{record}"),
    }
}

/// What a path shows to the caller of a request; none when it is not found.
async fn show(state: &RestState, parts: &Parts, path: &str) -> Option<(Bytes, HeaderMap)> {
    let mut request = Request::builder().uri(path).body(Body::empty()).ok()?;
    request.extensions_mut().clone_from(&parts.extensions);
    let shown = super::plain_routes(state.clone()).oneshot(request).await;
    let Ok(response) = shown;
    if !response.status().is_success() {
        return None;
    }
    let (parts, body) = response.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some((body, parts.headers))
}

fn busy() -> Response {
    let why = "a request with this key is being handled";
    let error = Error::wrong_state(why).in_field("Idempotency-Key");
    let mut response = Rejection::from(error).into_response();
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
