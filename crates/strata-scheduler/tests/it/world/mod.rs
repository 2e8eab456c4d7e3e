//! A fleet written a second time, as plainly as can be: lists that are searched
//! from front to back. What the crate decides is held against it.

#![allow(clippy::unwrap_used)]

pub(crate) mod random;

use strata_scheduler::{
    AffinityMode, Constraint, Domain, Fleet, Labels, NodeId, NodeSpec, NodeState, Request,
    Resources, Rules, Selector,
};

#[derive(Clone, Debug)]
pub(crate) struct WorldNode {
    pub(crate) id: NodeId,
    pub(crate) spec: NodeSpec,
    pub(crate) state: NodeState,
    pub(crate) measured: Option<Resources>,
}

#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) request: Request,
    pub(crate) node: NodeId,
    /// Came after the last measurement of its node.
    pub(crate) recent: bool,
    /// The kind of its GPUs.
    pub(crate) gpus: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) nodes: Vec<WorldNode>,
    pub(crate) placed: Vec<Placed>,
}

fn meets(test: &Constraint, name: &str, labels: &Labels) -> bool {
    let has = |names: &[String]| names.iter().any(|one| one == name);
    let value = |key: &String| labels.get(key).cloned();
    match test {
        Constraint::Is(key, wanted) => value(key).as_ref() == Some(wanted),
        Constraint::IsNot(key, wanted) => value(key).as_ref() != Some(wanted),
        Constraint::In(key, all) => value(key).is_some_and(|value| all.contains(&value)),
        Constraint::NotIn(key, all) => value(key).is_none_or(|value| !all.contains(&value)),
        Constraint::Exists(key) => value(key).is_some(),
        Constraint::Absent(key) => value(key).is_none(),
        Constraint::Named(names) => has(names),
        Constraint::NotNamed(names) => !has(names),
    }
}

impl World {
    pub(crate) fn node(&self, id: NodeId) -> &WorldNode {
        self.nodes.iter().find(|node| node.id == id).unwrap()
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut WorldNode {
        self.nodes.iter_mut().find(|node| node.id == id).unwrap()
    }

    pub(crate) fn on(&self, id: NodeId) -> impl Iterator<Item = &Placed> {
        self.placed.iter().filter(move |placed| placed.node == id)
    }

    pub(crate) fn put(&mut self, request: &Request, node: NodeId) {
        let gpus = request.rules.gpus.as_ref().and_then(|demand| {
            let mut kinds = self.node(node).spec.gpus.iter();
            let fits = |kind: &str| self.gpus_free(node, kind) >= i64::from(demand.count);
            kinds
                .find(|gpus| {
                    demand.kind.as_ref().is_none_or(|kind| *kind == gpus.kind) && fits(&gpus.kind)
                })
                .map(|gpus| gpus.kind.clone())
        });
        self.placed.push(Placed {
            request: request.clone(),
            node,
            recent: true,
            gpus,
        });
    }

    pub(crate) fn take(&mut self, instance: strata_scheduler::InstanceId) {
        self.placed
            .retain(|placed| placed.request.instance != instance);
    }

    pub(crate) fn measure(&mut self, id: NodeId, used: Resources) {
        self.node_mut(id).measured = Some(used);
        for placed in self.placed.iter_mut().filter(|placed| placed.node == id) {
            placed.recent = false;
        }
    }

    fn gpus_free(&self, id: NodeId, kind: &str) -> i64 {
        let total = self
            .node(id)
            .spec
            .gpus
            .iter()
            .find(|gpus| gpus.kind == kind);
        let used = self
            .on(id)
            .filter(|placed| placed.gpus.as_deref() == Some(kind));
        let used = used.map(|placed| i64::from(placed.request.rules.gpus.as_ref().unwrap().count));
        total.map_or(0, |gpus| i64::from(gpus.count)) - used.sum::<i64>()
    }

    /// What is free of one resource, by the rule in the manual.
    fn free_of(&self, id: NodeId, of: fn(&Resources) -> u64, overcommit: u32) -> i128 {
        let node = self.node(id);
        let capacity = i128::from(of(&node.spec.capacity));
        let ratio = |amount: i128| amount * i128::from(overcommit) / 1000;
        let sum = |recent_only: bool| -> i128 {
            self.on(id)
                .filter(|placed| placed.recent || !recent_only)
                .map(|placed| i128::from(of(&placed.request.resources)))
                .sum()
        };
        let by_reservation = ratio(capacity) - sum(false);
        let free = node.measured.as_ref().map_or(by_reservation, |measured| {
            let used = i128::from(of(measured));
            let expected = used + used * i128::from(node.spec.headroom) / 1000;
            by_reservation.min(ratio((capacity - expected).max(0)) - sum(true))
        });
        free.max(0)
    }

    pub(crate) fn room(&self, id: NodeId) -> Resources {
        let over = self.node(id).spec.overcommit;
        Resources::new(
            self.free_of(id, |r| r.cpu, over.cpu) as u64,
            self.free_of(id, |r| r.memory, over.memory) as u64,
            self.free_of(id, |r| r.disk, over.disk) as u64,
        )
    }

    fn admits(&self, node: &WorldNode, rules: &Rules) -> bool {
        let spec = &node.spec;
        node.state == NodeState::Ready
            && spec.runs.contains(&rules.kind)
            && rules
                .constraints
                .iter()
                .all(|test| meets(test, &spec.name, &spec.labels))
            && rules.gpus.as_ref().is_none_or(|demand| {
                let kinds = spec.gpus.iter();
                kinds
                    .filter(|gpus| demand.kind.as_ref().is_none_or(|kind| *kind == gpus.kind))
                    .any(|gpus| gpus.count >= demand.count)
            })
    }

    fn domain(&self, node: &WorldNode, over: &Domain) -> Option<String> {
        match over {
            Domain::Node => Some(node.spec.name.clone()),
            Domain::Label(key) => node.spec.labels.get(key).cloned(),
        }
    }

    fn count(&self, rules: &Rules, what: &Selector, over: &Domain, domain: &str) -> u32 {
        let placed = self.placed.iter().filter(|placed| {
            let theirs = &placed.request.rules;
            theirs.project == rules.project
                && what
                    .0
                    .iter()
                    .all(|(key, value)| theirs.labels.get(key) == Some(value))
                && self.domain(self.node(placed.node), over).as_deref() == Some(domain)
        });
        placed.count() as u32
    }

    /// The lowest and the highest count of domains that take part.
    fn extremes(&self, rules: &Rules, what: &Selector, over: &Domain) -> (u32, u32) {
        let counts: Vec<u32> = self
            .nodes
            .iter()
            .filter(|node| self.admits(node, rules))
            .filter_map(|node| self.domain(node, over))
            .map(|domain| self.count(rules, what, over, &domain))
            .collect();
        (
            counts.iter().min().copied().unwrap_or(0),
            counts.iter().max().copied().unwrap_or(0),
        )
    }

    pub(crate) fn fits(&self, request: &Request, id: NodeId) -> bool {
        let (rules, node) = (&request.rules, self.node(id));
        self.admits(node, rules)
            && request.resources.fits_in(&self.room(id))
            && self.gpus_fit(request, node)
            && self.ports_fit(request, node)
            && self.affinity_fits(rules, node)
    }

    fn gpus_fit(&self, request: &Request, node: &WorldNode) -> bool {
        request.rules.gpus.as_ref().is_none_or(|demand| {
            node.spec.gpus.iter().any(|gpus| {
                demand.kind.as_ref().is_none_or(|kind| *kind == gpus.kind)
                    && self.gpus_free(node.id, &gpus.kind) >= i64::from(demand.count)
            })
        })
    }

    fn ports_fit(&self, request: &Request, node: &WorldNode) -> bool {
        request.rules.ports.iter().all(|port| {
            !node.spec.ports.contains(port)
                && !self
                    .on(node.id)
                    .any(|placed| placed.request.rules.ports.contains(port))
        })
    }

    fn affinity_fits(&self, rules: &Rules, node: &WorldNode) -> bool {
        let near = rules.affinities.iter().all(|affinity| {
            let domain = self.domain(node, &affinity.within);
            let there = domain.is_some_and(|domain| {
                self.count(rules, &affinity.to, &affinity.within, &domain) > 0
            });
            let counted = |theirs: &Rules| {
                theirs.project == rules.project
                    && affinity
                        .to
                        .0
                        .iter()
                        .all(|(key, value)| theirs.labels.get(key) == Some(value))
            };
            let first = !self
                .placed
                .iter()
                .any(|placed| counted(&placed.request.rules));
            match affinity.mode {
                AffinityMode::Require => there || first && counted(rules),
                AffinityMode::Forbid => !there,
                AffinityMode::Prefer(_) => true,
            }
        });
        near && rules.spreads.iter().all(|spread| {
            let Some(skew) = spread.max_skew else {
                return true;
            };
            let (least, _) = self.extremes(rules, &spread.of, &spread.over);
            self.domain(node, &spread.over).is_some_and(|domain| {
                self.count(rules, &spread.of, &spread.over, &domain) < least + skew
            })
        })
    }

    /// What the requests of a request sum up to on a node.
    pub(crate) fn preference(&self, rules: &Rules, id: NodeId) -> i64 {
        let node = self.node(id);
        let spec = &node.spec;
        let mut sum = 0;
        for preference in &rules.preferences {
            if meets(&preference.test, &spec.name, &spec.labels) {
                sum += i64::from(preference.weight);
            }
        }
        for affinity in &rules.affinities {
            if let AffinityMode::Prefer(weight) = affinity.mode
                && let Some(domain) = self.domain(node, &affinity.within)
                && self.count(rules, &affinity.to, &affinity.within, &domain) > 0
            {
                sum += i64::from(weight);
            }
        }
        for spread in &rules.spreads {
            let (least, most) = self.extremes(rules, &spread.of, &spread.over);
            let above = match self.domain(node, &spread.over) {
                Some(domain) => self.count(rules, &spread.of, &spread.over, &domain) - least,
                None => most - least + 1,
            };
            sum -= i64::from(spread.weight) * i64::from(above);
        }
        sum
    }

    /// That the fleet and the world agree, and that nothing is promised twice.
    pub(crate) fn check(&self, fleet: &Fleet) {
        assert_eq!(fleet.placed(), self.placed.len());
        for node in &self.nodes {
            assert_eq!(
                fleet.free(node.id).unwrap(),
                self.room(node.id),
                "{}",
                node.spec.name
            );
            let mut there = fleet.instances_on(node.id).unwrap();
            let mut here: Vec<_> = self
                .on(node.id)
                .map(|placed| placed.request.instance)
                .collect();
            there.sort_unstable();
            here.sort_unstable();
            assert_eq!(there, here);
            let spec = &node.spec;
            let reserved = fleet.reserved(node.id).unwrap();
            let most = |amount: u64, ratio: u32| amount * u64::from(ratio) / 1000;
            assert!(reserved.cpu <= most(spec.capacity.cpu, spec.overcommit.cpu));
            assert!(reserved.memory <= most(spec.capacity.memory, spec.overcommit.memory));
            assert!(reserved.disk <= most(spec.capacity.disk, spec.overcommit.disk));
            let mut ports: Vec<_> = self
                .on(node.id)
                .flat_map(|placed| placed.request.rules.ports.clone())
                .collect();
            ports.extend(spec.ports.clone());
            let all = ports.len();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), all, "a port is booked twice on {}", spec.name);
            for gpus in &spec.gpus {
                assert!(self.gpus_free(node.id, &gpus.kind) >= 0);
            }
        }
    }
}
