//! The workload resource.

use serde::{Deserialize, Serialize};
use strata_types::instance::InstanceSpec;

/// A template of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Unique ID.
    pub id: String,
    /// Name, unique in the project.
    pub name: String,
    /// Project.
    pub project: String,
    /// Number of instances created from it.
    pub instances: usize,
    /// Principal that created it.
    #[serde(default)]
    pub owner: String,
    /// Creation time.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// Time of the last change.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
    /// Specification of its instances, flattened into this object.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub spec: InstanceSpec,
}
