//! How registries are reached.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How registries are reached.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Registries (`host` or `host:port`) that may be used without TLS. Holds
    /// for redirects and token servers too: what is not listed is never
    /// contacted in the clear.
    pub plain_http: Vec<String>,
    /// PEM text of certificate authorities to trust beside the system's.
    pub authorities: Vec<String>,
    /// The system's certificate authorities, PEM; the first that is there.
    pub system_authorities: Vec<PathBuf>,
    /// Our credentials, by registry (`host` or `host:port`).
    pub credentials: HashMap<String, Credentials>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a registry may send nothing.
    pub stall_timeout: Duration,
    /// How many bytes a registry must send in a second on the average, while
    /// something is awaited from it.
    pub least_rate: u64,
    /// Over which time that average is taken.
    pub rate_window: Duration,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            plain_http: Vec::new(),
            authorities: Vec::new(),
            system_authorities: strata_http::system_bundles(),
            credentials: HashMap::new(),
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            least_rate: 1024,
            rate_window: Duration::from_secs(60),
        }
    }
}

/// A user and a password or token. Not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
