//! Requests to registries: who may be spoken to how, redirects, tokens,
//! time limits, and errors that say what the registry said.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;

use super::auth::{self, Cache, Token};
use super::challenge::Challenge;
use super::options::RegistryOptions;
use super::url;
use crate::{RegistryReference, SourceError};

const MAX_REDIRECTS: usize = 5;
const MAX_ERROR: u64 = 64 << 10;
const MAX_TOKEN: u64 = 1 << 20;

type Http = legacy::Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

pub(super) struct Client {
    http: Http,
    options: RegistryOptions,
    tokens: Cache,
}

impl Client {
    pub(super) fn new(options: RegistryOptions) -> Result<Self, SourceError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(&options)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build(connector);
        Ok(Self {
            http,
            options,
            tokens: Cache::default(),
        })
    }

    /// Something of a repository, with whatever the registry wants to see.
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
        while let Some(frame) = self.in_time(host, body.frame()).await? {
            let frame = frame.map_err(|error| broken(host, &error))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
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

    /// Waits for the registry, but not for ever.
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
            let next = location.and_then(|location| url::follow(&uri, location.to_str().ok()?));
            let next = next.ok_or_else(|| protocol(host, "a redirect to nowhere"))?;
            if url::origin(&next) != url::origin(&uri) {
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
                let mut uri = format!("{realm}?scope={}", url::encode(&scope));
                if realm.contains('?') {
                    uri = format!("{realm}&scope={}", url::encode(&scope));
                }
                if let Some(service) = service {
                    uri = format!("{uri}&service={}", url::encode(&service));
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

fn tls(options: &RegistryOptions) -> Result<ClientConfig, SourceError> {
    let settings = |error: &dyn std::fmt::Display| SourceError::Settings(error.to_string());
    let mut roots = RootCertStore::empty();
    let system = options
        .system_authorities
        .iter()
        .find(|path| path.is_file());
    if let Some(path) = system {
        let found = CertificateDer::pem_file_iter(path).map_err(|error| settings(&error))?;
        // One odd certificate in the system's bundle is no reason to stop.
        roots.add_parsable_certificates(found.flatten());
    }
    for authority in &options.authorities {
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            let certificate = certificate.map_err(|error| settings(&error))?;
            roots.add(certificate).map_err(|error| settings(&error))?;
        }
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| settings(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// What the registry says, without what would spoil a terminal.
fn detail(body: &[u8], status: StatusCode) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let told = serde_json::from_slice::<Errors>(body).ok();
    let told = told.and_then(|told| told.errors.into_iter().next());
    let text = match told {
        Some(One { code, message }) if message.is_empty() => code,
        Some(One { message, .. }) => message,
        None => status.canonical_reason().unwrap_or("no reason").to_owned(),
    };
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Seconds, or a date.
pub(crate) fn retry_after(header: &HeaderValue) -> Option<Duration> {
    let text = header.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = date.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default())
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
pub(super) fn broken(host: &str, error: &dyn std::error::Error) -> SourceError {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    SourceError::Connection {
        host: host.to_owned(),
        detail: root.to_string(),
    }
}
