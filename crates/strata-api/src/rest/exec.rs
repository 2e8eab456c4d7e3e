//! A command in an instance: what is asked, and how it ended. For what is
//! short and asks for nothing; a terminal goes over gRPC.

use serde::{Deserialize, Serialize};

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExecRequest {
    /// The program and its arguments. No shell looks at them.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 100))]
    pub command: Vec<String>,
    /// `KEY=VALUE`, beside those of the instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub environment: Vec<String>,
    /// Instead of the instance's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Instead of the instance's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// What it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// It is ended after so long; 30 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExecResult {
    /// 128 and the signal, when one ended it.
    pub exit_code: i32,
    /// What it wrote; bytes that are no text are replaced.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// It wrote more than is told here.
    #[serde(default)]
    pub truncated: bool,
}
