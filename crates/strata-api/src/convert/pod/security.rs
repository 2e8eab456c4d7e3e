//! What a pod may do.

use strata_types::Error;
use strata_types::pod::{Capabilities, PodSecurity};

use crate::strata::v1;

pub(super) fn from_wire(security: &v1::PodSecurity) -> Result<PodSecurity, Error> {
    let (drop, add) = (&security.drop_capabilities, &security.add_capabilities);
    let capabilities = Capabilities::from_lists(drop, add)
        .map_err(|why| Error::invalid("pod.security.capabilities", why))?;
    Ok(PodSecurity {
        capabilities,
        any_system_call: security.any_system_call,
        privilege_escalation: security.privilege_escalation,
        read_only_root: security.read_only_root,
        user_namespace: security.user_namespace,
    })
}

/// What was asked for as a difference comes back as one, in its shortest form.
pub(super) fn to_wire(security: &PodSecurity) -> v1::PodSecurity {
    let (usual, has) = (Capabilities::default(), security.capabilities);
    let beyond = |of: Capabilities, not_in: Capabilities| {
        of.iter()
            .filter(|one| !not_in.iter().any(|other| other == *one))
            .map(|one| one.to_string())
            .collect()
    };
    v1::PodSecurity {
        drop_capabilities: beyond(usual, has),
        add_capabilities: beyond(has, usual),
        any_system_call: security.any_system_call,
        privilege_escalation: security.privilege_escalation,
        read_only_root: security.read_only_root,
        user_namespace: security.user_namespace,
    }
}
