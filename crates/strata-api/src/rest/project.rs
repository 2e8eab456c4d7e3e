//! The project resource, and the bodies that create and update it.

use serde::{Deserialize, Serialize};
use strata_types::project::{ProjectDefaults, ProjectUse, Quota};

/// A group of instances with a common quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Name; also the ID.
    pub name: String,
    /// Quota.
    pub quota: Quota,
    /// Default resources of its instances.
    #[serde(default)]
    pub defaults: ProjectDefaults,
    /// Projects whose instances may connect to instances of this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
    /// Whether callers limited to this project may publish ports below 1024 and
    /// ports that Strata itself uses.
    #[serde(default)]
    pub privileged_ports: bool,
    /// Present usage.
    pub used: ProjectUse,
    /// Creation time.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
}

/// A new project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewProject {
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
    /// Quota. Default: unlimited.
    #[serde(default)]
    pub quota: Quota,
    /// Default resources of its instances.
    #[serde(default, skip_serializing_if = "ProjectDefaults::is_empty")]
    pub defaults: ProjectDefaults,
    /// Projects whose instances may connect to instances of this one. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
    /// Whether callers limited to this project may publish ports below 1024 and
    /// ports that Strata itself uses. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub privileged_ports: bool,
}

/// A change to a project. `null` removes a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectPatch {
    /// Quota, merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// Default resources of its instances, merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<ProjectDefaults>,
    /// Projects whose instances may connect to instances of this one; replaces
    /// the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_from: Option<Vec<String>>,
    /// Whether callers limited to this project may publish ports below 1024 and
    /// ports that Strata itself uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privileged_ports: Option<bool>,
}
