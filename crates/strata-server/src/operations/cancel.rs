//! Who may cancel an operation: a principal that may begin one of its kind.
//! Cancelling undoes what was done (a hypervisor that is being created is
//! switched off and wiped), so it is no less than beginning.
//!
//! The roles are those of the route that begins the kind, which says so in its
//! declaration: the two cannot drift apart. The owner needs no rule of its
//! own, since beginning took the role; a name alone proves nothing, as several
//! credentials can have one.

use serde::Deserialize as _;
use serde_json::Value;
use strata_identity::policy::{Access, roles_in_words};
use strata_types::{Error, ErrorKind, Result, Role};
use strata_workflow::{Kind, Operation};

use super::{Drain, DrainInput};
use crate::core::Principal;

/// The roles that may begin an operation of this kind, and cancel it. What the
/// server alone begins (repair and renewal of clusters) takes an admin.
fn roles(kind: &str, input: &Value, starting: Option<Access>) -> &'static [Role] {
    const ADMIN: &[Role] = &[Role::Admin];
    // A drain after which the node leaves takes an admin.
    let leaves = |input: DrainInput| input.leave;
    if kind == Drain::NAME && DrainInput::deserialize(input).map_or(true, leaves) {
        return ADMIN;
    }
    match starting {
        Some(Access::Roles(roles)) => roles,
        Some(Access::Anyone) | None => ADMIN,
    }
}

/// Refuses callers who could not have begun the operation. `starting`: who may
/// begin one of its kind.
pub(crate) fn authorize_cancel(
    principal: &Principal,
    operation: &Operation,
    starting: Option<Access>,
) -> Result<()> {
    principal.require_all_projects()?;
    let roles = roles(&operation.kind, &operation.input, starting);
    if roles.contains(&principal.role) {
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
    use strata_identity::policy::OPERATE;

    use super::*;

    #[test]
    fn only_admins_cancel_what_no_route_begins() {
        assert_eq!(roles("cluster-heal", &Value::Null, None), [Role::Admin]);
        let anyone = Some(Access::Anyone);
        assert_eq!(roles("cluster-heal", &Value::Null, anyone), [Role::Admin]);
    }

    #[test]
    fn drain_after_which_the_node_leaves_is_cancelled_by_admins() {
        let may =
            |kind: &str, input: Value| roles(kind, &input, Some(OPERATE)).contains(&Role::Operator);
        let drain =
            |leave: bool| serde_json::json!({"node": "n1", "leave": leave, "wasClosed": false});
        assert!(may("node-drain", drain(false)));
        assert!(!may("node-drain", drain(true)));
        assert!(!may("node-drain", Value::Null), "what is unreadable");
    }
}
