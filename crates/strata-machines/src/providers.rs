//! The drivers that are configured, by their kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_types::machine::ProviderKind;
use strata_types::{Error, Result};

use crate::Provider;

/// All drivers there are. Cheap to clone.
#[derive(Clone, Default)]
pub struct Providers(Arc<BTreeMap<ProviderKind, Arc<dyn Provider>>>);

impl Providers {
    /// These drivers; of two of the same kind the later.
    pub fn new(drivers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Self {
        let by_kind = drivers.into_iter().map(|driver| (driver.kind(), driver));
        Self(Arc::new(by_kind.collect()))
    }

    /// The driver of a kind.
    pub fn get(&self, kind: ProviderKind) -> Result<Arc<dyn Provider>> {
        self.0.get(&kind).cloned().ok_or_else(|| {
            Error::wrong_state(format!("this server has no provider {kind}")).with_hint(format!(
                "say how to reach it: [machines.{kind}] in the configuration"
            ))
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.0.values()
    }
}
