//! Erasing drives by the BMC, where it can and is configured to. An erasure may
//! take hours: a caller that calls again meanwhile is answered that it goes on,
//! and one that was begun is not begun again while this driver lives.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use super::bmc::Done;
use super::model::{Drive, Storage};
use super::system::Server;
use crate::ProviderError;

/// The most drives of a server.
const MAX_DRIVES: usize = 128;

/// What was begun, by server and drive.
#[derive(Default)]
pub(super) struct Erasing(Mutex<HashMap<(String, String), Done>>);

impl Erasing {
    fn get(&self, key: &(String, String)) -> Option<Done> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).cloned()
    }

    fn put(&self, key: (String, String), done: Done) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key, done);
    }

    fn discard(&self, server: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _), _| known != server);
    }
}

impl Server {
    /// Erases every drive. [`ProviderError::Unavailable`] while it goes on.
    pub(super) async fn erase(&self, erasing: &Erasing) -> Result<(), ProviderError> {
        let mut going = Vec::new();
        for path in self.drives().await? {
            let (drive, _): (Drive, _) = self.bmc.get(&path).await?;
            let name = drive.name.clone().unwrap_or_else(|| path.clone());
            let key = (self.name(), path.clone());
            let done = match erasing.get(&key) {
                Some(Done::Going(task)) => self.bmc.look(task).await,
                Some(done) => Ok(done),
                None => self.begin(&name, drive).await,
            };
            if let Err(ProviderError::Refused(_)) = &done {
                erasing.discard(&self.name());
            }
            let done = done?;
            erasing.put(key, done.clone());
            match done {
                Done::ObservedMachine => {}
                Done::Going(_) => going.push(name),
                Done::Lost => {
                    erasing.discard(&self.name());
                    return Err(ProviderError::Unavailable(format!(
                        "{}: unknown whether {name} was erased; erasing again",
                        self.name()
                    )));
                }
            }
        }
        if going.is_empty() {
            erasing.discard(&self.name());
            return Ok(());
        }
        let going = going.join(", ");
        Err(ProviderError::Unavailable(format!(
            "{} still erases {going}",
            self.name()
        )))
    }

    async fn begin(&self, name: &str, drive: Drive) -> Result<Done, ProviderError> {
        let action = drive.actions.and_then(|all| all.secure_erase);
        let Some(action) = action else {
            return Err(ProviderError::Refused(format!(
                "{}: its BMC cannot erase {name}; nothing was erased there. Erase it by hand, or \
                 say `erase = \"none\"` in [machines.redfish]",
                self.name()
            )));
        };
        self.bmc.order(&action.target, &json!({})).await
    }

    async fn drives(&self) -> Result<Vec<String>, ProviderError> {
        let Some(storage) = self.read().await?.storage else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for path in self.bmc.members(&storage.id).await? {
            let (unit, _): (Storage, _) = self.bmc.get(&path).await?;
            found.extend(unit.drives.into_iter().map(|link| link.id));
        }
        if found.len() > MAX_DRIVES {
            return Err(ProviderError::Refused(format!(
                "{} reports {} drives; more than {MAX_DRIVES} are not erased",
                self.name(),
                found.len()
            )));
        }
        Ok(found)
    }
}
