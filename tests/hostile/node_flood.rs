//! A node that was taken over floods its server with its own key and a valid
//! certificate: requests, streams, reports of instances that there are not,
//! pages of reasons, giant messages. Other clients are answered as before, the
//! heartbeats of other nodes come in time, and the memory of the server is
//! bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use strata_client::{ServerClient, Target};
use strata_testkit::v1::{self, node_message::Message};
use strata_testkit::{Credentials, Daemon, wait_for};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use super::STRATA;
use super::http2_client::{Caller, Rounds, resident};
use super::load_ledger::Ledger;
use super::silent_connections::{LATE, node_certificate};

/// Of the server while it is flooded, beyond what it takes before.
const MOST: u64 = 80 << 20;
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Streams that are opened and left, one after the other.
    Streams,
    /// Unary calls, as fast as they are answered.
    Requests,
    /// Small reports, each of another instance.
    Unknown,
    /// Reports with a megabyte of reason.
    Pages,
    /// Messages beyond what is decoded.
    Giants,
}

const FLOODS: [Flood; 5] = [
    Flood::Streams,
    Flood::Requests,
    Flood::Unknown,
    Flood::Pages,
    Flood::Giants,
];

fn say(message: Message) -> v1::NodeMessage {
    v1::NodeMessage {
        message: Some(message),
    }
}

fn hello() -> v1::NodeMessage {
    say(Message::Hello(v1::Hello {
        capacity: Some(v1::Amounts {
            cpu: 1,
            memory: 1,
            disk: 1,
        }),
        ..v1::Hello::default()
    }))
}

fn report(n: usize, reason: usize) -> v1::NodeMessage {
    say(Message::Report(v1::InstanceReport {
        id: format!("made-up-{n}"),
        generation: 1,
        state: v1::PodState::Running.into(),
        reason: "x".repeat(reason),
        control_plane: "y".repeat(reason / 2),
        ..v1::InstanceReport::default()
    }))
}

/// Sends on one stream until the server ends it.
async fn report_on(client: &ServerClient, reason: usize, sent: &AtomicUsize) {
    let (sender, messages) = mpsc::channel(64);
    let _ = sender.send(hello()).await;
    let Ok(told) = client
        .assignments()
        .follow(ReceiverStream::new(messages))
        .await
    else {
        return;
    };
    // Not read: what the server says stays where it is.
    let _told = told;
    loop {
        let n = sent.fetch_add(1, Ordering::Relaxed);
        if sender.send(report(n, reason)).await.is_err() {
            return;
        }
    }
}

async fn flood(kind: Flood, target: Target, sent: Arc<AtomicUsize>) {
    loop {
        let Ok(client) = ServerClient::connect(&target).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        match kind {
            Flood::Streams => {
                let mut held = Vec::new();
                for _ in 0..64 {
                    let (sender, messages) = mpsc::channel(4);
                    let _ = sender.send(hello()).await;
                    sent.fetch_add(1, Ordering::Relaxed);
                    let opened = client
                        .assignments()
                        .follow(ReceiverStream::new(messages))
                        .await;
                    held.push((sender, opened));
                }
            }
            Flood::Requests => {
                let mut identity = client.identity();
                for _ in 0..1000 {
                    sent.fetch_add(1, Ordering::Relaxed);
                    let _ = identity.who_am_i(v1::WhoAmIRequest {}).await;
                }
            }
            Flood::Unknown => report_on(&client, 0, &sent).await,
            Flood::Pages => report_on(&client, 1 << 20, &sent).await,
            Flood::Giants => report_on(&client, 16 << 20, &sent).await,
        }
    }
}

/// The attacker's own processors. It has them elsewhere; here it has what the
/// server and those who are measured leave over.
struct Attackers(Option<Runtime>);

impl Attackers {
    fn spawn(&self, attack: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.0.as_ref().unwrap().spawn(attack)
    }
}

/// A runtime cannot be waited for within another.
impl Drop for Attackers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn attackers() -> Attackers {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(|| {
            // Of this thread alone, as Linux has it.
            let _ = rustix::process::nice(19);
        })
        .build();
    Attackers(Some(runtime.unwrap()))
}

async fn evil_target(daemon: &Daemon, server: &str) -> Target {
    let dir = daemon.scratch().join("evil");
    let out = dir.display().to_string();
    let words = [
        "certificate",
        "issue",
        "--role",
        "node",
        "--name",
        "evil",
        "--out",
        &out,
    ];
    daemon.cli_with_endpoints().run(words).await.ok();
    Target::Tls {
        address: server.parse().unwrap(),
        credentials: Credentials::read(&dir).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn flooding_node_does_not_slow_down_other_callers() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let server = daemon.endpoints().server.unwrap();
    let ledger = Ledger::keep(&server, &node_certificate(&daemon).await).await;
    let target = evil_target(&daemon, &server).await;
    let caller = Caller::of(&daemon, None);
    let before = resident(daemon.pid());
    let mut most = before;
    let attackers = attackers();
    for kind in FLOODS {
        let sent = Arc::<AtomicUsize>::default();
        let mut rounds = Rounds::default();
        for _ in 0..ROUNDS {
            rounds.base(&caller, "/healthz", 20).await;
            let sent_before = sent.load(Ordering::Relaxed);
            let attack: Vec<_> = (0..4)
                .map(|_| attackers.spawn(flood(kind, target.clone(), sent.clone())))
                .collect();
            // The attackers come last on a busy host, and may not have begun.
            wait_for(
                "the flood to begin",
                Duration::from_secs(60),
                async || match sent.load(Ordering::Relaxed) > sent_before {
                    true => Ok(()),
                    false => Err(format!("{kind:?}: nothing was sent")),
                },
            )
            .await;
            rounds.during(&caller, "/healthz", 20).await;
            most = most.max(resident(daemon.pid()));
            for one in attack {
                one.abort();
                let _ = one.await;
            }
        }
        let grown = most.saturating_sub(before);
        let sent = sent.load(Ordering::Relaxed);
        eprintln!("{kind:?}: {sent} sent, {rounds}; {} MB more", grown >> 20);
        assert!(sent >= ROUNDS, "{kind:?}: {sent}");
        rounds.assert_within_twice(&format!("{kind:?}"));
        assert!(grown < MOST, "{kind:?}: {} MB more", grown >> 20);
    }
    drop(attackers);
    let (beats, slowest) = ledger.close();
    eprintln!("{beats} heartbeats, the slowest {slowest:?}");
    assert!(beats > 20, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
    let log = daemon.log();
    assert!(!log.contains("lease expired without a heartbeat"), "{log}");
    // Whoever floods may lose its own place.
    let lost = |line: &&str| line.contains("node lost") && !line.contains("node=\"evil\"");
    assert_eq!(log.lines().find(lost), None);
}
