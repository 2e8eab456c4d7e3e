//! Who may cancel an operation: whoever may begin one of its kind. Cancelling
//! undoes what was done (a hypervisor that is being created is switched off
//! and wiped), so it is no less than beginning.
//!
//! The roles are those of the request that begins the kind, read from the one
//! table of who may call what: the two cannot drift apart. The owner needs no
//! rule of its own, since beginning took the role; a name alone proves
//! nothing, as several credentials can have one.

use serde::Deserialize as _;
use serde_json::Value;
use strata_identity::policy::{Access, access, roles_in_words};
use strata_types::{Error, ErrorKind, Result, Role};
use strata_workflow::{Kind, Operation};

use super::{
    CreateBackup, CreateCluster, CreateHypervisor, DeleteCluster, DestroyHypervisor, Drain,
    DrainInput, ExpandStorage, PruneBackups, ReplaceDevice, RestoreBackup, RestoreCluster,
    ScaleCluster, ScrubStorage, ShrinkStorage, SnapshotCluster, SwitchMachine, UpgradeCluster,
    VerifyBackup,
};
use crate::core::Who;

/// Which request begins which kind. What the server alone begins (repair and
/// renewal of clusters) is not listed, and takes an admin.
const BEGUN_BY: [(&str, &str); 18] = [
    (Drain::NAME, "POST /node/{id}/drain"),
    (CreateHypervisor::NAME, "POST /hypervisor/{id}/create"),
    (DestroyHypervisor::NAME, "POST /hypervisor/{id}/destroy"),
    (SwitchMachine::NAME, "POST /machine/{id}/power"),
    (ExpandStorage::NAME, "POST /storage/expand"),
    (ShrinkStorage::NAME, "POST /storage/shrink"),
    (ReplaceDevice::NAME, "POST /storage/device/{id}/replace"),
    (ScrubStorage::NAME, "POST /storage/scrub"),
    (CreateBackup::NAME, "POST /backup"),
    (RestoreBackup::NAME, "POST /backup/{id}/restore"),
    (VerifyBackup::NAME, "POST /backup/{id}/verify"),
    (PruneBackups::NAME, "POST /backup/prune"),
    (CreateCluster::NAME, "PUT /cluster"),
    (DeleteCluster::NAME, "DELETE /cluster/{id}"),
    (ScaleCluster::NAME, "PATCH /cluster/{id}/pool/{pool}"),
    (UpgradeCluster::NAME, "POST /cluster/{id}/upgrade"),
    (SnapshotCluster::NAME, "POST /cluster/{id}/snapshot"),
    (RestoreCluster::NAME, "POST /cluster/{id}/restore"),
];

/// The roles that may begin an operation of this kind, and cancel it.
fn roles(kind: &str, input: &Value) -> &'static [Role] {
    const ADMIN: &[Role] = &[Role::Admin];
    // A drain after which the node leaves takes an admin.
    let leaves = |input: DrainInput| input.leave;
    if kind == Drain::NAME && DrainInput::deserialize(input).map_or(true, leaves) {
        return ADMIN;
    }
    let begun_by = BEGUN_BY.iter().find(|(known, _)| *known == kind);
    match begun_by.and_then(|(_, request)| access(request)) {
        Some(Access::Roles(roles)) => roles,
        Some(Access::Anyone) | None => ADMIN,
    }
}

/// Refuses callers who could not have begun the operation.
pub(crate) fn authorize_cancel(who: &Who, operation: &Operation) -> Result<()> {
    who.everywhere()?;
    let roles = roles(&operation.kind, &operation.input);
    if roles.contains(&who.role) {
        return Ok(());
    }
    let why = format!(
        "operation {} is a {}: only {} may cancel it",
        operation.id,
        operation.kind,
        roles_in_words(roles)
    );
    Err(Error::new(ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_of_the_table_is_known_to_the_policy() {
        for (kind, request) in BEGUN_BY {
            assert!(
                matches!(access(request), Some(Access::Roles(_))),
                "{kind}: {request}"
            );
        }
    }

    #[test]
    fn what_only_an_admin_begins_only_an_admin_cancels() {
        let may = |kind: &str, input: Value| roles(kind, &input).contains(&Role::Operator);
        for kind in [
            "hypervisor-create",
            "hypervisor-destroy",
            "machine-power",
            "storage-shrink",
            "storage-expand",
            "storage-replace",
            "backup-restore",
            "backup-prune",
            "cluster-heal",
            "cluster-renew",
            "of-a-later-version",
        ] {
            assert!(!may(kind, Value::Null), "{kind}");
        }
        for kind in ["backup-create", "cluster-create", "storage-scrub"] {
            assert!(may(kind, Value::Null), "{kind}");
        }
        let drain =
            |leave: bool| serde_json::json!({"node": "n1", "leave": leave, "wasClosed": false});
        assert!(may("node-drain", drain(false)));
        assert!(!may("node-drain", drain(true)));
        assert!(!may("node-drain", Value::Null), "what is unreadable");
    }
}
