//! Units whose records cannot be read: emptied by a loss of power, damaged, or
//! of a later release.
//!
//! The name of such a unit is known, by its file, and so is its cell, which
//! may run. Until it is destroyed nothing else is made under its name: there
//! would be two of it side by side.

use std::fs;
use std::time::Duration;

use strata_types::{Error, ErrorKind, Label, Result};

use super::{UnitKind, Units, guard};
use crate::blocking::blocking;

impl<K: UnitKind> Units<K> {
    /// Whether the record of the unit of this name cannot be read.
    pub(crate) fn is_damaged(&self, name: &Label) -> bool {
        guard(&self.0.damaged).contains_key(name)
    }

    pub(super) fn refuse_damaged(&self, name: &Label) -> Result<()> {
        if !self.is_damaged(name) {
            return Ok(());
        }
        let (noun, name) = (K::NOUN, name.as_str());
        Err(
            Error::wrong_state(format!("the record of {noun} {name:?} cannot be read"))
                .in_field(format!("{noun}.name"))
                .with_hint("destroy it, then create it again"),
        )
    }

    /// Ends whatever runs of a damaged unit, and frees its name. Its record is
    /// set aside. What it had on disk is cleared at the next start of the
    /// daemon. The caller has the name.
    pub(super) async fn clear_damaged(&self, name: &Label, grace: Option<Duration>) -> Result<()> {
        let Some(path) = guard(&self.0.damaged).get(name).cloned() else {
            return Ok(());
        };
        let cell = name.clone().into();
        match self.0.kind.cells().free(&cell, grace).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let aside = path.with_extension("damaged");
        blocking(|| fs::rename(&path, &aside)).map_err(|error| {
            let path = path.display();
            Error::internal(format!(
                "cannot set the damaged record {path} aside: {error}"
            ))
        })?;
        guard(&self.0.damaged).remove(name);
        self.0.names.give_back(name);
        tracing::warn!(kind = K::NOUN, name = %name, record = %aside.display(),
            "damaged unit removed");
        Ok(())
    }
}
