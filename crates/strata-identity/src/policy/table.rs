//! The table itself. One line for each call; a test holds the gRPC half
//! against every service of every proto, so a new call cannot be forgotten.

use strata_types::Role::{self, Admin, Node, Operator, Viewer};

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a name.
    Anyone,
    /// These roles.
    Roles(&'static [Role]),
}

/// To join and to ask for health there is no identity yet.
const ANYONE: Access = Access::Anyone;
/// Of oneself and of the product; everybody who has a name.
const NAMED: Access = Access::Roles(&[Admin, Operator, Viewer, Node]);
/// Looks at things.
const READ: Access = Access::Roles(&[Admin, Operator, Viewer]);
/// Runs and changes work, or is handed credentials to it.
const OPERATE: Access = Access::Roles(&[Admin, Operator]);
/// Says what a node says. The object is checked by the handler.
const NODE: Access = Access::Roles(&[Admin, Node]);
/// Identities, and machines as a whole.
const ADMIN: Access = Access::Roles(&[Admin]);

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
    // Health and reflection, as everybody's tools know them. Check answers
    // once; Watch holds a stream, which a stranger may not.
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
    // Hypervisors, storage, backups. A backup takes nothing from anybody.
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
    // Pods, virtual machines and machines inside the machine.
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
    // A pull of files on the node's own machine is judged by its handler.
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

pub(super) const HTTP: &[(&str, &str, Access)] = &[
    ("GET", "/healthz", ANYONE),
    ("GET", "/version", NAMED),
    ("GET", "/metrics", READ),
    ("GET", "/openapi.json", READ),
    // The controller.
    // A node reads its own alone.
    ("GET", "/instance", NAMED),
    ("PUT", "/instance", OPERATE),
    ("GET", "/instance/{id}", NAMED),
    ("PATCH", "/instance/{id}", OPERATE),
    ("DELETE", "/instance/{id}", OPERATE),
    ("GET", "/instance/{id}/logs", READ),
    ("GET", "/instance/{id}/placement", READ),
    ("POST", "/instance/{id}/exec", OPERATE),
    ("GET", "/workload", READ),
    ("PUT", "/workload", OPERATE),
    ("GET", "/workload/{id}", READ),
    ("PATCH", "/workload/{id}", OPERATE),
    ("DELETE", "/workload/{id}", OPERATE),
    ("GET", "/node", READ),
    ("GET", "/node/{id}", NAMED),
    ("PATCH", "/node/{id}", OPERATE),
    ("DELETE", "/node/{id}", ADMIN),
    ("POST", "/node/{id}/drain", OPERATE),
    ("POST", "/node/{id}/adopt", ADMIN),
    ("POST", "/node/{id}/forget", ADMIN),
    ("GET", "/unreadable-record", ADMIN),
    ("DELETE", "/unreadable-record", ADMIN),
    ("GET", "/machine", READ),
    ("PUT", "/machine", ADMIN),
    ("GET", "/machine/{id}", READ),
    ("PATCH", "/machine/{id}", ADMIN),
    ("DELETE", "/machine/{id}", ADMIN),
    ("POST", "/machine/{id}/power", ADMIN),
    ("GET", "/machine/{id}/console", OPERATE),
    ("GET", "/hypervisor", READ),
    ("GET", "/hypervisor/{id}", READ),
    ("POST", "/hypervisor/{id}/create", ADMIN),
    ("POST", "/hypervisor/{id}/destroy", ADMIN),
    ("POST", "/hypervisor/{id}/drain", OPERATE),
    ("GET", "/autoscaling", READ),
    ("PATCH", "/autoscaling", ADMIN),
    ("GET", "/autoscaling/plan", READ),
    ("GET", "/storage", READ),
    ("POST", "/storage/expand", ADMIN),
    ("POST", "/storage/shrink", ADMIN),
    ("POST", "/storage/scrub", OPERATE),
    ("PUT", "/storage/device", ADMIN),
    ("DELETE", "/storage/device/{id}", ADMIN),
    ("POST", "/storage/device/{id}/replace", ADMIN),
    ("GET", "/storage/volume", READ),
    ("PUT", "/storage/volume", OPERATE),
    ("GET", "/storage/volume/{id}", READ),
    ("PATCH", "/storage/volume/{id}", OPERATE),
    ("DELETE", "/storage/volume/{id}", OPERATE),
    ("PUT", "/storage/volume/{id}/snapshot", OPERATE),
    (
        "DELETE",
        "/storage/volume/{id}/snapshot/{snapshot}",
        OPERATE,
    ),
    ("GET", "/backup", READ),
    ("POST", "/backup", OPERATE),
    ("GET", "/backup/{id}", READ),
    ("POST", "/backup/{id}/restore", ADMIN),
    ("POST", "/backup/{id}/verify", OPERATE),
    ("POST", "/backup/prune", ADMIN),
    ("GET", "/backup-schedule", READ),
    ("PUT", "/backup-schedule", ADMIN),
    ("GET", "/backup-schedule/{id}", READ),
    ("DELETE", "/backup-schedule/{id}", ADMIN),
    ("GET", "/project", READ),
    ("PUT", "/project", ADMIN),
    ("GET", "/project/{id}", READ),
    ("PATCH", "/project/{id}", ADMIN),
    ("DELETE", "/project/{id}", ADMIN),
    ("GET", "/secret", READ),
    ("PUT", "/secret", OPERATE),
    ("GET", "/secret/{id}", READ),
    ("PATCH", "/secret/{id}", OPERATE),
    ("DELETE", "/secret/{id}", OPERATE),
    ("GET", "/operation", READ),
    ("GET", "/operation/{id}", READ),
    ("DELETE", "/operation/{id}", OPERATE),
    ("GET", "/operation/{id}/log", READ),
    ("GET", "/event", READ),
    // Identities.
    ("GET", "/audit", ADMIN),
    ("GET", "/ca", ADMIN),
    ("POST", "/ca/rotate", ADMIN),
    ("POST", "/ca/activate", ADMIN),
    ("POST", "/ca/retire", ADMIN),
    ("GET", "/certificate", ADMIN),
    ("POST", "/certificate/revoke", ADMIN),
    ("GET", "/certificate/{id}", ADMIN),
    // Clusters. A viewer is let in to look, no further: the kubeconfig says
    // so to the cluster.
    ("GET", "/cluster", READ),
    ("PUT", "/cluster", OPERATE),
    ("GET", "/cluster/{id}", READ),
    ("DELETE", "/cluster/{id}", OPERATE),
    ("GET", "/cluster/{id}/node", READ),
    ("GET", "/cluster/{id}/pool", READ),
    ("PUT", "/cluster/{id}/pool", OPERATE),
    ("PATCH", "/cluster/{id}/pool/{pool}", OPERATE),
    ("DELETE", "/cluster/{id}/pool/{pool}", OPERATE),
    ("GET", "/cluster/{id}/upgrade", READ),
    ("POST", "/cluster/{id}/upgrade", OPERATE),
    ("POST", "/cluster/{id}/kubeconfig", READ),
    ("DELETE", "/cluster/{id}/kubeconfig", READ),
    ("GET", "/cluster/{id}/snapshot", READ),
    ("POST", "/cluster/{id}/snapshot", OPERATE),
    ("POST", "/cluster/{id}/restore", OPERATE),
    ("GET", "/kubernetes", READ),
    // The gateway of clusters, as published.
    ("POST", "/api/v1/cluster", OPERATE),
    ("GET", "/api/v1/cluster", OPERATE),
    ("DELETE", "/api/v1/cluster", OPERATE),
    ("GET", "/api/v1/cluster/list", READ),
    ("GET", "/api/v1/cluster/nodesstatus", READ),
    ("GET", "/api/v1/version", READ),
    ("POST", "/api/v1/cluster/pool", OPERATE),
    ("DELETE", "/api/v1/cluster/pool", OPERATE),
    ("PUT", "/api/v1/cluster/pool", OPERATE),
    ("GET", "/api/v1/cluster/upgrade", READ),
    ("PUT", "/api/v1/cluster/upgrade", OPERATE),
];

/// What a caller who is limited to some projects may call at all: whatever
/// looks at the project of what it touches, and what is of nobody.
pub(super) fn is_about_projects(method: &str) -> bool {
    const CALLS: [&str; 9] = [
        "/grpc.health.v1.Health/",
        "/grpc.reflection.v1.ServerReflection/",
        "/grpc.reflection.v1alpha.ServerReflection/",
        "/scheduler.InstanceService/",
        "/strata.v1.Instances/",
        "/strata.v1.Identity/WhoAmI",
        "GET /version",
        "GET /openapi.json",
        "GET /project",
    ];
    const ROUTES: [&str; 4] = ["/instance", "/workload", "/secret", "/event"];
    let path = method.split_once(' ').map_or("", |(_, path)| path);
    let below = |route: &str| {
        let rest = path.strip_prefix(route);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    CALLS.iter().any(|call| method.starts_with(call)) || ROUTES.iter().any(|route| below(route))
}
