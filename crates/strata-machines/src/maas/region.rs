//! Requests to one region: MAAS's API 2.0.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::{Method, StatusCode};
use rand::RngCore as _;
use serde::de::DeserializeOwned;

use super::config::{MaasCredentials, MaasLimits};
use super::machine::Machine;
use super::oauth::Key;
use crate::ProviderError;
use crate::http::{self, Address, Client, HttpResponse, form, one_line};

/// The largest answer: a machine has up to 100 KB of JSON, and all may come
/// in one.
const MAX_BODY_BYTES: usize = 64 << 20;
const FORM: &str = "application/x-www-form-urlencoded";

pub(super) struct Region {
    client: Client,
    key: Key,
}

impl Region {
    pub(super) fn new(
        credentials: &MaasCredentials,
        limits: &MaasLimits,
    ) -> Result<Self, ProviderError> {
        let key = match &credentials.api_key_file {
            None => Key::parse(credentials.api_key.expose())?,
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|error| {
                    ProviderError::Refused(format!("{}: {error}", file.display()))
                })?;
                Key::parse(&text)?
            }
        };
        let address = Address::parse(&credentials.address)?;
        let bounds = http::Limits {
            timeout: limits.request,
            largest: MAX_BODY_BYTES,
        };
        let client = Client::new(address, &credentials.trust(), bounds)?;
        Ok(Self { client, key })
    }

    pub(super) fn name(&self) -> &str {
        self.client.address().origin()
    }

    /// A machine by its system id.
    pub(super) async fn machine(&self, id: &str) -> Result<Machine, ProviderError> {
        self.get(&machine_path(id)?, &[]).await
    }

    /// All machines, or those that were allocated under a name.
    pub(super) async fn machines(
        &self,
        agent: Option<&str>,
    ) -> Result<Vec<Machine>, ProviderError> {
        let query: Vec<_> = agent.map(|name| ("agent_name", name)).into_iter().collect();
        self.get("machines/", &query).await
    }

    /// An operation on a machine.
    pub(super) async fn order(
        &self,
        id: &str,
        operation: &str,
        fields: &[(&str, &str)],
    ) -> Result<(), ProviderError> {
        let path = machine_path(id)?;
        self.post(&path, operation, fields).await.map(drop)
    }

    /// Takes a machine that fits. The status reports why not.
    pub(super) async fn allocate(
        &self,
        fields: &[(&str, &str)],
    ) -> Result<Result<Machine, String>, ProviderError> {
        let path = "machines/?op=allocate";
        let answer = self.send(Method::POST, path, Some(fields)).await?;
        if answer.status == StatusCode::CONFLICT {
            return Ok(Err(one_line(&String::from_utf8_lossy(&answer.body))));
        }
        Ok(Ok(self.read(path, &answer)?))
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, ProviderError> {
        let path = match query {
            [] => path.to_owned(),
            query => format!("{path}?{}", form(query)),
        };
        let answer = self.send(Method::GET, &path, None).await?;
        self.read(&path, &answer)
    }

    async fn post(
        &self,
        path: &str,
        operation: &str,
        fields: &[(&str, &str)],
    ) -> Result<HttpResponse, ProviderError> {
        let path = format!("{path}?op={operation}");
        let answer = self.send(Method::POST, &path, Some(fields)).await?;
        match answer.status.is_success() {
            true => Ok(answer),
            false => Err(self.refusal(&path, &answer)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        fields: Option<&[(&str, &str)]>,
    ) -> Result<HttpResponse, ProviderError> {
        let nonce = rand::rng().next_u64().to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let proof = self
            .key
            .header(&nonce, now.unwrap_or(Duration::ZERO).as_secs())?;
        let path = format!("{}/api/2.0/{path}", self.client.address().path());
        let body = fields.map(|fields| (FORM, form(fields).into_bytes()));
        Ok(self.client.send(method, &path, proof, &[], body).await?)
    }

    fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        answer: &HttpResponse,
    ) -> Result<T, ProviderError> {
        match answer.status.is_success() {
            true => Ok(answer.json(self.name())?),
            false => Err(self.refusal(path, answer)),
        }
    }

    /// MAAS answers in plain text what is wrong.
    fn refusal(&self, path: &str, answer: &HttpResponse) -> ProviderError {
        let status = answer.status;
        let said = one_line(&String::from_utf8_lossy(&answer.body));
        let why = match said.starts_with('<') || said.is_empty() {
            true => status.canonical_reason().unwrap_or("no reason").to_owned(),
            false => said,
        };
        let path = path.split('?').next().unwrap_or_default();
        let text = format!("MAAS at {}: {path}: {} {why}", self.name(), status.as_u16());
        match status.as_u16() {
            404 | 410 => ProviderError::NoSuchMachine(text),
            401 | 403 => ProviderError::Refused(format!("{text}: see the credentials")),
            // 409: the machine is just changing its state.
            408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 => ProviderError::Unavailable(text),
            _ => ProviderError::Refused(text),
        }
    }
}

/// A system id has letters and digits; anything else would be another path.
fn machine_path(id: &str) -> Result<String, ProviderError> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if id.is_empty() || id.len() > 64 || !id.bytes().all(good) {
        let shown = one_line(id);
        return Err(ProviderError::NoSuchMachine(format!(
            "{shown:?} is not a system id of MAAS"
        )));
    }
    Ok(format!("machines/{id}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_id_with_a_path_is_rejected() {
        assert_eq!(machine_path("4y3h7n").unwrap(), "machines/4y3h7n/");
        for bad in ["", "..", "a/b", "a?op=release", "a b", &"x".repeat(65)] {
            assert!(machine_path(bad).is_err(), "{bad}");
        }
    }
}
