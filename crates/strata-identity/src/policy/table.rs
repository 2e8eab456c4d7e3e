//! The table of gRPC calls. One line for each call; a test holds it against
//! every service of every proto, so a new call cannot be forgotten.

use strata_types::Role::{self, Admin, Node, Operator, Viewer};

/// The roles that may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every client, without a name.
    Anyone,
    Roles(&'static [Role]),
}

/// Joining and health checks need no identity.
pub const ANYONE: Access = Access::Anyone;
/// Every authenticated caller.
pub const NAMED: Access = Access::Roles(&[Admin, Operator, Viewer, Node]);
/// Looks, and changes nothing.
pub const READ: Access = Access::Roles(&[Admin, Operator, Viewer]);
/// Runs and changes work, or is handed credentials to it.
pub const OPERATE: Access = Access::Roles(&[Admin, Operator]);
/// A node reporting; the handler checks the object.
pub const NODE: Access = Access::Roles(&[Admin, Node]);
/// Identities, and machines as a whole.
pub const ADMIN: Access = Access::Roles(&[Admin]);

pub(super) const GRPC: &[(&str, Access)] = &[
    // Clusters. GetCluster hands out a kubeconfig: that is not reading.
    ("/cnct.kaas.api.Cluster/CreateCluster", OPERATE),
    ("/cnct.kaas.api.Cluster/GetCluster", OPERATE),
    ("/cnct.kaas.api.Cluster/DeleteCluster", OPERATE),
    ("/cnct.kaas.api.Cluster/GetClusterList", READ),
    ("/cnct.kaas.api.Cluster/GetClusterNodesStatus", READ),
    ("/cnct.kaas.api.Cluster/GetVersionInformation", READ),
    ("/cnct.kaas.api.Cluster/AddNodePool", OPERATE),
    ("/cnct.kaas.api.Cluster/DeleteNodePool", OPERATE),
    ("/cnct.kaas.api.Cluster/ScaleNodePool", OPERATE),
    ("/cnct.kaas.api.Cluster/GetUpgradeClusterInformation", READ),
    ("/cnct.kaas.api.Cluster/UpgradeCluster", OPERATE),
    // Status pushed by schedulers and agents.
    ("/controller.SchedulerService/setNodeStatus", NODE),
    ("/controller.SchedulerService/setInstanceStatus", NODE),
    // Health and reflection, as common tools know them. Check answers once;
    // Watch holds a stream, which an unauthenticated client may not.
    ("/grpc.health.v1.Health/Check", ANYONE),
    ("/grpc.health.v1.Health/Watch", NAMED),
    (
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        NAMED,
    ),
    (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        NAMED,
    ),
    // Logs.
    ("/observe.Observe/GetAuraeDaemonLogStream", READ),
    ("/observe.Observe/GetSubProcessStream", READ),
    // Hypervisors, storage, backups. A backup takes nothing away from any user.
    ("/operations.v1.OperationsService/ListHypervisors", READ),
    ("/operations.v1.OperationsService/CreateHypervisor", ADMIN),
    ("/operations.v1.OperationsService/DestroyHypervisor", ADMIN),
    ("/operations.v1.OperationsService/ExpandStorage", ADMIN),
    ("/operations.v1.OperationsService/ShrinkStorage", ADMIN),
    ("/operations.v1.OperationsService/CreateBackup", OPERATE),
    // Cells and executables.
    ("/runtime.CellService/Allocate", OPERATE),
    ("/runtime.CellService/Free", OPERATE),
    ("/runtime.CellService/Start", OPERATE),
    ("/runtime.CellService/Stop", OPERATE),
    // Pods, virtual machines and nested nodes.
    ("/runtime.Pods/Create", OPERATE),
    ("/runtime.Pods/Start", OPERATE),
    ("/runtime.Pods/Stop", OPERATE),
    ("/runtime.Pods/Destroy", OPERATE),
    ("/runtime.Pods/Get", READ),
    ("/runtime.Pods/List", READ),
    ("/runtime.Pods/Wait", READ),
    ("/runtime.Pods/Watch", READ),
    ("/runtime.Pods/Stats", READ),
    ("/runtime.Pods/Logs", READ),
    ("/runtime.Pods/Exec", OPERATE),
    ("/runtime.Pods/Attach", OPERATE),
    ("/runtime.Instances/Create", OPERATE),
    ("/runtime.Instances/Start", OPERATE),
    ("/runtime.Instances/Stop", OPERATE),
    ("/runtime.Instances/Destroy", OPERATE),
    ("/runtime.Instances/Get", READ),
    ("/runtime.Instances/List", READ),
    ("/runtime.Instances/Wait", READ),
    ("/runtime.Instances/Watch", READ),
    ("/runtime.Instances/Stats", READ),
    ("/runtime.Instances/Logs", READ),
    ("/runtime.Instances/Console", OPERATE),
    ("/runtime.Spawn/Create", ADMIN),
    ("/runtime.Spawn/Start", ADMIN),
    ("/runtime.Spawn/Stop", ADMIN),
    ("/runtime.Spawn/Destroy", ADMIN),
    ("/runtime.Spawn/Get", READ),
    ("/runtime.Spawn/List", READ),
    ("/runtime.Spawn/Logs", READ),
    // A node's assignments. The node is the one of the certificate.
    ("/schedule.Assignments/Follow", NODE),
    ("/schedule.Assignments/Tunnel", NODE),
    // Images of its own instances, from the server's host.
    ("/strata.v1.ServerImages/Manifest", NODE),
    ("/strata.v1.ServerImages/Blob", NODE),
    // Nodes and instances.
    ("/scheduler.NodeService/Status", NODE),
    ("/scheduler.NodeService/Register", NODE),
    ("/scheduler.NodeService/Unregister", NODE),
    ("/scheduler.InstanceService/Create", OPERATE),
    ("/scheduler.InstanceService/Start", OPERATE),
    ("/scheduler.InstanceService/Stop", OPERATE),
    ("/scheduler.InstanceService/Destroy", OPERATE),
    // What the published documents lack.
    ("/strata.v1.Cells/List", READ),
    ("/strata.v1.Cells/Get", READ),
    ("/strata.v1.Cells/Watch", READ),
    ("/strata.v1.Cells/Wait", READ),
    ("/strata.v1.Identity/WhoAmI", NAMED),
    ("/strata.v1.Identity/IssueCertificate", ADMIN),
    ("/strata.v1.Identity/RenewCertificate", NAMED),
    ("/strata.v1.Identity/Join", ANYONE),
    ("/strata.v1.Identity/CreateToken", ADMIN),
    ("/strata.v1.Identity/ListTokens", ADMIN),
    ("/strata.v1.Identity/RevokeToken", ADMIN),
    // A pull of files on the node's own machine is authorized by its handler.
    ("/strata.v1.Images/Pull", OPERATE),
    ("/strata.v1.Images/List", READ),
    ("/strata.v1.Images/Get", READ),
    ("/strata.v1.Images/Remove", OPERATE),
    ("/strata.v1.Images/Prune", OPERATE),
    ("/strata.v1.Instances/Exec", OPERATE),
    ("/strata.v1.Instances/Logs", READ),
    ("/strata.v1.Logs/Read", READ),
    ("/strata.v1.Node/GetInfo", READ),
    ("/strata.v1.Node/PowerOff", ADMIN),
    ("/strata.v1.Volumes/Create", OPERATE),
    ("/strata.v1.Volumes/Get", READ),
    ("/strata.v1.Volumes/List", READ),
    ("/strata.v1.Volumes/Remove", OPERATE),
];

/// What a caller who is limited to some projects may call at all: methods that
/// check the project of what they touch, and those that touch nothing of any
/// project. Of HTTP, each route says it.
pub(super) fn is_about_projects(method: &str) -> bool {
    const CALLS: [&str; 6] = [
        "/grpc.health.v1.Health/",
        "/grpc.reflection.v1.ServerReflection/",
        "/grpc.reflection.v1alpha.ServerReflection/",
        "/scheduler.InstanceService/",
        "/strata.v1.Instances/",
        "/strata.v1.Identity/WhoAmI",
    ];
    CALLS.iter().any(|call| method.starts_with(call))
}
