//! What can be done with each path.

use serde_json::{Map, Value, json};

use super::operation::Operation;
use super::{audit, ca, certificates, clusters, estate, secrets};

/// Things that are known by id or name.
const THING: &str = "Its id, its name, or PROJECT/NAME with the slash written as %2F.";
const NAME: &str = "Its name.";

/// What the groups of operations are about.
pub(super) fn tags() -> Value {
    json!([
        { "name": "instance", "description": "Containers and virtual machines." },
        { "name": "workload", "description": "Templates of instances." },
        { "name": "node", "description": "Machines that run instances." },
        { "name": "operation", "description": "Long actions." },
        { "name": "project", "description": "Whose instances are whose, and how much each may have." },
        { "name": "machine", "description": "The inventory: machines that can be brought up." },
        { "name": "hypervisor", "description": "Machines that are brought up and taken down." },
        { "name": "storage", "description": "The pool: its devices and its volumes." },
        { "name": "backup", "description": "What is saved, and brought back." },
        { "name": "cluster", "description": "Kubernetes clusters made of machines." },
        { "name": "secret", "description": "Values that instances are given and nobody is shown." },
        { "name": "audit", "description": "Who was let in and who was refused, what was run, and how it ended." },
        { "name": "ca", "description": "The roots of the CA, and their rotation." },
        { "name": "certificate", "description": "Who was certified, and whose certificates are refused." },
        { "name": "event", "description": "What happened." },
    ])
}

/// All paths.
pub(super) fn all() -> Value {
    let mut paths = Map::new();
    let mut add = |path: &str, operations: Vec<(&str, Operation)>| {
        let operations = operations.into_iter();
        let operations = operations.map(|(verb, it)| (verb.to_owned(), it.build()));
        paths.insert(path.to_owned(), Value::Object(operations.collect()));
    };
    add("/instance/", instances());
    add("/instance/{id}", instance());
    let placement = Operation::new("instance", "explainInstance", "Why it is where it is")
        .one(THING)
        .takes(&["project"])
        .tells("Placement");
    add("/instance/{id}/placement", vec![("get", placement)]);
    let logs = Operation::new("instance", "readInstanceLogs", "What it wrote")
        .one(THING)
        .takes(&["project", "follow", "tail", "previous"])
        .writes()
        .unless_it_rests();
    add("/instance/{id}/logs", vec![("get", logs)]);
    let exec = Operation::new(
        "instance",
        "runInInstance",
        "Run a command in it, to its end",
    )
    .one(THING)
    .takes(&["project"])
    .body("ExecRequest")
    .tells("ExecResult")
    .unless_it_rests();
    add("/instance/{id}/exec", vec![("post", exec)]);
    add("/workload/", workloads());
    add("/workload/{id}", workload());
    let nodes = Operation::new("node", "listNodes", "Those there are")
        .takes(&["limit", "offset", "node state", "watch"])
        .lists("Node");
    add("/node/", vec![("get", nodes)]);
    add("/node/{id}", node());
    let drain = Operation::new("node", "drainNode", "Move its instances elsewhere")
        .one(NAME)
        .takes(&["Idempotency-Key"])
        .body("DrainRequest")
        .begins("Operation");
    add("/node/{id}/drain", vec![("post", drain)]);
    let take_over = |name: &str, says: &str| {
        Operation::new("node", name, says)
            .one(NAME)
            .takes(&["Idempotency-Key"])
            .no_body()
            .removes()
    };
    let adopt = take_over(
        "adoptInstances",
        "Take over what other control planes assigned to it",
    );
    add("/node/{id}/adopt", vec![("post", adopt)]);
    let forget = take_over(
        "forgetInstances",
        "Destroy what it has that no record is of",
    );
    add("/node/{id}/forget", vec![("post", forget)]);
    let list = Operation::new(
        "record",
        "listUnreadableRecords",
        "Records that this release cannot read, kept as they are",
    )
    .takes(&["limit", "offset"])
    .enumerates("UnreadableRecord");
    let delete = Operation::new("record", "deleteUnreadableRecord", "Delete one of them")
        .takes(&["record key", "Idempotency-Key"])
        .no_body()
        .if_there_is_any()
        .forgets();
    add(
        "/unreadable-record/",
        vec![("get", list), ("delete", delete)],
    );
    let operations = Operation::new("operation", "listOperations", "Those there are")
        .takes(&["limit", "offset", "operation state"])
        .lists("Operation");
    add("/operation/", vec![("get", operations)]);
    let show = Operation::new("operation", "getOperation", "One of them")
        .one("Its id.")
        .takes(&["watch"])
        .tells_on("Operation");
    let cancel = Operation::new("operation", "cancelOperation", "Undo what it did")
        .one("Its id.")
        .takes(&["Idempotency-Key"])
        .removes();
    add("/operation/{id}", vec![("get", show), ("delete", cancel)]);
    let log = Operation::new("operation", "readOperationLog", "What happened in it")
        .one("Its id.")
        .lists("OperationLine");
    add("/operation/{id}/log", vec![("get", log)]);
    add("/project/", projects());
    add("/project/{id}", project());
    let events = Operation::new(
        "event",
        "listEvents",
        "What happened lately, the oldest first",
    )
    .takes(&["limit", "offset", "project", "kind", "after", "watch"])
    .lists("Event");
    add("/event/", vec![("get", events)]);
    let seams = [
        estate::machines(),
        estate::hypervisors(),
        estate::storage(),
        estate::volumes(),
        estate::backups(),
        clusters::paths(),
        certificates::paths(),
        secrets::paths(),
        audit::paths(),
        ca::paths(),
    ];
    for (path, operations) in seams.into_iter().flatten() {
        add(path, operations);
    }
    Value::Object(paths)
}

fn instances() -> Vec<(&'static str, Operation)> {
    let list = Operation::new("instance", "listInstances", "Those there are")
        .takes(&[
            "limit", "offset", "type", "state", "project", "node", "workload", "watch",
        ])
        .lists("Instance");
    let create = Operation::new("instance", "createInstance", "Make one")
        .takes(&["new project", "Idempotency-Key"])
        .body("NewInstance")
        .makes("Instance");
    vec![("get", list), ("put", create)]
}

fn instance() -> Vec<(&'static str, Operation)> {
    let show = Operation::new("instance", "getInstance", "One of them")
        .one(THING)
        .takes(&["project", "watch", "If-None-Match"])
        .shows("Instance");
    let update = Operation::new("instance", "updateInstance", "Change, start or stop it")
        .one(THING)
        .takes(&["project", "If-Match", "Idempotency-Key"])
        .body("InstancePatch")
        .changes("Instance");
    let delete = Operation::new("instance", "deleteInstance", "Make it go")
        .one(THING)
        .takes(&["project", "force", "If-Match", "Idempotency-Key"])
        .removes();
    vec![("get", show), ("patch", update), ("delete", delete)]
}

fn workloads() -> Vec<(&'static str, Operation)> {
    let list = Operation::new("workload", "listWorkloads", "Those there are")
        .takes(&["limit", "offset", "type", "project", "watch"])
        .lists("Workload");
    let create = Operation::new("workload", "createWorkload", "Make one")
        .takes(&["new project", "Idempotency-Key"])
        .body("NewWorkload")
        .makes("Workload");
    vec![("get", list), ("put", create)]
}

fn workload() -> Vec<(&'static str, Operation)> {
    let show = Operation::new("workload", "getWorkload", "One of them")
        .one(THING)
        .takes(&["project", "watch", "If-None-Match"])
        .shows("Workload");
    let update = Operation::new(
        "workload",
        "updateWorkload",
        "Change it; its instances stay",
    )
    .one(THING)
    .takes(&["project", "If-Match", "Idempotency-Key"])
    .body("WorkloadPatch")
    .changes("Workload");
    let delete = Operation::new("workload", "deleteWorkload", "Make it go")
        .one(THING)
        .takes(&["project", "cascade", "If-Match", "Idempotency-Key"])
        .removes();
    vec![("get", show), ("patch", update), ("delete", delete)]
}

fn node() -> Vec<(&'static str, Operation)> {
    let show = Operation::new("node", "getNode", "One of them")
        .one(NAME)
        .takes(&["watch", "If-None-Match"])
        .shows("Node");
    let update = Operation::new("node", "updateNode", "Label it, empty it, open it again")
        .one(NAME)
        .takes(&["If-Match", "Idempotency-Key"])
        .body("NodePatch")
        .changes("Node");
    let leave = Operation::new("node", "deleteNode", "Empty it, then forget it")
        .one(NAME)
        .takes(&["If-Match", "Idempotency-Key"])
        .removes();
    vec![("get", show), ("patch", update), ("delete", leave)]
}

fn projects() -> Vec<(&'static str, Operation)> {
    let list = Operation::new("project", "listProjects", "Those there are")
        .takes(&["limit", "offset", "watch"])
        .lists("Project");
    let create = Operation::new("project", "createProject", "Make one")
        .takes(&["Idempotency-Key"])
        .body("NewProject")
        .makes("Project");
    vec![("get", list), ("put", create)]
}

fn project() -> Vec<(&'static str, Operation)> {
    let show = Operation::new("project", "getProject", "One of them")
        .one(NAME)
        .takes(&["watch", "If-None-Match"])
        .shows("Project");
    let update = Operation::new("project", "updateProject", "Give it another quota")
        .one(NAME)
        .takes(&["If-Match", "Idempotency-Key"])
        .body("ProjectPatch")
        .changes("Project");
    let delete = Operation::new("project", "deleteProject", "Remove it when it is empty")
        .one(NAME)
        .takes(&["If-Match", "Idempotency-Key"])
        .removes();
    vec![("get", show), ("patch", update), ("delete", delete)]
}
