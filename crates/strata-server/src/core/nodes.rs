//! Nodes: registered with a subnet of their own, seen, drained, lost, gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_api::rest::NodeLimits;
use strata_identity::CertificateId;
use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, Resources, RunPolicy};
use strata_types::{Error, ErrorKind, Result, Role};
use tokio_util::sync::CancellationToken;

use super::certificates::{Certificates, Revoke};
use super::commit::{WriteDecision, Writer};
use super::node_labels::{self, LabelTrust};
use super::node_report::NodeReport;
use super::record::{Instance, Node, NodeCondition, NodePhase, OverlayEncryption, encode};
use super::resource::not_found;
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Precondition, Principal, claims, keys, now_ms};

/// What a node reports when it comes.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    /// The name of its certificate.
    pub name: String,
    /// The subnet that it has already, if any.
    pub subnet: Option<String>,
}

/// What a node reports itself while it is there. What is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Where other nodes send what is for its instances.
    pub address: Option<String>,
    /// Whether its connection comes from there.
    pub address_proven: Option<bool>,
    /// Whether it runs on the host of the server.
    pub beside_server: Option<bool>,
    /// Version of the software.
    pub version: Option<String>,
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether those of its configuration need a person to accept them.
    pub label_trust: Option<LabelTrust>,
    /// Thousandths of a core, bytes of memory, bytes of disk.
    pub capacity: Option<(u64, u64, u64)>,
    /// GPUs: kind and count.
    pub gpus: Option<BTreeMap<String, u32>>,
    /// Whether it runs virtual machines.
    pub runs_vms: Option<bool>,
    /// The id of the storage pool that it reaches; empty when it reaches none.
    pub pool: Option<String>,
    /// How it encrypts the overlay.
    pub overlay: Option<OverlayEncryption>,
    /// Whether it follows its assignments.
    pub follows: Option<bool>,
    /// Whether it reports that it holds its lease.
    pub holds_leases: Option<bool>,
    /// The lease that it is about to be sent, in milliseconds.
    pub lease_ms: Option<u64>,
    /// The port on which it is a witness.
    pub witness_port: Option<u16>,
    /// Where it follows the only server.
    pub served_at: Option<String>,
    /// What it reports of itself; that it runs when `None`.
    pub reported: Option<NodeReport>,
}

/// A change to what people set for a node.
#[derive(Clone, Debug, Default)]
pub struct NodeChange {
    /// Merged; an empty value takes a label away.
    pub labels: BTreeMap<String, String>,
    /// Closes it and empties it, or opens it again.
    pub draining: Option<bool>,
    /// It goes when it is empty.
    pub leaves: bool,
    /// It is not asked: what it has is waited for until its lease has ended.
    pub at_once: bool,
    /// The most that it may report to have, for admins.
    pub limits: Option<NodeLimits>,
}

/// A subnet that is about to be given.
struct HeldSubnet<'a> {
    core: &'a Core,
    subnet: String,
}

impl Drop for HeldSubnet<'_> {
    fn drop(&mut self) {
        lock(&self.core.0.held_subnets).remove(&self.subnet);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lease as records have it.
fn in_ms(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

/// It leaves. That it is closed by that is nothing that people have set.
fn close_itself(node: &mut Node) {
    node.closed_itself |= !node.draining;
    (node.draining, node.leaving) = (true, true);
}

/// A node that was removed meanwhile needs no promise.
fn unless_gone<T>(changed: Result<T>) -> Result<()> {
    match changed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        changed => changed.map(drop),
    }
}

impl Core {
    /// A node by its name.
    pub fn node(&self, name: &str) -> Result<Arc<Versioned<Node>>> {
        self.find(name)
    }

    /// Whether a node of this name is there now.
    pub fn node_is_ready(&self, name: &str) -> bool {
        let ready = |node: &Node| node.condition == NodeCondition::Ready;
        self.node(name).is_ok_and(|node| ready(&node))
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<Arc<Versioned<Node>>> {
        self.all()
    }

    /// How many instances are on a node.
    pub fn instances_on(&self, node: &str) -> usize {
        self.tables().on_node.get(node).map_or(0, BTreeSet::len)
    }

    /// Whether a node confirms what has gone from it. One of an earlier release,
    /// or one that only reports its status, does not. One that is lost, or
    /// whose record cannot be read, has to as well: what it has may run, and
    /// only the reconciler of lost nodes decides that it does not.
    pub(crate) fn confirms(&self, node: &str) -> bool {
        let tables = self.tables();
        match tables.nodes.get(node) {
            Some(node) => node.holds_leases,
            None => tables.unreadable.contains_key(&keys::node(node)),
        }
    }

    /// For how long a node may go on after the last heartbeat that was answered.
    /// Servers may have different settings, and a node has what its last Welcome
    /// said: the longer one counts.
    pub(crate) fn lease_of(&self, node: &Node) -> Duration {
        let held = Duration::from_millis(node.lease_ms);
        self.settings().lease.max(held)
    }

    /// Whether an instance may run on a node other than this one, as far as is
    /// known since the records were restored: some node has not reported what
    /// it has.
    pub(crate) fn may_run_elsewhere(&self, instance: &Instance, node: &str) -> bool {
        instance.restored
            && instance.spec.placement.runs == RunPolicy::Exclusive
            && self.is_any_unheard_but(node)
    }

    pub(crate) fn is_any_unheard_but(&self, node: &str) -> bool {
        let tables = self.tables();
        let mut others = tables.nodes.values();
        others.any(|other| other.unheard && other.name != node)
    }

    /// A node has reported all that it has.
    pub(crate) async fn note_inventory(&self, name: &str) -> Result<()> {
        if !self.node(name).is_ok_and(|node| node.unheard) {
            return Ok(());
        }
        let rule = |now: &Node| Node {
            unheard: false,
            ..now.clone()
        };
        let changed = self.change_node(name, Precondition::default(), rule).await;
        unless_gone(changed)
    }

    /// Whether what makes room for an instance on its node still runs there.
    pub(crate) fn waits_for_room(&self, instance: &Instance) -> bool {
        let Some(node) = &instance.node else {
            return false;
        };
        let tables = self.tables();
        instance.after.iter().any(|one| {
            let holder = tables.instances.get(&one.instance);
            holder.is_some_and(|holder| holder.occupies(node, one.epoch))
        })
    }

    /// The instances on a node that one of them makes, or made, room for.
    pub(crate) fn room_made_for(&self, node: &str, by: &InstanceId) -> Vec<InstanceId> {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let records = on.filter_map(|id| tables.instances.get(id));
        records
            .filter(|record| record.after.iter().any(|one| one.instance == *by))
            .map(|record| record.id.clone())
            .collect()
    }

    /// How many instances are on a node, or not confirmed to have left it.
    pub(crate) fn occupants(&self, node: &str) -> usize {
        let tables = self.tables();
        let leaving = tables.leaving.get(node).into_iter().flatten();
        let on = tables.on_node.get(node);
        let left = leaving.filter(|id| !on.is_some_and(|on| on.contains(*id)));
        on.map_or(0, BTreeSet::len) + left.count()
    }

    /// The names of some of them.
    pub(crate) fn names_on(&self, node: &str, most: usize) -> Vec<String> {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let leaving = tables.leaving.get(node).into_iter().flatten();
        on.chain(leaving)
            .filter_map(|id| tables.instances.get(id))
            .map(|one| one.name.to_string())
            .take(most)
            .collect()
    }

    /// What is kept free on a node for its instances.
    pub fn reserved_on(&self, node: &str) -> Resources {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let instances = on.filter_map(|id| tables.instances.get(id));
        let (cpu, memory, disk) = instances.fold((0_u64, 0_u64, 0_u64), |sum, one| {
            let more = one.spec.reserves();
            (
                sum.0.saturating_add(more.0),
                sum.1.saturating_add(more.1),
                sum.2.saturating_add(more.2),
            )
        });
        Resources::from_amounts(cpu, memory, disk)
    }

    /// Registers a node: the same node again has the same subnet.
    pub async fn register_node(&self, registration: &Registration) -> Result<Arc<Versioned<Node>>> {
        self.register_bound(registration, None).await
    }

    /// The same for a node that calls with this certificate: a new record is
    /// bound to its key, and none is made for a certificate that is revoked.
    pub(super) async fn register_bound(
        &self,
        registration: &Registration,
        certificate: Option<&CertificateId>,
    ) -> Result<Arc<Versioned<Node>>> {
        let name = &registration.name;
        // Others may take what was free a moment ago.
        for _ in 0..64 {
            if let Some(known) = self.tables().nodes.get(name).cloned() {
                return Ok(known);
            }
            let held = self.hold_subnet(registration.subnet.as_deref())?;
            let subnet = held.subnet.clone();
            let now = now_ms();
            let mut record = Node {
                name: name.clone(),
                subnet: subnet.clone(),
                address: String::new(),
                address_proven: false,
                beside_server: false,
                version: String::new(),
                labels: BTreeMap::new(),
                own_labels: BTreeMap::new(),
                requested_labels: Some(BTreeMap::new()),
                label_trust: LabelTrust::Never,
                cpu: 0,
                memory: 0,
                disk: 0,
                gpus: BTreeMap::new(),
                limits: NodeLimits::default(),
                runs_vms: false,
                pool: String::new(),
                overlay: OverlayEncryption::default(),
                follows: false,
                holds_leases: false,
                lease_ms: 0,
                lease_waived: false,
                witness_port: 0,
                witnesses: None,
                served_at: String::new(),
                unheard: false,
                ignores_instances: false,
                reported_down: false,
                declared_gone: false,
                phase: NodePhase::Running,
                condition: NodeCondition::Registered,
                description: String::new(),
                draining: false,
                leaving: false,
                closed_itself: false,
                removed: false,
                removed_at_once: false,
                keys: certificate.iter().map(|id| id.key.clone()).collect(),
                expected_by: String::new(),
                created_at_ms: now,
                changed_at_ms: now,
            };
            let transaction = self.take_back(Transaction::new(), &mut record).await?;
            if let Some(id) = certificate {
                self.label_grant(&id.serial).apply(&mut record);
            }
            let (key, taken) = (keys::node(name), keys::subnet(&subnet));
            let transaction = transaction
                .if_absent(&*key)
                .if_absent(&*taken)
                .put(&*key, encode(&record)?)
                .put(taken, name.clone());
            let transaction = match certificate {
                Some(id) => self.certificates().unless_revoked(transaction, id)?,
                None => transaction,
            };
            match self.commit(transaction).await {
                Ok(_) => return self.node(name),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable("too many nodes register at once"))
    }

    pub(super) async fn caught_up(&self, key: &str) -> Result<()> {
        if let Some(entry) = self.0.store.get(key).await.map_err(public)? {
            self.wait_until_applied(entry.changed)
                .await
                .map_err(public)?;
        }
        Ok(())
    }

    /// The subnet that a node has and may keep, or the first that is free.
    /// It is held until it is written, so that those who come at the same time
    /// are not all offered the same.
    fn hold_subnet(&self, requested: Option<&str>) -> Result<HeldSubnet<'_>> {
        let range = self.settings().range;
        let mut held = lock(&self.0.held_subnets);
        let tables = self.tables();
        let taken: std::collections::HashSet<&str> = tables
            .nodes
            .values()
            .map(|node| node.subnet.as_str())
            .collect();
        let free = |subnet: &str| !taken.contains(subnet) && !held.contains(subnet);
        let asked = requested.filter(|requested| range.has(requested) && free(requested));
        let found = asked.map(str::to_owned);
        let found = found.or_else(|| range.subnets().find(|subnet| free(subnet)));
        let subnet = found.ok_or_else(|| {
            let range = range.at_its_widest();
            Error::exhausted(format!("all subnets of {range} are given to nodes")).with_hint(
                "remove nodes that are gone permanently, or set a wider [network] range \
                 that has this one in it",
            )
        })?;
        held.insert(subnet.clone());
        Ok(HeldSubnet { core: self, subnet })
    }

    /// A node is there, and reports itself.
    pub async fn update_node_facts(
        &self,
        name: &str,
        facts: &NodeFacts,
    ) -> Result<Arc<Versioned<Node>>> {
        self.live().alive(name);
        let machine = self.machine(name).ok();
        self.change_node(name, Precondition::default(), |now| {
            let mut next = now.clone();
            let report = facts.reported.clone().unwrap_or_default();
            if next.condition != report.condition {
                next.changed_at_ms = now_ms();
            }
            next.condition = report.condition;
            next.reported_down = report.condition == NodeCondition::Lost;
            next.declared_gone &= next.reported_down;
            next.phase = report.phase;
            next.description = report.description;
            if report.leaves {
                close_itself(&mut next);
            }
            fn take<T: Clone>(into: &mut T, from: &Option<T>) {
                if let Some(from) = from {
                    into.clone_from(from);
                }
            }
            take(&mut next.address, &facts.address);
            take(&mut next.address_proven, &facts.address_proven);
            take(&mut next.beside_server, &facts.beside_server);
            take(&mut next.version, &facts.version);
            take(&mut next.label_trust, &facts.label_trust);
            if let Some(labels) = &facts.labels {
                node_labels::take(&mut next, labels);
            }
            take(&mut next.gpus, &facts.gpus);
            take(&mut next.runs_vms, &facts.runs_vms);
            take(&mut next.pool, &facts.pool);
            take(&mut next.overlay, &facts.overlay);
            take(&mut next.follows, &facts.follows);
            take(&mut next.holds_leases, &facts.holds_leases);
            if let Some(lease_ms) = facts.lease_ms {
                // One that does not confirm leases has what it was last sent.
                let held = if next.holds_leases { next.lease_ms } else { 0 };
                next.lease_ms = held.max(lease_ms);
            }
            take(&mut next.witness_port, &facts.witness_port);
            take(&mut next.served_at, &facts.served_at);
            next.ignores_instances &= !next.follows;
            if let Some((cpu, memory, disk)) = facts.capacity {
                (next.cpu, next.memory, next.disk) = (cpu, memory, disk);
            }
            if let Some(machine) = &machine {
                claims::bound_by_machine(&mut next, machine);
            }
            claims::bound_by_limits(&mut next);
            next
        })
        .await
    }

    /// Accepts the address that a node reports only if it may have that one;
    /// `remote` is where its connection comes from.
    pub(crate) async fn claim_address(
        &self,
        name: &str,
        facts: &mut NodeFacts,
        remote: Option<IpAddr>,
    ) -> Result<()> {
        let Some(claimed) = facts.address.clone() else {
            return Ok(());
        };
        let proven = remote.is_some_and(|remote| remote.to_string() == claimed);
        let losing = {
            let tables = self.tables();
            let others = tables.nodes.values().map(|stored| &stored.record);
            claims::conflicting_node(name, &claimed, proven, others)
        };
        let Some(losing) = losing else {
            tracing::warn!(
                node = name,
                address = claimed,
                "node reports the address of another node; address not recorded"
            );
            // Not the one it had before, either: it reports itself that it
            // moved.
            (facts.address, facts.address_proven) = (Some(String::new()), Some(false));
            return Ok(());
        };
        for other in losing {
            tracing::warn!(
                node = other,
                address = claimed,
                by = name,
                "address of the node is taken by another node"
            );
            let parted = self.change_node(&other, Precondition::default(), |now| {
                let mut next = now.clone();
                if next.address == claimed {
                    (next.address, next.address_proven) = (String::new(), false);
                }
                next
            });
            parted.await?;
        }
        facts.address_proven = Some(proven);
        Ok(())
    }

    /// Takes the key that a node shows for the overlay only if no other node
    /// shows it: others would send to the one what is for the other. Such a
    /// node is left without an address, so that none sends to it at all, and
    /// nothing falls back to the clear.
    pub(crate) fn claim_overlay_key(&self, name: &str, facts: &mut NodeFacts) {
        let Some(claimed) = facts.overlay.as_mut().filter(|one| !one.key.is_empty()) else {
            return;
        };
        let holder = {
            let tables = self.tables();
            let others = tables.nodes.values().filter(|other| other.name != name);
            let mut same = others.filter(|other| other.overlay.key == claimed.key);
            same.next().map(|other| other.name.clone())
        };
        let Some(holder) = holder else {
            return;
        };
        tracing::warn!(
            node = name,
            holder,
            "node reports the overlay key of another node; address not recorded: \
             delete node/network/wireguard.key in its data directory and restart it"
        );
        *claimed = OverlayEncryption {
            unencrypted_reason: format!("it shows the key of node {holder}"),
            ..OverlayEncryption::default()
        };
        facts.beside_server = Some(false);
        (facts.address, facts.address_proven) = (Some(String::new()), Some(false));
    }

    /// A node was silent for too long, or is known to be gone.
    pub(crate) async fn mark_node_lost(
        &self,
        name: &str,
        why: &str,
    ) -> Result<Arc<Versioned<Node>>> {
        self.change_node_as(Writer::Leader, name, Precondition::default(), |now| {
            let mut next = now.clone();
            if next.condition != NodeCondition::Lost {
                next.condition = NodeCondition::Lost;
                why.clone_into(&mut next.description);
                next.changed_at_ms = now_ms();
            }
            next
        })
        .await
    }

    /// The machine of a lost node is off: nothing runs there any more, whatever
    /// its lease and its witnesses.
    pub(crate) async fn note_powered_off(&self, name: &str) -> Result<()> {
        let rule = |now: &Node| {
            let mut next = now.clone();
            if next.condition == NodeCondition::Lost && !next.reported_down {
                next.reported_down = true;
                next.description = "its provider reports the machine off".to_owned();
            }
            next
        };
        let any = Precondition::default();
        let changed = self.change_node_as(Writer::Leader, name, any, rule).await;
        unless_gone(changed)
    }

    /// Records the promise that nothing a node runs is started elsewhere, until
    /// it confirms that it holds a lease. Only then may the node be given it.
    pub(crate) async fn waive_lease(&self, name: &str) -> Result<()> {
        let rule = |now: &Node| Node {
            lease_waived: true,
            ..now.clone()
        };
        let any = Precondition::default();
        let changed = self.change_node_as(Writer::Leader, name, any, rule).await;
        unless_gone(changed)
    }

    /// The same for a server that ends: the tables are not followed any more.
    pub(crate) async fn waive_lease_at_the_end(&self, name: &str) -> Result<()> {
        let now = self.node(name)?;
        if now.lease_waived {
            return Ok(());
        }
        let mut next = now.record.clone();
        next.lease_waived = true;
        let key = keys::node(name);
        let waived = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .put(&*key, encode(&next)?);
        self.0.store.commit(waived).await.map(drop).map_err(public)
    }

    /// A node confirms that what it runs is stopped when its lease ends, which is
    /// this long, unless these witnesses extend it. That is of the link that it
    /// was confirmed on: the next may have narrowed the witnesses already.
    pub(crate) async fn hold_to_lease(
        &self,
        name: &str,
        lease: Duration,
        witnesses: Option<&BTreeSet<String>>,
        retired: CancellationToken,
    ) -> Result<()> {
        let rule = |now: &Node| match retired.is_cancelled() {
            true => now.clone(),
            false => Node {
                lease_waived: false,
                lease_ms: in_ms(lease),
                witnesses: witnesses.cloned(),
                ..now.clone()
            },
        };
        let any = Precondition::default();
        let changed = self.change_node_as(Writer::Leader, name, any, rule).await;
        unless_gone(changed)
    }

    /// Before a node is given these witnesses: what it has goes to none but
    /// those that it knows before and after.
    pub(crate) async fn narrow_witnesses(&self, name: &str, next: &BTreeSet<String>) -> Result<()> {
        let rule = |now: &Node| {
            let known = now.witnesses.iter().flatten();
            let both = known.filter(|one| next.contains(*one)).cloned();
            Node {
                witnesses: Some(both.collect()),
                ..now.clone()
            }
        };
        let any = Precondition::default();
        let changed = self.change_node_as(Writer::Leader, name, any, rule).await;
        unless_gone(changed)
    }

    /// Closes a node and empties it, or opens it again.
    pub async fn drain_node(
        &self,
        principal: &Principal,
        name: &str,
        draining: bool,
    ) -> Result<Arc<Versioned<Node>>> {
        let draining = Some(draining);
        let change = NodeChange {
            draining,
            ..NodeChange::default()
        };
        self.update_node(principal, name, &change, Precondition::default())
            .await
    }

    /// Sets labels of a node; an empty value removes a label.
    pub async fn label_node(
        &self,
        principal: &Principal,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Arc<Versioned<Node>>> {
        let labels = labels.clone();
        let change = NodeChange {
            labels,
            ..NodeChange::default()
        };
        self.update_node(principal, name, &change, Precondition::default())
            .await
    }

    /// The same for an operation, which sets no precondition.
    pub(crate) async fn change_node_for_operation(
        &self,
        name: &str,
        change: &NodeChange,
    ) -> Result<()> {
        let principal = Principal::server("operation");
        let any = Precondition::default();
        self.update_node(&principal, name, change, any)
            .await
            .map(drop)
    }

    /// Changes what people set for a node, all at once.
    pub async fn update_node(
        &self,
        principal: &Principal,
        name: &str,
        change: &NodeChange,
        precondition: Precondition,
    ) -> Result<Arc<Versioned<Node>>> {
        principal.require_all_projects()?;
        let opened = change.draining == Some(false);
        if opened || change.leaves {
            self.check_leaving(name)?;
        }
        let restricted = |key: &&String| key.starts_with(claims::RESTRICTED);
        if let Some(key) = change.labels.keys().find(restricted)
            && principal.role != Role::Admin
        {
            let why = format!("only an admin labels nodes below {}", claims::RESTRICTED);
            let key: String = key.chars().take(80).collect();
            return Err(
                Error::new(ErrorKind::PermissionDenied, why).in_field(format!("labels.{key}"))
            );
        }
        if change.limits.is_some() && principal.role != Role::Admin {
            let why = "only an admin may set the limits of a node";
            return Err(Error::new(ErrorKind::PermissionDenied, why).in_field("limits"));
        }
        node_labels::check(&change.labels)?;
        self.change_node(name, precondition, |now| {
            let mut next = now.clone();
            for (key, value) in &change.labels {
                match value.as_str() {
                    "" => drop(next.own_labels.remove(key)),
                    value => drop(next.own_labels.insert(key.clone(), value.to_owned())),
                }
            }
            node_labels::resolve_labels(&mut next);
            if let Some(draining) = change.draining {
                next.draining = draining;
                next.leaving &= draining;
                next.closed_itself = false;
                next.removed &= draining;
                next.removed_at_once &= draining;
                next.declared_gone &= draining;
            }
            if let Some(limits) = change.limits {
                next.limits = limits;
                claims::bound_by_limits(&mut next);
            }
            if change.leaves {
                (next.draining, next.leaving, next.removed) = (true, true, true);
                next.declared_gone |= next.condition == NodeCondition::Lost;
                next.removed_at_once |= change.at_once;
            }
            next
        })
        .await
    }

    /// Removes a node that is not trusted to empty itself. Its certificates are
    /// revoked first, which closes its connections; its lease ends without
    /// heartbeats, and then what it had is placed elsewhere.
    pub async fn remove_node_at_once(
        &self,
        principal: &Principal,
        name: &str,
        precondition: Precondition,
    ) -> Result<Arc<Versioned<Node>>> {
        principal.require_all_projects()?;
        precondition.check(&*self.node(name)?)?;
        self.check_leaving(name)?;
        // Records from before names were checked may have others.
        if let Ok(name) = name.parse() {
            let what = Revoke::Name(name, Role::Node);
            let why = "the node was removed at once";
            self.certificates().revoke(principal, &what, why).await?;
        }
        let change = NodeChange {
            leaves: true,
            at_once: true,
            ..NodeChange::default()
        };
        let any = Precondition::default();
        self.update_node(principal, name, &change, any).await
    }

    /// The node of a machine of a cluster goes with the cluster.
    fn check_leaving(&self, name: &str) -> Result<()> {
        let Ok(machine) = self.machine(name) else {
            return Ok(());
        };
        match &machine.cluster {
            None => Ok(()),
            Some(cluster) => {
                let why = format!("node {name} is of a machine of cluster {cluster}");
                Err(Error::wrong_state(why)
                    .with_hint("it takes no instances, and goes with its cluster"))
            }
        }
    }

    /// Lets a node leave: it is emptied first, then deleted. One that leaves by
    /// itself may come back by the certificate it has; one that is `removed`
    /// has its certificates revoked.
    pub async fn leave_node(&self, name: &str, removed: bool) -> Result<Arc<Versioned<Node>>> {
        self.change_node(name, Precondition::default(), |now| {
            let mut next = now.clone();
            close_itself(&mut next);
            next.removed |= removed;
            next.declared_gone |= removed && next.condition == NodeCondition::Lost;
            next
        })
        .await
    }

    /// A person who removes a lost node declares that nothing runs there any
    /// more. Of one that is back by then it says nothing.
    pub(crate) async fn declare_node_gone(&self, name: &str) -> Result<()> {
        let changed = self.change_node(name, Precondition::default(), |now| {
            let mut next = now.clone();
            next.declared_gone |= next.condition == NodeCondition::Lost;
            next
        });
        changed.await.map(drop)
    }

    /// Deletes a node that has no instances any more.
    pub(crate) async fn remove_node(&self, name: &str) -> Result<()> {
        let removed = self.node(name).is_ok_and(|node| node.removed);
        self.delete_node(name, removed).await
    }

    /// The same, and with `revoke` none of its certificates is good any more,
    /// from the same moment.
    pub(crate) async fn delete_node(&self, name: &str, revoke: bool) -> Result<()> {
        let Some(now) = self.tables().nodes.get(name).cloned() else {
            return Ok(());
        };
        let key = keys::node(name);
        let mut gone = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .delete(key)
            .delete(keys::subnet(&now.subnet));
        // Records from before names were checked may have others.
        if let (true, Ok(name)) = (revoke, name.parse()) {
            let until = self.certificates().revoked_until(&name, Role::Node);
            let why = "the node was removed";
            gone = Certificates::revoke_name(gone, &name, Role::Node, until, "server", why)?;
        }
        gone = self.depart(gone, &now, revoke)?;
        self.commit_as_leader(gone).await.map_err(public)?;
        self.live().remove_node(name);
        Ok(())
    }

    pub(super) async fn change_node(
        &self,
        name: &str,
        precondition: Precondition,
        rule: impl FnMut(&Node) -> Node,
    ) -> Result<Arc<Versioned<Node>>> {
        self.change_node_as(Writer::AnyServer, name, precondition, rule)
            .await
    }

    async fn change_node_as(
        &self,
        writer: Writer,
        name: &str,
        precondition: Precondition,
        mut rule: impl FnMut(&Node) -> Node,
    ) -> Result<Arc<Versioned<Node>>> {
        let key = name.to_owned();
        let changed = self.change::<Node>(writer, &key, |now| {
            precondition.check(now)?;
            Ok(WriteDecision::replace(&now.record, rule(now)))
        });
        changed.await?.ok_or_else(|| not_found::<Node>(name))
    }
}
