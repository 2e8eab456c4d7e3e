//! Sessions: programs that a caller runs in what is there, and consoles. A
//! decision says which caller was accepted; a session says what was run, how it
//! ended, for how long and how much went each way, in two lines of the same
//! chain. Neither the environment nor what was typed or printed is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{AuditLog, Decision, LineCharge, Outcome};

/// As much of a command line as is written, in bytes.
const COMMAND_BYTES: usize = 4096;
/// As much of the name of an object as is written, in characters.
const OBJECT_CHARS: usize = 512;

/// Kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = AuditSessionKind))]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// A further process in a pod or an instance.
    Exec,
    /// The input and output of a pod's own process.
    Attach,
    /// The console of a machine.
    Console,
    /// A process of a cell, which does not end with the call that starts it.
    Executable,
}

impl SessionKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::Console => "console",
            Self::Executable => "executable",
        }
    }
}

/// A session in the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = AuditSession))]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The same in the line of its start and of its end.
    pub id: String,
    /// Kind of the session.
    pub kind: SessionKind,
    /// In what: `pod/web`, `instance/0192…`, `cell/a/b`, `vm/db`, `machine/m1`.
    pub object: String,
    /// The project of the object, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The words of the command; in the line of the start alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The command was longer than what is written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The exit code of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Duration; only in the entry of its end, as are the byte counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Bytes received from the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// Bytes sent to the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEnd {
    /// The exit code of its process.
    pub exit_code: Option<i32>,
    /// The signal that ended its process.
    pub signal: Option<i32>,
    /// Further details: the caller left, the process did not start.
    pub reason: Option<String>,
}

impl SessionEnd {
    /// Without an exit of its own.
    pub fn because(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::default()
        }
    }
}

/// Records the sessions of one request: the layer that accepts the request puts
/// it into the extensions of the request. The default one records nothing.
#[derive(Clone, Debug, Default)]
pub struct SessionRecorder(Option<Arc<Request>>);

/// The request of sessions.
#[derive(Debug)]
struct Request {
    log: Arc<AuditLog>,
    decision: Decision,
    charge: LineCharge,
}

impl SessionRecorder {
    /// For the request of this decision, whose lines are charged like this.
    pub fn new(log: Arc<AuditLog>, decision: Decision, charge: LineCharge) -> Self {
        Self(Some(Arc::new(Request {
            log,
            decision,
            charge,
        })))
    }

    /// Writes that a session begins. Called before anything is run, so that a
    /// crash leaves a line too many, never one too few.
    pub fn start(
        &self,
        kind: SessionKind,
        object: impl Into<String>,
        project: Option<&str>,
        command: &[String],
    ) -> Session {
        let (command, truncated) = bounded(command);
        let record = SessionRecord {
            id: uuid::Uuid::now_v7().to_string(),
            kind,
            object: object.into().chars().take(OBJECT_CHARS).collect(),
            project: project.map(str::to_owned),
            command,
            truncated,
            exit_code: None,
            signal: None,
            duration_ms: None,
            bytes_in: None,
            bytes_out: None,
        };
        append(self, Outcome::Started, record.clone(), None);
        Session {
            recorder: self.clone(),
            record: Some(record),
            began: Instant::now(),
            meter: Arc::default(),
        }
    }
}

fn append(
    recorder: &SessionRecorder,
    outcome: Outcome,
    record: SessionRecord,
    reason: Option<String>,
) {
    let Some(request) = recorder.0.as_deref() else {
        return;
    };
    let decision = Decision {
        outcome,
        reason,
        session: Some(Box::new(record)),
        ..request.decision.clone()
    };
    request.charge.charge(request.log.append(decision, 0));
}

/// The words as far as they fit, and whether that is not all.
fn bounded(words: &[String]) -> (Vec<String>, bool) {
    let mut left = COMMAND_BYTES;
    let mut kept = Vec::new();
    for (index, word) in words.iter().enumerate() {
        // A word costs a place even when it is empty.
        if word.len() < left {
            left -= word.len() + 1;
            kept.push(word.clone());
            continue;
        }
        let end = (0..=left).rev().find(|at| word.is_char_boundary(*at));
        let end = end.unwrap_or(0);
        kept.push(word[..end].to_owned());
        let is_whole = end == word.len() && index + 1 == words.len();
        return (kept, !is_whole);
    }
    (kept, false)
}

/// What goes each way; shared with the tasks that move it.
#[derive(Debug, Default)]
pub struct SessionMeter {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl SessionMeter {
    /// The caller sent so many bytes.
    pub fn sent(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The caller was sent so many bytes.
    pub fn received(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A session that is under way. One that is dropped without [`Session::end`]
/// was interrupted, and its line says so.
#[derive(Debug)]
pub struct Session {
    recorder: SessionRecorder,
    /// None once its end is written.
    record: Option<SessionRecord>,
    began: Instant,
    meter: Arc<SessionMeter>,
}

impl Session {
    /// Counts what goes each way.
    pub fn meter(&self) -> Arc<SessionMeter> {
        self.meter.clone()
    }

    /// Writes how it ended.
    pub fn end(mut self, end: SessionEnd) {
        self.write_end(end);
    }

    fn write_end(&mut self, end: SessionEnd) {
        let Some(record) = self.record.take() else {
            return;
        };
        let duration = self.began.elapsed().as_millis();
        let record = SessionRecord {
            command: Vec::new(),
            truncated: false,
            exit_code: end.exit_code,
            signal: end.signal,
            duration_ms: Some(u64::try_from(duration).unwrap_or(u64::MAX)),
            bytes_in: Some(self.meter.bytes_in.load(Ordering::Relaxed)),
            // What an executable writes goes to its log, not to the caller.
            bytes_out: (record.kind != SessionKind::Executable)
                .then(|| self.meter.bytes_out.load(Ordering::Relaxed)),
            ..record
        };
        append(&self.recorder, Outcome::Ended, record, end.reason);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.write_end(SessionEnd::because("interrupted: the daemon stopped"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_command_is_cut_and_says_so() {
        let words = vec!["echo".to_owned(), "ü".repeat(1 << 20), "more".to_owned()];
        let (kept, truncated) = bounded(&words);
        assert!(truncated);
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().map(String::len).sum::<usize>() <= COMMAND_BYTES);
        let many = vec![String::new(); 1 << 20];
        let (kept, truncated) = bounded(&many);
        assert!(truncated && kept.len() <= COMMAND_BYTES + 1);
        let exact = vec!["echo".to_owned(), "a".repeat(COMMAND_BYTES - 5)];
        assert_eq!(bounded(&exact), (exact.clone(), false));
        let all = ["sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()];
        assert_eq!(bounded(&all), (all.to_vec(), false));
    }

    proptest! {
        #[test]
        fn bound_holds_for_any_words(words in prop::collection::vec("\\PC{0,900}", 0..12)) {
            let (kept, truncated) = bounded(&words);
            let bytes: usize = kept.iter().map(|word| word.len() + 1).sum();
            prop_assert!(bytes <= COMMAND_BYTES + 1);
            prop_assert_eq!(truncated, kept != words);
        }
    }
}
