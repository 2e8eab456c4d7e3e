//! Placement rules as users write them; compiled into the rules of the
//! scheduler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Placement rules of an instance, beside its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlacementRules {
    /// Required node selectors: `zone=eu`, `zone!=eu`, `zone in (a, b)`, `zone
    /// not in (a, b)`, `ssd`, `!ssd`; `node` stands for the node name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// Preferred node selectors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferences: Vec<Preferred>,
    /// Spread rules over nodes or over the values of a label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<SpreadRule>,
    /// Affinity and anti-affinity to other instances of the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affinity: Vec<AffinityRule>,
    /// GPUs, all of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuRequest>,
    /// Overrides the scoring policy of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// Priority; higher is scheduled first.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Whether instances of lower priority may be preempted for it.
    #[serde(skip_serializing_if = "is_false")]
    pub preempts: bool,
    /// Availability policy while its node is cut off from the server. Default:
    /// exclusive.
    #[serde(skip_serializing_if = "RunPolicy::is_default")]
    pub runs: RunPolicy,
}

/// Availability policy of an instance whose node is cut off.
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

/// A preference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferred {
    /// Node selector, as in a constraint.
    pub test: String,
    /// Weight; negative to avoid matching nodes.
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
    /// Labels of the instances that are counted. Default: the labels of the
    /// instance.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<String, String>,
    /// Weight of an even spread.
    #[serde(default = "one")]
    pub weight: u32,
    /// Maximum difference between the fullest and the emptiest; without it, a
    /// preference only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<u32>,
}

/// Affinity or anti-affinity to other instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AffinityRule {
    /// Labels of the other instances.
    pub to: BTreeMap<String, String>,
    /// Topology key: `node`, or a node label.
    #[serde(default = "node")]
    pub within: String,
    /// `require`, `forbid`, or absent when `weight` is a preference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    /// Weight without `bond`; negative for anti-affinity.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight: i32,
}

/// Mode of a required affinity.
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
    /// Number of GPUs.
    pub count: u32,
    /// Kind of GPU. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Scoring policy among feasible nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// The node with the least free capacity (bin packing).
    BinPack,
    /// The node with the most free capacity.
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

    /// Rejects too many rules. The selectors are parsed where the rules of the
    /// scheduler are compiled.
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
