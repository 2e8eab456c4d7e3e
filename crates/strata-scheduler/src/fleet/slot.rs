//! The account of one node: what it offers, what is promised, what is used.
//!
//! How much is free follows one rule, for cpu, memory and disk alike:
//!
//! ```text
//! promised  = capacity × overcommit
//! real      = (capacity − measured × (1 + headroom)) × overcommit
//! free      = min(promised − reserved, real − recent)
//! ```
//!
//! `reserved` is the sum of all instances here, `recent` of those that came
//! after the last measurement and so are not in it. A node that is used more
//! than it is reserved counts as that full; one that is used less counts as
//! full as it is reserved. What is really unused is sold at the same ratio as
//! capacity. Without a measurement only the first half counts.

use crate::node::thousandths;
use crate::{GpuDemand, HostPort, NodeSpec, NodeState, Resources};

/// GPUs of one kind: how many there are and how many are given away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuCount {
    pub(crate) kind: String,
    total: u32,
    used: u32,
}

impl GpuCount {
    pub(crate) fn free(&self) -> u32 {
        self.total.saturating_sub(self.used)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Boxed, as most decisions do not read it.
    pub(crate) spec: Box<NodeSpec>,
    pub(crate) state: NodeState,
    pub(crate) reserved: Resources,
    recent: Resources,
    measured: Option<Resources>,
    /// Counts measurements; an instance notes in which it came.
    pub(crate) epoch: u32,
    /// The instances here, as places in the table of instances.
    pub(crate) instances: Vec<u32>,
    /// Ports in use, and by which instance; by the node itself when by none.
    pub(crate) ports: Vec<(HostPort, Option<u32>)>,
    /// Kinds stay in their places, as instances note theirs.
    pub(crate) gpus: Vec<GpuCount>,
    promised: Resources,
    real: Option<Resources>,
}

impl Slot {
    pub(crate) fn new(spec: NodeSpec) -> Self {
        let mut slot = Self {
            spec: Box::new(NodeSpec::new("", Resources::NONE)),
            state: NodeState::Ready,
            reserved: Resources::NONE,
            recent: Resources::NONE,
            measured: None,
            epoch: 0,
            instances: Vec::new(),
            ports: Vec::new(),
            gpus: Vec::new(),
            promised: Resources::NONE,
            real: None,
        };
        slot.respecify(spec);
        slot
    }

    /// Takes another specification; instances stay what they are.
    pub(crate) fn respecify(&mut self, mut spec: NodeSpec) {
        spec.capacity = spec.capacity.clamped();
        for count in &mut self.gpus {
            count.total = 0;
        }
        for gpus in &spec.gpus {
            match self.gpus.iter_mut().find(|count| count.kind == gpus.kind) {
                Some(count) => count.total = gpus.count,
                None => self.gpus.push(GpuCount {
                    kind: gpus.kind.clone(),
                    total: gpus.count,
                    used: 0,
                }),
            }
        }
        self.ports.retain(|(_, holder)| holder.is_some());
        self.ports
            .extend(spec.ports.iter().map(|port| (*port, None)));
        *self.spec = spec;
        self.reckon();
    }

    /// Takes a measurement of what is used now.
    pub(crate) fn measure(&mut self, used: Resources) {
        self.measured = Some(used.clamped());
        self.recent = Resources::NONE;
        self.epoch = self.epoch.wrapping_add(1);
        self.reckon();
    }

    fn reckon(&mut self) {
        let spec = &self.spec;
        self.promised = spec.overcommit.of(&spec.capacity);
        self.real = self.measured.map(|measured| {
            let expected =
                measured.map(|used| used.saturating_add(thousandths(used, spec.headroom)));
            spec.overcommit.of(&spec.capacity.minus(&expected))
        });
    }

    pub(crate) fn free(&self) -> Resources {
        let free = self.promised.minus(&self.reserved);
        match &self.real {
            Some(real) => free.least(&real.minus(&self.recent)),
            None => free,
        }
    }

    /// What would be free if only reservations counted.
    pub(crate) fn unreserved(&self) -> Resources {
        self.promised.minus(&self.reserved)
    }

    /// What it takes of the host that it is nested in.
    pub(crate) fn taken(&self) -> Resources {
        match self.spec.dedicated {
            true => self.promised.zip(&self.reserved, u64::max),
            false => self.reserved,
        }
    }

    pub(crate) fn add(&mut self, resources: &Resources) {
        self.reserved.add(resources);
        self.recent.add(resources);
    }

    /// Takes an instance off that came in `epoch`. If it came before the last
    /// measurement it is in there, until the next.
    pub(crate) fn subtract(&mut self, resources: &Resources, epoch: u32) {
        self.reserved.subtract(resources);
        if epoch == self.epoch {
            self.recent.subtract(resources);
        }
    }

    /// Undoes `subtract`.
    pub(crate) fn restore(&mut self, resources: &Resources, epoch: u32) {
        self.reserved.add(resources);
        if epoch == self.epoch {
            self.recent.add(resources);
        }
    }

    /// The place of a kind that has enough GPUs free.
    pub(crate) fn gpu_for(&self, demand: &GpuDemand) -> Option<usize> {
        let enough = |count: &GpuCount| demand.accepts(&count.kind) && count.free() >= demand.count;
        self.gpus.iter().position(enough)
    }

    /// How many GPUs there are at most of one kind that would do.
    pub(crate) fn gpus_owned(&self, demand: &GpuDemand) -> u32 {
        let kinds = self.gpus.iter().filter(|count| demand.accepts(&count.kind));
        kinds.map(|count| count.total).max().unwrap_or(0)
    }

    /// How many GPUs are free at most of one kind that would do.
    pub(crate) fn gpus_free(&self, demand: &GpuDemand) -> u32 {
        let kinds = self.gpus.iter().filter(|count| demand.accepts(&count.kind));
        kinds.map(GpuCount::free).max().unwrap_or(0)
    }

    pub(crate) fn use_gpus(&mut self, kind: usize, count: u32) {
        self.gpus[kind].used += count;
    }

    pub(crate) fn return_gpus(&mut self, kind: usize, count: u32) {
        self.gpus[kind].used -= count;
    }

    /// What holds this port: nothing, an instance, or the node itself.
    pub(crate) fn holder(&self, port: HostPort) -> Option<Option<u32>> {
        let mut ports = self.ports.iter();
        ports
            .find(|(used, _)| *used == port)
            .map(|(_, holder)| *holder)
    }
}
