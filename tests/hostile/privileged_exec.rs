//! What an admin let into the host is not entered by others.

use strata_testkit::cluster::Cluster;
use strata_testkit::pods::shell;
use strata_testkit::serde_json::json;
use strata_testkit::v1::{ExecInput, exec_input};
use strata_testkit::{Code, refused};

use super::project_world::{Caller, STRATA, project, run, script};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_does_not_run_commands_in_an_admins_privileged_instance() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    let mut dir = script(&cluster, "shop", "folder", "sleep 1000");
    dir["volumes"] = json!(["/etc:/host:ro"]);
    run(&cluster, dir).await;
    let mut capable = script(&cluster, "shop", "capable", "sleep 1000");
    capable["security"] = json!({ "addCapabilities": ["NET_ADMIN"] });
    run(&cluster, capable).await;
    run(&cluster, script(&cluster, "shop", "plain", "sleep 1000")).await;
    let limited = Caller::new(&cluster, "operator", &["shop"]).await;
    let unlimited = Caller::new(&cluster, "operator", &[]).await;
    let command = json!({ "command": ["/bin/busybox", "cat", "/host/shadow"] });
    for caller in [&limited, &unlimited] {
        for name in ["folder", "capable"] {
            let path = format!("/instance/id-{name}/exec");
            let answer = caller.call("POST", &path, command.clone()).await;
            assert_eq!(answer.status, 403, "{answer:?}");
        }
        let fine = json!({ "command": ["/bin/busybox", "true"] });
        let answer = caller.call("POST", "/instance/id-plain/exec", fine).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let admin = cluster.rest();
    let fine = json!({ "command": ["/bin/busybox", "true"] });
    let answer = admin.call("POST", "/instance/id-folder/exec", fine).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // By gRPC neither.
    let operator = cluster.credentials("operator", "olga").await;
    let client = cluster.client_with(&operator).await.unwrap();
    let start = ExecInput {
        input: Some(exec_input::Input::Start(shell(
            "id-folder",
            "cat /host/shadow",
        ))),
    };
    let asked = client.instances().exec(tokio_stream::iter([start])).await;
    refused(asked.map(drop), Code::PermissionDenied);
}
