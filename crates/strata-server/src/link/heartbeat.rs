//! The heartbeat of one node: a task that reads from the node and answers each
//! load at once. It does nothing else and waits for nothing that the API can
//! keep busy: neither the store nor the tables of records, only for the lock of
//! what is measured, which is never held for longer than a lookup. All other
//! messages of the node are left in the inbox for the link's other task.
//!
//! An answered heartbeat promises the node that its instances are started
//! nowhere else for one more lease. So it is given only while this server leads
//! for certain: [`Core::leads_now`] ends with the last renewal of the lead,
//! also when the task that renews it stands still.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt as _};
use prost::Message as _;
use strata_api::strata::v1::{self, NodeMessage, ServerMessage, node_message, server_message};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::inbox::Inbox;
use crate::core::Core;

/// The messages of one node as they arrive, however they are carried.
pub type NodeMessages = Pin<Box<dyn Stream<Item = Result<NodeMessage, Status>> + Send>>;

/// Answers to heartbeats on their way. A node waits for 16 at most.
const HEARTBEAT_CAPACITY: usize = 64;

/// Listens to a node until it hangs up, or the link ends.
pub(super) async fn listen(
    core: Core,
    node: String,
    mut from_node: NodeMessages,
    beats: mpsc::Sender<()>,
    inbox: Arc<Inbox>,
    stop: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            () = stop.cancelled() => break,
            () = beats.closed() => break,
            message = from_node.next() => message,
        };
        let Some(Ok(message)) = message else {
            break;
        };
        if !core.leads_now() {
            tracing::info!(
                node,
                "node heartbeat not answered: this server may not lead"
            );
            break;
        }
        let live = core.live();
        live.alive(&node);
        let wait = live.paces.spend(&node, message.encoded_len());
        match message.message {
            Some(node_message::Message::Load(load)) => {
                // Where so many wait, the node does not read; it will miss one.
                let _ = beats.try_send(());
                inbox.load(load);
            }
            _ => {
                if inbox.put(message).is_err() {
                    tracing::warn!(node, "node sends more messages than can be handled");
                    break;
                }
            }
        }
        if !wait.is_zero() {
            tokio::select! {
                () = stop.cancelled() => break,
                () = beats.closed() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
    inbox.close();
}

/// What is sent to a node: answers to heartbeats before anything else.
pub(super) struct Outgoing {
    beats: mpsc::Receiver<()>,
    messages: mpsc::Receiver<Result<ServerMessage, Status>>,
}

impl Outgoing {
    /// The stream, and where answers to heartbeats and messages are put.
    #[allow(clippy::type_complexity)]
    pub(super) fn new(
        ahead: usize,
    ) -> (
        Self,
        mpsc::Sender<()>,
        mpsc::Sender<Result<ServerMessage, Status>>,
    ) {
        let (beat, beats) = mpsc::channel(HEARTBEAT_CAPACITY);
        let (message, messages) = mpsc::channel(ahead);
        (Self { beats, messages }, beat, message)
    }
}

impl Stream for Outgoing {
    type Item = Result<ServerMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(Some(())) = self.beats.poll_recv(cx) {
            let beat = server_message::Message::Beat(v1::Beat {});
            return Poll::Ready(Some(Ok(ServerMessage {
                message: Some(beat),
            })));
        }
        // Its end is that of the stream.
        self.messages.poll_recv(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn heartbeat_overtakes_queued_messages() {
        let (mut outgoing, beat, message) = Outgoing::new(64);
        for _ in 0..64 {
            message.try_send(Ok(ServerMessage::default())).unwrap();
        }
        beat.try_send(()).unwrap();
        let first = outgoing.next().await.unwrap().unwrap();
        assert!(matches!(
            first.message,
            Some(server_message::Message::Beat(_))
        ));
        drop((beat, message));
        assert_eq!(outgoing.count().await, 64);
    }
}
