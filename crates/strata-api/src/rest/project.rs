//! A project, as it is told, made and changed.

use serde::{Deserialize, Serialize};

/// What a project may have in all. What is not said is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quota {
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub cpu: Option<i64>,
    /// MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub memory: Option<i64>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub disk: Option<i64>,
    /// Instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub instances: Option<i64>,
}

/// What the instances of a project take of its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProjectUse {
    /// Thousandths of a core.
    pub cpu: i64,
    /// MB.
    pub memory: i64,
    /// GB.
    pub disk: i64,
    /// Instances.
    pub instances: i64,
}

/// A project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its name, which is its id.
    pub name: String,
    /// What it may have in all.
    pub quota: Quota,
    /// What it has.
    pub used: ProjectUse,
    /// When it was made.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
}

/// A new project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewProject {
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
    /// What it may have in all; nothing is limited unless told.
    #[serde(default)]
    pub quota: Quota,
}

/// A change to a project. A limit that is `null` goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectPatch {
    /// What it may have in all, merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}
