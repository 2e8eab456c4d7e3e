//! Where the objects of each kind are.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strata_api::rest::{
    Autoscaling, Backup, BackupSchedule, Certificate, CertificateAuthority, Cluster, Event,
    Instance, KubernetesBundle, Machine, Node, Operation, Pool, PoolDevice, PoolVolume, Project,
    Secret, UnreadableRecord, Workload,
};
use strata_audit::Entry;

/// Objects of one kind, or the one there is: that one has no name.
pub trait Resource: DeserializeOwned {
    /// Where they are: `instance` for `/instance/`.
    const ROUTE: &'static str;
}

/// A machine, seen as the hypervisor that it is or can become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hypervisor(pub Machine);

macro_rules! routes {
    ($($object:ty => $route:literal,)*) => {
        $(impl Resource for $object {
            const ROUTE: &'static str = $route;
        })*

        #[cfg(test)]
        const ROUTES: &[&str] = &[$($route),*];
    };
}

routes! {
    Instance => "instance",
    Workload => "workload",
    Node => "node",
    Project => "project",
    Secret => "secret",
    Event => "event",
    Entry => "audit",
    Certificate => "certificate",
    CertificateAuthority => "ca",
    Operation => "operation",
    Machine => "machine",
    Hypervisor => "hypervisor",
    Autoscaling => "autoscaling",
    Pool => "storage",
    PoolDevice => "storage/device",
    PoolVolume => "storage/volume",
    Backup => "backup",
    BackupSchedule => "backup-schedule",
    Cluster => "cluster",
    KubernetesBundle => "kubernetes",
    UnreadableRecord => "unreadable-record",
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::ROUTES;

    #[test]
    fn every_route_is_one_of_the_document() {
        let document = include_str!("../../../../docs/openapi.json");
        let document: Value = serde_json::from_str(document).unwrap();
        let paths = document["paths"].as_object().unwrap();
        for route in ROUTES {
            let path = format!("/{route}");
            let one = format!("{path}/{{id}}");
            assert!(
                paths.contains_key(&path) || paths.contains_key(&one),
                "{path}"
            );
        }
    }
}
