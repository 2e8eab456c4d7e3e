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
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub pids: Option<i64>,
    /// Instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub instances: Option<i64>,
}

/// What an instance of a project gets where it names no amount. Where the
/// project has a quota of it and no default: 500 thousandths of a core, 256 MB
/// of memory, 4 GB of disk, 4096 processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProjectDefaults {
    /// Thousandths of a core; at least 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 10))]
    pub cpu: Option<i32>,
    /// MB; at least 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 5))]
    pub memory: Option<i32>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub disk: Option<i32>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 16, maximum = 4_194_304))]
    pub pids: Option<u32>,
}

impl ProjectDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
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
    /// Processes and threads.
    #[serde(default)]
    pub pids: i64,
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
    /// What its instances get where they name no amount.
    #[serde(default)]
    pub defaults: ProjectDefaults,
    /// Projects whose instances may reach those of this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
    /// Callers who are limited to it may publish ports below 1024, and those
    /// that Strata itself uses.
    #[serde(default)]
    pub privileged_ports: bool,
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
    /// What its instances get where they name no amount.
    #[serde(default, skip_serializing_if = "ProjectDefaults::is_empty")]
    pub defaults: ProjectDefaults,
    /// Projects whose instances may reach those of this one. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
    /// Callers who are limited to it may publish ports below 1024, and those
    /// that Strata itself uses. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub privileged_ports: bool,
}

/// A change to a project. A limit that is `null` goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectPatch {
    /// What it may have in all, merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// What its instances get where they name no amount, merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<ProjectDefaults>,
    /// Projects whose instances may reach those of this one, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_from: Option<Vec<String>>,
    /// Callers who are limited to it may publish ports below 1024, and those
    /// that Strata itself uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privileged_ports: Option<bool>,
}
