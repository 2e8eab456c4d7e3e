//! One connection with a server: the node reports what it is and has, the
//! server sends what it is to have, and then each sends what changes.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_api::strata::v1;
use strata_api::strata::v1::node_message::Message as Said;
use strata_api::strata::v1::server_message::Message;
use strata_client::{Address, Error};
use strata_network::{NameChange, ProjectAccess, RemoteName};
use strata_types::Result;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::liveness::WelcomeInfo;
use super::outbox::OutboxItem;
use super::peers::KnownPeers;
use super::revoked::IncomingRevocations;
use super::uplink::{ServerConnection, ServerMessages};
use super::{AgentContext, assigned_spec, lease, report, witness};
use crate::blocking::blocking;

/// Messages on their way to the transport.
const CHANNEL_CAPACITY: usize = 16;
/// How long a server may take to answer at all.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent that has granted no lease, or not yet.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// The interval of load reports, except where the lease is very short.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The metadata of a refusal that names the leader's address.
const LEADER: &str = strata_api::LEADER_METADATA;

/// How a connection ended.
pub(super) enum SessionEnd {
    Closing,
    /// The node has another certificate, or another port for the overlay, and
    /// shows it.
    Renewed,
    /// The server was reached and did not take the node in.
    NotWelcome(Error),
    /// It reports that another server leads.
    Redirected(Address),
    /// It took the node in, and ended or fell silent.
    Lost(Option<Error>),
}

struct FollowSession<'a> {
    context: &'a AgentContext,
    server: &'a Arc<dyn ServerConnection>,
    /// What was assigned since the beginning, until all was.
    told: Option<HashSet<String>>,
    greeted_at: Duration,
    /// As the server gave it.
    subnet: String,
    peers: KnownPeers,
    /// Of the server; empty for one of an older release.
    control_plane: String,
    welcomed: bool,
    revoked: IncomingRevocations,
    /// As it was shown to the server.
    overlay: v1::OverlayEncryption,
    /// Ends the tunnel with the connection.
    stop: CancellationToken,
}

/// Follows a server until it or the node ends.
pub(super) async fn follow(
    context: &AgentContext,
    server: &Arc<dyn ServerConnection>,
) -> SessionEnd {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let hello = context.host.hello(context.witness.port());
    context.instances.0.outbox.begin(&context.instances.ids());
    let conversation = FollowSession {
        context,
        server,
        told: Some(HashSet::new()),
        greeted_at: context.liveness.now(),
        subnet: String::new(),
        peers: KnownPeers::default(),
        control_plane: String::new(),
        welcomed: false,
        revoked: IncomingRevocations::default(),
        overlay: hello.overlay_encryption.clone().unwrap_or_default(),
        stop: context.closing.child_token(),
    };
    let _stop = conversation.stop.clone().drop_guard();
    // The first one of an empty channel: it does not wait.
    let _ = sender.send(said(Said::Hello(hello))).await;
    let within = context.liveness.welcome_timeout(WELCOME_TIMEOUT);
    let opening = server.follow(receiver);
    let opened = tokio::select! {
        () = context.closing.cancelled() => return SessionEnd::Closing,
        opened = tokio::time::timeout(within, opening) => opened,
    };
    match opened {
        Ok(Ok(incoming)) => conversation.run(sender, incoming).await,
        Ok(Err(status)) => match leader(&status, server.address()) {
            Some(leader) => SessionEnd::Redirected(leader),
            None => SessionEnd::NotWelcome(server.error(&status)),
        },
        Err(_) => SessionEnd::NotWelcome(Error::Lost {
            address: server.address().clone(),
            reason: format!("no answer within {within:?}"),
        }),
    }
}

/// Where the leader is, as reported by a server that is not.
fn leader(status: &Status, answered: &Address) -> Option<Address> {
    let named = status.metadata().get(LEADER)?.to_str().ok()?;
    let named: Address = named.parse().ok()?;
    (named != *answered).then_some(named)
}

fn said(message: Said) -> v1::NodeMessage {
    v1::NodeMessage {
        message: Some(message),
    }
}

impl FollowSession<'_> {
    async fn run(
        mut self,
        sender: mpsc::Sender<v1::NodeMessage>,
        mut incoming: ServerMessages,
    ) -> SessionEnd {
        let context = self.context;
        let outbox = &context.instances.0.outbox;
        let shown = context.uplink.validity();
        let mut meter = context.host.meter();
        let mut ticks = ticks(LOAD_INTERVAL);
        let fences = || context.fences.load(Ordering::Relaxed);
        let mut fenced_before = fences();
        let mut speaks_by = self.speaks_by();
        loop {
            // Also when that happened while a message was processed.
            if self.welcomed && fences() != fenced_before {
                return self.over(None);
            }
            tokio::select! {
                () = context.closing.cancelled() => return SessionEnd::Closing,
                // It was silent for too long. Should it answer again, it has to
                // send first what is to run here now.
                () = context.fenced.notified(), if self.welcomed => return self.over(None),
                () = tokio::time::sleep_until(speaks_by) => {
                    return self.over(Some(self.fell_silent()));
                }
                message = incoming.next() => match message {
                    Some(Ok(message)) => {
                        if let Some(old) = self.outdated(&message) {
                            return SessionEnd::NotWelcome(old);
                        }
                        if let Some(another) = self.too_early(&message) {
                            return SessionEnd::NotWelcome(another);
                        }
                        if !self.welcomed {
                            // What was fenced before the welcome is reported,
                            // and assigned after it.
                            fenced_before = fences();
                        }
                        if let Some(every) = self.hear(message) {
                            ticks = self::ticks(every);
                        }
                        // Counted from here: while a message is processed,
                        // those that follow wait.
                        speaks_by = self.speaks_by();
                    }
                    None => return self.over(None),
                    Some(Err(status)) => {
                        if let Some(leader) = leader(&status, self.server.address()) {
                            return SessionEnd::Redirected(leader);
                        }
                        return self.over(Some(self.server.error(&status)));
                    }
                },
                // Room first, then the latest there is to report.
                room = async { outbox.filled().await; sender.reserve().await } => match room {
                    Ok(room) => {
                        if let Some(message) = self.next(outbox.take()) {
                            room.send(said(message));
                        }
                    }
                    Err(_) => return self.over(None),
                },
                _ = ticks.tick() => {
                    let overlay = context.host.network().overlay_encryption();
                    if context.uplink.validity() != shown || overlay != self.overlay {
                        return SessionEnd::Renewed;
                    }
                    if self.welcomed
                        && let Ok(room) = sender.try_reserve()
                        && context.liveness.sends_load()
                    {
                        let units = context.instances.units();
                        let load = meter.look(&units);
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
        let (_, term) = self.context.liveness.servers();
        let old = welcome.term < term && welcome.term != 0;
        (old && !self.context.liveness.is_long_silent()).then(|| Error::Lost {
            address: self.server.address().clone(),
            reason: format!("it led in term {}, and term {term} began", welcome.term),
        })
    }

    /// Why a server of another control plane is not followed yet: its heartbeats
    /// would extend the lease of instances that the one before may start
    /// elsewhere once the lease has ended. They are stopped by then.
    fn too_early(&self, message: &v1::ServerMessage) -> Option<Error> {
        let Some(Message::Welcome(welcome)) = &message.message else {
            return None;
        };
        let (liveness, instances) = (&self.context.liveness, &self.context.instances);
        let (id, address) = (&welcome.control_plane, self.server.address());
        let known = self.context.known_servers().len();
        let until = liveness.leased_elsewhere_until(&address.to_string(), known);
        let is_leased = instances.followed_another(id)
            && until.is_some_and(|until| liveness.now() < until)
            && instances.has_exclusive_of_others(id);
        is_leased.then(|| {
            liveness.let_lease_end();
            Error::Lost {
                address: address.clone(),
                reason: format!(
                    "it is of control plane {id}, and another one may start the instances of \
                     this node elsewhere: it is followed when their lease has ended"
                ),
            }
        })
    }

    /// When the server has to have sent something more. One that has accepted
    /// this node answers each of its load reports.
    fn speaks_by(&self) -> Instant {
        let liveness = &self.context.liveness;
        Instant::now()
            + match self.welcomed {
                true => liveness.silence_timeout(LONGEST_SILENCE),
                false => liveness.welcome_timeout(LONGEST_SILENCE),
            }
    }

    fn fell_silent(&self) -> Error {
        Error::Lost {
            address: self.server.address().clone(),
            reason: "nothing was heard of it for too long".to_owned(),
        }
    }

    fn over(&self, error: Option<Error>) -> SessionEnd {
        match (self.welcomed, error) {
            (false, Some(error)) => SessionEnd::NotWelcome(error),
            (_, error) => SessionEnd::Lost(error),
        }
    }

    /// What to report of an item.
    fn next(&self, item: Option<OutboxItem>) -> Option<Said> {
        match item? {
            OutboxItem::Instance(id) => self.context.instances.report(&id).map(Said::Report),
            OutboxItem::Gone {
                id,
                generation,
                epoch,
            } => Some(Said::Report(report::gone(id, generation, epoch))),
            OutboxItem::Refused(refusal) => Some(Said::Refusal(refusal)),
            OutboxItem::Reported => Some(Said::Reported(v1::Reported {})),
            OutboxItem::LeaseHeld { peers_version } => {
                Some(Said::LeaseHeld(v1::LeaseHeld { peers_version }))
            }
        }
    }

    /// Applies what the server sends. Another interval, where it sets one.
    fn hear(&mut self, message: v1::ServerMessage) -> Option<Duration> {
        let context = self.context;
        let done = match message.message {
            Some(Message::Welcome(welcome)) => return self.welcome(welcome),
            Some(Message::Peers(peers)) => self.take_peers(&peers),
            Some(Message::Projects(projects)) => {
                let access = read_projects(projects.projects);
                context.host.network().set_projects(access)
            }
            Some(Message::Names(names)) => {
                context.host.network().update_names(read_names(names));
                Ok(())
            }
            Some(Message::Assignment(assignment)) => self.assign(assignment),
            Some(Message::Withdrawal(withdrawal)) => {
                self.withdraw(withdrawal);
                Ok(())
            }
            Some(Message::Keep(v1::Keep { id })) => {
                context.instances.keep(&id);
                if let Some(told) = &mut self.told {
                    told.insert(id);
                }
                Ok(())
            }
            Some(Message::TakeOver(v1::TakeOver { destroy })) => {
                context.instances.take_over(&self.control_plane, destroy)
            }
            Some(Message::Complete(_)) => {
                if let Some(told) = self.told.take() {
                    let instances = &context.instances;
                    instances.orphan_all_but(&told, &self.control_plane);
                }
                Ok(())
            }
            Some(Message::Beat(_)) => {
                context.liveness.beat();
                Ok(())
            }
            Some(Message::Farewell(_)) => {
                tracing::info!("server shuts down and reschedules nothing");
                context.liveness.farewell()
            }
            Some(Message::Revocations(part)) => match &context.revocations {
                Some(store) => blocking(|| self.revoked.take(part, store))
                    .map_err(|error| strata_types::Error::internal(error.to_string())),
                None => Ok(()),
            },
            Some(Message::Trust(trust)) => match &context.stored_trust {
                Some(store) => blocking(|| store.take(&trust)),
                None => Ok(()),
            },
            // Of a server that is newer than this node.
            None => Ok(()),
        };
        if let Err(error) = done {
            tracing::error!(%error, "message of the server not applied");
        }
        None
    }

    fn withdraw(&mut self, withdrawal: v1::Withdrawal) {
        let v1::Withdrawal {
            id,
            orphaned,
            epoch,
            kill,
        } = withdrawal;
        if let Some(told) = &mut self.told {
            told.remove(&id);
        }
        // Also one that the server places elsewhere, where another control plane
        // assigned it: it must not run on, and what it has written is not this
        // server's to destroy.
        let instances = &self.context.instances;
        match orphaned || instances.is_of_another(&id, &self.control_plane) {
            true => instances.orphan(&id),
            false => instances.withdraw(&id, epoch, kill),
        }
    }

    fn assign(&mut self, assignment: v1::Assignment) -> Result<()> {
        let id = assignment.id.clone();
        let (generation, epoch) = (assignment.generation, assignment.epoch);
        let instances = &self.context.instances;
        if let Some(told) = &mut self.told {
            told.insert(id.clone());
        }
        let known = instances.known(&id);
        let same = known
            .as_ref()
            .filter(|known| known.generation == generation);
        let unchanged = same.and_then(|known| assigned_spec::with_spec_of(known, &assignment));
        let read = match (assigned_spec::read(assignment), unchanged) {
            (Ok(read), _) => Ok(read),
            // Written by a later release in another way; but it is the
            // specification by which it is here.
            (Err(error), Some(unchanged)) => {
                tracing::warn!(id, %error, "specification of a known assignment not read; the stored one is used");
                Ok((unchanged, Vec::new()))
            }
            (Err(error), None) => Err((error, true)),
        };
        let assigned = read.and_then(|(mut assigned, secrets)| {
            assigned.control_plane.clone_from(&self.control_plane);
            let assign = |hold| instances.assign(assigned, &secrets, hold);
            let assigned = self.context.witness.while_assigning(assign);
            // What is here stays here: another node is to have it only if this
            // one cannot have it at all.
            assigned.map_err(|error| (error, known.is_none()))
        });
        if let Err((error, true)) = &assigned {
            let outbox = &instances.0.outbox;
            outbox.refused(&id, generation, epoch, error.to_string());
        }
        assigned.map_err(|(error, _)| error)
    }

    /// Applies the list of peers, and whether the lease has an end. What the
    /// server promises is applied before the rest; that the promise is over is
    /// acknowledged once the shim holds the lease.
    fn take_peers(&mut self, peers: &v1::Peers) -> Result<()> {
        let (context, network) = (self.context, self.context.host.network());
        let witnesses = witness::read(peers, context.witness.port());
        let named = witnesses.as_ref();
        context
            .witness
            .set_peers(named.map_or(&[], |named| &named.peers));
        let waived = context.liveness.promised(peers.waived, witnesses);
        let others = &context.instances.0.others;
        others.store(peers.others, Ordering::Relaxed);
        let known = network.set_others(peers.others);
        let range = match peers.range.is_empty() {
            true => Ok(()),
            false => give(context, &self.subnet, &peers.range),
        };
        self.peers.take(peers);
        let known = known.and_then(|()| network.set_peers(self.peers.reachable()));
        context
            .peers_version
            .store(peers.version, Ordering::Release);
        if !peers.waived {
            context.lease_asked.store(true, Ordering::Release);
            context.liveness.wake();
        }
        waived.and(range).and(known)
    }

    fn welcome(&mut self, welcome: v1::Welcome) -> Option<Duration> {
        let context = self.context;
        self.subnet.clone_from(&welcome.subnet);
        if let Err(error) = give(context, &welcome.subnet, &welcome.range) {
            tracing::error!(%error, "subnet of the server not applied");
        }
        self.control_plane.clone_from(&welcome.control_plane);
        let is_another = context.instances.followed_another(&self.control_plane);
        let address = self.server.address().to_string();
        let known = context.known_servers().len();
        let leased = context.liveness.leased_elsewhere_until(&address, known);
        if is_another && leased.is_some() {
            // By now that has ended: also for a daemon that has just started, and
            // has stopped nothing yet.
            let grace = lease::grace(context.liveness.lease());
            context.instances.fence(grace);
        }
        if !self.control_plane.is_empty()
            && let Err(error) = context.instances.follow_control_plane(&self.control_plane)
        {
            tracing::error!(%error, "control plane id not saved");
        }
        // Before the lease is extended: they may have been started elsewhere, and
        // this may be the last message of this server.
        for withdrawal in welcome.withdrawn {
            self.withdraw(withdrawal);
        }
        let greeting = WelcomeInfo {
            lease_ms: welcome.lease_ms,
            alone: welcome.alone,
            records_promises: welcome.records_promises,
            servers: welcome.servers,
            term: welcome.term,
            address,
            is_another,
        };
        if let Err(error) = context.liveness.welcomed(greeting, self.greeted_at) {
            tracing::error!(%error, "lease of the server not saved");
        }
        if !std::mem::replace(&mut self.welcomed, true) {
            tracing::info!(server = %self.server.address(), subnet = welcome.subnet, "following");
            let (server, stop) = (self.server.clone(), self.stop.clone());
            let term = context.liveness.followed_term();
            context.instances.0.tasks.restart("agent-tunnel", move || {
                server.tunnel(term.clone(), stop.clone())
            });
        }
        Some(match context.liveness.lease() {
            Duration::ZERO => LOAD_INTERVAL,
            lease => (lease / 5).clamp(Duration::from_millis(20), LOAD_INTERVAL),
        })
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Passes what the server sent to the network.
fn give(context: &AgentContext, subnet: &str, range: &str) -> Result<()> {
    let parse = |field: &str, text: &str| {
        let bad = |error: strata_network::SubnetError| {
            let shown: String = text.chars().take(40).collect();
            strata_types::Error::invalid(field, format!("{shown:?}: {error}"))
        };
        text.parse().map_err(bad)
    };
    let subnet = parse("welcome.subnet", subnet)?;
    let range = parse("welcome.range", range)?;
    context.host.network().give(subnet, range)
}

/// Which project may reach which, as the network takes it.
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
