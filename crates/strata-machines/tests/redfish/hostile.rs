//! Against BMCs that were taken over: their links lead nowhere, and what they
//! send is bounded.

use std::time::Duration;

use serde_json::json;
use strata_machines::{Provider as _, ProviderError};

use super::served::{Served, json as answer, text};
use super::{boot, config, driver, optional, target};

const SYSTEM: &str = "/redfish/v1/Systems/1";

#[tokio::test]
async fn credentials_do_not_follow_bmc_redirects() {
    let trap = Served::new(|_| text(200, "{}")).await;
    let elsewhere = trap.url.clone();
    for kind in ["member", "action", "media", "redirect", "task", "next"] {
        let evil = elsewhere.clone();
        let bmc = Served::new(move |asked| {
            let there = format!("{evil}/steal");
            match (&*asked.method, asked.path.as_str()) {
                (_, "/redfish/v1/") => answer(200, &json!({})),
                (_, "/redfish/v1/Systems") if kind == "next" => answer(
                    200,
                    &json!({
                        "Members": [], "Members@odata.nextLink": there,
                    }),
                ),
                (_, "/redfish/v1/Systems") => {
                    let member = if kind == "member" { &there } else { SYSTEM };
                    answer(200, &json!({ "Members": [{ "@odata.id": member }] }))
                }
                ("GET", SYSTEM) if kind == "redirect" => {
                    Some((307, vec![("location", there)], String::new()))
                }
                ("GET", SYSTEM) => {
                    let action = if kind == "action" { &there } else { "/reset" };
                    let media = if kind == "media" { &there } else { "/media" };
                    answer(
                        200,
                        &json!({
                            "PowerState": "On",
                            "VirtualMedia": { "@odata.id": media },
                            "Actions": { "#ComputerSystem.Reset": { "target": action } },
                        }),
                    )
                }
                ("POST", "/reset") if kind == "task" => {
                    Some((202, vec![("location", there)], String::new()))
                }
                _ => text(400, ""),
            }
        })
        .await;
        let mut config = optional(config(&bmc.url));
        config.limits.call = Duration::from_secs(2);
        let driver = driver(config);
        let machine = target(&bmc.url, "");
        assert!(driver.boot(&machine, &boot()).await.is_err(), "{kind}");
        let _ = driver.wipe(&machine).await;
        assert!(trap.log().is_empty(), "{kind}: {:?}", trap.log());
    }
}

#[tokio::test]
async fn bmc_response_size_is_bounded() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("{{\"PowerState\": \"{}\"}}", "x".repeat(5 << 20));
    for body in [deep, long, "null".into(), "{".into(), String::new()] {
        let shown = body.clone();
        let bmc = Served::new(move |_| text(200, &shown)).await;
        let driver = driver(config(&bmc.url));
        let why = driver
            .power_state(&target(&bmc.url, SYSTEM))
            .await
            .unwrap_err();
        assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
        assert!(why.to_string().len() < 600, "{why}");
    }
    // Its error is shown without what would spoil a terminal.
    let said = json!({ "error": { "message": "no\u{1b}[31m\r\n way ".repeat(100) } });
    let bmc = Served::new(move |_| answer(400, &said)).await;
    let why = driver(config(&bmc.url));
    let why = why
        .power_state(&target(&bmc.url, SYSTEM))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        !why.contains(char::is_control) && why.len() < 500,
        "{why:?}"
    );
}

#[tokio::test]
async fn silent_bmc_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut config = config(&url);
    config.limits.request = Duration::from_millis(200);
    let why = driver(config)
        .power_state(&target(&url, SYSTEM))
        .await
        .unwrap_err();
    assert!(why.is_transient(), "{why:?}");
}

#[tokio::test]
async fn credentials_are_sent_to_their_bmc_over_tls_only() {
    let bmc = Served::new(|_| answer(200, &json!({ "PowerState": "On" }))).await;
    let machine = target(&bmc.url, SYSTEM);
    let mut config = config("https://10.0.0.9");
    let why = driver(config.clone())
        .power_state(&machine)
        .await
        .unwrap_err();
    assert!(why.to_string().contains("not for"), "{why}");
    let credentials = config.credentials.get_mut("rack").unwrap();
    credentials.addresses.clear();
    credentials.insecure = false;
    let why = driver(config.clone())
        .power_state(&machine)
        .await
        .unwrap_err();
    assert!(why.to_string().contains("without TLS"), "{why}");
    let mut unknown = machine.clone();
    unknown.spec.credentials = "nobody".into();
    let why = driver(config.clone())
        .power_state(&unknown)
        .await
        .unwrap_err();
    assert!(why.to_string().contains("no credentials"), "{why}");
    assert!(bmc.log().is_empty());
    let shown = format!("{config:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}
