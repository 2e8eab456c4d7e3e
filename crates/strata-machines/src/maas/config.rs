//! `[machines.maas]`: how regions are reached, and what their machines are
//! given.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Secret;
use crate::call::secret;
use crate::http;
use strata_http::Trust;

/// How regions are reached, and what their machines are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaasConfig {
    /// Users of regions, by the names that machines call them.
    pub credentials: BTreeMap<String, MaasCredentials>,
    /// Where machines fetch the program from.
    pub binary_url: String,
    /// What its SHA-256 is, in hex: nothing else is run.
    pub binary_sha256: String,
    /// Which system is deployed, as `jammy`; the region's own choice by default.
    #[serde(default)]
    pub distro_series: Option<String>,
    /// Whether disks are erased when a machine is released.
    #[serde(default = "yes")]
    pub erase: bool,
    /// How machines reach the control plane, where that is not its own address.
    #[serde(default)]
    pub server: Option<String>,
    /// How long things may take; not in the file.
    #[serde(skip)]
    pub limits: MaasLimits,
}

const fn yes() -> bool {
    true
}

/// A user of a region.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaasCredentials {
    /// The region, as `https://HOST/MAAS`. No other is shown the key.
    pub address: String,
    /// The key, as MAAS gives it: three words with `:` between them.
    #[serde(default, deserialize_with = "secret")]
    pub api_key: Secret,
    /// A file with the key, in place of `api_key`.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
    /// Trust this CA alone: a file with certificates, as PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Trust anyone, with TLS or without.
    #[serde(default)]
    pub insecure: bool,
}

impl MaasCredentials {
    pub(super) fn trust(&self) -> Trust {
        http::trust(self.ca_file.as_deref(), self.insecure)
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct MaasLimits {
    pub request: Duration,
    /// One call of the provider, apart from waiting for a machine.
    pub call: Duration,
    /// For a machine to be deployed.
    pub wait: Duration,
    /// Between two polls, at first; it grows to ten times that.
    pub pause: Duration,
}

impl Default for MaasLimits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            call: Duration::from_secs(60),
            wait: Duration::from_secs(30 * 60),
            pause: Duration::from_secs(2),
        }
    }
}
