//! The node that hosts machines for us: connected to for each call, because it
//! may have been restarted since the last one, and called within bounds.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use strata_api::strata::v1::LogLine;
use strata_client::{NodeClient, Target};
use strata_types::ErrorKind;
use tokio::time::timeout;
use tonic::{Response, Status, Streaming};

use crate::{Console, ProviderError, Tag};

/// The label that a machine has its tag in.
const TAG: &str = "strata.dev/tag";
/// How long all requests of one call of a driver may take: a machine may take
/// 20 s to answer, and another may be made first.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, ProviderError>;

/// A node that hosts machines.
#[derive(Clone, Debug)]
pub struct Hosting(Target);

impl Hosting {
    pub(crate) fn new(node: Target) -> Self {
        Self(node)
    }

    /// Sends a request to the node.
    pub(crate) async fn request<T>(
        &self,
        call: impl AsyncFnOnce(&NodeClient) -> std::result::Result<Response<T>, Status>,
    ) -> Result<T> {
        let node = NodeClient::connect(&self.0).await.map_err(unreached)?;
        let answer = call(&node).await;
        answer
            .map(Response::into_inner)
            .map_err(|status| failed(node.error(&status)))
    }

    /// Gives up after a minute; the requested change may still happen.
    pub(crate) fn bounded<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        let bounded = async {
            timeout(CALL_TIMEOUT, call).await.unwrap_or_else(|_| {
                let (node, within) = (&self.0, CALL_TIMEOUT.as_secs());
                Err(ProviderError::Unavailable(format!(
                    "the node at {node} did not answer within {within} s"
                )))
            })
        };
        bounded.boxed()
    }
}

/// A node that does not trust us is not called again.
fn unreached(error: strata_client::Error) -> ProviderError {
    match error {
        strata_client::Error::Connect { .. } | strata_client::Error::Lost { .. } => {
            ProviderError::Unavailable(error.to_string())
        }
        other => ProviderError::Refused(reported(&other)),
    }
}

/// What an answer that is an error means for a machine.
fn failed(error: strata_client::Error) -> ProviderError {
    let text = reported(&error);
    match error.kind() {
        None => unreached(error),
        Some(ErrorKind::NotFound) => ProviderError::NoSuchMachine(text),
        Some(ErrorKind::AlreadyExists) => ProviderError::Taken(text),
        Some(
            ErrorKind::Invalid
            | ErrorKind::WrongState
            | ErrorKind::Unauthenticated
            | ErrorKind::PermissionDenied,
        ) => ProviderError::Refused(text),
        // Room may come, and a node that stumbled may not the next time.
        Some(
            ErrorKind::Unavailable
            | ErrorKind::Aborted
            | ErrorKind::Exhausted
            | ErrorKind::Internal,
        ) => ProviderError::Unavailable(text),
    }
}

fn reported(error: &strata_client::Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// Labels with a tag among them.
pub(crate) fn tagged<'a>(
    labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    tag: &Tag,
) -> HashMap<String, String> {
    let labels = labels.into_iter();
    let mut all: HashMap<_, _> = labels.map(|(k, v)| (k.clone(), v.clone())).collect();
    all.insert(TAG.to_owned(), tag.to_string());
    all
}

/// The tag among labels.
pub(crate) fn tag_of(labels: &HashMap<String, String>) -> Option<Tag> {
    labels.get(TAG).and_then(|text| Tag::parse(text))
}

/// The same answer, or the one for what is not there.
pub(crate) fn none_if_not_found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ProviderError::NoSuchMachine(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lines of a log as a console shows them.
pub(crate) fn console(lines: Streaming<LogLine>) -> Console {
    let shown = |line: std::result::Result<LogLine, Status>| match line {
        Ok(line) => {
            let mut bytes = BytesMut::with_capacity(line.line.len() + 1);
            bytes.put(&line.line[..]);
            bytes.put_u8(b'\n');
            Ok(bytes.freeze())
        }
        Err(status) => Err(ProviderError::Unavailable(status.message().to_owned())),
    };
    lines.map(shown).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_tag_is_found_among_labels() {
        let tag = Tag {
            run: "0a1b".into(),
            machine: "m-1".parse().unwrap(),
        };
        let labels = [("zone".to_owned(), "a".to_owned())];
        let labels = tagged(labels.iter().map(|(k, v)| (k, v)), &tag);
        assert_eq!(labels["zone"], "a");
        assert_eq!(tag_of(&labels), Some(tag));
        assert_eq!(tag_of(&HashMap::new()), None);
    }

    #[tokio::test]
    async fn missing_node_is_a_transient_error() {
        let directory = tempfile::tempdir().unwrap();
        let hosting = Hosting::new(Target::Unix(directory.path().join("node.sock")));
        let asked = hosting.request(async |_| -> std::result::Result<Response<()>, Status> {
            unreachable!("no listener")
        });
        let error = asked.await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }
}
