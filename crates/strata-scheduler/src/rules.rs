//! What an instance requires of the place where it runs, beside its size.
//!
//! All instances of a workload share one [`Rules`]. That is why a request
//! holds them behind an `Arc`: what can be computed from rules once (which
//! nodes may be used, how many siblings run where) is kept for the next one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{GpuDemand, HostPort};

/// Labels of a node or of an instance.
pub type Labels = BTreeMap<String, String>;

/// The label of nodes that reach the storage pool; its value is the pool's id.
pub const POOL_LABEL: &str = "strata.dev/pool";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Container,
    Vm,
}

/// Which of the nodes that fit is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The one with the least room left: few nodes are used, large holes stay.
    #[default]
    BinPack,
    /// The one with the most room left: every node is used alike.
    Spread,
}

/// A test on a node that is met or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constraint {
    /// The label has this value.
    Is(String, String),
    /// The label has another value or is absent.
    IsNot(String, String),
    /// The label has one of these values.
    In(String, Vec<String>),
    /// The label has none of these values or is absent.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is not there.
    Absent(String),
    /// The node has one of these names.
    Named(Vec<String>),
    /// The node has none of these names.
    NotNamed(Vec<String>),
}

impl Constraint {
    pub(crate) fn met_by(&self, name: &str, labels: &Labels) -> bool {
        let any = |values: &[String], is: &str| values.iter().any(|value| value == is);
        match self {
            Self::Is(key, value) => labels.get(key) == Some(value),
            Self::IsNot(key, value) => labels.get(key) != Some(value),
            Self::In(key, values) => labels.get(key).is_some_and(|is| any(values, is)),
            Self::NotIn(key, values) => !labels.get(key).is_some_and(|is| any(values, is)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Absent(key) => !labels.contains_key(key),
            Self::Named(names) => any(names, name),
            Self::NotNamed(names) => !any(names, name),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(key, value) => write!(f, "{key}={value}"),
            Self::IsNot(key, value) => write!(f, "{key}!={value}"),
            Self::In(key, values) => write!(f, "{key} in ({})", values.join(", ")),
            Self::NotIn(key, values) => write!(f, "{key} not in ({})", values.join(", ")),
            Self::Exists(key) => f.write_str(key),
            Self::Absent(key) => write!(f, "!{key}"),
            Self::Named(names) => write!(f, "node in ({})", names.join(", ")),
            Self::NotNamed(names) => write!(f, "node not in ({})", names.join(", ")),
        }
    }
}

/// A request: nodes that meet the test are worth more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preference {
    pub test: Constraint,
    /// What meeting it is worth; less than zero to keep away.
    pub weight: i32,
}

/// Where two instances count as together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// On the same node.
    Node,
    /// On nodes with the same value of this label, for example `zone`.
    Label(String),
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Label(key) => key,
        })
    }
}

/// Instances of the same project that have all of these labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(pub Labels);

impl Selector {
    /// Instances with this one label.
    #[must_use]
    pub fn label(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self([(key.into(), value.into())].into())
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

/// Spread instances evenly over domains.
///
/// A domain takes part when it has a node that is ready and meets the
/// constraints. Each instance more than in the emptiest domain costs
/// `weight`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spread {
    pub over: Domain,
    /// Which instances are counted.
    pub of: Selector,
    /// What evenness is worth.
    pub weight: u32,
    /// By how much the fullest domain may exceed the emptiest, at least 1.
    /// Without it, evenness is only a request.
    pub max_skew: Option<u32>,
}

/// How strongly to keep together or apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AffinityMode {
    /// Only where such an instance runs. The first of a group that requires its
    /// own kind may go anywhere.
    Require,
    /// Only where no such instance runs.
    Forbid,
    /// Worth this much where such an instance runs; less than zero to keep
    /// apart.
    Prefer(i32),
}

/// Keep with or away from other instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affinity {
    pub to: Selector,
    /// What counts as together.
    pub within: Domain,
    #[serde(rename = "bond")]
    pub mode: AffinityMode,
}

/// Everything that is the same for all instances of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    /// Selectors see only instances of the same project.
    pub project: String,
    pub kind: Kind,
    /// Labels by which selectors find the instance.
    pub labels: Labels,
    /// What a node must meet.
    pub constraints: Vec<Constraint>,
    /// What a node should meet.
    pub preferences: Vec<Preference>,
    /// Together with, or away from.
    pub affinities: Vec<Affinity>,
    pub spreads: Vec<Spread>,
    /// Ports of the node that must be free.
    pub ports: Vec<HostPort>,
    pub gpus: Option<GpuDemand>,
    /// Overrides the policy of the fleet.
    pub policy: Option<Policy>,
}
