//! What nodes that use the published APIs alone need of the core: which
//! instances they have, whether they take them, what is done for them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use strata_types::instance::{DesiredState, InstanceId, InstanceState};
use strata_types::{Error, Result};

use super::commit::{WriteDecision, Writer};
use super::record::Instance;
use super::reports::without_node;
use super::tables::Versioned;
use super::update::set_state;
use super::{Core, Precondition, claims};

impl Core {
    /// The instances of a node.
    pub(crate) fn instances_of_node(&self, node: &str) -> Vec<Arc<Versioned<Instance>>> {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        on.filter_map(|id| tables.instances.get(id).cloned())
            .collect()
    }

    /// A node that does not follow its assignments read its instances, or
    /// reported one: it takes what is assigned to it.
    pub(crate) async fn node_takes_instances(&self, name: &str) -> Result<()> {
        if self.node(name).is_ok_and(|node| node.ignores_instances) {
            self.set_ignores_instances(name, false).await?;
        }
        Ok(())
    }

    /// It did not take an instance in time, or it does again.
    pub(crate) async fn set_ignores_instances(&self, name: &str, ignores: bool) -> Result<()> {
        self.change_node(name, Precondition::default(), |now| {
            let mut next = now.clone();
            next.ignores_instances = ignores && !now.follows;
            next
        })
        .await
        .map(drop)
    }

    /// The address that a node reports for one of its instances: one that
    /// instances of its subnet can have, and no other instance's.
    pub(crate) fn check_address(
        &self,
        node: &str,
        id: &InstanceId,
        text: &str,
    ) -> Result<Ipv4Addr> {
        let subnet = &self.node(node)?.subnet;
        let refuse = |why: String| Error::invalid("ip", why);
        let address: Ipv4Addr = text
            .parse()
            .map_err(|_| refuse("is no IPv4 address".to_owned()))?;
        if !claims::is_within(subnet, address) {
            return Err(refuse(format!(
                "{address} is not of the subnet {subnet} of {node}"
            )));
        }
        if let Some(what) = claims::reserved(subnet, address) {
            return Err(refuse(format!(
                "{address} is the {what} address of the subnet {subnet}"
            )));
        }
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let mut others = on.filter_map(|other| tables.instances.get(other));
        match others.find(|other| other.address == Some(address) && other.id != *id) {
            Some(other) => Err(refuse(format!(
                "{address} is that of instance {}",
                other.name
            ))),
            None => Ok(address),
        }
    }

    /// Ends the wait for a node that neither stops nor destroys an instance.
    pub(crate) async fn release_instance(&self, node: &str, id: &InstanceId) -> Result<()> {
        self.change::<Instance>(Writer::Leader, id, |now| {
            if now.node.as_deref() != Some(node) {
                return Ok(WriteDecision::Keep);
            }
            match now.desired_state {
                DesiredState::Running => Ok(WriteDecision::Keep),
                DesiredState::Gone => Ok(without_node(now.record.clone())),
                DesiredState::Stopped => {
                    let mut next = now.record.clone();
                    (next.node, next.address, next.healthy) = (None, None, None);
                    let why = format!("{node} did not report that it stopped");
                    set_state(&mut next, InstanceState::Stopped, &why);
                    Ok(WriteDecision::put(next))
                }
            }
        })
        .await
        .map(drop)
    }

    /// Starts an instance again that has ended on its node.
    pub(crate) async fn restart_instance(&self, node: &str, id: &InstanceId) -> Result<()> {
        use InstanceState::{Crashed, Failed, Terminated};
        self.change::<Instance>(Writer::Leader, id, |now| {
            let ended = matches!(now.state, Crashed | Failed | Terminated);
            if now.node.as_deref() != Some(node)
                || now.desired_state != DesiredState::Running
                || !ended
            {
                return Ok(WriteDecision::Keep);
            }
            let mut next = now.record.clone();
            next.restarts = next.restarts.saturating_add(1);
            next.starts += 1;
            let why = format!("started again by restart policy {}", next.spec.restart);
            set_state(&mut next, InstanceState::Starting, &why);
            Ok(WriteDecision::put(next))
        })
        .await
        .map(drop)
    }
}
