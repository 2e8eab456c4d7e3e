//! Instances on nodes that this control plane has no record of: those that
//! another one assigned, and those that were deleted while their node was
//! away.

use std::time::Duration;

use strata_store::Transaction;
use strata_types::instance::DesiredState;
use strata_types::instance::InstanceId;
use strata_types::{Error, Result};

use super::commit::{WriteDecision, Writer};
use super::instances::check_management;
use super::record::Instance;
use super::store_watch::public;
use super::{Core, Principal, TakeOver, keys};

/// How long it is remembered that an instance was deleted whose node was away.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

impl Core {
    /// Has a node take over what other control planes assigned to it. What no
    /// record is of is stopped then, and destroyed after the node's grace
    /// period; or destroyed at once.
    pub fn take_over(&self, principal: &Principal, node: &str, destroy: bool) -> Result<()> {
        principal.require_all_projects()?;
        let name = self.node(node)?.name.clone();
        if !self.subscriptions().is_linked(&name) {
            let why = format!("node {name} is not connected to this server");
            return Err(Error::wrong_state(why)
                .with_hint("see whether it is up, and use the server that leads"));
        }
        let order = TakeOver {
            node: name,
            destroy,
        };
        // It has ended meanwhile: then it takes inventory again.
        let _ = self.subscriptions().take_overs.send(order);
        Ok(())
    }

    /// Deletes the record of an instance whose node cannot destroy it, or does
    /// not come back. The node is sent a withdrawal when it comes back.
    pub async fn force_delete_instance(
        &self,
        principal: &Principal,
        id: &InstanceId,
    ) -> Result<()> {
        principal.require_all_projects()?;
        let now = self.instance(principal, None, id.as_str())?;
        check_management(principal, "instance", &now.name, &now.spec)?;
        if now.desired_state != DesiredState::Gone {
            let why = format!("{} is not being deleted", now.name);
            return Err(Error::wrong_state(why)
                .with_hint("delete it first; force is for one that does not go"));
        }
        self.remember_deleted(id).await?;
        let gone = self.change::<Instance>(Writer::AnyServer, id, |_| Ok(WriteDecision::Delete));
        gone.await.map(drop)
    }

    /// Records that an instance was deleted, for when its node comes back with
    /// it.
    pub(super) async fn remember_deleted(&self, id: &InstanceId) -> Result<()> {
        let store = self.store();
        let lease = store.grant(REMEMBERED).await.map_err(public)?;
        let key = keys::deleted_instance(id);
        let put = Transaction::new().put_with(key, Vec::new(), Some(lease));
        store.commit(put).await.map(drop).map_err(public)
    }

    /// Whether an instance was deleted while its node was away.
    pub(crate) async fn was_deleted(&self, id: &InstanceId) -> Result<bool> {
        let key = keys::deleted_instance(id);
        let found = self.store().get(&key).await.map_err(public)?;
        Ok(found.is_some())
    }
}
