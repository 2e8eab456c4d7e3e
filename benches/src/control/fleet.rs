//! Simulated nodes: each has its certificate, its connection and its stream of
//! assignments, and reports its load each second as a node does. What is
//! assigned to it is read and, if wanted, reported as running.

use std::time::Duration;

use strata_api::schedule::assignments_client::AssignmentsClient;
use strata_api::strata::v1::{
    Amounts, Hello, InstanceReport, NodeLoad, NodeMessage, PodState, Reported, ServerMessage,
    node_message::Message, server_message,
};
use strata_client::Connection;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{Server, text};
use crate::Result;

/// What becomes of instances.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instances {
    /// They stay assigned.
    Stay,
    /// They are reported as running.
    Run,
}

/// For everything.
const ROOM: Amounts = Amounts {
    cpu: 1_000_000_000,
    memory: 1 << 50,
    disk: 1 << 50,
};

/// All of them; they end with it.
pub(crate) struct Fleet {
    _tasks: JoinSet<std::result::Result<(), String>>,
}

impl Fleet {
    /// So many nodes, 256 at most, with room for everything, all of them known
    /// and ready.
    pub(crate) async fn start(server: &Server, nodes: usize, instances: Instances) -> Result<Self> {
        let mut tasks = JoinSet::new();
        let (ready, mut readies) = mpsc::channel(nodes.max(1));
        for number in 0..nodes {
            let credentials = server.node(&format!("node-{number}"))?;
            let connection = server.connect(credentials).await?;
            let hello = Hello {
                version: "bench".into(),
                capacity: Some(ROOM),
                // Its own from before: of nodes that request any at the same
                // moment, some are refused and have to come again.
                subnet: format!("10.42.{number}.0/24"),
                ..Hello::default()
            };
            tasks.spawn(follow(connection, hello, instances, ready.clone()));
        }
        drop(ready);
        for _ in 0..nodes {
            let known = tokio::time::timeout(Duration::from_secs(60), readies.recv()).await;
            if known?.is_none() {
                let why = tasks.join_next().await.ok_or("there is no node")?;
                return Err(why?.err().unwrap_or_default().into());
            }
        }
        Ok(Self { _tasks: tasks })
    }
}

async fn follow(
    connection: Connection,
    hello: Hello,
    instances: Instances,
    ready: mpsc::Sender<()>,
) -> std::result::Result<(), String> {
    let (sender, messages) = mpsc::channel(1024);
    for message in [Message::Hello(hello), Message::Reported(Reported {})] {
        send(&sender, message).await?;
    }
    let mut client = AssignmentsClient::new(connection.channel());
    let followed = client.follow(ReceiverStream::new(messages)).await;
    let mut told: Streaming<ServerMessage> = followed.map_err(text)?.into_inner();
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut ready = Some(ready);
    loop {
        tokio::select! {
            _ = second.tick() => send(&sender, Message::Load(NodeLoad::default())).await?,
            message = told.message() => match message.map_err(text)?.and_then(|one| one.message) {
                Some(server_message::Message::Complete(_)) => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(()).await;
                    }
                }
                Some(server_message::Message::Assignment(given)) if instances == Instances::Run => {
                    let report = InstanceReport {
                        id: given.id,
                        generation: given.generation,
                        state: PodState::Running.into(),
                        ..InstanceReport::default()
                    };
                    send(&sender, Message::Report(report)).await?;
                }
                Some(_) => {}
                None => return Err("the server hung up".to_owned()),
            },
        }
    }
}

async fn send(
    sender: &mpsc::Sender<NodeMessage>,
    message: Message,
) -> std::result::Result<(), String> {
    let message = NodeMessage {
        message: Some(message),
    };
    sender.send(message).await.map_err(text)
}
