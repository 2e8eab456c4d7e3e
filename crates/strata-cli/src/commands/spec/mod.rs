//! What an instance is asked to be: said in flags, read back from a server,
//! and compared field by field. Instances and workloads share all of it.

mod difference;
mod flags;

use strata_api::rest::Instance;
use strata_types::instance::InstanceSpec;

pub(crate) use difference::{Difference, differences, merge_patch, value};
pub(crate) use flags::SpecArgs;

/// Specification of an existing instance.
pub(crate) fn spec_of(instance: &Instance) -> InstanceSpec {
    let one = instance.clone();
    InstanceSpec {
        kind: one.kind,
        uri: one.uri,
        environment: one.environment,
        resources: one.resources.max,
        pids: one.pids,
        ports: one.ports,
        command: one.command,
        arguments: one.arguments,
        user: one.user,
        working_directory: one.working_directory,
        volumes: one.volumes,
        secrets: one.secrets,
        init: one.init,
        security: one.security,
        health: one.health,
        restart: one.restart,
        stop_grace_seconds: one.stop_grace_seconds,
        labels: one.labels,
        placement: one.placement,
        user_data: one.user_data,
    }
}
