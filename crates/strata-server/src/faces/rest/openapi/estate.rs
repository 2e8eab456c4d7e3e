//! What can be done with machines, with the storage pool and with backups.

use super::operation::Operation;

const NAME: &str = "Its name.";
const MACHINE: &str = "Its id.";
const BACKUP: &str = "Its id or the beginning of it; `latest` is the latest.";
const VOLUME: &str = "The name of the volume.";

/// A path, and what each verb does there.
type Path = (&'static str, Vec<(&'static str, Operation)>);

/// Something long that is begun, and for which `Idempotency-Key` counts.
fn begun(tag: &str, name: &str, says: &str) -> Operation {
    Operation::new(tag, name, says).takes(&["Idempotency-Key"])
}

/// Machines, and the hypervisors they become.
pub(super) fn machines() -> Vec<Path> {
    let list = Operation::new("machine", "listMachines", "Those there are")
        .takes(&["limit", "offset", "watch"])
        .lists("Machine");
    let add = Operation::new("machine", "addMachine", "Add one to the inventory")
        .takes(&["Idempotency-Key"])
        .body("NewMachine")
        .makes("Machine");
    let show = Operation::new("machine", "getMachine", "One of them")
        .one(MACHINE)
        .takes(&["watch", "If-None-Match"])
        .shows("Machine");
    let update = Operation::new(
        "machine",
        "updateMachine",
        "Say something else of it; while it is in use, only its labels",
    )
    .one(MACHINE)
    .takes(&["If-Match", "Idempotency-Key"])
    .body("MachinePatch")
    .changes("Machine");
    let remove = Operation::new("machine", "removeMachine", "Forget one that is down")
        .one(MACHINE)
        .takes(&["If-Match", "Idempotency-Key"])
        .removes();
    let power = begun("machine", "switchMachine", "Switch it by hand")
        .one(MACHINE)
        .body("PowerRequest")
        .begins("Operation");
    let console = Operation::new(
        "machine",
        "readMachineConsole",
        "What it prints on its console, until the reader leaves",
    )
    .one(MACHINE)
    .writes()
    .unless_it_rests();
    vec![
        ("/machine/", vec![("get", list), ("put", add)]),
        (
            "/machine/{id}",
            vec![("get", show), ("patch", update), ("delete", remove)],
        ),
        ("/machine/{id}/power", vec![("post", power)]),
        ("/machine/{id}/console", vec![("get", console)]),
    ]
}

/// Hypervisors, and what brings them up and down by itself.
pub(super) fn hypervisors() -> Vec<Path> {
    let list = Operation::new(
        "hypervisor",
        "listHypervisors",
        "All machines: each is one, or can become one",
    )
    .takes(&["limit", "offset", "watch"])
    .lists("Machine");
    let show = Operation::new("hypervisor", "getHypervisor", "One of them")
        .one(MACHINE)
        .takes(&["watch", "If-None-Match"])
        .shows("Machine");
    let create = begun("hypervisor", "createHypervisor", "Bring it up")
        .one(MACHINE)
        .no_body()
        .begins("Operation");
    let destroy = begun(
        "hypervisor",
        "destroyHypervisor",
        "Take it down and wipe it, without moving anything first",
    )
    .one(MACHINE)
    .no_body()
    .begins("Operation");
    let drain = begun(
        "hypervisor",
        "drainHypervisor",
        "Move its instances elsewhere, and take it down then if asked",
    )
    .one(MACHINE)
    .body("HypervisorDrain")
    .begins("Operation");
    let settings = Operation::new(
        "hypervisor",
        "getAutoscaling",
        "What the autoscaler goes by",
    )
    .tells("Autoscaling");
    let set = Operation::new(
        "hypervisor",
        "updateAutoscaling",
        "Have the autoscaler go by something else",
    )
    .takes(&["Idempotency-Key"])
    .body("AutoscalingPatch")
    .tells("Autoscaling");
    let plan = Operation::new(
        "hypervisor",
        "planAutoscaling",
        "What the autoscaler would do now, and why",
    )
    .tells("AutoscalePlan");
    vec![
        ("/hypervisor/", vec![("get", list)]),
        ("/hypervisor/{id}", vec![("get", show)]),
        ("/hypervisor/{id}/create", vec![("post", create)]),
        ("/hypervisor/{id}/destroy", vec![("post", destroy)]),
        ("/hypervisor/{id}/drain", vec![("post", drain)]),
        ("/autoscaling", vec![("get", settings), ("patch", set)]),
        ("/autoscaling/plan", vec![("get", plan)]),
    ]
}

/// The pool and its devices.
pub(super) fn storage() -> Vec<Path> {
    let show = Operation::new("storage", "getStorage", "How it is")
        .tells("Pool")
        .if_there_is_any();
    let expand = begun(
        "storage",
        "expandStorage",
        "Make it larger by at least so much",
    )
    .takes(&["dryRun"])
    .body("ExpandRequest")
    .plans("ExpandPlan")
    .begins("Operation")
    .if_there_is_any();
    let shrink = begun(
        "storage",
        "shrinkStorage",
        "Make it smaller by at most so much",
    )
    .takes(&["dryRun"])
    .body("ShrinkRequest")
    .plans("ShrinkPlan")
    .begins("Operation")
    .if_there_is_any();
    let scrub = begun(
        "storage",
        "scrubStorage",
        "Read everything, and mend what can be",
    )
    .no_body()
    .begins("Operation");
    let add = begun("storage", "addStorageDevice", "Add a spare")
        .body("NewDevice")
        .adds("PoolDevice")
        .if_there_is_any();
    let remove = begun("storage", "removeStorageDevice", "Take a spare away")
        .one(NAME)
        .removes();
    let replace = begun(
        "storage",
        "replaceStorageDevice",
        "Put a spare in the place of one that fails or is gone",
    )
    .one(NAME)
    .body("ReplaceRequest")
    .begins("Operation")
    .if_there_is_any();
    vec![
        ("/storage", vec![("get", show)]),
        ("/storage/expand", vec![("post", expand)]),
        ("/storage/shrink", vec![("post", shrink)]),
        ("/storage/scrub", vec![("post", scrub)]),
        ("/storage/device", vec![("put", add)]),
        ("/storage/device/{id}", vec![("delete", remove)]),
        ("/storage/device/{id}/replace", vec![("post", replace)]),
    ]
}

/// Volumes of the pool.
pub(super) fn volumes() -> Vec<Path> {
    let list = Operation::new("storage", "listVolumes", "Those there are")
        .takes(&["limit", "offset"])
        .enumerates("PoolVolume")
        .if_there_is_any();
    let create = begun("storage", "createVolume", "Make one, new or as a copy")
        .body("NewPoolVolume")
        .adds("PoolVolume")
        .finds("PoolVolume")
        .if_there_is_any();
    let show = Operation::new("storage", "getVolume", "One of them")
        .one(NAME)
        .tells("PoolVolume")
        .if_there_is_any();
    let update = begun("storage", "updateVolume", "Let it hold more, or less")
        .one(NAME)
        .body("PoolVolumePatch")
        .tells("PoolVolume")
        .if_there_is_any();
    let remove = begun("storage", "removeVolume", "Remove it and its snapshots")
        .one(NAME)
        .removes();
    let snapshot = begun("storage", "snapshotVolume", "Keep it as it is now")
        .one(VOLUME)
        .body("NewSnapshot")
        .tells("PoolVolume")
        .if_there_is_any();
    let forget = begun("storage", "removeSnapshot", "Remove a snapshot")
        .part("snapshot", "The name of the snapshot.")
        .one(VOLUME)
        .removes();
    vec![
        ("/storage/volume/", vec![("get", list), ("put", create)]),
        (
            "/storage/volume/{id}",
            vec![("get", show), ("patch", update), ("delete", remove)],
        ),
        ("/storage/volume/{id}/snapshot", vec![("put", snapshot)]),
        (
            "/storage/volume/{id}/snapshot/{snapshot}",
            vec![("delete", forget)],
        ),
    ]
}

/// Backups, and when they are made.
pub(super) fn backups() -> Vec<Path> {
    let list = Operation::new("backup", "listBackups", "Those there are")
        .takes(&["limit", "offset"])
        .enumerates("Backup")
        .if_there_is_any();
    let create = begun("backup", "createBackup", "Make one, and look at it again")
        .body("NewBackup")
        .begins("Operation");
    let show = Operation::new("backup", "getBackup", "One of them")
        .one(BACKUP)
        .tells("Backup")
        .if_there_is_any();
    let restore = begun("backup", "restoreBackup", "Bring volumes back, or one file")
        .one(BACKUP)
        .body("RestoreRequest")
        .begins("Operation");
    let verify = begun("backup", "verifyBackup", "See whether it can be restored")
        .one(BACKUP)
        .body("VerifyRequest")
        .begins("Operation");
    let prune = begun("backup", "pruneBackups", "Forget what no rule keeps")
        .takes(&["dryRun"])
        .body("PruneRequest")
        .plans("PrunePlan")
        .begins("Operation");
    let schedules = Operation::new("backup", "listBackupSchedules", "Those there are")
        .takes(&["limit", "offset"])
        .enumerates("BackupSchedule");
    let put = begun(
        "backup",
        "putBackupSchedule",
        "Make one, or give it another time",
    )
    .body("BackupSchedule")
    .tells("BackupSchedule");
    let show_schedule = Operation::new("backup", "getBackupSchedule", "One of them")
        .one(NAME)
        .tells("BackupSchedule");
    let end = begun("backup", "removeBackupSchedule", "End it; its backups stay")
        .one(NAME)
        .removes();
    vec![
        ("/backup/", vec![("get", list), ("post", create)]),
        ("/backup/prune", vec![("post", prune)]),
        ("/backup/{id}", vec![("get", show)]),
        ("/backup/{id}/restore", vec![("post", restore)]),
        ("/backup/{id}/verify", vec![("post", verify)]),
        ("/backup-schedule/", vec![("get", schedules), ("put", put)]),
        (
            "/backup-schedule/{id}",
            vec![("get", show_schedule), ("delete", end)],
        ),
    ]
}
