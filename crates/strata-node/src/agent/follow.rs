//! One conversation with a server: the node says what it is and has, the
//! server says what it is to have, and then each says what changes.

use std::collections::HashSet;
use std::time::Duration;

use strata_api::strata::v1;
use strata_api::strata::v1::node_message::Message as Said;
use strata_api::strata::v1::server_message::Message;
use strata_client::{Error, ServerClient};
use strata_network::Peer;
use strata_types::Result;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::measure::Meter;
use super::outbox::Item;
use super::{Parts, ask, hello, report, tunnel};

/// Messages on their way to the transport.
const AHEAD: usize = 16;
/// How long a server may take to answer at all.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How often the load is told, unless the lease is very short.
const LOAD_EVERY: Duration = Duration::from_secs(1);

/// How a conversation ended.
pub(super) enum Ended {
    /// The node ends.
    Closing,
    /// The node has another certificate, and shows it.
    Renewed,
    /// The server was reached and did not take the node in.
    NotWelcome(Error),
    /// It took the node in, and ended or fell silent.
    Lost(Option<Error>),
}

/// One conversation.
struct Conversation<'a> {
    parts: &'a Parts,
    client: &'a ServerClient,
    /// What was assigned since the beginning, until all was.
    told: Option<HashSet<String>>,
    greeted_at: Duration,
    welcomed: bool,
    /// Ends the tunnel with the conversation.
    stop: CancellationToken,
}

/// Follows a server until it or the node ends.
pub(super) async fn follow(parts: &Parts, client: &ServerClient) -> Ended {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let config = &parts.config;
    let hello = hello::hello(&parts.node, &config.labels, config.address);
    parts.instances.0.outbox.begin(&parts.instances.ids());
    let conversation = Conversation {
        parts,
        client,
        told: Some(HashSet::new()),
        greeted_at: parts.liveness.now(),
        welcomed: false,
        stop: parts.closing.child_token(),
    };
    let _stop = conversation.stop.clone().drop_guard();
    // The first one of an empty channel: it does not wait.
    let _ = sender.send(said(Said::Hello(hello))).await;
    let mut assignments = client.assignments();
    let opening = assignments.follow(ReceiverStream::new(receiver));
    let opened = tokio::select! {
        () = parts.closing.cancelled() => return Ended::Closing,
        opened = tokio::time::timeout(ANSWERS_WITHIN, opening) => opened,
    };
    match opened {
        Ok(Ok(incoming)) => conversation.run(sender, incoming.into_inner()).await,
        Ok(Err(status)) => Ended::NotWelcome(client.error(&status)),
        Err(_) => Ended::NotWelcome(Error::Lost {
            address: client.address().clone(),
            reason: format!("no answer within {} s", ANSWERS_WITHIN.as_secs()),
        }),
    }
}

fn said(message: Said) -> v1::NodeMessage {
    v1::NodeMessage {
        message: Some(message),
    }
}

impl Conversation<'_> {
    async fn run(
        mut self,
        sender: mpsc::Sender<v1::NodeMessage>,
        mut incoming: Streaming<v1::ServerMessage>,
    ) -> Ended {
        let parts = self.parts;
        let outbox = &parts.instances.0.outbox;
        let shown = parts.config.identity.validity();
        let mut meter = Meter::new(&parts.node.config.data_dir, parts.node.pool.clone());
        let mut ticks = ticks(LOAD_EVERY);
        loop {
            tokio::select! {
                () = parts.closing.cancelled() => return Ended::Closing,
                // It was silent for too long. Should it speak again, it is to
                // say first what is to run here now.
                () = parts.fenced.notified(), if self.welcomed => return self.over(None),
                message = incoming.message() => match message {
                    Ok(Some(message)) => {
                        if let Some(every) = self.hear(message) {
                            ticks = self::ticks(every);
                        }
                    }
                    Ok(None) => return self.over(None),
                    Err(status) => return self.over(Some(self.client.error(&status))),
                },
                // Room first, then the latest there is to say.
                room = async { outbox.filled().await; sender.reserve().await } => match room {
                    Ok(room) => {
                        if let Some(message) = self.next(outbox.take()) {
                            room.send(said(message));
                        }
                    }
                    Err(_) => return self.over(None),
                },
                _ = ticks.tick() => {
                    if parts.config.identity.validity() != shown {
                        return Ended::Renewed;
                    }
                    if self.welcomed
                        && let Ok(room) = sender.try_reserve()
                        && parts.liveness.sends_load()
                    {
                        let units = parts.instances.units();
                        let load = meter.look(&parts.instances.0.hosting, &units);
                        room.send(said(Said::Load(load)));
                    }
                }
            }
        }
    }

    fn over(&self, error: Option<Error>) -> Ended {
        match (self.welcomed, error) {
            (false, Some(error)) => Ended::NotWelcome(error),
            (_, error) => Ended::Lost(error),
        }
    }

    /// What to say of an item.
    fn next(&self, item: Option<Item>) -> Option<Said> {
        match item? {
            Item::Instance(id) => self.parts.instances.report(&id).map(Said::Report),
            Item::Gone { id, generation } => Some(Said::Report(report::gone(id, generation))),
            Item::Refused(refusal) => Some(Said::Refusal(refusal)),
            Item::Reported => Some(Said::Reported(v1::Reported {})),
        }
    }

    /// Takes in what the server says. Another rhythm, where it sets one.
    fn hear(&mut self, message: v1::ServerMessage) -> Option<Duration> {
        let parts = self.parts;
        let done = match message.message {
            Some(Message::Welcome(welcome)) => return self.welcome(&welcome),
            Some(Message::Peers(peers)) => {
                let (network, others) = (&parts.node.network, peers.others);
                let known = network.set_others(others);
                known.and_then(|()| network.set_peers(read_peers(&peers.peers)))
            }
            Some(Message::Assignment(assignment)) => self.assign(assignment),
            Some(Message::Withdrawal(v1::Withdrawal { id })) => {
                if let Some(told) = &mut self.told {
                    told.remove(&id);
                }
                parts.instances.withdraw(&id);
                Ok(())
            }
            Some(Message::Complete(_)) => {
                if let Some(told) = self.told.take() {
                    parts.instances.withdraw_all_but(&told);
                }
                Ok(())
            }
            Some(Message::Beat(_)) => {
                parts.liveness.beat();
                Ok(())
            }
            Some(Message::Farewell(_)) => {
                tracing::info!("the server ends, and moves nothing");
                parts.liveness.farewell()
            }
            // Of a server that is newer than this node.
            None => Ok(()),
        };
        if let Err(error) = done {
            tracing::error!(%error, "what the server says is not taken in");
        }
        None
    }

    fn assign(&mut self, assignment: v1::Assignment) -> Result<()> {
        let (id, generation) = (assignment.id.clone(), assignment.generation);
        let instances = &self.parts.instances;
        if let Some(told) = &mut self.told {
            told.insert(id.clone());
        }
        let refused = match ask::read(assignment) {
            Ok(assigned) => instances.assign(assigned),
            Err(error) => Err(error),
        };
        if let Err(error) = &refused {
            let outbox = &instances.0.outbox;
            outbox.refused(&id, generation, error.to_string());
        }
        refused
    }

    fn welcome(&mut self, welcome: &v1::Welcome) -> Option<Duration> {
        let parts = self.parts;
        if let Err(error) = give(parts, welcome) {
            tracing::error!(%error, "the server's subnet is not taken");
        }
        let kept = parts
            .liveness
            .welcomed(welcome.lease_ms, welcome.alone, self.greeted_at);
        if let Err(error) = kept {
            tracing::error!(%error, "the server's lease is not remembered");
        }
        if !std::mem::replace(&mut self.welcomed, true) {
            tracing::info!(server = %self.client.address(), subnet = welcome.subnet, "following");
            let (client, config) = (self.client.clone(), parts.config.clone());
            let stop = self.stop.clone();
            tokio::spawn(async move { tunnel::keep(client, &config, stop).await });
        }
        Some(match parts.liveness.lease() {
            Duration::ZERO => LOAD_EVERY,
            lease => (lease / 5).clamp(Duration::from_millis(20), LOAD_EVERY),
        })
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Gives the network what the server says.
fn give(parts: &Parts, welcome: &v1::Welcome) -> Result<()> {
    let parse = |field: &str, text: &str| {
        let bad = |error: strata_network::SubnetError| {
            let shown: String = text.chars().take(40).collect();
            strata_types::Error::invalid(field, format!("{shown:?}: {error}"))
        };
        text.parse().map_err(bad)
    };
    let subnet = parse("welcome.subnet", &welcome.subnet)?;
    let range = parse("welcome.range", &welcome.range)?;
    parts.node.network.give(subnet, range)
}

/// Peers that can be reached; the others are told of in the log.
fn read_peers(peers: &[v1::Peer]) -> Vec<Peer> {
    let read = |peer: &v1::Peer| {
        let subnet = peer.subnet.parse().ok();
        let underlay = peer.address.parse().ok();
        match (subnet, underlay) {
            (Some(subnet), Some(underlay)) => Some(Peer { subnet, underlay }),
            _ => {
                tracing::warn!(
                    name = peer.name,
                    subnet = peer.subnet,
                    address = peer.address,
                    "a node cannot be reached: it wants an IPv4 address and a subnet"
                );
                None
            }
        }
    };
    peers.iter().filter_map(read).collect()
}
