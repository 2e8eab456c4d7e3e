//! An entry of the audit log and its hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::SessionRecord;

/// Prefix of the hash in a line.
const HASH_PREFIX: &str = ",\"hash\":\"";
/// Suffix of a line, after its hash.
const LINE_SUFFIX: &str = "\"}";
/// A SHA-256 in hexadecimal digits.
pub(crate) const HASH_LENGTH: usize = 64;

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = AuditOutcome))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Allowed.
    Allowed,
    /// The principal lacks the role.
    Denied,
    /// No valid credentials presented.
    Unauthenticated,
    /// A session started.
    Started,
    /// A session ended.
    Ended,
}

impl Outcome {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Unauthenticated => "unauthenticated",
            Self::Started => "started",
            Self::Ended => "ended",
        }
    }

    /// Whether the request was rejected.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Denied | Self::Unauthenticated)
    }
}

/// A decision to be logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = AuditDecision))]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The name of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The role of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Credential of the caller: `token:ID`, `certificate:SERIAL`, `socket`,
    /// `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// The projects the caller is limited to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<String>,
    /// Remote address; absent on a Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The call, e.g. `POST /instance/web/exec` or
    /// `/runtime.CellService/Start`.
    pub call: String,
    /// Object, e.g. `instance/web` or `cell/a/main`; the kind alone if the
    /// request names no object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Project of the object, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Decision.
    pub outcome: Outcome,
    /// Reason of a rejection, or of a session that ended without an exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// ID of the session that starts or ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<SessionRecord>))]
    pub session: Option<Box<SessionRecord>>,
}

impl Decision {
    /// The object, or that of the session, if there is one.
    pub fn about(&self) -> Option<&str> {
        let session = self.session.as_ref().map(|session| session.object.as_str());
        session.or(self.object.as_deref())
    }

    /// The project of the object.
    pub fn project_of_object(&self) -> Option<&str> {
        let session = self.session.as_ref();
        let of_session = session.and_then(|session| session.project.as_deref());
        of_session.or(self.project.as_deref())
    }

    /// Whether the entry is about this object, or an object in it.
    pub fn is_about(&self, object: &str) -> bool {
        let rest = self.about().and_then(|about| about.strip_prefix(object));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = AuditEntry))]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Sequence number, from 1, without gaps.
    pub number: u64,
    /// Timestamp in UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub time: String,
    /// Decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// Number of earlier rejections that were not logged one by one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suppressed: u64,
    /// Number of earlier entries that could not be written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Hash of the previous entry; empty for the first.
    pub previous: String,
    /// Hash of this entry.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Entry {
    /// The line, without its end, and its hash.
    pub(crate) fn seal(&self) -> serde_json::Result<(String, String)> {
        let open = Self {
            hash: String::new(),
            ..self.clone()
        };
        let mut line = serde_json::to_string(&open)?;
        let hash = hash_of(&line);
        line.pop();
        line.push_str(HASH_PREFIX);
        line.push_str(&hash);
        line.push_str(LINE_SUFFIX);
        Ok((line, hash))
    }

    /// Reads a line whose hash is that of its own text.
    pub(crate) fn unseal(line: &str) -> Option<Self> {
        let body = line.strip_suffix(LINE_SUFFIX)?;
        let at = body.len().checked_sub(HASH_LENGTH)?;
        let (body, hash) = (body.get(..at)?, body.get(at..)?);
        let open = format!("{}}}", body.strip_suffix(HASH_PREFIX)?);
        if hash_of(&open) != hash {
            return None;
        }
        let entry: Self = serde_json::from_str(line).ok()?;
        (entry.hash == hash).then_some(entry)
    }
}

fn hash_of(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(call: &str, reason: Option<String>) -> Entry {
        Entry {
            number: 7,
            time: "2026-11-16T17:00:00Z".into(),
            decision: Decision {
                principal: Some("ann".into()),
                role: Some("operator".into()),
                credential: Some("token:7".into()),
                projects: vec!["shop".into()],
                source: Some("192.0.2.1:77".into()),
                call: call.into(),
                object: None,
                project: None,
                outcome: Outcome::Denied,
                reason,
                session: None,
            },
            suppressed: 0,
            lost: 0,
            previous: "0".repeat(HASH_LENGTH),
            hash: String::new(),
        }
    }

    #[test]
    fn line_is_one_object_with_its_hash_last() {
        let (line, hash) = entry("GET /x", None).seal().unwrap();
        assert!(line.ends_with(&format!(",\"hash\":\"{hash}\"}}")), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["outcome"], "denied");
        assert_eq!(value["principal"], "ann");
    }

    proptest! {
        #[test]
        fn sealed_line_opens_and_no_changed_one_does(
            call in ".{0,60}", reason in proptest::option::of(".{0,60}"),
            at in any::<prop::sample::Index>(), byte in 32u8..127,
        ) {
            let (line, hash) = entry(&call, reason).seal().unwrap();
            prop_assert!(!line.contains('\n'));
            let opened = Entry::unseal(&line).unwrap();
            prop_assert_eq!(&opened.hash, &hash);
            prop_assert_eq!(&opened.decision.call, &call);
            let mut changed = line.clone().into_bytes();
            let at = at.index(changed.len());
            prop_assume!(changed[at] != byte && changed[at].is_ascii());
            changed[at] = byte;
            let changed = String::from_utf8(changed).unwrap();
            prop_assert!(Entry::unseal(&changed).is_none(), "{}", changed);
        }

        #[test]
        fn no_line_of_others_panics(line in ".{0,200}") {
            let _ = Entry::unseal(&line);
        }
    }
}
