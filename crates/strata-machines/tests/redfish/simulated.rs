//! Against a BMC of the test's own, for what the emulator has not: asset tags
//! under ETags, tasks, drives that can be erased, media with the manager.

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use strata_machines::redfish::{BootMethod, Erase};
use strata_machines::{Power, Provider as _, ProviderError};
use strata_testkit::same;
use strata_types::machine::PowerState;

use super::served::{CannedResponse, RecordedRequest, Served, json as answer, text};
use super::{boot, config, driver, target};

const SYSTEM: &str = "/redfish/v1/Systems/1";

#[derive(Default)]
struct Bmc {
    asset_tag: String,
    /// How much of an asset tag it keeps.
    cuts: Option<usize>,
    weak: bool,
    version: u32,
    on: bool,
    media: Option<String>,
    boot: Value,
    resets: Vec<String>,
    erased: Vec<String>,
    /// How many polls a task takes.
    slow: u32,
    task: &'static str,
    no_erase: bool,
    /// Another caller writes the asset tag just before we do.
    overtaken: Option<&'static str>,
}

#[derive(Clone, Default)]
struct SimulatedMachine(Arc<Mutex<Bmc>>);

impl SimulatedMachine {
    fn bmc(&self) -> MutexGuard<'_, Bmc> {
        self.0.lock().unwrap()
    }

    async fn serve(&self) -> Served {
        let this = self.clone();
        Served::new(move |asked| this.bmc().answer(asked)).await
    }
}

impl Bmc {
    fn etag(&self) -> String {
        let weak = if self.weak { "W/" } else { "" };
        format!("{weak}\"{}\"", self.version)
    }

    fn answer(&mut self, asked: &RecordedRequest) -> CannedResponse {
        // admin:s3cret
        if asked.header("authorization") != "Basic YWRtaW46czNjcmV0" {
            return text(401, "");
        }
        let body: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let media = "/redfish/v1/Managers/1/VirtualMedia";
        match (&*asked.method, asked.path.as_str()) {
            ("GET", "/redfish/v1/") => {
                answer(200, &json!({ "Systems": link("/redfish/v1/Systems") }))
            }
            ("GET", "/redfish/v1/Systems") => answer(200, &members(&[SYSTEM])),
            ("GET", SYSTEM) => {
                let headers = vec![("etag", self.etag())];
                Some((200, headers, self.system().to_string()))
            }
            ("PATCH", SYSTEM) => self.change(asked, &body),
            ("POST", "/reset") => {
                let kind = body["ResetType"].as_str().unwrap();
                self.resets.push(kind.into());
                self.on = kind != "ForceOff";
                task("/tasks/reset")
            }
            ("GET", "/redfish/v1/Managers/1") => {
                answer(200, &json!({ "VirtualMedia": link(media) }))
            }
            ("GET", path) if path == media => answer(200, &members(&["/floppy", "/cd"])),
            ("GET", "/floppy") => answer(200, &json!({ "MediaTypes": null, "Image": null })),
            ("GET", "/cd") => answer(
                200,
                &json!({
                    "MediaTypes": ["CD", "DVD"],
                    "Image": self.media,
                    "Inserted": self.media.is_some(),
                    "Actions": {
                        "#VirtualMedia.InsertMedia": { "target": "/insert" },
                        "#VirtualMedia.EjectMedia": { "target": "/eject" },
                    },
                }),
            ),
            // One of those that accept nothing but the image.
            ("POST", "/insert") if body.get("WriteProtected").is_some() => answer(
                400,
                &json!({ "error": {
                    "code": "Base.1.8.GeneralError",
                    "message": "See ExtendedInfo",
                    "@Message.ExtendedInfo": [{
                        "MessageId": "Base.1.8.ActionParameterUnknown",
                        "Message": "The parameter WriteProtected is not known.",
                        "Resolution": "Leave it out.",
                    }],
                }}),
            ),
            ("POST", "/insert") => {
                self.media = Some(body["Image"].as_str().unwrap().into());
                text(204, "")
            }
            ("POST", "/eject") => {
                self.media = None;
                text(204, "")
            }
            ("GET", "/tasks/reset") => answer(200, &json!({ "TaskState": "Completed" })),
            ("GET", "/storage") => answer(200, &members(&["/storage/1"])),
            ("GET", "/storage/1") => answer(
                200,
                &json!({ "Drives": [link("/drives/a"), link("/drives/b")] }),
            ),
            ("GET", "/drives/a" | "/drives/b") => answer(200, &self.drive(&asked.path)),
            ("POST", path) if path.starts_with("/erase/") => {
                self.erased.push(path.to_owned());
                task("/tasks/erase")
            }
            ("GET", "/tasks/erase") => self.erasing(),
            (method, path) => text(404, &format!("{method} {path}")),
        }
    }

    fn erasing(&mut self) -> CannedResponse {
        self.slow = self.slow.saturating_sub(1);
        match self.slow {
            0 => answer(
                200,
                &json!({
                    "TaskState": self.task,
                    "Messages": [{ "Message": "The drive is locked." }],
                }),
            ),
            _ => text(202, ""),
        }
    }

    fn drive(&self, path: &str) -> Value {
        let name = path.trim_start_matches("/drives/");
        let mut drive = json!({ "Name": name });
        if !self.no_erase {
            let target = format!("/erase/{name}");
            drive["Actions"] = json!({ "#Drive.SecureErase": { "target": target } });
        }
        drive
    }

    fn change(&mut self, asked: &RecordedRequest, body: &Value) -> CannedResponse {
        if let Some(other) = self.overtaken.take() {
            self.asset_tag = other.into();
            self.version += 1;
        }
        // Compared as strong ones, as some do.
        let wanted = format!("\"{}\"", self.version);
        if asked.header("if-match") != wanted {
            return text(412, "");
        }
        self.version += 1;
        if let Some(text) = body["AssetTag"].as_str() {
            let keeps = self.cuts.unwrap_or(usize::MAX);
            self.asset_tag = text.chars().take(keeps).collect();
        }
        if let Some(boot) = body.get("Boot") {
            self.boot = boot.clone();
        }
        text(204, "")
    }

    fn system(&self) -> Value {
        json!({
            "AssetTag": self.asset_tag,
            "PowerState": if self.on { "On" } else { "Off" },
            "Boot": self.boot,
            "ProcessorSummary": { "Count": 2, "LogicalProcessorCount": 64 },
            "MemorySummary": { "TotalSystemMemoryGiB": 256 },
            "Storage": link("/storage"),
            "Links": { "ManagedBy": [link("/redfish/v1/Managers/1")] },
            "Actions": { "#ComputerSystem.Reset": {
                "target": "/reset",
                "ResetType@Redfish.AllowableValues": ["ForceOn", "ForceOff", "PowerCycle"],
            }},
        })
    }
}

fn link(to: &str) -> Value {
    json!({ "@odata.id": to })
}

fn members(all: &[&str]) -> Value {
    let all: Vec<Value> = all.iter().map(|path| link(path)).collect();
    json!({ "Members": all, "Members@odata.nextLink": null })
}

fn task(at: &str) -> CannedResponse {
    Some((202, vec![("location", at.to_owned())], String::new()))
}

#[tokio::test]
async fn redfish_server_is_tagged_booted_once_and_restored() {
    for weak in [false, true] {
        let simulated = SimulatedMachine::default();
        simulated.bmc().asset_tag = "Rack 7, No 12".into();
        (simulated.bmc().weak, simulated.bmc().on) = (weak, true);
        let served = simulated.serve().await;
        let (driver, machine) = (driver(config(&served.url)), target(&served.url, ""));
        driver.boot(&machine, &boot()).await.unwrap();
        {
            let bmc = simulated.bmc();
            assert_eq!(bmc.asset_tag, "Rack 7, No 12 strata-test-m1");
            assert_eq!(bmc.resets, ["ForceOff", "ForceOn"]);
            assert_eq!(bmc.boot["BootSourceOverrideTarget"], "Cd");
            assert_eq!(bmc.boot["BootSourceOverrideEnabled"], "Once");
            assert!(bmc.media.as_ref().unwrap().ends_with("/boot.iso"));
        }
        let found = driver.discover().await.unwrap();
        assert_eq!(found[0].tag, Some(machine.tag.clone()));
        assert_eq!((found[0].cpu, found[0].ram), (Some(64), Some(274_877)));

        // Killed in the middle: the same again, and there is one tag.
        driver.boot(&machine, &boot()).await.unwrap();
        assert_eq!(simulated.bmc().asset_tag, "Rack 7, No 12 strata-test-m1");
        driver.power(&machine, Power::Cycle).await.unwrap();
        assert_eq!(simulated.bmc().resets.last().unwrap(), "PowerCycle");

        driver.wipe(&machine).await.unwrap();
        let bmc = simulated.bmc();
        assert_eq!(
            (bmc.asset_tag.as_str(), bmc.on, &bmc.media),
            ("Rack 7, No 12", false, &None)
        );
        assert_eq!(bmc.boot["BootSourceOverrideEnabled"], "Disabled");
    }
}

#[tokio::test]
async fn boot_medium_is_served_in_ranges_until_the_machine_is_wiped() {
    let simulated = SimulatedMachine::default();
    let served = simulated.serve().await;
    let (driver, machine) = (driver(config(&served.url)), target(&served.url, ""));
    driver.boot(&machine, &boot()).await.unwrap();
    let url = simulated.bmc().media.clone().unwrap();
    let secret = url.rsplit('/').nth(1).unwrap();
    assert_eq!(secret.len(), 48, "nobody guesses {url}");
    let (status, whole) = fetch(&url, "GET", "").await;
    assert_eq!((status, &whole[32769..32774]), (200, &b"CD001"[..]));
    let (status, piece) = fetch(&url, "GET", "range: bytes=32769-32773\r\n").await;
    assert_eq!((status, &piece[..]), (206, &b"CD001"[..]));
    let far = format!("range: bytes={}-\r\n", whole.len());
    assert_eq!(fetch(&url, "GET", &far).await.0, 416);
    assert_eq!(fetch(&url, "HEAD", "").await, (200, Vec::new()));
    assert_eq!(fetch(&url, "POST", "").await.0, 405);
    assert_eq!(fetch(&url.replace(secret, "x"), "GET", "").await.0, 404);

    // A new boot has a new one, and the old is gone.
    driver.boot(&machine, &boot()).await.unwrap();
    let newer = simulated.bmc().media.clone().unwrap();
    assert_ne!(url, newer);
    assert_eq!(fetch(&url, "GET", "").await.0, 404);
    assert_eq!(fetch(&newer, "HEAD", "").await.0, 200);
    driver.wipe(&machine).await.unwrap();
    assert_eq!(fetch(&newer, "HEAD", "").await.0, 404);
}

/// One request, in the plainest way there is.
async fn fetch(url: &str, method: &str, headers: &str) -> (u16, Vec<u8>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request =
        format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let end = all
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap();
    let status = std::str::from_utf8(&all[9..12]).unwrap().parse().unwrap();
    (status, all.split_off(end + 4))
}

#[tokio::test]
async fn server_with_a_foreign_tag_is_not_touched() {
    let simulated = SimulatedMachine::default();
    simulated.bmc().asset_tag = "strata-other-m1".into();
    simulated.bmc().on = true;
    let served = simulated.serve().await;
    let (driver, machine) = (driver(config(&served.url)), target(&served.url, ""));
    let why = driver.boot(&machine, &boot()).await.unwrap_err();
    assert!(matches!(why, ProviderError::Taken(_)), "{why:?}");
    let why = driver.power(&machine, Power::Off).await.unwrap_err();
    assert!(matches!(why, ProviderError::Taken(_)), "{why:?}");
    driver.wipe(&machine).await.unwrap();
    assert!(
        served.log().iter().all(|asked| asked.starts_with("GET")),
        "{:?}",
        served.log()
    );

    // Two at the same time: the slower sees that it was.
    *simulated.bmc() = Bmc {
        overtaken: Some("strata-other-m1"),
        ..Bmc::default()
    };
    let why = driver.boot(&machine, &boot()).await.unwrap_err();
    assert!(why.is_transient(), "{why:?}");
    let why = driver.boot(&machine, &boot()).await.unwrap_err();
    assert!(matches!(why, ProviderError::Taken(_)), "{why:?}");
    assert_eq!(simulated.bmc().asset_tag, "strata-other-m1");
}

#[tokio::test]
async fn bmc_that_truncates_tags_is_rejected() {
    let simulated = SimulatedMachine::default();
    (simulated.bmc().asset_tag, simulated.bmc().cuts) = ("A12".into(), Some(10));
    let served = simulated.serve().await;
    let (driver, machine) = (driver(config(&served.url)), target(&served.url, ""));
    let why = driver.boot(&machine, &boot()).await.unwrap_err();
    assert!(matches!(why, ProviderError::Unsupported(_)), "{why:?}");
    assert_eq!(simulated.bmc().asset_tag, "A12");
    assert!(simulated.bmc().resets.is_empty());
}

#[tokio::test]
async fn drives_are_erased_once_before_the_wipe_completes() {
    let simulated = SimulatedMachine::default();
    (simulated.bmc().slow, simulated.bmc().task) = (3, "Completed");
    let served = simulated.serve().await;
    let mut config = config(&served.url);
    config.erase = Erase::SecureErase;
    let (driver, machine) = (driver(config), target(&served.url, SYSTEM));
    driver.boot(&machine, &boot()).await.unwrap();
    strata_testkit::wait_for("the erasure", strata_testkit::TEST_TIMEOUT, async || {
        let wiped = driver.wipe(&machine).await;
        assert!(
            wiped.as_ref().err().is_none_or(ProviderError::is_transient),
            "{wiped:?}"
        );
        same(wiped, &Ok(()))
    })
    .await
    .unwrap();
    assert_eq!(simulated.bmc().erased, ["/erase/a", "/erase/b"]);
    assert_eq!(simulated.bmc().asset_tag, "");

    // One that fails is reported, and the server stays tagged.
    *simulated.bmc() = Bmc {
        task: "Exception",
        ..Bmc::default()
    };
    driver.boot(&machine, &boot()).await.unwrap();
    let first = driver.wipe(&machine).await.unwrap_err();
    assert!(first.is_transient(), "{first:?}");
    let why = driver.wipe(&machine).await.unwrap_err();
    assert!(matches!(why, ProviderError::Refused(_)), "{why:?}");
    assert!(why.to_string().contains("The drive is locked."), "{why}");
    assert_eq!(simulated.bmc().asset_tag, "strata-test-m1");

    simulated.bmc().no_erase = true;
    let why = driver.wipe(&machine).await.unwrap_err();
    assert!(why.to_string().contains("cannot erase a"), "{why}");
}

#[tokio::test]
async fn other_boot_methods_need_no_virtual_media() {
    let simulated = SimulatedMachine::default();
    let served = simulated.serve().await;
    let machine = target(&served.url, "1");
    for (way, word) in [(BootMethod::Pxe, "Pxe"), (BootMethod::UefiHttp, "UefiHttp")] {
        let mut config = config(&served.url);
        config.boot = way;
        let driver = driver(config);
        driver.boot(&machine, &boot()).await.unwrap();
        let bmc = simulated.bmc();
        assert_eq!(bmc.boot["BootSourceOverrideTarget"], word);
        assert_eq!(
            bmc.boot.get("HttpBootUri").is_some(),
            way == BootMethod::UefiHttp
        );
        assert_eq!((bmc.on, &bmc.media), (true, &None));
    }
    let driver = driver(config(&served.url));
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::On));
}
