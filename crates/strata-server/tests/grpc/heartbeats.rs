//! Heartbeats are answered while everything else stands still: the store, and
//! every thread that serves people.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use strata_api::schedule::assignments_client::AssignmentsClient;
use strata_api::strata::v1::node_message::Message;
use strata_api::strata::v1::{
    Amounts, Hello, NodeLoad, NodeMessage, ServerMessage, server_message,
};
use strata_identity::{
    Ca, CertificateSpec, Clock, Expect, LiveIdentity, client_config, server_config_optional_client,
};
use strata_scheduler::{Overcommit, Settings};
use strata_server::core::{Core, CoreSettings, Lead, Range};
use strata_server::link::{AssignmentsApi, Tunnels};
use strata_server::{ApiServer, Build, Metrics, api};
use strata_store::{LeaseId, Listing, Memory, Revision, Store, StoreError, Transaction, Watch};
use strata_transport::{AuthLayer, Serve};
use strata_types::Role;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::world::channel_to;

/// How long nothing but heartbeats moves. A node waits less than this.
const STILL: Duration = Duration::from_secs(4);
const THREADS: usize = 2;

/// A store whose commits wait while `still` is set.
struct Stuck {
    inner: Memory,
    still: Arc<AtomicBool>,
}

impl Store for Stuck {
    fn get<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<strata_store::Entry>, StoreError>> {
        self.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async move {
            while self.still.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            self.inner.commit(transaction).await
        })
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.inner.watch(prefix, after)
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.revoke(lease)
    }
}

fn runtime(threads: usize) -> Runtime {
    let built = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build();
    built.unwrap()
}

/// A node's side of the conversation.
struct Conversation {
    to_server: mpsc::Sender<NodeMessage>,
    from_server: Streaming<ServerMessage>,
}

impl Conversation {
    async fn say(&self, message: Message) {
        let message = NodeMessage {
            message: Some(message),
        };
        self.to_server.send(message).await.unwrap();
    }

    /// Until the server sends a message of this kind; none when it hangs up.
    async fn hear(&mut self, condition: fn(&server_message::Message) -> bool) -> Option<()> {
        loop {
            let next = self.from_server.message().await.ok()??;
            if next.message.as_ref().is_some_and(condition) {
                return Some(());
            }
        }
    }

    /// How long a load waits for its answer.
    async fn beat(&mut self, load: NodeLoad) -> Option<Duration> {
        let begin = Instant::now();
        self.say(Message::Load(load)).await;
        let is_beat = |message: &_| matches!(message, server_message::Message::Beat(_));
        self.hear(is_beat).await?;
        Some(begin.elapsed())
    }
}

struct World {
    people: Runtime,
    client: Runtime,
    _nodes: Runtime,
    core: Core,
    still: Arc<AtomicBool>,
    conversation: Conversation,
    shutdown: CancellationToken,
}

/// A server whose nodes have a runtime of their own, and a node that follows.
fn world() -> World {
    strata_identity::install_crypto_provider();
    let (people, nodes, client) = (runtime(THREADS), runtime(1), runtime(1));
    let dir = tempfile::tempdir().unwrap();
    let ca = Ca::open(&dir.path().join("ca")).unwrap();
    let server = CertificateSpec::server("server".parse().unwrap());
    let server = Arc::new(LiveIdentity::new(&ca.issue(&server).unwrap()).unwrap());
    let tls = server_config_optional_client(&ca.ca_pem(), server, Clock::system()).unwrap();
    let (still, shutdown) = (Arc::<AtomicBool>::default(), CancellationToken::new());
    let store = Arc::new(Stuck {
        inner: Memory::new(),
        still: still.clone(),
    });
    let (core, address) = people.block_on(async {
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(3),
            placement: Settings::default(),
            overcommit: Overcommit::default(),
            alone: true,
            bounds: Default::default(),
            events_file: None,
            server_port: None,
        };
        let core = Core::open(store, settings, shutdown.clone()).await.unwrap();
        core.set_lead(Lead::Leading(None));
        let gate = AuthLayer::new(api::policy(), None, Clock::system());
        let metrics = Arc::new(Metrics::new(gate.refusals(), Build::default()));
        let links = AssignmentsApi::new(core.clone(), Tunnels::default(), shutdown.clone());
        let app = ApiServer::new(metrics).grpc(links.service()).router();
        let serve = Serve::new(app.await.unwrap(), gate).with_nodes_on(nodes.handle().clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve.tls(listener, tls, shutdown.clone()));
        (core, address)
    });
    let spec = CertificateSpec::caller("n1".parse().unwrap(), Role::Node);
    let identity = Arc::new(LiveIdentity::new(&ca.issue(&spec).unwrap()).unwrap());
    let ca = &ca.ca_pem();
    let config = client_config(ca, Some(identity), Expect::Server, Clock::system()).unwrap();
    let conversation = client.block_on(async {
        let channel = channel_to(address, config).await;
        let (to_server, messages) = mpsc::channel(64);
        let hello = Hello {
            capacity: Some(Amounts {
                cpu: 1000,
                memory: 1 << 30,
                disk: 1 << 30,
            }),
            ..Hello::default()
        };
        let hello = NodeMessage {
            message: Some(Message::Hello(hello)),
        };
        to_server.send(hello).await.unwrap();
        let mut assignments = AssignmentsClient::new(channel);
        let followed = assignments.follow(ReceiverStream::new(messages)).await;
        let mut conversation = Conversation {
            to_server,
            from_server: followed.unwrap().into_inner(),
        };
        let complete = |message: &_| matches!(message, server_message::Message::Complete(_));
        conversation.hear(complete).await.unwrap();
        conversation.beat(NodeLoad::default()).await.unwrap();
        conversation
    });
    World {
        people,
        client,
        _nodes: nodes,
        core,
        still,
        conversation,
        shutdown,
    }
}

#[test]
fn heartbeats_are_answered_while_the_store_and_all_of_the_api_stand_still() {
    let mut world = world();
    world.still.store(true, Ordering::SeqCst);
    let still = Instant::now();
    for _ in 0..4 * THREADS {
        world.people.spawn(async move {
            std::thread::sleep(STILL.saturating_sub(still.elapsed()));
        });
    }
    let mut answered = Vec::new();
    while still.elapsed() < STILL - Duration::from_millis(500) {
        // Another pool each time: the other task has to commit that.
        let load = NodeLoad {
            pool: Some(format!("{:032x}", answered.len())),
            ..NodeLoad::default()
        };
        let beat = world.client.block_on(world.conversation.beat(load));
        answered.push(beat.expect("the stream goes on"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let slowest = answered.iter().max().unwrap();
    assert!(answered.len() >= 10, "{answered:?}");
    assert!(*slowest < Duration::from_secs(1), "{answered:?}");
    let heard = world.core.live().node("n1").unwrap().heard.elapsed();
    assert!(heard < Duration::from_secs(1), "{heard:?}");
    world.still.store(false, Ordering::SeqCst);
    world.shutdown.cancel();
}

#[test]
fn server_whose_lead_ran_out_answers_no_heartbeat() {
    let mut world = world();
    world.core.renew_lead(tokio::time::Instant::now());
    let beat = world.conversation.beat(NodeLoad::default());
    let beat = world.client.block_on(beat);
    assert_eq!(beat, None, "another server may lead by now");
    world.shutdown.cancel();
}
