//! Secrets of a project. A value is written and never returned.

use serde::{Deserialize, Serialize};

/// A secret of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Name, unique in the project.
    pub name: String,
    /// Project.
    pub project: String,
    /// Size of the value in bytes.
    pub bytes: u64,
    /// Version, incremented with each new value.
    pub version: u64,
    /// Principal that set the value.
    pub updated_by: String,
    /// Instances and workloads that refer to it; 100 of them where there are
    /// more.
    pub used_by: Vec<String>,
    /// Creation time.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// Time at which the value was set.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub updated_at: String,
}

/// A secret to create. The value is text, or bytes in base64.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSecret {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Value as text; at most 16384 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 16_384)
    )]
    pub value: Option<String>,
    /// Value in base64, instead of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 87_384)
    )]
    pub value_base64: Option<String>,
}

/// A new value of a secret.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretPatch {
    /// Value as text; at most 16384 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 16_384)
    )]
    pub value: Option<String>,
    /// Value in base64, instead of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 87_384)
    )]
    pub value_base64: Option<String>,
}
