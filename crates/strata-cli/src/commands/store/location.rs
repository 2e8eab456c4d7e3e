//! Location of the store: a data directory, or an etcd.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use strata_store::{Embedded, EmbeddedOptions, Etcd, EtcdOptions, EtcdTls, OpenError, Store};

use crate::failure::{Exit, Failure, Result};
use crate::session::Session;

/// Store selection, flattened into the commands that open a store.
#[derive(Args, Debug)]
pub(super) struct StoreLocation {
    /// etcd endpoint, as http://HOST:2379, instead of the data directory;
    /// repeatable
    #[arg(long, value_name = "URL")]
    etcd: Vec<String>,
    /// Key prefix in etcd
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "strata/",
        requires = "etcd"
    )]
    prefix: String,
    /// CA of etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd", value_hint = ValueHint::FilePath)]
    etcd_ca: Option<PathBuf>,
    /// Client certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    #[arg(value_hint = ValueHint::FilePath)]
    etcd_certificate: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    #[arg(value_hint = ValueHint::FilePath)]
    etcd_key: Option<PathBuf>,
}

impl StoreLocation {
    /// Opens it. A store of a data directory is held while it is open, so a
    /// daemon that runs there is noticed, and none can start meanwhile.
    pub(super) async fn open(&self, session: &Session, make: bool) -> Result<Arc<dyn Store>> {
        if !self.etcd.is_empty() {
            let options = self.options()?;
            let etcd = Etcd::connect(&options).await.map_err(|why| {
                let what = format!("cannot connect to {}", self.etcd.join(", "));
                Failure::new(Exit::CannotConnect, what).because(why.to_string())
            })?;
            return Ok(Arc::new(etcd));
        }
        let discovery = &session.discovery;
        let data_dir = discovery.data_dir.as_ref();
        let directory = data_dir.unwrap_or(&discovery.places.data_dir).join("store");
        if !make && !directory.exists() {
            let what = format!("there is no store in {}", directory.display());
            let hint = "specify the data directory with --data-dir, or an etcd with --etcd";
            return Err(Failure::new(Exit::Refused, what).hint(hint));
        }
        let opened = tokio::task::spawn_blocking(move || {
            Embedded::open(&directory, &EmbeddedOptions::default())
        });
        let opened = opened.await.map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot open the store").because(why.to_string())
        })?;
        opened.map_or_else(|why| Err(unopened(&why)), |store| Ok(Arc::new(store) as _))
    }

    fn options(&self) -> Result<EtcdOptions> {
        let identity = match (&self.etcd_certificate, &self.etcd_key) {
            (Some(certificate), Some(key)) => Some((text(certificate)?, text(key)?)),
            _ => None,
        };
        let tls = match &self.etcd_ca {
            Some(ca) => Some(EtcdTls {
                ca_pem: text(ca)?,
                identity,
            }),
            None => None,
        };
        Ok(EtcdOptions {
            endpoints: self.etcd.clone(),
            prefix: self.prefix.clone(),
            tls,
            ..EtcdOptions::default()
        })
    }
}

fn unopened(why: &OpenError) -> Failure {
    let (exit, hint) = match why {
        OpenError::InUse { .. } => (
            Exit::Refused,
            Some("stop the daemon first: the store must not be in use"),
        ),
        OpenError::Newer { .. } => (Exit::Refused, None),
        _ => (Exit::Unexpected, None),
    };
    let failure = Failure::new(exit, "cannot open the store").because(why.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn text(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|why| Failure::file("read", file, &why))
}
