//! The Redfish driver: against OpenStack's emulator with simulated machines and
//! with a real QEMU, and against BMCs of the test's own where the emulator
//! has nothing to try it on.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails"
)]

#[path = "../archive/mod.rs"]
mod archive;
mod emulator;
mod fake;
mod hostile;
mod real;
#[path = "../served/mod.rs"]
mod served;
mod simulated;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strata_bootimage::{Loaders, Medium, Part};
use strata_machines::redfish::{
    BmcCredentials, Limits, MediaConfig, Redfish, RedfishConfig, TagPolicy,
};
use strata_machines::{Boot, ProviderError, Secret, Tag, Target};
use strata_types::machine::{MachineSpec, ProviderKind};

/// A machine `m1` of the run `test`, at this BMC.
pub(crate) fn target(address: &str, handle: &str) -> Target {
    Target {
        tag: Tag {
            run: "test".into(),
            machine: "m1".parse().unwrap(),
        },
        spec: MachineSpec {
            provider: ProviderKind::Redfish,
            handle: handle.into(),
            address: address.into(),
            credentials: "rack".into(),
            cpu: None,
            ram: None,
            disk: None,
            labels: BTreeMap::new(),
        },
    }
}

pub(crate) fn boot() -> Boot {
    Boot {
        server: "https://10.0.0.1:7700".into(),
        join_token: Secret::new("token-of-this-boot"),
        labels: BTreeMap::new(),
    }
}

/// Boots nothing, but is a medium.
pub(crate) fn tiny(_: &Target, boot: &Boot) -> Result<Medium, ProviderError> {
    Ok(Medium {
        kernel: "/bin/true".into(),
        initrd: vec![Part::Bytes(boot.join_token.expose().to_owned().into())],
        command_line: "quiet".into(),
        loaders: Loaders {
            bios: Some(("/bin/true".into(), "/bin/true".into())),
            uefi: None,
        },
    })
}

pub(crate) fn config(address: &str) -> RedfishConfig {
    let credentials = BmcCredentials {
        user: "admin".into(),
        password: Secret::new("s3cret"),
        password_file: None,
        ca_file: None,
        insecure: true,
        addresses: vec![address.into()],
    };
    RedfishConfig {
        credentials: [("rack".to_owned(), credentials)].into(),
        media: Some(MediaConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            url: None,
            directory: None,
        }),
        limits: Limits {
            pause: Duration::from_millis(20),
            ..Limits::default()
        },
        ..RedfishConfig::default()
    }
}

pub(crate) fn optional(mut config: RedfishConfig) -> RedfishConfig {
    config.tag = TagPolicy::Optional;
    config
}

pub(crate) fn driver(config: RedfishConfig) -> Redfish {
    Redfish::new(config, Arc::new(tiny))
}
