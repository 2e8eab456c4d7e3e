//! What must not go on in a store that was brought back from a backup: it tells
//! of a world that may be another by now.

use strata_store::{Store, Transaction};
use strata_types::Result;
use strata_workflow::{Operations, Registry};

use crate::core::{keys, public};
use crate::operations::{POOL, public as operation_failed};

/// Makes a store that was imported ready to be begun with.
///
/// Operations that had not ended are forgotten: what they were about to do was
/// meant for the machines of then. Unless it is to take over, the control plane
/// gets another id: machines that carry the old one may belong to somebody who
/// is alive, and are neither used nor given back.
pub async fn begin_anew(store: std::sync::Arc<dyn Store>, take_over: bool) -> Result<usize> {
    let operations = Operations::new(store.clone(), Registry::new());
    let forgotten = operations.forget_unfinished().await;
    let forgotten = forgotten.map_err(|error| operation_failed(&error))?;
    let mut change = Transaction::new().delete(POOL);
    if !take_over {
        change = change.delete(keys::RUN);
    }
    store.commit(change).await.map_err(public)?;
    Ok(forgotten)
}
