//! The path of the audit log.

use super::operation::Operation;

type Path = (&'static str, Vec<(&'static str, Operation)>);

pub(super) fn paths() -> Vec<Path> {
    let list = Operation::new(
        "audit",
        "listAuditEntries",
        "The lines of this server's audit log, the oldest first",
    )
    .takes(&[
        "limit",
        "offset",
        "after",
        "audit tail",
        "principal",
        "call",
        "audit object",
        "audit project",
        "refused",
        "sessions",
        "watch",
    ])
    .lists("AuditEntry");
    vec![("/audit/", vec![("get", list)])]
}
