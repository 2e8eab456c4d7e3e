//! What a client sends to make something. The fields of the specification
//! stand beside the name, as they do in what is told.

use serde::{Deserialize, Serialize};
use strata_types::instance::{InstanceSpec, InstanceState, Resources};

/// A new instance: of a workload, or with a specification of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewInstance {
    /// Its id; one is made when none is given.
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
    /// Its name; made from the id when none is given.
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
    /// Where; in `default` unless told.
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
    /// The workload it is made from, by id or name. Then the workload says all
    /// of the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 192)
    )]
    pub workload_id: Option<String>,
    /// `STOPPED`: it rests until it is started. `RUNNING` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub status: Option<InstanceState>,
    /// What it is asked to be, unless a workload says it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub spec: Option<InstanceSpec>,
}

/// A new workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewWorkload {
    /// Its id; one is made when none is given.
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
    /// Its name.
    #[cfg_attr(
        feature = "schema",
        schema(
            pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            min_length = 1,
            max_length = 63
        )
    )]
    pub name: String,
    /// Where; in `default` unless told.
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
    /// What its instances are asked to be.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub spec: InstanceSpec,
}

/// Amounts in either of the two forms that the published document has:
/// `{cpu, memory, disk}`, or `{max: {…}}` with a measured `usage` beside it,
/// which says nothing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ResourcesInput {
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 0))]
    pub cpu: Option<i32>,
    /// MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 0))]
    pub memory: Option<i32>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 0))]
    pub disk: Option<i32>,
    /// All three.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub max: Option<Resources>,
    /// As it was told; not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub usage: Option<Resources>,
}
