//! The tokens of this installation, in one file. Readers never wait: they read
//! a snapshot. Writers go one at a time, and a change counts once it is on
//! disk, so a join token that was used stays used after a crash.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use strata_types::{Label, Role};
use tokio::sync::watch;

use super::record::{Ended, File, JoinBinding, Record, Records, TokenInfo, TokenKind};
use super::text::{ApiToken, JoinToken, Secret, TokenText, random_id};
use crate::files::{self, FileError, in_full};
use crate::issue::bounded;
use crate::{Caller, Clock, Fingerprint, Name, Proof, TtlError};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is wrong with a token, or with keeping it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Not a token, not one of ours, or not its secret: not distinguished, for
    /// the caller is guessing.
    #[error("the token is unknown")]
    Unknown,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// An admin took it back.
    #[error("the token was revoked")]
    Revoked,
    /// A join token works once.
    #[error("the join token was already used")]
    Used,
    /// No token has this id.
    #[error("there is no token {0:?}")]
    NotFound(String),
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// Nodes authenticate by certificate.
    #[error("an API token cannot have the role node; create a join token")]
    NodeRole,
    /// An admin is one everywhere.
    #[error("an admin cannot be limited to projects")]
    LimitedAdmin,
    /// A caller creates tokens in a loop.
    #[error("there are already {0} tokens; revoke some")]
    TooMany(usize),
    /// The file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not ours, or of a later version.
    #[error("{path} does not contain tokens: {reason}")]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<TokenError> for strata_types::Error {
    fn from(error: TokenError) -> Self {
        use strata_types::ErrorKind;
        let text = error.to_string();
        match error {
            TokenError::Unknown | TokenError::Expired | TokenError::Revoked | TokenError::Used => {
                Self::new(ErrorKind::Unauthenticated, text)
            }
            TokenError::NotFound(_) => Self::not_found(text),
            TokenError::Ttl(error) => error.into(),
            TokenError::NodeRole => Self::invalid("role", text),
            TokenError::LimitedAdmin => Self::invalid("projects", text),
            TokenError::TooMany(_) => Self::exhausted(text),
            TokenError::File(error) => Self::internal(in_full(&error)),
            TokenError::Damaged { .. } => Self::internal(text),
        }
    }
}

/// API and join tokens: made, checked, listed, revoked.
pub struct Tokens {
    path: PathBuf,
    clock: Clock,
    records: ArcSwap<Records>,
    writing: Mutex<()>,
    changed: watch::Sender<()>,
}

impl Tokens {
    /// The most tokens that are kept at once.
    pub const MAX: usize = 10_000;

    /// The tokens in `file`; none if it is not there.
    pub fn open(file: &Path) -> Result<Self, TokenError> {
        Self::open_with_clock(file, Clock::system())
    }

    /// Like [`Tokens::open`], by another clock.
    pub fn open_with_clock(file: &Path, clock: Clock) -> Result<Self, TokenError> {
        let records = match files::read_private(file)? {
            Some(text) => parse(&text).map_err(|reason| TokenError::Damaged {
                path: file.into(),
                reason,
            })?,
            None => Records::new(),
        };
        Ok(Self {
            path: file.into(),
            clock,
            records: ArcSwap::from_pointee(records),
            writing: Mutex::new(()),
            changed: watch::Sender::new(()),
        })
    }

    /// Creates an API token, valid for a minute to a year. Default: 90 days.
    pub fn create_api(
        &self,
        name: &Name,
        role: Role,
        ttl: Option<Duration>,
    ) -> Result<(TokenInfo, TokenText), TokenError> {
        self.create_api_in(name, role, &[], ttl)
    }

    /// The same, limited to these projects; to none when there are none.
    pub fn create_api_in(
        &self,
        name: &Name,
        role: Role,
        projects: &[Label],
        ttl: Option<Duration>,
    ) -> Result<(TokenInfo, TokenText), TokenError> {
        match role {
            Role::Node => return Err(TokenError::NodeRole),
            Role::Admin if !projects.is_empty() => return Err(TokenError::LimitedAdmin),
            _ => {}
        }
        let ttl = bounded(ttl.unwrap_or(90 * DAY), MINUTE, 365 * DAY)?;
        let token = ApiToken {
            id: random_id(),
            secret: Secret::random(),
        };
        let created_at = self.clock.now();
        let info = TokenInfo {
            id: token.id.clone(),
            name: name.clone(),
            kind: TokenKind::Api,
            role,
            projects: projects.to_vec(),
            join: None,
            created_at,
            expires_at: created_at.checked_add(ttl).unwrap_or(created_at),
        };
        self.add(&info, &token.secret)?;
        Ok((info, token.write()))
    }

    /// Makes a join token for a new node of this name and the CA of
    /// `fingerprint`. Default: 15 minutes; a minute to a day.
    pub fn create_join(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        ttl: Option<Duration>,
    ) -> Result<(TokenInfo, TokenText), TokenError> {
        self.create_bound_join(JoinBinding::to(name.clone()), fingerprint, ttl)
    }

    /// The same for a node that takes another's place, or that an operation
    /// expects.
    pub fn create_bound_join(
        &self,
        binding: JoinBinding,
        fingerprint: Fingerprint,
        ttl: Option<Duration>,
    ) -> Result<(TokenInfo, TokenText), TokenError> {
        let ttl = bounded(ttl.unwrap_or(15 * MINUTE), MINUTE, DAY)?;
        let token = JoinToken {
            id: random_id(),
            secret: Secret::random(),
            fingerprint,
        };
        let created_at = self.clock.now();
        let info = TokenInfo {
            id: token.id.clone(),
            name: binding.node.clone(),
            kind: TokenKind::Join,
            role: Role::Node,
            projects: Vec::new(),
            join: Some(binding),
            created_at,
            expires_at: created_at.checked_add(ttl).unwrap_or(created_at),
        };
        self.add(&info, &token.secret)?;
        Ok((info, token.write()))
    }

    /// The caller that an API token authenticates.
    pub fn verify_api(&self, text: &str) -> Result<Caller, TokenError> {
        self.verify_api_with_id(text).map(|(caller, _)| caller)
    }

    /// The same, and the id of the token, for [`Tokens::check_id`].
    pub fn verify_api_with_id(&self, text: &str) -> Result<(Caller, String), TokenError> {
        let token = ApiToken::parse(text).ok_or(TokenError::Unknown)?;
        let records = self.records.load();
        let info = self.check(&records, &token.id, TokenKind::Api, &token.secret)?;
        let caller = Caller {
            name: info.name.clone(),
            role: info.role,
            projects: (!info.projects.is_empty()).then(|| info.projects.clone()),
            proof: Proof::Token,
            expires_at: Some(info.expires_at),
        };
        Ok((caller, token.id))
    }

    /// Whether an API token whose secret was shown before is still good, and
    /// when it was made.
    pub fn check_id(&self, id: &str) -> Result<Timestamp, TokenError> {
        let records = self.records.load();
        let record = records.get(id).ok_or(TokenError::Unknown)?;
        self.check_record(record).map(|info| info.created_at)
    }

    /// Wakes with every change to the tokens from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What a join token is, if it can be used now. Does not use it.
    pub fn verify_join(&self, text: &str) -> Result<TokenInfo, TokenError> {
        let token = JoinToken::parse(text).ok_or(TokenError::Unknown)?;
        let records = self.records.load();
        self.check(&records, &token.id, TokenKind::Join, &token.secret)
            .cloned()
    }

    /// Uses a join token up. Of many concurrent attempts, one succeeds.
    pub fn consume_join(&self, text: &str) -> Result<TokenInfo, TokenError> {
        let token = JoinToken::parse(text).ok_or(TokenError::Unknown)?;
        self.change(|records| {
            let info = self
                .check(records, &token.id, TokenKind::Join, &token.secret)?
                .clone();
            if let Some(record) = records.get_mut(&token.id) {
                record.ended = Some(Ended::Used);
            }
            Ok(info)
        })
    }

    /// Every token that works now, oldest first.
    pub fn list(&self) -> Vec<TokenInfo> {
        let now = self.clock.now();
        let records = self.records.load();
        let live = |record: &&Record| record.ended.is_none() && now < record.info.expires_at;
        let mut tokens: Vec<TokenInfo> = records
            .values()
            .filter(live)
            .map(|record| record.info.clone())
            .collect();
        tokens.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        tokens
    }

    /// Takes a token back. One that was revoked or used before stays so.
    pub fn revoke(&self, id: &str) -> Result<(), TokenError> {
        self.change(|records| {
            let record = records
                .get_mut(id)
                .ok_or_else(|| TokenError::NotFound(id.chars().take(128).collect()))?;
            record.ended.get_or_insert(Ended::Revoked);
            Ok(())
        })
    }

    /// Revokes every token of a kind, and returns how many worked before.
    pub fn revoke_all(&self, kind: TokenKind) -> Result<usize, TokenError> {
        let now = self.clock.now();
        self.change(|records| {
            let live = records.values_mut().filter(|record| {
                record.info.kind == kind && record.ended.is_none() && now < record.info.expires_at
            });
            Ok(live
                .map(|record| record.ended = Some(Ended::Revoked))
                .count())
        })
    }

    /// Ends what has ended in another copy of these tokens, and returns how
    /// many worked before.
    pub fn end_as_in(&self, other: &Self) -> Result<usize, TokenError> {
        let known = other.records.load();
        self.change(|records| {
            let mut count = 0;
            for (id, record) in records {
                let ended = known.get(id).and_then(|other| other.ended);
                if record.ended.is_none() && ended.is_some() {
                    record.ended = ended;
                    count += 1;
                }
            }
            Ok(count)
        })
    }

    fn add(&self, info: &TokenInfo, secret: &Secret) -> Result<(), TokenError> {
        self.change(|records| {
            if records.len() >= Self::MAX {
                return Err(TokenError::TooMany(records.len()));
            }
            let record = Record {
                info: info.clone(),
                hash: secret.hash(),
                ended: None,
            };
            records.insert(info.id.clone(), record);
            Ok(())
        })
    }

    /// The record of a token that works now. That it has expired is reported
    /// only to callers that know its secret.
    fn check<'a>(
        &self,
        records: &'a Records,
        id: &str,
        kind: TokenKind,
        secret: &Secret,
    ) -> Result<&'a TokenInfo, TokenError> {
        let record = records.get(id).ok_or(TokenError::Unknown)?;
        if record.info.kind != kind || !record.hash.is_of(secret) {
            return Err(TokenError::Unknown);
        }
        self.check_record(record)
    }

    fn check_record<'a>(&self, record: &'a Record) -> Result<&'a TokenInfo, TokenError> {
        if self.clock.now() >= record.info.expires_at {
            return Err(TokenError::Expired);
        }
        match record.ended {
            None => Ok(&record.info),
            Some(Ended::Revoked) => Err(TokenError::Revoked),
            Some(Ended::Used) => Err(TokenError::Used),
        }
    }

    /// Changes a copy, drops what has expired, writes it, and only then shows
    /// it.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Records) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        // A writer that panicked left nothing half done: it shows last.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = Records::clone(&self.records.load());
        let result = change(&mut records)?;
        let now = self.clock.now();
        records.retain(|_, record| now < record.info.expires_at);
        files::replace(&self.path, &render(&records)?, files::PRIVATE)?;
        self.records.store(records.into());
        self.changed.send_replace(());
        Ok(result)
    }
}

fn parse(text: &str) -> Result<Records, String> {
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if file.version != File::VERSION {
        return Err(format!("version {} is not known", file.version));
    }
    let by_id = |record: Record| (record.info.id.clone(), record);
    Ok(file.tokens.into_iter().map(by_id).collect())
}

fn render(records: &Records) -> Result<String, TokenError> {
    let file = File {
        version: File::VERSION,
        tokens: records.values().cloned().collect(),
    };
    serde_json::to_string_pretty(&file).map_err(|error| TokenError::Damaged {
        path: PathBuf::new(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
