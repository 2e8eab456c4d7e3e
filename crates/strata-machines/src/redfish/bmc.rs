//! Requests to one BMC: our credentials, what it may send, tasks that it takes
//! its time for, and its reasons when it refuses.

use std::time::Duration;

use ::http::{HeaderValue, Method, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config::{BmcCredentials, Limits};
use super::model::{Collection, MAX_ITEMS, Refusal, Task};
use crate::ProviderError;
use crate::http::{self, Address, Client, HttpResponse, one_line};

/// The most pages of a collection.
const MAX_PAGES: usize = 16;
/// The largest answer, in bytes.
const MAX_BODY_BYTES: usize = 4 << 20;

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Done {
    ObservedMachine,
    /// It takes its time; its state can be read at this path.
    Going(String),
    /// Its task is not there any more: how it ended is not known.
    Lost,
}

pub(super) struct Bmc {
    client: Client,
    proof: HeaderValue,
    pause: Duration,
}

impl Bmc {
    pub(super) fn new(
        address: Address,
        credentials: &BmcCredentials,
        limits: &Limits,
    ) -> Result<Self, ProviderError> {
        let password = match &credentials.password_file {
            None => credentials.password.expose().to_owned(),
            Some(file) => std::fs::read_to_string(file)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|error| ProviderError::Refused(format!("{}: {error}", file.display())))?,
        };
        let shown = BASE64_STANDARD.encode(format!("{}:{password}", credentials.user));
        let mut proof = HeaderValue::from_str(&format!("Basic {shown}"))
            .map_err(|_| ProviderError::Refused("credentials that are none".into()))?;
        proof.set_sensitive(true);
        let bounds = http::Limits {
            timeout: limits.request,
            largest: MAX_BODY_BYTES,
        };
        Ok(Self {
            client: Client::new(address, &credentials.trust(), bounds)?,
            proof,
            pause: limits.pause,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.client.address().origin()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        etag: Option<&str>,
        body: Option<&Value>,
    ) -> Result<HttpResponse, ProviderError> {
        let headers: Vec<_> = etag
            .map(|etag| ("if-match", etag.to_owned()))
            .into_iter()
            .collect();
        let body = body.map(|body| ("application/json", body.to_string().into_bytes()));
        let proof = self.proof.clone();
        let sent = self.client.send(method, path, proof, &headers, body).await;
        Ok(sent?)
    }

    /// A resource, and its ETag.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<(T, Option<String>), ProviderError> {
        let answer = self.send(Method::GET, path, None, None).await?;
        if !answer.status.is_success() {
            return Err(self.refusal(path, &answer));
        }
        let etag = answer.header("etag").map(str::to_owned);
        Ok((answer.json(self.name())?, etag))
    }

    /// The paths of a collection's members.
    pub(super) async fn members(&self, path: &str) -> Result<Vec<String>, ProviderError> {
        let mut found = Vec::new();
        let mut next = Some(path.to_owned());
        for _ in 0..MAX_PAGES {
            let Some(path) = next.take() else { break };
            let (page, _): (Collection, _) = self.get(&path).await?;
            let named = page.members.into_iter().map(|link| link.id);
            found.extend(named.filter(|id| !id.is_empty()));
            found.truncate(MAX_ITEMS);
            next = page.next;
        }
        Ok(found)
    }

    /// Changes a resource, if it is still the one that `etag` was read with.
    pub(super) async fn patch(
        &self,
        path: &str,
        etag: Option<&str>,
        body: &Value,
    ) -> Result<(), ProviderError> {
        let mut answer = self.send(Method::PATCH, path, etag, Some(body)).await?;
        // Some give weak tags and then compare them as strong ones.
        let strong = etag.and_then(|etag| etag.strip_prefix("W/"));
        if answer.status == StatusCode::PRECONDITION_FAILED && strong.is_some() {
            answer = self.send(Method::PATCH, path, strong, Some(body)).await?;
        }
        let done = self.accept(path, &answer)?;
        self.finish(done).await.map(drop)
    }

    /// Orders something, and waits until it is done.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<(), ProviderError> {
        let done = self.order(path, body).await?;
        self.finish(done).await.map(drop)
    }

    /// Orders something, without waiting.
    pub(super) async fn order(&self, path: &str, body: &Value) -> Result<Done, ProviderError> {
        let answer = self.send(Method::POST, path, None, Some(body)).await?;
        self.accept(path, &answer)
    }

    fn accept(&self, path: &str, answer: &HttpResponse) -> Result<Done, ProviderError> {
        if !answer.status.is_success() {
            return Err(self.refusal(path, answer));
        }
        let task = (answer.status == StatusCode::ACCEPTED).then(|| answer.header("location"));
        Ok(match task.flatten() {
            Some(task) => Done::Going(task.to_owned()),
            None => Done::ObservedMachine,
        })
    }

    /// Waits for a task; the caller bounds how long.
    async fn finish(&self, mut done: Done) -> Result<Done, ProviderError> {
        while let Done::Going(task) = done {
            done = self.look(task).await?;
            if matches!(done, Done::Going(_)) {
                tokio::time::sleep(self.pause).await;
            }
        }
        Ok(done)
    }

    /// How a task stands.
    pub(super) async fn look(&self, task: String) -> Result<Done, ProviderError> {
        let answer = self.send(Method::GET, &task, None, None).await?;
        match answer.status {
            StatusCode::ACCEPTED => return Ok(Done::Going(task)),
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Done::Lost),
            status if !status.is_success() => return Err(self.refusal(&task, &answer)),
            _ => {}
        }
        // What a monitor gives in the end may be the answer of the order.
        let reported: Task = serde_json::from_slice(&answer.body).unwrap_or_default();
        let state = reported.task_state.as_deref().unwrap_or("Completed");
        match state {
            "Completed" => Ok(Done::ObservedMachine),
            "Exception" | "Killed" | "Cancelled" | "Suspended" | "Interrupted" => {
                let why = reported
                    .messages
                    .into_iter()
                    .find_map(|message| message.message);
                let why = one_line(&why.unwrap_or_default());
                Err(ProviderError::Refused(format!(
                    "{}: a task ended as {state}: {why}",
                    self.name()
                )))
            }
            _ => Ok(Done::Going(task)),
        }
    }

    /// Its refusal, by what can be done about it.
    fn refusal(&self, path: &str, answer: &HttpResponse) -> ProviderError {
        let status = answer.status;
        let reported: Option<Refusal> = serde_json::from_slice(&answer.body).ok();
        let reported = reported.and_then(|reported| reported.text());
        let bare = || {
            let text = String::from_utf8_lossy(&answer.body);
            let text = one_line(&text);
            // A page for browsers is of no use.
            (!text.is_empty() && !text.starts_with('<')).then_some(text)
        };
        let reason = || status.canonical_reason().unwrap_or("no reason").to_owned();
        let why = reported.or_else(bare).unwrap_or_else(reason);
        let text = format!("{}{path}: {} {why}", self.name(), status.as_u16());
        match status.as_u16() {
            404 | 410 => ProviderError::NoSuchMachine(text),
            401 | 403 => ProviderError::Refused(format!("{text}: see the credentials")),
            // A BMC that is busy, restarts, or was overtaken.
            408 | 409 | 412 | 425 | 429 | 500 | 502 | 503 | 504 => ProviderError::Unavailable(text),
            301..=308 => ProviderError::Refused(format!("{text}: redirects are not followed")),
            _ => ProviderError::Refused(text),
        }
    }
}
