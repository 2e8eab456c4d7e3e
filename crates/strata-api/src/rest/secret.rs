//! A secret of a project. Its value is sent and never told.

use serde::{Deserialize, Serialize};

/// A secret of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Its name, unique in the project.
    pub name: String,
    /// Whose it is.
    pub project: String,
    /// How many bytes its value has.
    pub bytes: u64,
    /// Grows with each value.
    pub version: u64,
    /// Who gave it its value.
    pub updated_by: String,
    /// The instances and workloads that name it.
    pub used_by: Vec<String>,
    /// When it was made.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// When it got its value.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub updated_at: String,
}

/// A new secret. The value is text, or bytes in base64.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSecret {
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
    /// Its value as text; more than 16384 characters go in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 16_384)
    )]
    pub value: Option<String>,
    /// Its value in base64, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 87_384)
    )]
    pub value_base64: Option<String>,
}

/// Another value for a secret.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretPatch {
    /// Its value as text; more than 16384 characters go in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 16_384)
    )]
    pub value: Option<String>,
    /// Its value in base64, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, min_length = 1, max_length = 87_384)
    )]
    pub value_base64: Option<String>,
}
