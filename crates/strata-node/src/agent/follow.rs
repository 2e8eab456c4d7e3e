//! One conversation with a server: the node says what it is and has, the
//! server says what it is to have, and then each says what changes.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use strata_api::strata::v1;
use strata_api::strata::v1::node_message::Message as Said;
use strata_api::strata::v1::server_message::Message;
use strata_client::{Address, Error, ServerClient};
use strata_network::{NameChange, ProjectAccess, RemoteName};
use strata_types::Result;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::liveness::Greeting;
use super::measure::Meter;
use super::outbox::Item;
use super::peers::KnownPeers;
use super::revoked::Incoming;
use super::{Parts, ask, hello, report, tunnel, witness};
use crate::blocking::blocking;

/// Messages on their way to the transport.
const AHEAD: usize = 16;
/// How long a server may take to answer at all.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How often the load is told, unless the lease is very short.
const LOAD_EVERY: Duration = Duration::from_secs(1);

/// The metadata of a refusal that says where the leader is.
const LEADER: &str = strata_api::LEADER_METADATA;

/// How a conversation ended.
pub(super) enum Ended {
    /// The node ends.
    Closing,
    /// The node has another certificate, or another port for the overlay, and
    /// shows it.
    Renewed,
    /// The server was reached and did not take the node in.
    NotWelcome(Error),
    /// It says that another one leads.
    Redirected(Address),
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
    /// As the server gave it.
    subnet: String,
    peers: KnownPeers,
    /// Of the server; empty for one of an older release.
    control_plane: String,
    welcomed: bool,
    revoked: Incoming,
    /// As it was shown to the server.
    overlay: v1::OverlayEncryption,
    /// Ends the tunnel with the conversation.
    stop: CancellationToken,
}

/// Follows a server until it or the node ends.
pub(super) async fn follow(parts: &Parts, client: &ServerClient) -> Ended {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let config = &parts.config;
    let hello = hello::hello(
        &parts.node,
        &config.labels,
        config.address,
        parts.witness.port(),
    );
    parts.instances.0.outbox.begin(&parts.instances.ids());
    let conversation = Conversation {
        parts,
        client,
        told: Some(HashSet::new()),
        greeted_at: parts.liveness.now(),
        subnet: String::new(),
        peers: KnownPeers::default(),
        control_plane: String::new(),
        welcomed: false,
        revoked: Incoming::default(),
        overlay: hello.overlay_encryption.clone().unwrap_or_default(),
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
        Ok(Err(status)) => match leader(&status, client) {
            Some(leader) => Ended::Redirected(leader),
            None => Ended::NotWelcome(client.error(&status)),
        },
        Err(_) => Ended::NotWelcome(Error::Lost {
            address: client.address().clone(),
            reason: format!("no answer within {} s", ANSWERS_WITHIN.as_secs()),
        }),
    }
}

/// Where the server that leads is, as one that does not says.
fn leader(status: &Status, client: &ServerClient) -> Option<Address> {
    let named = status.metadata().get(LEADER)?.to_str().ok()?;
    let named: Address = named.parse().ok()?;
    (named != *client.address()).then_some(named)
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
        let fences = || parts.fences.load(Ordering::Relaxed);
        let fenced_before = fences();
        loop {
            // Also when that happened while a message was taken in.
            if self.welcomed && fences() != fenced_before {
                return self.over(None);
            }
            tokio::select! {
                () = parts.closing.cancelled() => return Ended::Closing,
                // It was silent for too long. Should it speak again, it is to
                // say first what is to run here now.
                () = parts.fenced.notified(), if self.welcomed => return self.over(None),
                message = incoming.message() => match message {
                    Ok(Some(message)) => {
                        if let Some(old) = self.outdated(&message) {
                            return Ended::NotWelcome(old);
                        }
                        if let Some(every) = self.hear(message) {
                            ticks = self::ticks(every);
                        }
                    }
                    Ok(None) => return self.over(None),
                    Err(status) => {
                        if let Some(leader) = leader(&status, self.client) {
                            return Ended::Redirected(leader);
                        }
                        return self.over(Some(self.client.error(&status)));
                    }
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
                    let overlay = parts.node.network.overlay_encryption();
                    if parts.config.identity.validity() != shown || overlay != self.overlay {
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

    /// Why a server is not followed that led before the one that was followed
    /// last. Terms are of one store: after a long silence it may be another.
    fn outdated(&self, message: &v1::ServerMessage) -> Option<Error> {
        let Some(Message::Welcome(welcome)) = &message.message else {
            return None;
        };
        let (_, term) = self.parts.liveness.servers();
        let old = welcome.term < term && welcome.term != 0;
        (old && !self.parts.liveness.is_long_silent()).then(|| Error::Lost {
            address: self.client.address().clone(),
            reason: format!("it led in term {}, and term {term} began", welcome.term),
        })
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
            Item::Gone {
                id,
                generation,
                epoch,
            } => Some(Said::Report(report::gone(id, generation, epoch))),
            Item::Refused(refusal) => Some(Said::Refusal(refusal)),
            Item::Reported => Some(Said::Reported(v1::Reported {})),
            Item::LeaseHeld { peers_version } => {
                Some(Said::LeaseHeld(v1::LeaseHeld { peers_version }))
            }
        }
    }

    /// Takes in what the server says. Another rhythm, where it sets one.
    fn hear(&mut self, message: v1::ServerMessage) -> Option<Duration> {
        let parts = self.parts;
        let done = match message.message {
            Some(Message::Welcome(welcome)) => return self.welcome(welcome),
            Some(Message::Peers(peers)) => self.take_peers(&peers),
            Some(Message::Projects(projects)) => {
                let access = read_projects(projects.projects);
                parts.node.network.set_projects(access)
            }
            Some(Message::Names(names)) => {
                parts.node.network.update_names(read_names(names));
                Ok(())
            }
            Some(Message::Assignment(assignment)) => self.assign(assignment),
            Some(Message::Withdrawal(withdrawal)) => {
                let v1::Withdrawal {
                    id,
                    orphaned,
                    epoch,
                } = withdrawal;
                if let Some(told) = &mut self.told {
                    told.remove(&id);
                }
                // Also one that the server places elsewhere, where another
                // control plane assigned it: it must not run on, and what it
                // has written is not this server's to destroy.
                let instances = &parts.instances;
                match orphaned || instances.is_of_another(&id, &self.control_plane) {
                    true => instances.orphan(&id),
                    false => instances.withdraw(&id, epoch),
                }
                Ok(())
            }
            Some(Message::Keep(v1::Keep { id })) => {
                parts.instances.keep(&id);
                if let Some(told) = &mut self.told {
                    told.insert(id);
                }
                Ok(())
            }
            Some(Message::TakeOver(v1::TakeOver { destroy })) => {
                parts.instances.take_over(&self.control_plane, destroy)
            }
            Some(Message::Complete(_)) => {
                if let Some(told) = self.told.take() {
                    let instances = &parts.instances;
                    instances.orphan_all_but(&told, &self.control_plane);
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
            Some(Message::Revocations(part)) => match &parts.config.revocations {
                Some(kept) => blocking(|| self.revoked.take(part, kept))
                    .map_err(|error| strata_types::Error::internal(error.to_string())),
                None => Ok(()),
            },
            Some(Message::Trust(trust)) => match &parts.config.kept_trust {
                Some(kept) => blocking(|| kept.take(&trust)),
                None => Ok(()),
            },
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
            Ok((mut assigned, secrets)) => {
                assigned.control_plane.clone_from(&self.control_plane);
                let assign = |hold| instances.assign(assigned, &secrets, hold);
                self.parts.witness.while_assigning(assign)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &refused {
            let outbox = &instances.0.outbox;
            outbox.refused(&id, generation, error.to_string());
        }
        refused
    }

    /// Takes in who the others are, and whether the lease has an end. What the
    /// server promises is believed before the rest; that the promise is over is
    /// acknowledged once the shim holds the lease.
    fn take_peers(&mut self, peers: &v1::Peers) -> Result<()> {
        let (parts, network) = (self.parts, &self.parts.node.network);
        let witnesses = witness::read(peers, parts.witness.port());
        let named = witnesses.as_ref();
        parts
            .witness
            .set_peers(named.map_or(&[], |named| &named.peers));
        let waived = parts.liveness.promised(peers.waived, witnesses);
        let known = network.set_others(peers.others);
        let range = match peers.range.is_empty() {
            true => Ok(()),
            false => give(parts, &self.subnet, &peers.range),
        };
        self.peers.take(peers);
        let known = known.and_then(|()| network.set_peers(self.peers.reachable()));
        parts.peers_version.store(peers.version, Ordering::Release);
        if !peers.waived {
            parts.lease_asked.store(true, Ordering::Release);
            parts.liveness.wake();
        }
        waived.and(range).and(known)
    }

    fn welcome(&mut self, welcome: v1::Welcome) -> Option<Duration> {
        let parts = self.parts;
        self.subnet.clone_from(&welcome.subnet);
        if let Err(error) = give(parts, &welcome.subnet, &welcome.range) {
            tracing::error!(%error, "the server's subnet is not taken");
        }
        self.control_plane.clone_from(&welcome.control_plane);
        if !self.control_plane.is_empty()
            && let Err(error) = parts.instances.follow_control_plane(&self.control_plane)
        {
            tracing::error!(%error, "the control plane's id is not remembered");
        }
        let greeting = Greeting {
            lease_ms: welcome.lease_ms,
            alone: welcome.alone,
            records_promises: welcome.records_promises,
            servers: welcome.servers,
            term: welcome.term,
        };
        if let Err(error) = parts.liveness.welcomed(greeting, self.greeted_at) {
            tracing::error!(%error, "the server's lease is not remembered");
        }
        if !std::mem::replace(&mut self.welcomed, true) {
            tracing::info!(server = %self.client.address(), subnet = welcome.subnet, "following");
            let (client, config) = (self.client.clone(), parts.config.clone());
            let (stop, term) = (self.stop.clone(), parts.liveness.followed_term());
            let tunnel = async move { tunnel::keep(client, &config, term, stop).await };
            parts.work.spawn(tunnel);
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
fn give(parts: &Parts, subnet: &str, range: &str) -> Result<()> {
    let parse = |field: &str, text: &str| {
        let bad = |error: strata_network::SubnetError| {
            let shown: String = text.chars().take(40).collect();
            strata_types::Error::invalid(field, format!("{shown:?}: {error}"))
        };
        text.parse().map_err(bad)
    };
    let subnet = parse("welcome.subnet", subnet)?;
    let range = parse("welcome.range", range)?;
    parts.node.network.give(subnet, range)
}

/// Who may reach whom, as the network takes it.
fn read_projects(projects: Vec<v1::Project>) -> ProjectAccess {
    let mut access = ProjectAccess::default();
    for project in projects {
        for from in project.allow_from {
            access.allowed.insert((from, project.name.clone()));
        }
        for address in project.addresses {
            let address = Ipv4Addr::from_bits(address);
            access.remote.insert(address, project.name.clone());
        }
    }
    access
}

/// What instances of other nodes are called, as the network takes it.
fn read_names(names: v1::InstanceNames) -> NameChange {
    let read = |name: v1::InstanceName| {
        let remote = RemoteName {
            address: Ipv4Addr::from_bits(name.address),
            project: name.project,
            names: name.names,
        };
        (name.id, remote)
    };
    NameChange {
        complete: names.complete,
        names: names.names.into_iter().map(read).collect(),
        gone: names.gone,
    }
}
