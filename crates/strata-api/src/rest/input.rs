//! Request bodies that create resources. The fields of the specification are
//! flattened into them, as they are in the resources.

use serde::{Deserialize, Serialize};
use strata_types::instance::{InstanceSpec, InstanceState, Resources};

/// An instance to create: from a workload, or with its own specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewInstance {
    /// ID. Default: generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            nullable = false,
            pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
            min_length = 1,
            max_length = 128
        )
    )]
    pub id: Option<String>,
    /// Name. Default: derived from the ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            nullable = false,
            pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            min_length = 1,
            max_length = 63
        )
    )]
    pub name: Option<String>,
    /// Project. Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            nullable = false,
            pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            min_length = 1,
            max_length = 63
        )
    )]
    pub project: Option<String>,
    /// Workload to create it from, by ID or name. The specification is that of
    /// the workload then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 192)
    )]
    pub workload_id: Option<String>,
    /// `STOPPED` creates it without starting. Default: `RUNNING`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub status: Option<InstanceState>,
    /// Specification, unless a workload provides it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub spec: Option<InstanceSpec>,
}

/// A workload to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewWorkload {
    /// ID. Default: generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            nullable = false,
            pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
            min_length = 1,
            max_length = 128
        )
    )]
    pub id: Option<String>,
    /// Name.
    #[cfg_attr(
        feature = "schema",
        schema(
            pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            min_length = 1,
            max_length = 63
        )
    )]
    pub name: String,
    /// Project. Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            nullable = false,
            pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            min_length = 1,
            max_length = 63
        )
    )]
    pub project: Option<String>,
    /// Specification of its instances.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub spec: InstanceSpec,
}

/// Resources in either form of the published document: `{cpu, memory, disk}`,
/// or `{max: {…}}` with a measured `usage`, which is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ResourcesInput {
    /// CPU in millicores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 0))]
    pub cpu: Option<i32>,
    /// Memory in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 0))]
    pub memory: Option<i32>,
    /// Disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 0))]
    pub disk: Option<i32>,
    /// Limits of CPU, memory and disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub max: Option<Resources>,
    /// Measured usage; ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub usage: Option<Resources>,
}
