//! A server that says what it is told to, and writes down what it hears.

use std::fs::File;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::Stream;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use strata_api::schedule::assignments_server::{Assignments, AssignmentsServer};
use strata_api::strata::v1;
use strata_api::strata::v1::node_message::Message as Said;
use strata_api::strata::v1::server_message::Message;
use strata_api::strata::v1::{Assignment, Chunk, InstanceReport, PodState};
use strata_identity::{Ca, CertificateSpec, Clock, LiveIdentity, Tokens};
use strata_server::{IdentityApi, api};
use strata_testkit::{NetworkNamespace, TEST_TIMEOUT, wait_for};
use strata_transport::{AuthLayer, Limits, Serve, TunnelIo};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// The id of the control plane that this is a server of.
pub(crate) const CONTROL_PLANE: &str = "a1b2c3d4e5";

/// Where what is said to a node goes, until it ends.
type Mouth = Arc<AsyncMutex<Option<mpsc::Sender<Result<v1::ServerMessage, Status>>>>>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A server, its certificate authority and its port.
pub(crate) struct Server {
    authority: Arc<Ca>,
    tokens: Arc<Tokens>,
    network: NetworkNamespace,
    address: std::net::SocketAddr,
    script: Script,
    conversations: mpsc::UnboundedReceiver<Conversation>,
    pub(crate) tunnels: mpsc::UnboundedReceiver<TunnelIo>,
    stop: CancellationToken,
    serving: Option<tokio::task::JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

/// What all conversations go by.
#[derive(Clone)]
struct Script {
    conversations: mpsc::UnboundedSender<Conversation>,
    tunnels: mpsc::UnboundedSender<TunnelIo>,
    beats: Arc<AtomicBool>,
    reads: Arc<watch::Sender<bool>>,
}

impl Server {
    /// Starts one in this network.
    pub(crate) fn start(network: &NetworkNamespace) -> Self {
        strata_identity::install_crypto_provider();
        let dir = tempfile::tempdir().expect("a directory can be made");
        let authority = Arc::new(Ca::open(&dir.path().join("ca")).expect("a CA can be made"));
        let tokens =
            Arc::new(Tokens::open(&dir.path().join("tokens.json")).expect("tokens can be kept"));
        let (conversations, heard) = mpsc::unbounded_channel();
        let (tunnels, opened) = mpsc::unbounded_channel();
        let script = Script {
            conversations,
            tunnels,
            beats: Arc::new(AtomicBool::new(true)),
            reads: Arc::new(watch::Sender::new(true)),
        };
        let mut server = Self {
            authority,
            tokens,
            network: network.clone(),
            address: ([127, 0, 0, 1], 0).into(),
            script,
            conversations: heard,
            tunnels: opened,
            stop: CancellationToken::new(),
            serving: None,
            _dir: dir,
        };
        server.listen();
        server
    }

    /// Listens, again on the port it had.
    pub(crate) fn listen(&mut self) {
        let (network, address) = (self.network.path(), self.address);
        // A socket stays in the network it was made in; the thread ends.
        let listening = std::thread::spawn(move || {
            let network = File::open(network).expect("there is a network");
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), kind)
                .expect("it can be entered");
            let listener = std::net::TcpListener::bind(address).expect("the port is free");
            let set = listener.set_nonblocking(true);
            set.expect("a socket can be set");
            listener
        });
        let listener = listening.join().expect("it listens");
        self.address = listener.local_addr().expect("it has an address");
        let spec = CertificateSpec::server("server".parse().expect("a name"));
        let credentials = self.authority.issue(&spec).expect("a certificate");
        let live = Arc::new(LiveIdentity::new(&credentials).expect("an identity"));
        let clock = Clock::system();
        let tls = strata_identity::server_config_optional_client(
            &self.authority.ca_pem(),
            live,
            clock.clone(),
        );
        let identity = IdentityApi::new(self.authority.clone(), self.tokens.clone());
        let app = tonic::service::Routes::new(identity.service())
            .add_service(AssignmentsServer::new(self.script.clone()))
            .into_axum_router();
        let gate = AuthLayer::new(api::policy(), Some(self.tokens.clone()), clock);
        self.stop = CancellationToken::new();
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        // Nothing is waited for at the end: what is open is cut.
        let limits = Limits {
            drain: std::time::Duration::ZERO,
            ..Limits::default()
        };
        let serving = Serve::new(app, gate).with_limits(limits);
        let serving = serving.tls(listener, tls.expect("TLS can be set up"), self.stop.clone());
        self.serving = Some(tokio::spawn(serving));
    }

    /// Ends without a word; nobody listens any more.
    pub(crate) async fn die(&mut self) {
        self.stop.cancel();
        let serving = self.serving.take().expect("it serves");
        serving.await.expect("it ends");
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn token(&self) -> String {
        let name = "n1".parse().expect("a name");
        let made = self
            .tokens
            .create_join(&name, self.authority.fingerprint(), None);
        made.expect("a token can be made").1.expose().to_owned()
    }

    /// Whether loads are answered.
    pub(crate) fn beats(&self, beats: bool) {
        self.script.beats.store(beats, Ordering::SeqCst);
    }

    /// Whether it takes in what is sent to it.
    pub(crate) fn reads(&self, reads: bool) {
        self.script.reads.send_replace(reads);
    }

    /// The next node that comes, or the same again.
    pub(crate) async fn next(&mut self) -> Conversation {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.conversations.recv());
        next.await.expect("a node comes").expect("one")
    }

    /// The newest of those that have come since the last one.
    pub(crate) async fn latest(&mut self) -> Conversation {
        let mut latest = self.next().await;
        while let Ok(newer) = self.conversations.try_recv() {
            latest = newer;
        }
        latest
    }

    /// The next tunnel.
    pub(crate) async fn tunnel(&mut self) -> TunnelIo {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.tunnels.recv());
        next.await.expect("a tunnel is opened").expect("one")
    }
}

#[tonic::async_trait]
impl Assignments for Script {
    type FollowStream = Answers<v1::ServerMessage>;
    type TunnelStream = Answers<Chunk>;

    async fn follow(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (sender, receiver) = mpsc::channel(64);
        let sender = Arc::new(AsyncMutex::new(Some(sender)));
        let conversation = Conversation {
            sender: sender.clone(),
            heard: Arc::default(),
        };
        let heard = conversation.heard.clone();
        let (mut incoming, script) = (request.into_inner(), self.clone());
        tokio::spawn(async move {
            let mut reads = script.reads.subscribe();
            loop {
                if reads.wait_for(|reads| *reads).await.is_err() {
                    return;
                }
                let Ok(Some(message)) = incoming.message().await else {
                    return;
                };
                let is_load = matches!(message.message, Some(Said::Load(_)));
                heard.lock().expect("nobody panics").extend(message.message);
                if is_load && script.beats.load(Ordering::SeqCst) {
                    let beat = Ok(said(Message::Beat(v1::Beat {})));
                    if let Some(sender) = sender.lock().await.as_ref() {
                        let _ = sender.try_send(beat);
                    }
                }
            }
        });
        let _ = self.conversations.send(conversation);
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let (tunnel, answers) = TunnelIo::answering(request.into_inner());
        let _ = self.tunnels.send(tunnel);
        Ok(Response::new(Box::pin(answers)))
    }
}

fn said(message: Message) -> v1::ServerMessage {
    v1::ServerMessage {
        message: Some(message),
    }
}

/// A conversation with a node.
#[derive(Clone)]
pub(crate) struct Conversation {
    sender: Mouth,
    heard: Arc<Mutex<Vec<Said>>>,
}

impl Conversation {
    pub(crate) async fn say(&self, message: Message) {
        self.send(said(message)).await;
    }

    /// Says something; a node that is gone does not hear it.
    pub(crate) async fn send(&self, message: v1::ServerMessage) {
        let sender = self.sender.lock().await.clone();
        let _ = sender.expect("it goes on").send(Ok(message)).await;
    }

    pub(crate) async fn welcome(&self) {
        self.welcome_with(10_000, true).await;
    }

    pub(crate) async fn welcome_with(&self, lease_ms: u32, alone: bool) {
        self.say(Message::Welcome(v1::Welcome {
            subnet: "10.42.77.0/24".into(),
            range: "10.42.0.0/16".into(),
            lease_ms,
            alone,
            control_plane: CONTROL_PLANE.into(),
            ..v1::Welcome::default()
        }))
        .await;
    }

    /// A server of another control plane takes the node in.
    pub(crate) async fn welcome_of(&self, control_plane: &str) {
        self.say(Message::Welcome(v1::Welcome {
            subnet: "10.42.77.0/24".into(),
            range: "10.42.0.0/16".into(),
            lease_ms: 10_000,
            alone: true,
            control_plane: control_plane.into(),
            ..v1::Welcome::default()
        }))
        .await;
    }

    pub(crate) async fn peers(&self, peers: &[(&str, &str)]) {
        let peer = |(address, subnet): &(&str, &str)| v1::Peer {
            name: "other".into(),
            address: (*address).into(),
            subnet: (*subnet).into(),
            ..v1::Peer::default()
        };
        let peers: Vec<v1::Peer> = peers.iter().map(peer).collect();
        self.say(Message::Peers(v1::Peers {
            peers,
            others: true,
            ..v1::Peers::default()
        }))
        .await;
    }

    pub(crate) async fn complete(&self) {
        self.say(Message::Complete(v1::Complete {})).await;
    }

    pub(crate) async fn assign(&self, assignment: &Assignment) {
        self.say(Message::Assignment(assignment.clone())).await;
    }

    pub(crate) async fn withdraw(&self, id: &str) {
        self.say(Message::Withdrawal(v1::Withdrawal {
            id: id.into(),
            ..v1::Withdrawal::default()
        }))
        .await;
    }

    /// All that was heard.
    pub(crate) fn heard(&self) -> Vec<Said> {
        self.heard.lock().expect("nobody panics").clone()
    }

    /// Waits for something to be heard, and gives the first of it.
    #[track_caller]
    pub(crate) fn hears<T>(
        &self,
        what: &str,
        wanted: impl Fn(&Said) -> Option<T>,
    ) -> impl Future<Output = T> {
        wait_for(what, TEST_TIMEOUT, async move || {
            let heard = self.heard();
            let found = heard.iter().find_map(&wanted);
            found.ok_or_else(|| format!("{:?}", self.reports()))
        })
    }

    /// What the node says it is.
    pub(crate) async fn hello(&self) -> v1::Hello {
        self.hears("a hello", |said| match said {
            Said::Hello(hello) => Some(hello.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) fn reports(&self) -> Vec<InstanceReport> {
        let report = |said: Said| match said {
            Said::Report(report) => Some(report),
            _ => None,
        };
        self.heard().into_iter().filter_map(report).collect()
    }

    /// The latest that was said of an instance.
    pub(crate) fn latest(&self, id: &str) -> Option<InstanceReport> {
        let reports = self.reports();
        reports.into_iter().rev().find(|report| report.id == id)
    }

    /// Waits until the latest report is as it is wanted.
    #[track_caller]
    pub(crate) fn until(
        &self,
        id: &str,
        wanted: impl Fn(&InstanceReport) -> bool,
    ) -> impl Future<Output = InstanceReport> {
        wait_for("a report", TEST_TIMEOUT, async move || {
            let latest = self.latest(id);
            let found = latest.clone().filter(&wanted);
            found.ok_or_else(|| format!("{latest:?} of {:?}", self.heard()))
        })
    }

    /// Waits until an instance is in a state.
    #[track_caller]
    pub(crate) fn becomes(
        &self,
        id: &str,
        state: PodState,
    ) -> impl Future<Output = InstanceReport> {
        self.until(id, move |report| report.state() == state)
    }

    /// Waits until the node refuses an instance; why.
    pub(crate) async fn refusal(&self, id: &str) -> String {
        self.hears("a refusal", |said| match said {
            Said::Refusal(refusal) if refusal.id == id => Some(refusal.reason.clone()),
            _ => None,
        })
        .await
    }

    /// Waits until the node has told all that it has.
    pub(crate) async fn reported(&self) {
        self.hears("all reports", |said| {
            matches!(said, Said::Reported(_)).then_some(())
        })
        .await;
    }

    /// Ends it in order.
    pub(crate) async fn end(&self) {
        self.sender.lock().await.take();
    }
}
