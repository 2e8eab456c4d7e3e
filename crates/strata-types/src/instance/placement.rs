//! Where an instance may be placed, in words that people write: the rules of
//! the scheduler are made from these.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;

/// What an instance asks of its place, beside its size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlacementRules {
    /// Tests that a node must meet: `zone=eu`, `zone!=eu`, `zone in (a, b)`,
    /// `zone not in (a, b)`, `ssd`, `!ssd`; `node` stands for its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// Tests that a node should meet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferences: Vec<Preferred>,
    /// Evenly over nodes or over the values of a label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<SpreadRule>,
    /// Together with, or away from, other instances of the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affinity: Vec<AffinityRule>,
    /// GPUs, all of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuRequest>,
    /// Instead of the server's policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// Higher goes first.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Instances of lower priority may be stopped for it when nothing else
    /// helps.
    #[serde(skip_serializing_if = "is_false")]
    pub preempts: bool,
    /// How many runs of it there may be while a node is cut off from its
    /// server. Default: exclusive.
    #[serde(skip_serializing_if = "RunPolicy::is_default")]
    pub runs: RunPolicy,
}

/// What becomes of an instance whose node is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunPolicy {
    /// It runs at most once: it is stopped before it is started elsewhere.
    #[default]
    Exclusive,
    /// It goes on, and may run elsewhere as well until its node is back.
    Available,
}

impl RunPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A wish.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferred {
    /// As a constraint.
    pub test: String,
    /// What meeting it is worth; less than zero to keep away.
    pub weight: i32,
}

/// Spread instances evenly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpreadRule {
    /// `node`, or a label of nodes such as `zone`.
    #[serde(default = "node")]
    pub over: String,
    /// The labels of the instances that are counted; the instance's own when
    /// none are given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<String, String>,
    /// What evenness is worth.
    #[serde(default = "one")]
    pub weight: u32,
    /// By how much the fullest may exceed the emptiest; only a wish without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<u32>,
}

/// Keep with or away from other instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AffinityRule {
    /// The labels of the others.
    pub to: BTreeMap<String, String>,
    /// `node`, or a label of nodes within which they count as together.
    #[serde(default = "node")]
    pub within: String,
    /// `require`, `forbid`, or nothing when `weight` is a wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    /// What being together is worth, without `bond`; less than zero to keep
    /// apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight: i32,
}

/// How strongly to keep together or apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Bond {
    /// Only where such an instance runs.
    Require,
    /// Only where no such instance runs.
    Forbid,
}

/// GPUs, all of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuRequest {
    /// How many.
    pub count: u32,
    /// Which kind; any without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Which of the nodes that fit is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// The one with the least room left.
    BinPack,
    /// The one with the most room left.
    Spread,
}

fn node() -> String {
    "node".into()
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(n: &i32) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl PlacementRules {
    /// The most rules of each sort.
    pub const MAX: usize = 32;

    /// Refuses more than anybody needs. The texts are read by whoever makes
    /// the scheduler's rules from them.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        let counts = [
            ("constraints", self.constraints.len()),
            ("preferences", self.preferences.len()),
            ("spread", self.spread.len()),
            ("affinity", self.affinity.len()),
        ];
        if let Some((name, n)) = counts.into_iter().find(|(_, n)| *n > Self::MAX) {
            let why = format!("has {n} entries; {} is the most", Self::MAX);
            return Err(Error::invalid(format!("{field}.{name}"), why));
        }
        if self.gpus.as_ref().is_some_and(|gpus| gpus.count == 0) {
            let why = "must not be 0; leave gpus out instead";
            return Err(Error::invalid(format!("{field}.gpus.count"), why));
        }
        let flat = |spread: &SpreadRule| spread.max_skew == Some(0);
        match self.spread.iter().position(flat) {
            None => Ok(()),
            Some(i) => {
                let field = format!("{field}.spread[{i}].maxSkew");
                Err(Error::invalid(field, "must be at least 1"))
            }
        }
    }
}
