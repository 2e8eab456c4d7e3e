//! A workload, as it is told.

use serde::{Deserialize, Serialize};
use strata_types::instance::InstanceSpec;

/// A template of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Its id.
    pub id: String,
    /// Its name, unique in the project.
    pub name: String,
    /// Whose it is.
    pub project: String,
    /// How many instances were made from it and are there.
    pub instances: usize,
    /// Who made it.
    #[serde(default)]
    pub owner: String,
    /// When it was made.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// When it was last changed.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
    /// What its instances are asked to be. Its fields stand beside the others.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub spec: InstanceSpec,
}
