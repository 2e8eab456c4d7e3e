//! What a handler takes from a request: the principal, which thing, which
//! parameters, which body. Whatever is wrong is answered as a problem with the
//! field in it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, EXPECT};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Version};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use strata_api::rest::MERGE_PATCH;
use strata_audit::SessionRecorder;
use strata_identity::{Caller, CertificateId, Credential};
use strata_types::{Error, ErrorKind, Label, Role};

use super::rejection::{Answer, Rejection};
use crate::core::{Core, Principal};

/// The largest body, in bytes.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// What is still read, and thrown away, of a body that is too large, and for
/// how long: a client of HTTP/1 does not read the answer while it writes.
const BODY_DRAIN_LIMIT: usize = 512 * 1024;
const BODY_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The principal of the request.
pub(super) struct Auth(pub(super) Principal);

impl<S: Sync> FromRequestParts<S> for Auth {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        match parts.extensions.get::<Caller>() {
            Some(caller) => Ok(Self(caller.into())),
            None => Err(Error::new(ErrorKind::Unauthenticated, "no credentials presented").into()),
        }
    }
}

/// The principal of a request that nodes may make, too.
pub(super) struct Reader {
    principal: Principal,
    certificate: Option<Arc<CertificateId>>,
}

impl Reader {
    /// The caller. A node is known by its certificate alone, of which the key
    /// has to be the one that its record is bound to.
    pub(super) async fn authenticated(self, core: &Core) -> Answer<Principal> {
        if self.principal.role != Role::Node {
            return Ok(self.principal);
        }
        let refused = || {
            let why = "a node is known by its certificate alone";
            Error::new(ErrorKind::PermissionDenied, why)
        };
        let certificate = self.certificate.ok_or_else(refused)?;
        core.authenticate_node(&certificate, None).await?;
        Ok(self.principal)
    }
}

impl<S: Sync> FromRequestParts<S> for Reader {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let Auth(principal) = Auth::from_request_parts(parts, state).await?;
        let certificate = match parts.extensions.get::<Credential>() {
            Some(Credential::Certificate(id)) if id.role == Role::Node => Some(id.clone()),
            _ => None,
        };
        Ok(Self {
            principal,
            certificate,
        })
    }
}

/// What records the sessions of the request in the audit log.
pub(super) struct Recorder(pub(super) SessionRecorder);

impl<S: Sync> FromRequestParts<S> for Recorder {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let recorder = parts.extensions.get::<SessionRecorder>();
        Ok(Self(recorder.cloned().unwrap_or_default()))
    }
}

/// The thing in the path: an id, a name, or `PROJECT/NAME`.
pub(super) struct ResourceId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for ResourceId {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let bad = |_| Rejection::unreadable(Error::invalid("id", "is not text in UTF-8"));
        path.map(|Path(text)| Self(text)).map_err(bad)
    }
}

/// A thing in the path, and a part of it.
pub(super) struct SubresourceId(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for SubresourceId {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let bad = |_| Rejection::unreadable(Error::invalid("id", "is not text in UTF-8"));
        path.map(|Path((whole, part))| Self(whole, part))
            .map_err(bad)
    }
}

/// The parameters after the `?`.
pub(super) struct Parameters(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let bad = |_| Rejection::unreadable(Error::invalid("query", "cannot be read"));
        query.map(|Query(pairs)| Self(pairs)).map_err(bad)
    }
}

impl Parameters {
    /// Refuses those that are not known here, and those given twice.
    pub(super) fn deny_unknown(&self, known: &[&str]) -> Answer<()> {
        for (i, (name, _)) in self.0.iter().enumerate() {
            let name: String = name.chars().take(80).collect();
            if !known.contains(&name.as_str()) {
                let why = match known {
                    [] => "is unknown; there are no parameters here".to_owned(),
                    known => format!("is unknown; there are {}", known.join(", ")),
                };
                return Err(Error::invalid(name, why).into());
            }
            if self.0[..i].iter().any(|(other, _)| *other == name) {
                return Err(Error::invalid(name, "is given twice").into());
            }
        }
        Ok(())
    }

    /// All of them, as they came.
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// A text, if it is given.
    pub(super) fn text(&self, name: &str) -> Answer<Option<&str>> {
        let found = self.0.iter().find(|(key, _)| key == name);
        match found.map(|(_, value)| value.as_str()) {
            Some("") => Err(Error::invalid(name, "must not be empty").into()),
            found => Ok(found),
        }
    }

    /// The name of a node, if it is given.
    pub(super) fn name(&self, name: &str) -> Answer<Option<String>> {
        let text = self.text(name)?;
        let read = text.map(str::parse::<strata_identity::Name>);
        let read = read
            .transpose()
            .map_err(|why| Error::from(why).in_field(name))?;
        Ok(read.map(|name| name.to_string()))
    }

    /// A name of a project or the like, if it is given.
    pub(super) fn label(&self, name: &str) -> Answer<Option<Label>> {
        let text = self.text(name)?;
        let label = text.map(|text| Label::from_field(name, text));
        Ok(label.transpose()?)
    }

    /// Yes or no; no when it is not given.
    pub(super) fn flag(&self, name: &str) -> Answer<bool> {
        match self.text(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Error::invalid(name, "must be true or false").into()),
        }
    }

    /// A number within bounds.
    pub(super) fn number(&self, name: &str, least: u64, most: u64) -> Answer<Option<u64>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(n) if digits && (least..=most).contains(&n) => Ok(Some(n)),
            _ => {
                let why = format!("must be a number from {least} to {most}");
                Err(Error::invalid(name, why).into())
            }
        }
    }

    /// One of some words, if it is given.
    pub(super) fn one_of<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Answer<Option<T>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match all.iter().find(|one| word(**one) == text) {
            Some(found) => Ok(Some(*found)),
            None => {
                let words: Vec<_> = all.iter().map(|one| word(*one)).collect();
                let why = format!("must be one of {}", words.join(", "));
                Err(Error::invalid(name, why).into())
            }
        }
    }

    /// Which piece of a list: how many, after how many.
    pub(super) fn pagination(&self) -> Answer<(usize, usize)> {
        let limit = self.number("limit", 1, 1000)?.unwrap_or(100);
        let offset = self.number("offset", 0, u32::MAX.into())?.unwrap_or(0);
        let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok((whole(limit), whole(offset)))
    }
}

/// A body in JSON.
pub(super) struct Json(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Json {
    type Rejection = Rejection;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let (parts, body) = request.into_parts();
        check_kind(&parts.headers, parts.method == http::Method::PATCH)?;
        Ok(Self(read(&parts, body).await?))
    }
}

/// All of a body, if it comes in time and is not too large. A body that
/// announces that it is too large is not read at all, where the client reads
/// before or while it writes: it waits for `100 Continue`, or uses HTTP/2.
pub(super) async fn read(head: &Parts, body: axum::body::Body) -> Answer<Bytes> {
    if body.size_hint().exact() == Some(0) {
        return Ok(Bytes::new());
    }
    let told = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if told > MAX_BODY_BYTES {
        if head.version < Version::HTTP_2 && !head.headers.contains_key(EXPECT) {
            let _ = tokio::time::timeout(BODY_DRAIN_TIMEOUT, collect(body)).await;
        }
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, collect(body)).await {
        Ok(whole) => whole,
        Err(_) => {
            let why = format!("did not come within {} seconds", BODY_TIMEOUT.as_secs());
            let error = Error::invalid("body", why);
            Err(Rejection::with(StatusCode::REQUEST_TIMEOUT, error))
        }
    }
}

async fn collect(mut body: axum::body::Body) -> Answer<Bytes> {
    let (mut whole, mut size) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let error = Error::invalid("body", format!("did not come: {error}"));
            Rejection::unreadable(error)
        })?;
        let data = frame.into_data().unwrap_or_default();
        size += data.len();
        if size <= MAX_BODY_BYTES {
            whole.extend_from_slice(&data);
        } else if size > MAX_BODY_BYTES + BODY_DRAIN_LIMIT {
            break;
        }
    }
    if size > MAX_BODY_BYTES {
        return Err(too_large());
    }
    Ok(whole.freeze())
}

fn too_large() -> Rejection {
    let why = format!("is larger than {MAX_BODY_BYTES} bytes");
    let error = Error::invalid("body", why);
    Rejection::with(StatusCode::PAYLOAD_TOO_LARGE, error)
}

pub(super) fn check_kind(headers: &HeaderMap, patch: bool) -> Answer<()> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str());
    let kind = kind.and_then(Result::ok).unwrap_or("");
    let bare = kind.split(';').next().unwrap_or("").trim();
    let json = bare.eq_ignore_ascii_case("application/json");
    if json || (patch && bare.eq_ignore_ascii_case(MERGE_PATCH)) {
        return Ok(());
    }
    let taken = match patch {
        true => format!("{MERGE_PATCH} or application/json"),
        false => "application/json".to_owned(),
    };
    let kind: String = kind.chars().take(80).collect();
    let error = Error::invalid(
        "Content-Type",
        format!("{kind:?} is not taken; send {taken}"),
    );
    Err(Rejection::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}
