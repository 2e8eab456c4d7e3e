//! `[machines.redfish]`: how BMCs are reached, and how servers are booted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Secret;
use crate::call::secret;
use crate::http;
use strata_http::Trust;

/// How BMCs are reached, and how servers are booted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedfishConfig {
    /// Users of BMCs, by the names that machines call them.
    pub credentials: BTreeMap<String, BmcCredentials>,
    /// How a server gets at what it boots.
    pub boot: BootMethod,
    /// Where it is served; not needed for `pxe`.
    pub media: Option<MediaConfig>,
    /// What to do with a BMC that cannot keep whose a machine is.
    pub tag: TagPolicy,
    /// What a wipe erases.
    pub erase: Erase,
    /// How servers reach the control plane, where that is not its own address.
    pub server: Option<String>,
    /// How long things may take; not in the file.
    #[serde(skip)]
    pub limits: Limits,
}

/// A user of BMCs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BmcCredentials {
    pub user: String,
    #[serde(default, deserialize_with = "secret")]
    pub password: Secret,
    /// A file with the password, in place of `password`.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Trust this CA alone: a file with certificates, as PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Trust anyone, with TLS or without.
    #[serde(default)]
    pub insecure: bool,
    /// The BMCs that these are for, as `https://HOST`: their machines are
    /// listed, and the password is sent to no other. Empty for any that a
    /// machine of the inventory names.
    #[serde(default)]
    pub addresses: Vec<String>,
}

impl BmcCredentials {
    pub(super) fn trust(&self) -> Trust {
        http::trust(self.ca_file.as_deref(), self.insecure)
    }
}

/// How a server gets at what it boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootMethod {
    /// A CD that the BMC simulates, read from us.
    #[default]
    VirtualMedia,
    /// The same CD, fetched by the UEFI firmware.
    UefiHttp,
    /// From the network, with whatever serves that there.
    Pxe,
}

/// Where boot media are served. In the clear, as BMCs require: an eavesdropper
/// gets a token that is good for one join.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaConfig {
    /// The address to listen on, on the BMCs' network.
    pub listen: SocketAddr,
    /// How BMCs reach it, if not by `http://LISTEN`.
    #[serde(default)]
    pub url: Option<String>,
    /// Where media are put together; each is as large as kernel and initramfs,
    /// and at least 32 MiB. The system's directory for temporary files by default.
    #[serde(default)]
    #[serde(alias = "folder")]
    pub directory: Option<PathBuf>,
}

/// What to do with a BMC that cannot keep whose a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagPolicy {
    /// Its machines cannot be used.
    #[default]
    Required,
    /// The inventory alone knows. Two control planes that have the same
    /// machine in their inventories take it from each other.
    Optional,
}

/// What a wipe erases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Erase {
    /// Nothing on disks: our node runs from memory, but what workloads wrote
    /// to disks stays until the machine boots again and is instructed to erase it.
    #[default]
    None,
    /// All drives, by the BMC. A wipe fails when one cannot be erased so.
    SecureErase,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub request: Duration,
    /// One call of the provider, apart from waiting for a machine.
    pub call: Duration,
    /// For a machine to be on.
    pub wait: Duration,
    pub pause: Duration,
    /// How long a medium is served.
    pub serve: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            call: Duration::from_secs(60),
            wait: Duration::from_secs(300),
            pause: Duration::from_secs(1),
            serve: Duration::from_secs(30 * 60),
        }
    }
}
