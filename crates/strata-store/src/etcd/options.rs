//! Where an etcd is, and how to connect to it.

use std::time::Duration;

/// How to reach an etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Its members, `http://host:port` or `https://host:port`. One that does
    /// not answer is passed over.
    pub endpoints: Vec<String>,
    /// Put before every key, so that several can share one etcd.
    pub prefix: String,
    /// For members on `https`.
    pub tls: Option<EtcdTls>,
    /// How long one call to a member may take.
    pub timeout: Duration,
    /// After so long without a message a watch checks whether its connection is
    /// still there, and after as long again it ends.
    pub quiet: Duration,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            prefix: "strata/".to_owned(),
            tls: None,
            timeout: Duration::from_secs(5),
            quiet: Duration::from_secs(10),
        }
    }
}

/// The members, and our credentials.
#[derive(Clone)]
pub struct EtcdTls {
    /// The roots to trust, PEM.
    pub ca_pem: String,
    /// Our certificate with its chain, and its key, both PEM.
    pub identity: Option<(String, String)>,
}

/// Without the key.
impl std::fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdTls")
            .field("identity", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}
