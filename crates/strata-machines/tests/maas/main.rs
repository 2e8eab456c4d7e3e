//! The MAAS driver, against a region that is simulated: its protocol as MAAS's
//! own clients speak it, with answers that get lost. It was not tested against
//! a real MAAS.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod region;
#[path = "../served/mod.rs"]
mod served;

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use strata_machines::maas::{Maas, MaasConfig, MaasCredentials, MaasLimits};
use strata_machines::{Boot, Power, Provider as _, ProviderError, Secret, Tag, Target};
use strata_types::machine::{MachineSpec, PowerState, ProviderKind};

use region::{Fault, Region};
use served::Served;

fn driver(served: &Served) -> Maas {
    let credentials = MaasCredentials {
        address: format!("{}/MAAS", served.url),
        api_key: Secret::new("con:tok:sec"),
        api_key_file: None,
        ca_file: None,
        insecure: true,
    };
    Maas::new(MaasConfig {
        credentials: [("lab".to_owned(), credentials)].into(),
        binary_url: "http://10.0.0.1/strata".into(),
        binary_sha256: "ab".repeat(32),
        distro_series: Some("jammy".into()),
        erase: true,
        server: None,
        limits: MaasLimits {
            pause: Duration::from_millis(2),
            call: Duration::from_secs(10),
            wait: Duration::from_secs(10),
            ..MaasLimits::default()
        },
    })
}

fn target(handle: &str) -> Target {
    Target {
        tag: Tag {
            run: "test".into(),
            machine: "m1".parse().unwrap(),
        },
        spec: MachineSpec {
            provider: ProviderKind::Maas,
            handle: handle.into(),
            address: String::new(),
            credentials: "lab".into(),
            cpu: None,
            ram: None,
            disk: None,
            labels: BTreeMap::new(),
        },
    }
}

fn boot(token: &str) -> Boot {
    Boot {
        server: "https://10.0.0.1:7700".into(),
        join_token: Secret::new(token),
        labels: [("zone".to_owned(), "a \"b\"".to_owned())].into(),
    }
}

#[tokio::test]
async fn maas_machine_is_allocated_deployed_switched_and_released() {
    let region = Region::new(&[("aaa111", &[]), ("bbb222", &["big"])]);
    let served = region.serve().await;
    let (driver, machine) = (driver(&served), target("tag:big"));
    driver.boot(&machine, &boot("t1")).await.unwrap();
    let taken = region.get("bbb222");
    assert_eq!(
        (taken.status, taken.agent.as_str()),
        ("Deploying", "strata-test-m1")
    );
    assert_eq!(taken.data["strata-tag"], "strata-test-m1");
    let form = &taken.deployed[0];
    assert_eq!(form["distro_series"], "jammy");
    let reported = base64::prelude::BASE64_STANDARD
        .decode(&form["user_data"])
        .unwrap();
    let reported = String::from_utf8(reported).unwrap();
    let document = reported.strip_prefix("#cloud-config\n").unwrap();
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    let file = |at: usize| document["write_files"][at]["content"].as_str().unwrap();
    assert!(file(0).contains("STRATA_JOIN_TOKEN=t1\nSTRATA_SERVER=https://10.0.0.1:7700\n"));
    assert_eq!(document["write_files"][0]["permissions"], "0600");
    assert_eq!(file(1), "[node.labels]\n\"zone\" = \"a \\\"b\\\"\"\n");
    assert_eq!(document["runcmd"][0][2], "ab".repeat(32));

    // Called again, the same boot is the same deployment.
    driver.boot(&machine, &boot("t1")).await.unwrap();
    region.set("bbb222", |machine| machine.status = "Deployed");
    driver.boot(&machine, &boot("t1")).await.unwrap();
    assert_eq!(region.get("bbb222").deployed.len(), 1);
    let up = driver.wait(&machine).await.unwrap();
    assert_eq!(up.address.as_deref(), Some("10.1.0.7"));

    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::On));
    driver.power(&machine, Power::Off).await.unwrap();
    driver.power(&machine, Power::Off).await.unwrap();
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::Off));
    driver.power(&machine, Power::Cycle).await.unwrap();
    assert!(region.get("bbb222").on);

    let found = driver.discover().await.unwrap();
    let seen = found.iter().find(|found| found.handle == "bbb222").unwrap();
    assert_eq!(seen.tag, Some(machine.tag.clone()));
    assert_eq!((seen.cpu, seen.ram), (Some(8), Some(17179)));

    // Erasing takes some polls.
    region.set("bbb222", |machine| machine.slow = 5);
    driver.wipe(&machine).await.unwrap();
    let back = region.get("bbb222");
    assert_eq!(
        (back.status, back.owner, back.released.len()),
        ("Ready", None, 1)
    );
    assert_eq!(back.released[0]["erase"], "true");
    driver.wipe(&machine).await.unwrap();
    assert_eq!(region.get("bbb222").released.len(), 1);
    assert_eq!(region.get("aaa111").status, "Ready");
}

#[tokio::test]
async fn allocation_with_a_lost_response_is_found_again() {
    for operation in ["allocate", "set_owner_data", "deploy"] {
        let region = Region::new(&[("aaa111", &["big"]), ("bbb222", &["big"])]);
        let served = region.serve().await;
        let (driver, machine) = (driver(&served), target("tag:big"));
        region.fail(operation, Fault::Lost);
        let lost = driver.boot(&machine, &boot("t1")).await.unwrap_err();
        assert!(lost.is_transient(), "{operation}: {lost:?}");
        driver.boot(&machine, &boot("t1")).await.unwrap();
        let (one, other) = (region.get("aaa111"), region.get("bbb222"));
        assert_eq!(one.deployed.len(), 1, "{operation}");
        assert_eq!(other.status, "Ready", "{operation}: nothing is leaked");
        driver.wipe(&machine).await.unwrap();
        assert_eq!(region.get("aaa111").status, "Ready");
    }
}

#[tokio::test]
async fn duplicate_allocation_is_released() {
    let region = Region::new(&[("aaa111", &[]), ("bbb222", &[])]);
    let served = region.serve().await;
    for id in ["aaa111", "bbb222"] {
        region.set(id, |machine| {
            (machine.status, machine.owner) = ("Allocated", Some("strata"));
            machine.agent = "strata-test-m1".into();
        });
    }
    driver(&served)
        .boot(&target("aaa111"), &boot("t1"))
        .await
        .unwrap();
    assert_eq!(region.get("aaa111").status, "Deploying");
    assert_eq!(region.get("bbb222").status, "Ready");
}

#[tokio::test]
async fn newer_boot_replaces_an_older_deployment() {
    let region = Region::new(&[("aaa111", &[])]);
    let served = region.serve().await;
    let (driver, machine) = (driver(&served), target("aaa111"));
    driver.boot(&machine, &boot("t1")).await.unwrap();
    let again = driver.boot(&machine, &boot("t2")).await.unwrap_err();
    assert!(again.is_transient(), "{again:?}");
    driver.boot(&machine, &boot("t2")).await.unwrap();
    assert_eq!(region.get("aaa111").deployed.len(), 2);
}

#[tokio::test]
async fn maas_refusal_has_a_hint() {
    let region = Region::new(&[("aaa111", &["small"])]);
    let served = region.serve().await;
    let driver = driver(&served);
    let why = driver
        .boot(&target("tag:big"), &boot("t1"))
        .await
        .unwrap_err();
    assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
    assert!(
        why.to_string()
            .contains("no ready machine with the tag big"),
        "{why}"
    );

    let why = driver
        .boot(&target("zzz999"), &boot("t1"))
        .await
        .unwrap_err();
    assert!(matches!(why, ProviderError::NoSuchMachine(_)), "{why:?}");
    driver.wipe(&target("zzz999")).await.unwrap();

    region.fail("allocate", Fault::Busy);
    let why = driver
        .boot(&target("aaa111"), &boot("t1"))
        .await
        .unwrap_err();
    assert!(why.is_transient(), "{why:?}");

    region.set("aaa111", |machine| {
        (machine.status, machine.owner, machine.on) = ("Deployed", Some("ann"), true);
    });
    let why = driver
        .boot(&target("aaa111"), &boot("t1"))
        .await
        .unwrap_err();
    assert!(matches!(why, ProviderError::Taken(_)), "{why:?}");
    let why = driver
        .power(&target("aaa111"), Power::Cycle)
        .await
        .unwrap_err();
    assert!(matches!(why, ProviderError::Taken(_)), "{why:?}");
    // Another's machine is left alone.
    driver.wipe(&target("aaa111")).await.unwrap();
    assert_eq!(region.get("aaa111").released.len(), 0);
    assert!(region.get("aaa111").on);

    let Err(why) = driver.console(&target("aaa111")).await else {
        panic!("MAAS has no console");
    };
    assert!(matches!(why, ProviderError::Unsupported(_)));
}

#[tokio::test]
async fn failed_or_released_deployment_is_reported() {
    let region = Region::new(&[("aaa111", &[])]);
    let served = region.serve().await;
    let (driver, machine) = (driver(&served), target("aaa111"));
    driver.boot(&machine, &boot("t1")).await.unwrap();
    region.set("aaa111", |machine| {
        (machine.status, machine.message) = ("Failed deployment", "Node installation failure");
    });
    for why in [
        driver.wait(&machine).await.unwrap_err(),
        driver.boot(&machine, &boot("t1")).await.unwrap_err(),
    ] {
        assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
        assert!(
            why.to_string().contains("Node installation failure"),
            "{why}"
        );
    }
    driver.wipe(&machine).await.unwrap();
    assert_eq!(region.get("aaa111").status, "Ready");

    driver.boot(&machine, &boot("t2")).await.unwrap();
    region.set("aaa111", |machine| {
        (machine.status, machine.owner) = ("Ready", None);
        machine.agent.clear();
    });
    let why = driver.wait(&machine).await.unwrap_err();
    assert!(matches!(why, ProviderError::NoSuchMachine(_)), "{why:?}");
}

#[tokio::test]
async fn failed_release_is_reported_and_retried() {
    let region = Region::new(&[("aaa111", &[])]);
    let served = region.serve().await;
    let (driver, machine) = (driver(&served), target("aaa111"));
    driver.boot(&machine, &boot("t1")).await.unwrap();
    region.set("aaa111", |machine| machine.slow = 1000);
    let erasing = tokio::spawn({
        let (driver, machine) = (driver.clone(), machine.clone());
        async move { driver.wipe(&machine).await }
    });
    strata_testkit::wait_for("the release", strata_testkit::TEST_TIMEOUT, async || {
        strata_testkit::holds(region.get("aaa111").released.len() == 1)
    })
    .await;
    region.set("aaa111", |machine| machine.status = "Failed disk erasing");
    let why = erasing.await.unwrap().unwrap_err();
    assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
    region.set("aaa111", |machine| machine.slow = 1);
    driver.wipe(&machine).await.unwrap();
    assert_eq!(region.get("aaa111").released.len(), 2);
}

#[tokio::test]
async fn region_that_ignores_the_owner_filter_is_rejected() {
    let region = Region::new(&[("aaa111", &[])]);
    region.set("aaa111", |machine| {
        (machine.status, machine.owner) = ("Deployed", Some("ann"));
    });
    region.state().deaf = true;
    let served = region.serve().await;
    let driver = driver(&served);
    for why in [
        driver
            .boot(&target("tag:big"), &boot("t1"))
            .await
            .unwrap_err(),
        driver.wipe(&target("tag:big")).await.unwrap_err(),
    ] {
        assert!(matches!(why, ProviderError::Unsupported(_)), "{why:?}");
    }
    assert_eq!(region.get("aaa111").released.len(), 0);
}

#[tokio::test]
async fn api_key_is_sent_to_its_own_region_only() {
    let region = Region::new(&[("aaa111", &[])]);
    let (served, other) = (region.serve().await, region.serve().await);
    let driver = driver(&served);
    let mut machine = target("aaa111");
    machine.spec.address = format!("{}/MAAS", other.url);
    let why = driver.boot(&machine, &boot("t1")).await.unwrap_err();
    assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
    assert!(other.log().is_empty() && served.log().is_empty());
    // A bad setting does not cost a machine.
    machine.spec.address.clear();
    let why = driver.boot(&machine, &boot("a b")).await.unwrap_err();
    assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
    assert!(served.log().is_empty());
}
