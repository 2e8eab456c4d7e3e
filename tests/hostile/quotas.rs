//! Quotas hold: who asks for nothing does not get everything.

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json;
use strata_testkit::serde_json::{Value, json};

use super::project_world::{Caller, STRATA, project, run, script};

async fn used(cluster: &Cluster, name: &str) -> Value {
    let project = cluster.rest().get(&format!("/project/{name}")).await;
    project["used"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn unset_is_not_unlimited_inside_a_quota() {
    let cluster = Cluster::start(STRATA, 1).await;
    let rest = cluster.rest();
    let quota = json!({ "memory": 32 });
    project(&cluster, json!({ "name": "tiny", "quota": quota })).await;
    let plain = |project: &str, name: &str| script(&cluster, project, name, "sleep 1000");
    // The default does not fit, and that is said.
    let refused = rest.call("PUT", "/instance", plain("tiny", "greedy")).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.body.contains("default"), "{refused:?}");
    // By a workload neither.
    let mut template = plain("tiny", "template");
    template.as_object_mut().unwrap().remove("id");
    let made = rest.call("PUT", "/workload", template).await;
    assert!(made.status < 300, "{made:?}");
    let of = json!({ "workloadId": "template", "project": "tiny", "name": "w" });
    let refused = rest.call("PUT", "/instance", of).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    // Nor by the published service, whose project is the default one.
    rest.patch("/project/default", json!({ "quota": { "memory": 32 } }))
        .await;
    let created = cluster.create(cluster.instance("seed")).await;
    assert!(created.is_err());
    rest.patch("/project/default", json!({ "quota": { "memory": null } }))
        .await;

    // A default of the project fits, is counted, and is the kernel's limit.
    rest.patch("/project/tiny", json!({ "defaults": { "memory": 30 } }))
        .await;
    let hog = "exec tail /dev/zero";
    let mut hungry = script(&cluster, "tiny", "hungry", hog);
    hungry["restart"] = json!("never");
    let answer = rest.call("PUT", "/instance", hungry.clone()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let made: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(made["resources"]["max"]["memory"], 30);
    assert_eq!(used(&cluster, "tiny").await["memory"], 30);
    // The same again is the same, and there is no room for more.
    let again = rest.call("PUT", "/instance", hungry).await;
    assert_eq!(again.status, 200, "{again:?}");
    let refused = rest.call("PUT", "/instance", plain("tiny", "more")).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let killed = |one: &Value| one["description"].to_string().contains("out of memory");
    cluster.instance_until("id-hungry", killed).await;
    let (_, pod) = cluster.places("id-hungry").await.remove(0);
    let limits = pod.spec.unwrap().limits.unwrap();
    assert_eq!(limits.memory_bytes, Some(30_000_000));
    assert_eq!(limits.pids, Some(4096));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_and_a_start_do_not_slip_out_of_a_quota() {
    let cluster = Cluster::start(STRATA, 1).await;
    let rest = cluster.rest();
    project(&cluster, json!({ "name": "shop" })).await;
    let before = script(&cluster, "shop", "before", "sleep 1000");
    let before = run(&cluster, before).await;
    assert_eq!(
        before["resources"]["max"]["memory"], 0,
        "no quota, no limit"
    );
    rest.patch("/instance/id-before", json!({ "status": "STOPPED" }))
        .await;
    cluster.settles(&[], &["id-before"]).await;
    let quota = json!({ "memory": 300, "pids": 5000, "disk": 10 });
    rest.patch("/project/shop", json!({ "quota": quota })).await;
    // It comes back with the limits that the quota asks for.
    let started = rest
        .patch("/instance/id-before", json!({ "status": "RUNNING" }))
        .await;
    assert_eq!(started["resources"]["max"]["memory"], 256);
    assert_eq!(started["pids"], 4096);
    // Nor does taking the amount out again help.
    let none = json!({ "resources": { "memory": 0 } });
    let changed = rest.patch("/instance/id-before", none).await;
    assert_eq!(changed["resources"]["max"]["memory"], 256);
    let more = json!({ "resources": { "memory": 400 } });
    let refused = rest.call("PATCH", "/instance/id-before", more).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let more = json!({ "pids": 6000 });
    let refused = rest.call("PATCH", "/instance/id-before", more).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    // Volumes of memory are memory.
    let tmpfs = json!({ "volumes": ["memory=280:/cache"] });
    let refused = rest.call("PATCH", "/instance/id-before", tmpfs).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let used = used(&cluster, "shop").await;
    assert_eq!((&used["memory"], &used["disk"]), (&json!(256), &json!(4)));
}

/// A volume of a node has no size, and outlives the instance that made it.
#[tokio::test(flavor = "multi_thread")]
async fn quota_of_disk_is_not_left_by_volumes() {
    let cluster = Cluster::start(STRATA, 1).await;
    let rest = cluster.rest();
    project(&cluster, json!({ "name": "shop" })).await;
    let operator = Caller::new(&cluster, "operator", &["shop"]).await;
    let with = |name: &str, volumes: &[&str]| {
        json!({
            "id": format!("id-{name}"), "name": name, "project": "shop", "status": "STOPPED",
            "uri": "127.0.0.1:1/x:v1", "volumes": volumes,
        })
    };
    // Without a quota of disk it may, and what it has it keeps.
    let before = with("before", &["data:/data"]);
    let made = operator.call("PUT", "/instance", before).await;
    assert_eq!(made.status, 201, "{made:?}");
    rest.patch("/project/shop", json!({ "quota": { "disk": 100 } }))
        .await;
    let refused = operator
        .call("PUT", "/instance", with("new", &["more:/data"]))
        .await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("volumes[0]"), "{refused:?}");
    let path = "/instance/id-before";
    let more = json!({ "volumes": ["data:/data", "more:/more"] });
    let refused = operator.call("PATCH", path, more).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let kept = json!({ "labels": { "a": "b" } });
    let changed = operator.call("PATCH", path, kept).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    // By a workload neither; in memory, and by an admin, it can.
    let mut template = with("template", &["more:/data"]);
    for field in ["id", "status"] {
        template.as_object_mut().unwrap().remove(field);
    }
    operator.call("PUT", "/workload", template).await;
    let of = json!({ "workloadId": "template", "project": "shop", "name": "w" });
    let refused = operator.call("PUT", "/instance", of).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let memory = with("memory", &["memory=16:/data"]);
    let made = operator.call("PUT", "/instance", memory).await;
    assert_eq!(made.status, 201, "{made:?}");
    let admins = with("admins", &["more:/data"]);
    let made = rest.call("PUT", "/instance", admins).await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_of_limited_callers_are_bounded() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    let operator = Caller::new(&cluster, "operator", &["shop"]).await;
    let body = json!({ "name": "x", "project": "shop", "uri": "127.0.0.1:1/x:v1" });
    let made = operator.call("PUT", "/instance", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made: Value = serde_json::from_str(&made.body).unwrap();
    assert_eq!(made["resources"]["max"]["disk"], 4);
    // Nor does naming more processes than the default help.
    let body = json!({
        "name": "y", "project": "shop", "uri": "127.0.0.1:1/x:v1", "pids": 4_000_000,
    });
    let refused = operator.call("PUT", "/instance", body).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    // An operator of the project does not change what bounds it.
    let patch = json!({ "defaults": { "disk": 1000 } });
    let refused = operator.call("PATCH", "/project/shop", patch).await;
    assert_eq!(refused.status, 403, "{refused:?}");
}
