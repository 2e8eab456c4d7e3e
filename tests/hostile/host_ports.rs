//! Ports of the host are not for callers who are limited to projects, where
//! they are those of its own services.

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json::{Value, json};

use super::project_world::{Caller, STRATA, project};

fn with_port(name: &str, port: &str) -> Value {
    json!({
        "name": name,
        "project": "shop",
        "uri": "127.0.0.1:1/x:v1",
        "status": "STOPPED",
        "ports": [port],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_operator_takes_no_port_of_the_hosts_own() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    let operator = Caller::new(&cluster, "operator", &["shop"]).await;
    for port in [
        "22:22",
        "53:53/udp",
        "1023:80",
        "127.0.0.1:25:25",
        "4789:9/udp",
        "7700:80",
        "7710:80",
        "51820:9/udp",
    ] {
        let answer = operator
            .call("PUT", "/instance", with_port("a", port))
            .await;
        assert_eq!(answer.status, 403, "{port}: {answer:?}");
    }
    let made = operator
        .call("PUT", "/instance", with_port("b", "8080:80"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    // Neither by a change nor by a workload.
    let patch = json!({ "ports": ["8080:80", "22:22"] });
    let answer = operator
        .call("PATCH", "/instance/shop%2Fb", patch.clone())
        .await;
    let answer = match answer.status {
        404 => {
            let path = "/instance/b?project=shop";
            operator.call("PATCH", path, patch).await
        }
        _ => answer,
    };
    assert_eq!(answer.status, 403, "{answer:?}");
    let mut template = with_port("template", "22:22");
    template.as_object_mut().unwrap().remove("status");
    operator.call("PUT", "/workload", template).await;
    let of = json!({ "workloadId": "template", "project": "shop", "name": "c" });
    let answer = operator.call("PUT", "/instance", of).await;
    assert!([403, 404].contains(&answer.status), "{answer:?}");
    // Where an admin allows it, they may; an admin always may.
    let rest = cluster.rest();
    let admins = rest.call("PUT", "/instance", with_port("d", "23:23")).await;
    assert_eq!(admins.status, 201, "{admins:?}");
    rest.patch("/project/shop", json!({ "privilegedPorts": true }))
        .await;
    let made = operator
        .call("PUT", "/instance", with_port("e", "22:22"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_one_name_have_keys_of_their_own() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    let one = Caller::new(&cluster, "operator", &["shop"]).await;
    let other = Caller::new(&cluster, "operator", &["shop"]).await;
    let key = [("idempotency-key", "k1")];
    let first = one
        .call_with("PUT", "/instance", &key, with_port("a", "8080:80"))
        .await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = one
        .call_with("PUT", "/instance", &key, with_port("a", "8080:80"))
        .await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    // Another token of the same name, role and project is another caller.
    let second = other
        .call_with("PUT", "/instance", &key, with_port("b", "8081:80"))
        .await;
    assert_eq!(second.status, 201, "{second:?}");
}
