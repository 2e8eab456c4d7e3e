//! What holds whatever happens: random fleets live through random changes, and
//! after each the crate is held against a second, plain one.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::world::random::{labels, node, rules, size};
use crate::world::{World, WorldNode};
use proptest::prelude::*;
use strata_scheduler::{
    Cause, Fleet, InstanceId, NodeId, NodeSpec, NodeState, Plan, Reason, Request, Resources, Rules,
    Settings, drain, explain, place,
};

#[derive(Clone, Debug)]
enum Change {
    /// Sizes, which rules, priority, preempts.
    Place(Vec<(Resources, usize, i32, bool)>),
    Release(usize),
    State(usize, NodeState),
    Measure(usize, Resources),
    Relabel(usize, Vec<(String, String)>),
    Remove(usize),
    Add(NodeSpec),
    Drain(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let state = prop_oneof![
        2 => Just(NodeState::Ready),
        1 => Just(NodeState::Draining),
        1 => Just(NodeState::Lost)
    ];
    let request = (size(), 0..6_usize, 0..3_i32, proptest::bool::weighted(0.3));
    let at = || 0..100_usize;
    prop_oneof![
        8 => proptest::collection::vec(request, 1..6).prop_map(Change::Place),
        4 => at().prop_map(Change::Release),
        1 => (at(), state).prop_map(|(at, state)| Change::State(at, state)),
        1 => (at(), size()).prop_map(|(at, used)| Change::Measure(at, used)),
        1 => (at(), labels()).prop_map(|(at, labels)| Change::Relabel(at, labels)),
        1 => at().prop_map(Change::Remove),
        1 => node("new".into()).prop_map(Change::Add),
        1 => at().prop_map(Change::Drain),
    ]
}

struct Run {
    fleet: Fleet,
    world: World,
    rules: Vec<Arc<Rules>>,
    next: u128,
    plans: Vec<Plan>,
}

impl Run {
    fn new(nodes: Vec<NodeSpec>, rules: Vec<Rules>) -> Self {
        let mut run = Self {
            fleet: Fleet::new(Settings {
                seed: 5,
                ..Settings::default()
            }),
            world: World::default(),
            rules: rules.into_iter().map(Arc::new).collect(),
            next: 0,
            plans: Vec::new(),
        };
        for (number, spec) in nodes.into_iter().enumerate() {
            run.add(NodeSpec {
                name: format!("n{number}"),
                ..spec
            });
        }
        run
    }

    fn add(&mut self, spec: NodeSpec) {
        let Ok(id) = self.fleet.add_node(spec.clone()) else {
            return;
        };
        let state = NodeState::Ready;
        self.world.nodes.push(WorldNode {
            id,
            spec,
            state,
            measured: None,
        });
    }

    fn nth(&self, at: usize) -> Option<NodeId> {
        let nodes = &self.world.nodes;
        (!nodes.is_empty()).then(|| nodes[at % nodes.len()].id)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Place(sizes) => self.place(sizes),
            Change::Release(at) if !self.world.placed.is_empty() => {
                let placed = &self.world.placed[at % self.world.placed.len()];
                let (instance, node) = (placed.request.instance, placed.node);
                assert_eq!(self.fleet.release(instance), Ok(node));
                self.world.take(instance);
            }
            Change::Add(spec) => self.add(spec),
            Change::State(at, state) => {
                let Some(id) = self.nth(at) else { return };
                self.fleet.set_state(id, state).unwrap();
                self.world.node_mut(id).state = state;
            }
            Change::Measure(at, used) => {
                let Some(id) = self.nth(at) else { return };
                self.fleet.measure(id, used).unwrap();
                self.world.measure(id, used);
            }
            Change::Relabel(at, labels) => {
                let Some(id) = self.nth(at) else { return };
                self.world.node_mut(id).spec.labels = labels.into_iter().collect();
                let spec = self.world.node(id).spec.clone();
                self.fleet.update_node(id, spec).unwrap();
            }
            Change::Remove(at) => {
                let Some(id) = self.nth(at) else { return };
                let lost = self.fleet.remove_node(id).unwrap();
                assert_eq!(lost.len(), self.world.on(id).count());
                self.world.placed.retain(|placed| placed.node != id);
                self.world.nodes.retain(|node| node.id != id);
            }
            Change::Drain(at) => self.drain(at),
            Change::Release(_) => {}
        }
    }

    fn place(&mut self, sizes: Vec<(Resources, usize, i32, bool)>) {
        let requests: Vec<Request> = sizes
            .into_iter()
            .map(|(size, rules, priority, preempts)| {
                self.next += 1;
                let rules = Arc::clone(&self.rules[rules % self.rules.len()]);
                let request = Request::new(InstanceId(self.next), size, rules);
                Request {
                    priority,
                    preempts,
                    ..request
                }
            })
            .collect();
        let mut order: Vec<&Request> = requests.iter().collect();
        order.sort_by_key(|request| std::cmp::Reverse(request.priority));
        // One by one, so that every decision is held against the world of its
        // moment; then all at once, which must be the same.
        let mut at_once = self.fleet.clone();
        let mut plan = Plan::default();
        for request in order {
            let one = self.place_one(request);
            plan.placements.extend(one.placements);
            plan.evictions.extend(one.evictions);
            plan.failures.extend(one.failures);
        }
        let mut batch = place(&mut at_once, &requests);
        for placement in &mut batch.placements {
            placement.request = 0;
        }
        for failure in &mut batch.failures {
            failure.request = 0;
        }
        assert_eq!(batch.placements, plan.placements);
        assert_eq!(batch.evictions, plan.evictions);
        assert_eq!(batch.failures.len(), plan.failures.len());
        self.plans.push(batch);
    }

    fn place_one(&mut self, request: &Request) -> Plan {
        let ids: Vec<NodeId> = self.world.nodes.iter().map(|node| node.id).collect();
        let fitting: Vec<NodeId> = ids
            .iter()
            .copied()
            .filter(|&id| self.world.fits(request, id))
            .collect();
        self.check_explanation(request, &fitting);
        let explained = explain(&self.fleet, request).chosen;
        let plan = place(&mut self.fleet, std::slice::from_ref(request));
        match (plan.placements.first(), fitting.is_empty()) {
            (Some(placement), false) => {
                assert!(fitting.contains(&placement.node), "hard rules are broken");
                assert!(plan.evictions.is_empty(), "evicted without need");
                assert_eq!(explained, Some((placement.node, placement.score)));
                let worth = |&id: &NodeId| self.world.preference(&request.rules, id);
                let best = fitting.iter().map(worth).max();
                assert_eq!(Some(placement.score.preference), best);
            }
            (Some(placement), true) => {
                assert!(request.preempts && !plan.evictions.is_empty());
                for eviction in &plan.evictions {
                    assert!(eviction.priority < request.priority);
                    assert_eq!(eviction.node, placement.node);
                    self.world.take(eviction.instance);
                }
                assert!(
                    self.world.fits(request, placement.node),
                    "evicted for nothing"
                );
            }
            (None, none_fits) => {
                assert!(
                    !self.could_preempt(request),
                    "somebody could have made room"
                );
                assert!(none_fits, "a node fits and nothing was placed");
                assert!(plan.evictions.is_empty());
                let Cause::NoNodeFits(reasons) = &plan.failures[0].cause else {
                    panic!("{:?}", plan.failures);
                };
                let counted: usize = reasons.iter().map(|reason| reason.nodes).sum();
                assert_eq!(counted, ids.len(), "every node has a reason");
            }
        }
        if let Some(placement) = plan.placements.first() {
            self.world.put(request, placement.node);
        }
        self.world.check(&self.fleet);
        plan
    }

    /// Whether some node fits without its instances of lower priority. Only for
    /// requests that depend on nothing but the node itself.
    fn could_preempt(&self, request: &Request) -> bool {
        let rules = &request.rules;
        let alone = rules.affinities.is_empty() && rules.spreads.is_empty();
        let mut without = self.world.clone();
        let lower = |placed: &crate::world::Placed| placed.request.priority < request.priority;
        without.placed.retain(|placed| !lower(placed));
        let mut nodes = self.world.nodes.iter();
        let fits = |node: &WorldNode| {
            let somebody = self.world.on(node.id).any(lower);
            somebody && without.fits(request, node.id)
        };
        request.preempts && alone && nodes.any(fits)
    }

    fn check_explanation(&self, request: &Request, fitting: &[NodeId]) {
        let explanation = explain(&self.fleet, request);
        assert_eq!(explanation.chosen.is_some(), !fitting.is_empty());
        let told = explanation.others.len() + usize::from(explanation.chosen.is_some());
        assert_eq!(told, self.world.nodes.len());
        for (id, reason) in &explanation.others {
            let node = self.world.node(*id);
            let (wanted, room) = (request.resources, self.world.room(*id));
            let fits = fitting.contains(id);
            let (_, best) = explanation.chosen.unzip();
            match reason {
                Reason::Draining => assert_eq!(node.state, NodeState::Draining),
                Reason::Lost => assert_eq!(node.state, NodeState::Lost),
                Reason::Cpu { short, .. } => assert_eq!(wanted.cpu, room.cpu + short),
                Reason::Memory { short, .. } => assert_eq!(wanted.memory, room.memory + short),
                Reason::Disk { short, .. } => assert_eq!(wanted.disk, room.disk + short),
                Reason::WrongKind(kind) => assert!(!node.spec.runs.contains(kind)),
                Reason::Worse { score, .. } => {
                    assert!(fits && Some(*score) < best);
                    let worth = self.world.preference(&request.rules, *id);
                    assert_eq!(worth, score.preference);
                }
                Reason::Later => assert!(fits),
                _ => assert!(!fits, "{reason}"),
            }
        }
    }

    fn drain(&mut self, at: usize) {
        let Some(id) = self.nth(at) else { return };
        let before = self.fleet.instances_on(id).unwrap().len();
        let plan = drain(&mut self.fleet, id).unwrap();
        assert_eq!(plan.placements.len() + plan.failures.len(), before);
        assert_eq!(
            self.fleet.instances_on(id).unwrap().len(),
            plan.failures.len()
        );
        let node = self.world.node_mut(id);
        if node.state == NodeState::Ready {
            node.state = NodeState::Draining;
        }
        // In the order of the decisions: which instance leaves, and where it
        // goes. An instance that stays was decided while it counted as gone,
        // and is there afterwards.
        for placement in &plan.placements {
            let moved = self.fleet.request_of(placement.instance).unwrap();
            let at = |placed: &crate::world::Placed| placed.request.instance == placement.instance;
            let from = self.world.placed.iter().position(at).unwrap();
            self.world.placed.remove(from);
            assert!(self.world.fits(&moved, placement.node));
            self.world.put(&moved, placement.node);
        }
    }
}

fn state(fleet: &Fleet) -> Vec<(NodeId, Resources, Resources, Vec<InstanceId>)> {
    let node = |id: NodeId| {
        let mut instances = fleet.instances_on(id).unwrap();
        instances.sort_unstable();
        (
            id,
            fleet.free(id).unwrap(),
            fleet.reserved(id).unwrap(),
            instances,
        )
    };
    fleet.nodes().map(node).collect()
}

fn nodes() -> impl Strategy<Value = Vec<NodeSpec>> {
    proptest::collection::vec(node("n".into()), 1..7)
}

fn all_rules() -> impl Strategy<Value = Vec<Rules>> {
    proptest::collection::vec(rules(), 1..5)
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec(change(), 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_decision_agrees_with_the_reference_model(
        nodes in nodes(), rules in all_rules(), changes in changes()
    ) {
        let mut run = Run::new(nodes, rules);
        for change in changes {
            run.apply(change);
            run.world.check(&run.fleet);
        }
    }

    #[test]
    fn placement_is_deterministic(
        nodes in nodes(), rules in all_rules(), changes in changes()
    ) {
        let [one, other] = [0, 1].map(|_| {
            let mut run = Run::new(nodes.clone(), rules.clone());
            changes.iter().for_each(|change| run.apply(change.clone()));
            run.plans
        });
        prop_assert_eq!(one, other);
    }

    #[test]
    fn release_reverts_a_placement(
        nodes in nodes(), rules in all_rules(), changes in changes(),
        sizes in proptest::collection::vec((size(), 0..6_usize), 1..12)
    ) {
        let mut run = Run::new(nodes, rules);
        changes.into_iter().for_each(|change| run.apply(change));
        let before = state(&run.fleet);
        let requests: Vec<Request> = sizes.into_iter().enumerate().map(|(number, (size, rules))| {
            let rules = Arc::clone(&run.rules[rules % run.rules.len()]);
            Request::new(InstanceId(1 << 100 | number as u128), size, rules)
        }).collect();
        let explained: Vec<_> = requests.iter().map(|one| explain(&run.fleet, one)).collect();
        let plan = place(&mut run.fleet, &requests);
        for placement in &plan.placements {
            run.fleet.release(placement.instance).unwrap();
        }
        prop_assert_eq!(state(&run.fleet), before);
        let again: Vec<_> = requests.iter().map(|one| explain(&run.fleet, one)).collect();
        prop_assert_eq!(again, explained);
        let replayed = place(&mut run.fleet, &requests);
        prop_assert_eq!(replayed, plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Large enough that the search goes through the grid and not node by node.
    #[test]
    fn index_search_agrees_with_feasibility_in_a_large_fleet(
        nodes in proptest::collection::vec(node("n".into()), 8),
        rules in all_rules(),
        requests in proptest::collection::vec((size(), 0..6_usize), 400),
    ) {
        let many = nodes.iter().cycle().take(700).cloned().collect();
        let mut run = Run::new(many, rules);
        for (number, (size, rules)) in requests.into_iter().enumerate() {
            let rules = Arc::clone(&run.rules[rules % run.rules.len()]);
            let request = Request::new(InstanceId(number as u128), size, rules);
            let explained = (number % 8 == 0).then(|| explain(&run.fleet, &request));
            let plan = place(&mut run.fleet, std::slice::from_ref(&request));
            let chosen = plan.placements.first().map(|placed| (placed.node, placed.score));
            if let Some(explained) = explained {
                prop_assert_eq!(chosen, explained.chosen);
            }
        }
    }
}
