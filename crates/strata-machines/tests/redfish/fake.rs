//! Against the emulator with a simulated machine: power, overrides, media.

use std::fs;

use strata_machines::redfish::Redfish;
use strata_machines::{Power, Provider as _, ProviderError};
use strata_types::machine::PowerState;

use super::emulator::{self, Emulator};
use super::{boot, config, driver, optional, target};

const SYSTEM: &str = "/redfish/v1/Systems/27946b59-9e44-4fa7-8e91-f3527a1ef094";

/// Trusts the emulator's certificate, and no other's.
fn trusting(emulator: &Emulator) -> strata_machines::redfish::RedfishConfig {
    let mut config = config(&emulator.url);
    let credentials = config.credentials.get_mut("rack").unwrap();
    credentials.insecure = false;
    credentials.ca_file = Some(emulator.ca.clone());
    config
}

/// The size of what the emulator fetched to put into its drive.
fn fetched(emulator: &Emulator) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut folders = vec![emulator.directory.path().join("tmp")];
    while let Some(directory) = folders.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(fs::read(entry.path()).unwrap()),
            }
        }
    }
    found
}

#[tokio::test]
async fn redfish_machine_is_booted_discovered_switched_and_wiped() {
    let Some(program) = emulator::program() else {
        return;
    };
    let emulator = Emulator::fake(&program).await;
    let driver: Redfish = driver(optional(trusting(&emulator)));
    // The only system of its BMC needs no name.
    let machine = target(&emulator.url, "");
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::Off));
    let found = driver.discover().await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].handle, format!("{}{SYSTEM}", emulator.url));
    assert_eq!((found[0].power, &found[0].tag), (PowerState::Off, &None));

    driver.boot(&machine, &boot()).await.unwrap();
    let media = fetched(&emulator);
    assert_eq!(media.len(), 1, "the medium was fetched once");
    let token = b"token-of-this-boot";
    assert!(media[0].windows(token.len()).any(|bytes| bytes == token));
    driver.wait(&machine).await.unwrap();
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::On));
    // By the address that it was discovered with, too.
    let by_handle = target("", &found[0].handle);
    assert_eq!(driver.power_state(&by_handle).await, Ok(PowerState::On));

    driver.power(&machine, Power::On).await.unwrap();
    driver.power(&machine, Power::Cycle).await.unwrap();
    driver.wait(&machine).await.unwrap();

    driver.wipe(&machine).await.unwrap();
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::Off));
    assert!(fetched(&emulator).is_empty(), "the medium was taken out");
    driver.wipe(&machine).await.unwrap();
}

#[tokio::test]
async fn unsupported_bmc_action_is_reported() {
    let Some(program) = emulator::program() else {
        return;
    };
    let emulator = Emulator::fake(&program).await;
    let machine = target(&emulator.url, SYSTEM);

    // This emulator keeps no asset tags.
    let strict = driver(trusting(&emulator));
    let refused = strict.boot(&machine, &boot()).await.unwrap_err();
    assert!(
        matches!(refused, ProviderError::Unsupported(_)),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("AssetTag") && text.contains("optional"),
        "{text}"
    );
    assert_eq!(strict.power_state(&machine).await, Ok(PowerState::Off));
    assert!(fetched(&emulator).is_empty());
    // It is not ours, and left alone.
    strict.wipe(&machine).await.unwrap();

    let nowhere = target(&emulator.url, "/redfish/v1/Systems/nowhere");
    let refused = strict.power_state(&nowhere).await.unwrap_err();
    assert!(
        matches!(refused, ProviderError::NoSuchMachine(_)),
        "{refused:?}"
    );
    strict.wipe(&nowhere).await.unwrap();

    let mut config = trusting(&emulator);
    config.credentials.get_mut("rack").unwrap().password = strata_machines::Secret::new("wrong");
    let refused = driver(config).power_state(&machine).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Refused(_)), "{refused:?}");
    assert!(!refused.to_string().contains("wrong"), "{refused}");

    let mut config = trusting(&emulator);
    config.credentials.get_mut("rack").unwrap().ca_file = None;
    let refused = driver(config).power_state(&machine).await.unwrap_err();
    assert!(refused.to_string().contains("not trusted"), "{refused}");
    assert!(!refused.is_transient());

    let Err(no_console) = strict.console(&machine).await else {
        panic!("Redfish has no console");
    };
    assert!(no_console.to_string().contains("ipmitool"), "{no_console}");
}
