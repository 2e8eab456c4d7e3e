//! What the published service tells of an operation, one message after the
//! other.

use strata_testkit::operations::{
    CreateBackupResponse, CreateHypervisorResponse, DestroyHypervisorResponse,
    ExpandStorageResponse, OperationState, ShrinkStorageResponse,
};
use strata_testkit::{Status, Streaming};

use crate::operations::world::TEST_TIMEOUT;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) state: OperationState,
    pub(crate) msg: String,
    pub(crate) operation: String,
}

macro_rules! messages {
    ($($response:ident),*) => {$(
        impl From<$response> for Message {
            fn from(one: $response) -> Self {
                let state = one.state();
                Self { state, msg: one.msg, operation: one.operation.unwrap_or_default() }
            }
        }
    )*};
}

messages!(
    CreateHypervisorResponse,
    DestroyHypervisorResponse,
    ExpandStorageResponse,
    ShrinkStorageResponse,
    CreateBackupResponse
);

/// The next message; none at the end.
pub(crate) async fn next<T: Into<Message>>(
    stream: &mut Streaming<T>,
) -> Result<Option<Message>, Status> {
    let next = tokio::time::timeout(TEST_TIMEOUT, stream.message()).await;
    let next = next.expect("a message or the end comes in time")?;
    Ok(next.map(Into::into))
}

/// All messages to the end, which must be a good one of the stream.
pub(crate) async fn all<T: Into<Message>>(mut stream: Streaming<T>) -> Vec<Message> {
    let mut all = Vec::new();
    while let Some(message) = next(&mut stream).await.unwrap() {
        all.push(message);
    }
    all
}

/// All messages, of an operation that waited, worked and is done.
#[track_caller]
pub(crate) fn completed(all: &[Message]) {
    let [first, middle @ .., last] = all else {
        panic!("{all:?}");
    };
    assert_eq!(first.state, OperationState::Scheduled, "{all:?}");
    assert_eq!(last.state, OperationState::Completed, "{all:?}");
    assert!(!middle.is_empty());
    for one in middle {
        assert_eq!(one.state, OperationState::Active, "{all:?}");
    }
    assert!(all.iter().all(|one| one.operation == first.operation));
}

/// The names of steps that were told, in their order.
pub(crate) fn steps(all: &[Message]) -> Vec<&str> {
    let mut names = Vec::new();
    for one in all.iter().filter(|one| one.state == OperationState::Active) {
        let name = one.msg.split(':').next().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
