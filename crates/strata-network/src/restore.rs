//! After a start of the daemon: memory and kernel are set to exactly what
//! the caller knows to be there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use crate::anti_spoofing::pin_port;
use crate::error::{NetworkError, Result, kernel};
use crate::netlink::Batch;
use crate::{Endpoint, Mac, Network, PublishedPort, link};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Interfaces of ours that had no owner, and are gone now.
    pub removed: Vec<String>,
    /// Endpoints without an interface: what they were is no longer there.
    pub missing: Vec<Ipv4Addr>,
    /// Published ports that another process took meanwhile. They are passed
    /// on all the same: that comes before any socket of the host.
    pub contested: Vec<PublishedPort>,
}

impl Network {
    /// Sets leases, names, published ports and interfaces to exactly these
    /// endpoints. The rules are rebuilt in one transaction.
    pub fn restore(&self, endpoints: &[Endpoint]) -> Result<Restored> {
        let inner = &self.0;
        let subnet = inner.config.subnet;
        if let Some(foreign) = endpoints.iter().find(|e| !subnet.contains(e.address)) {
            return Err(NetworkError::ForeignAddress {
                name: foreign.name.clone(),
                address: foreign.address,
            });
        }
        let mut restored = Restored::default();
        let mut rules = inner.rules();
        {
            let mut state = inner.state();
            state.pool.set(endpoints.iter().map(|e| e.address));
            state.endpoints = endpoints.iter().map(|e| (e.address, e.clone())).collect();
            state.ports.clear();
            for endpoint in endpoints {
                for port in &endpoint.ports {
                    if let Err(error) = state.ports.hold(endpoint.address, &[*port], inner.ipv6) {
                        tracing::warn!(endpoint = endpoint.name, %port, %error, "published port not reserved");
                        restored.contested.push(*port);
                    }
                }
            }
        }
        inner.directory.set(endpoints);
        inner.rebuild(&mut rules)?;
        drop(rules);
        self.restore_interfaces(endpoints, &mut restored)?;
        Ok(restored)
    }

    fn restore_interfaces(&self, endpoints: &[Endpoint], restored: &mut Restored) -> Result<()> {
        let inner = &self.0;
        let bridge = inner.bridge.load(Ordering::Acquire);
        let mut missing: BTreeSet<Ipv4Addr> = endpoints.iter().map(|e| e.address).collect();
        let mut links = inner.links();
        let mut gone = Vec::new();
        for found in link::all(&mut links)? {
            let Some(index) = inner.config.tag.port_index(&found.name) else {
                continue;
            };
            if found.is_pending_removal() || !missing.remove(&inner.config.subnet.at(index)) {
                restored.removed.push(found.name.clone());
                gone.push(found);
            } else if found.master != Some(bridge) || !found.up {
                let mut batch = Batch::default();
                link::join_bridge(&mut batch, &found.name, bridge, inner.mtu);
                let joined = links.talk(&mut batch).map_err(kernel("join the bridge"));
                let mac = Mac::of(inner.config.subnet.at(index));
                if let Err(error) = joined.and_then(|_| pin_port(&mut links, &found, mac)) {
                    tracing::warn!(interface = found.name, %error, "interface not reattached to the bridge");
                }
            }
        }
        crate::deferred_removal::remove_now(&mut links, &gone)?;
        restored.missing = missing.into_iter().collect();
        Ok(())
    }
}
