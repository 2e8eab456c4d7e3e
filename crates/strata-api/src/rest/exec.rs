//! A short, non-interactive command in an instance and its result. Terminals
//! use gRPC.

use serde::{Deserialize, Serialize};

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExecRequest {
    /// The program and its arguments; not interpreted by a shell.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 100))]
    pub command: Vec<String>,
    /// Environment variables, `KEY=VALUE`, in addition to those of the
    /// instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub environment: Vec<String>,
    /// Overrides the user of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Overrides the working directory of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Timeout in seconds, after which the command is killed. Default: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExecResult {
    /// Exit code; 128 plus the signal number if a signal killed it.
    pub exit_code: i32,
    /// Standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error; bytes that are not UTF-8 are replaced.
    pub stderr: String,
    /// Whether the output was truncated.
    #[serde(default)]
    pub truncated: bool,
}
