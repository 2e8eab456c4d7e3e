//! Requests to registries: which hosts may be contacted how, redirects, tokens,
//! time limits, and errors with the message of the registry.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use serde::Deserialize;
use strata_http::{ClientOptions, Trust, follow_redirect, origin, percent_encode, retry_after};
use tokio::time::Instant;

use super::auth::{self, Cache, Token};
use super::challenge::Challenge;
use super::options::RegistryOptions;
use crate::{RegistryReference, SourceError};

const MAX_REDIRECTS: usize = 5;
const MAX_ERROR: u64 = 64 << 10;
/// The answer of a token server, which may have the token under two names.
const MAX_TOKEN: u64 = 64 << 10;

/// How fast a body comes. Only the time counts in which it is awaited: a slow
/// disk is not the registry's fault.
#[derive(Debug, Default)]
pub(super) struct Rate {
    awaited: Duration,
    bytes: u64,
}

impl Rate {
    fn count(&mut self, awaited: Duration, bytes: usize) {
        self.awaited += awaited;
        self.bytes += bytes as u64;
    }

    /// Whether a window passed with too little; then the next one begins.
    fn is_below(&mut self, least: u64, window: Duration) -> bool {
        if self.awaited < window {
            return false;
        }
        let found = std::mem::take(self);
        u128::from(found.bytes) * 1000 < u128::from(least) * found.awaited.as_millis()
    }
}

pub(super) struct Client {
    http: strata_http::Client<Empty<Bytes>>,
    options: RegistryOptions,
    tokens: Cache,
}

impl Client {
    pub(super) fn new(options: RegistryOptions) -> Result<Self, SourceError> {
        let trust = Trust::System {
            bundles: options.system_authorities.clone(),
            authorities: options.authorities.clone(),
        };
        let config = trust
            .config()
            .map_err(|error| SourceError::Settings(error.to_string()))?;
        let http = ClientOptions {
            connect_timeout: options.connect_timeout,
            // Each request is checked against the list of those that may.
            allow_http: true,
            use_proxy: true,
            ..ClientOptions::default()
        }
        .client(config);
        Ok(Self {
            http,
            options,
            tokens: Cache::default(),
        })
    }

    /// Something of a repository, with whatever the registry requires.
    pub(super) async fn get(
        &self,
        reference: &RegistryReference,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Response<Incoming>, SourceError> {
        let (host, repository) = (reference.host(), reference.repository());
        let scheme = if self.plain(host) { "http" } else { "https" };
        let address = match host {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let uri = parse(
            host,
            &format!("{scheme}://{address}/v2/{repository}/{path}"),
        )?;
        let known = self.tokens.get(host, repository);
        let mut answer = self.follow(host, uri.clone(), &headers, known).await?;
        if answer.status() == StatusCode::UNAUTHORIZED
            && let Some(shown) = self.answer_challenge(reference, answer.headers()).await?
        {
            answer = self.follow(host, uri, &headers, Some(shown)).await?;
        }
        if answer.status().is_success() {
            return Ok(answer);
        }
        let what = format!("{host}/{repository}/{path}");
        Err(self.refusal(host, what, answer).await)
    }

    /// All of a small body.
    pub(super) async fn small(
        &self,
        host: &str,
        mut body: Incoming,
        limit: u64,
    ) -> Result<Bytes, SourceError> {
        let mut bytes = Vec::new();
        let mut rate = Rate::default();
        while let Some(data) = self.data(host, &mut body, &mut rate).await? {
            bytes.extend_from_slice(&data);
            if bytes.len() as u64 > limit {
                return Err(SourceError::TooLarge {
                    what: format!("an answer of {host}"),
                    limit,
                });
            }
        }
        Ok(bytes.into())
    }

    /// The next data of a body, if it comes, and comes fast enough. A registry
    /// that sends a byte now and then would otherwise keep a place among all
    /// downloads for as long as it likes.
    pub(super) async fn data(
        &self,
        host: &str,
        body: &mut Incoming,
        rate: &mut Rate,
    ) -> Result<Option<Bytes>, SourceError> {
        loop {
            let since = Instant::now();
            let Some(frame) = self.in_time(host, body.frame()).await? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| broken(host, &error))?;
            // Trailers carry nothing for us.
            let data = frame.into_data().ok();
            rate.count(since.elapsed(), data.as_ref().map_or(0, Bytes::len));
            if rate.is_below(self.options.least_rate, self.options.rate_window) {
                return Err(SourceError::TooSlow {
                    host: host.to_owned(),
                    rate: self.options.least_rate,
                    window: self.options.rate_window,
                });
            }
            if data.is_some() {
                return Ok(data);
            }
        }
    }

    /// Waits for the registry, but not forever.
    pub(super) async fn in_time<T>(
        &self,
        host: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, SourceError> {
        let after = self.options.stall_timeout;
        tokio::time::timeout(after, work)
            .await
            .map_err(|_| SourceError::Stalled {
                host: host.to_owned(),
                after,
            })
    }

    /// Secrets go to the origin that they are for and no further; no hop may
    /// be in the clear unless it is listed.
    async fn follow(
        &self,
        host: &str,
        mut uri: Uri,
        headers: &HeaderMap,
        mut shown: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, SourceError> {
        for _ in 0..=MAX_REDIRECTS {
            if uri.scheme_str() != Some("https") {
                let authority = uri.authority().map_or("", |authority| authority.as_str());
                if !self.plain(authority) {
                    return Err(SourceError::PlainHttp(authority.to_owned()));
                }
            }
            let mut request = Request::get(uri.clone());
            if let Some(all) = request.headers_mut() {
                all.extend(headers.clone());
                all.insert(USER_AGENT, HeaderValue::from_static("strata"));
                all.extend(shown.clone().map(|shown| (AUTHORIZATION, shown)));
            }
            let request = request
                .body(Empty::new())
                .map_err(|error| protocol(host, error.to_string()))?;
            let answer = self.in_time(host, self.http.request(request)).await?;
            let answer = answer.map_err(|error| broken(host, &error))?;
            if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let location = answer.headers().get(LOCATION);
            let next = location.and_then(|location| follow_redirect(&uri, location.to_str().ok()?));
            let next = next.ok_or_else(|| protocol(host, "a redirect to nowhere"))?;
            if origin(&next) != origin(&uri) {
                shown = None;
            }
            uri = next;
        }
        Err(protocol(host, "redirects without end"))
    }

    async fn answer_challenge(
        &self,
        reference: &RegistryReference,
        headers: &HeaderMap,
    ) -> Result<Option<HeaderValue>, SourceError> {
        let (host, repository) = (reference.host(), reference.repository());
        let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenge = challenges
            .filter_map(|header| Challenge::parse(header.to_str().ok()?))
            .next();
        let credentials = self.options.credentials.get(host);
        let basic = credentials.map(auth::basic).transpose()?;
        match (challenge, basic) {
            (Some(Challenge::Basic), Some(basic)) => {
                self.tokens.put(host, repository, basic.clone(), None);
                Ok(Some(basic))
            }
            (Some(Challenge::Basic) | None, _) => Ok(None),
            (
                Some(Challenge::Bearer {
                    realm,
                    service,
                    scope,
                }),
                basic,
            ) => {
                let scope = scope.unwrap_or_else(|| format!("repository:{repository}:pull"));
                let mut uri = format!("{realm}?scope={}", percent_encode(&scope));
                if realm.contains('?') {
                    uri = format!("{realm}&scope={}", percent_encode(&scope));
                }
                if let Some(service) = service {
                    uri = format!("{uri}&service={}", percent_encode(&service));
                }
                let uri = parse(host, &uri)?;
                let answer = self.follow(host, uri, &HeaderMap::new(), basic).await?;
                if !answer.status().is_success() {
                    let what = format!("a token for {host}/{repository}");
                    return Err(self.refusal(host, what, answer).await);
                }
                let body = self.small(host, answer.into_body(), MAX_TOKEN).await?;
                let token: Token = serde_json::from_slice(&body)
                    .map_err(|_| protocol(host, "a token server that gives no token"))?;
                let header = token
                    .header()
                    .ok_or_else(|| protocol(host, "a token server that gives no token"))??;
                let life = Some(token.life());
                self.tokens.put(host, repository, header.clone(), life);
                Ok(Some(header))
            }
        }
    }

    fn plain(&self, authority: &str) -> bool {
        let name = match authority.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => authority,
        };
        let listed = &self.options.plain_http;
        listed
            .iter()
            .any(|known| known == authority || known == name)
    }

    async fn refusal(&self, host: &str, what: String, answer: Response<Incoming>) -> SourceError {
        let status = answer.status();
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(retry_after);
        let body = self.small(host, answer.into_body(), MAX_ERROR).await;
        let detail = detail(&body.unwrap_or_default(), status);
        let host = host.to_owned();
        match status {
            StatusCode::NOT_FOUND => SourceError::NotFound(what),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                SourceError::Denied { host, detail }
            }
            status => SourceError::Status {
                host,
                status: status.as_u16(),
                detail,
                retry_after,
            },
        }
    }
}

/// The message of the registry, without what would spoil a terminal.
fn detail(body: &[u8], status: StatusCode) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<RegistryError>,
    }
    #[derive(Deserialize)]
    struct RegistryError {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let told = serde_json::from_slice::<Errors>(body).ok();
    let told = told.and_then(|told| told.errors.into_iter().next());
    let text = match told {
        Some(RegistryError { code, message }) if message.is_empty() => code,
        Some(RegistryError { message, .. }) => message,
        None => status.canonical_reason().unwrap_or("no reason").to_owned(),
    };
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn parse(host: &str, uri: &str) -> Result<Uri, SourceError> {
    let parsed: Uri = uri
        .parse()
        .map_err(|_| protocol(host, "an address that is none"))?;
    if parsed.host().is_none() || !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return Err(protocol(host, "an address that is none"));
    }
    Ok(parsed)
}

fn protocol(host: &str, detail: impl Into<String>) -> SourceError {
    SourceError::Protocol {
        host: host.to_owned(),
        detail: detail.into(),
    }
}

/// A connection that failed, with the reason at the bottom of it.
fn broken(host: &str, error: &(dyn std::error::Error + 'static)) -> SourceError {
    SourceError::Connection {
        host: host.to_owned(),
        detail: strata_http::root_cause(error).to_string(),
    }
}
