//! What is kept of a token: everything but its secret.
//!
//! ```text
//! live ──▶ revoked          by an admin
//!      ├─▶ used             a join token, by the node that joined
//!      └─▶ expired          by the clock, from any of these; then forgotten
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strata_types::{Label, Role};

use super::text::SecretHash;
use crate::Name;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// `Authorization: Bearer`, as often as wanted.
    Api,
    /// For one node to join, once.
    Join,
}

/// The node that may join with a join token.
///
/// Join tokens that were stored before there was a binding have none: they let
/// a node join under any name that no node has, and replace no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinBinding {
    /// The only name that it is good for.
    pub node: Name,
    /// It may take the place of the node that has this name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// The operation that brings up the machine of this name, and expects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The labels that the node has, as if an admin had set them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The labels of its configuration are accepted with its first report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_labels: bool,
}

impl JoinBinding {
    /// For a new node of this name, without labels.
    pub fn to(node: Name) -> Self {
        Self {
            node,
            replaces: false,
            operation: None,
            labels: BTreeMap::new(),
            accepts_labels: false,
        }
    }
}

/// Public information about a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenInfo {
    /// What it is listed and revoked by.
    pub id: String,
    /// The caller that it authenticates; for a join token, what it was made
    /// for.
    pub name: Name,
    /// What it is for.
    pub kind: TokenKind,
    /// The role it gives.
    pub role: Role,
    /// The projects it is limited to; none for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<Label>,
    /// For a join token, the node that may join with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinBinding>,
    /// When it was made.
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// How a token ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    Revoked,
    Used,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(crate) struct Record {
    pub(crate) info: TokenInfo,
    pub(crate) hash: SecretHash,
    pub(crate) ended: Option<Ended>,
}

/// A record as the file has it.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    info: TokenInfo,
    secret_sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Ended>,
}

impl From<Record> for Stored {
    fn from(record: Record) -> Self {
        Self {
            info: record.info,
            secret_sha256: record.hash.to_hex(),
            ended: record.ended,
        }
    }
}

impl TryFrom<Stored> for Record {
    type Error = &'static str;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        Ok(Self {
            info: stored.info,
            hash: SecretHash::from_hex(&stored.secret_sha256)
                .ok_or("secret_sha256 is not 64 hexadecimal digits")?,
            ended: stored.ended,
        })
    }
}

/// Every token that has not expired, by id.
pub(crate) type Records = BTreeMap<String, Record>;

#[derive(Serialize, Deserialize)]
pub(crate) struct File {
    pub(crate) version: u32,
    pub(crate) tokens: Vec<Record>,
}

impl File {
    pub(crate) const VERSION: u32 = 1;
}
