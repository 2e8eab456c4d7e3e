//! Tokens and callers as they are printed.

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;
use strata_types::Role;

use super::time_s;
use crate::output::{Column, Show, TableCell, human};

/// A token, without itself unless it was just made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TokenView {
    pub(crate) name: String,
    pub(crate) id: String,
    /// `api` or `join`.
    pub(crate) kind: &'static str,
    pub(crate) role: &'static str,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    /// The secret; shown once, when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl From<v1::TokenInfo> for TokenView {
    fn from(info: v1::TokenInfo) -> Self {
        let kind = match info.kind() {
            v1::TokenKind::Api => "api",
            v1::TokenKind::Join => "join",
            v1::TokenKind::Unspecified => "unknown",
        };
        // A join token has no role of its own: it makes a node.
        let role = match info.kind() {
            v1::TokenKind::Join => Role::Node.as_str(),
            _ => role(info.role()),
        };
        Self {
            name: info.name,
            id: info.id,
            kind,
            role,
            created_at: time_s(info.created_at),
            expires_at: time_s(info.expires_at),
            token: None,
        }
    }
}

impl Show for TokenView {
    fn reference(&self) -> String {
        format!("token/{}", self.id)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("ID"),
            Column::new("KIND"),
            Column::new("ROLE"),
        ];
        columns.push(Column::new(if wide { "EXPIRES" } else { "LEFT" }));
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let expires = match self.expires_at {
            None => "never".to_owned(),
            Some(at) if wide => at.to_string(),
            Some(at) if at <= now => "expired".to_owned(),
            Some(at) => human::seconds(at.as_second() - now.as_second()),
        };
        vec![
            TableCell::from(&self.name),
            TableCell::from(&self.id),
            self.kind.into(),
            self.role.into(),
            expires.into(),
            human::age(self.created_at, now).into(),
        ]
    }
}

/// Who is calling, as the server sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CallerView {
    pub(crate) name: String,
    pub(crate) role: &'static str,
    /// `certificate`, `token` or `socket`.
    pub(crate) proof: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) server: String,
    /// The roots that it trusts.
    #[serde(skip)]
    pub(crate) ca_pem: String,
}

impl CallerView {
    /// A caller as `server` sees it.
    pub(crate) fn new(caller: v1::Caller, server: String) -> Self {
        Self {
            role: role(caller.role()),
            name: caller.name,
            proof: caller.proof,
            expires_at: time_s(caller.expires_at),
            ca_pem: caller.ca_pem,
            server,
        }
    }

    /// In one line, for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} ({}) by {} at {}",
            self.name, self.role, self.proof, self.server
        )
    }
}

impl Show for CallerView {
    fn reference(&self) -> String {
        format!("caller/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        ["NAME", "ROLE", "PROOF", "SERVER", "LEFT"]
            .map(Column::new)
            .into()
    }

    fn row(&self, _: bool, now: Timestamp) -> Vec<TableCell> {
        let left = self.expires_at.map_or("-".to_owned(), |at| {
            human::seconds((at.as_second() - now.as_second()).max(0))
        });
        vec![
            TableCell::from(&self.name),
            self.role.into(),
            TableCell::from(&self.proof),
            TableCell::from(&self.server),
            left.into(),
        ]
    }
}

fn role(role: v1::Role) -> &'static str {
    Role::try_from(role).map_or("unknown", Role::as_str)
}
