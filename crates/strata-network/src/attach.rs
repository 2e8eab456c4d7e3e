//! Attaching a pod: a pair of interfaces, an address, a way out, and what it
//! publishes. Whole or nothing, and to be repeated at will.
//!
//! This is on the way of every start. The pair is made by one message while
//! a thread opens a socket in the pod's namespace; one batch there does the
//! rest. What is published is one small transaction.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;

use crate::endpoint::ipv6_of;
use crate::error::{NetworkError, Result, kernel};
use crate::link::{INSIDE, Link, Route};
use crate::netlink::{Batch, NetlinkError, Socket};
use crate::network::Inner;
use crate::{Endpoint, Network, link, netns};

const LOOPBACK: u32 = 1;
/// Between two looks at a port that comes up.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// How often it is looked at.
const MAX_POLLS: usize = 2000;

impl Network {
    /// Attaches the network namespace of a pod. Attaching the same endpoint
    /// to the same namespace again changes nothing; to another one, it moves
    /// there.
    pub fn attach(&self, netns: BorrowedFd<'_>, endpoint: &Endpoint) -> Result<()> {
        let inner = &self.0;
        inner.attach_with(endpoint, || inner.attach_pair(netns, endpoint))
    }

    /// Takes an endpoint off the network: what it published, its name, its
    /// interface. That is cut off at once and removed soon, see
    /// [`Network::settle`]. The address stays leased. Idempotent.
    pub fn detach(&self, endpoint: &Endpoint) -> Result<()> {
        self.0.unpublish(endpoint)?;
        self.0.mark_ports_for_removal(endpoint.address)?;
        self.0.forget_endpoint(endpoint);
        self.0.state().ports.keep_only(endpoint.address, &[]);
        Ok(())
    }
}

/// Refuses an endpoint of another project than those on the bridge.
fn check_bridge<'a>(
    endpoint: &Endpoint,
    attached: impl IntoIterator<Item = &'a Endpoint>,
) -> Result<()> {
    let project = endpoint.owner.project();
    let others = attached.into_iter();
    match { others }.find(|other| other.owner.project() != project) {
        None => Ok(()),
        Some(other) => Err(NetworkError::SharedBridge {
            name: endpoint.name.clone(),
            project: project.to_owned(),
            other: other.name.clone(),
            other_project: other.owner.project().to_owned(),
        }),
    }
}

impl Inner {
    /// What attaching is for pods and VMs alike: ports, interface, rules;
    /// undone when a step fails.
    pub(crate) fn attach_with<T>(
        &self,
        endpoint: &Endpoint,
        interface: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.check_endpoint(endpoint)?;
        let (owner, ports) = (endpoint.address, &endpoint.ports);
        let fresh = self.state().ports.hold(owner, ports, self.ipv6)?;
        let attached = interface().and_then(|done| {
            self.publish(endpoint)?;
            Ok(done)
        });
        if attached.is_ok() {
            self.state().ports.keep_only(owner, ports);
        } else {
            if let Err(error) = self.mark_ports_for_removal(owner) {
                tracing::warn!(endpoint = endpoint.name, %error, "endpoint not detached after a failed attach");
            }
            self.state().ports.release(owner, &fresh);
        }
        attached
    }

    fn check_endpoint(&self, endpoint: &Endpoint) -> Result<()> {
        let address = endpoint.address;
        let mut state = self.state();
        match state.pool.lease(Some(address)) {
            Ok(_) | Err(crate::AddressPoolError::Taken(_)) => {}
            Err(_) => {
                return Err(NetworkError::ForeignAddress {
                    name: endpoint.name.clone(),
                    address,
                });
            }
        }
        if !self.facts.frames && !self.config.shared_bridge {
            check_bridge(endpoint, state.endpoints.values())?;
        }
        match state.endpoints.get(&address) {
            Some(other) if other.name != endpoint.name => Err(NetworkError::AddressInUse {
                name: endpoint.name.clone(),
                address,
                owner: other.name.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn attach_pair(&self, netns: BorrowedFd<'_>, endpoint: &Endpoint) -> Result<()> {
        std::thread::scope(|scope| {
            let opening = netns::open(scope, netns)?;
            let [usual, ..] = self.port_names(endpoint.address);
            let made = self.make_pair(netns, endpoint, &usual);
            let mut inside = opening.finish()?;
            match made {
                Ok(()) => {}
                Err(error) if error.is(Errno::EXIST) => {
                    self.replace_pair(netns, &mut inside, endpoint)?;
                }
                Err(error) if error.is(Errno::INVAL) || error.is(Errno::NODEV) => {
                    // The bridge is gone, and the watcher not yet here.
                    self.repair_bridge()?;
                    self.repair_overlay()?;
                    self.make_pair(netns, endpoint, &usual)
                        .map_err(kernel(format!("attach {}", endpoint.name)))?;
                }
                Err(error) => return Err(kernel(format!("attach {}", endpoint.name))(error)),
            }
            self.pin(endpoint.address)?;
            self.configure(&mut inside, endpoint)?;
            self.await_port(endpoint)
        })
    }

    /// Waits until the bridge passes packets of the new port on, and the host's
    /// own to it. The kernel notices that both ends are up a moment later, on a
    /// thread of its own, and later still that a bridge whose first port came
    /// is up; what is sent before is lost, and the first thing most programs do
    /// is resolve a name. The kernel notifies only listeners for all events of
    /// all interfaces, so it is polled.
    fn await_port(&self, endpoint: &Endpoint) -> Result<()> {
        for _ in 0..MAX_POLLS {
            if self.port_passes(endpoint)? && self.bridge_passes()? {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        tracing::warn!(
            endpoint = endpoint.name,
            "bridge port of the endpoint is slow to come up"
        );
        Ok(())
    }

    fn port_passes(&self, endpoint: &Endpoint) -> Result<bool> {
        for name in self.port_names(endpoint.address) {
            let port = link::find(&mut self.links(), &name)?;
            if port.is_some_and(|port| port.passes && !port.is_pending_removal()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn bridge_passes(&self) -> Result<bool> {
        let bridge = link::find(&mut self.links(), &self.config.tag.bridge())?;
        Ok(bridge.is_some_and(|bridge| bridge.passes))
    }

    fn make_pair(
        &self,
        netns: BorrowedFd<'_>,
        endpoint: &Endpoint,
        name: &str,
    ) -> Result<(), NetlinkError> {
        let mut batch = Batch::default();
        let bridge = self.bridge.load(Ordering::Acquire);
        let inside = (endpoint.mac(), netns);
        link::add_pair(&mut batch, name, bridge, self.mtu, inside);
        self.say_endpoint(&mut batch, endpoint);
        self.links().talk(&mut batch).map(drop)
    }

    /// One of the two names is taken: by the very pair that is requested, by
    /// what an earlier namespace left, or by something that is not ours.
    fn replace_pair(
        &self,
        netns: BorrowedFd<'_>,
        inside: &mut Socket,
        endpoint: &Endpoint,
    ) -> Result<()> {
        let names = self.port_names(endpoint.address);
        let mut outer = Vec::new();
        for name in &names {
            outer.push(link::find(&mut self.links(), name)?);
        }
        if let Some(inner) = link::find(inside, INSIDE)? {
            if inner.mac != Some(endpoint.mac()) {
                return Err(NetworkError::InterfaceTaken {
                    name: endpoint.name.clone(),
                });
            }
            let wanted = |link: &Link| inner.pair == Some(link.index) && !link.is_pending_removal();
            if outer.iter().flatten().any(wanted) {
                return Ok(());
            }
            link::delete(inside, INSIDE)?;
        }
        self.mark_ports_for_removal(endpoint.address)?;
        let free = outer.iter().position(Option::is_none).unwrap_or_else(|| {
            // Started again four times within the blink of an eye.
            self.sweeper.settle();
            0
        });
        self.make_pair(netns, endpoint, &names[free])
            .map_err(kernel(format!("attach {}", endpoint.name)))
    }

    fn configure(&self, inside: &mut Socket, endpoint: &Endpoint) -> Result<()> {
        let Some(interface) = link::find(inside, INSIDE)? else {
            return Err(NetworkError::InterfaceTaken {
                name: endpoint.name.clone(),
            });
        };
        let subnet = self.config.subnet;
        let index = interface.index;
        let mut batch = Batch::default();
        link::set_up(&mut batch, LOOPBACK);
        link::set_up(&mut batch, index);
        let mut address = |own: IpAddr, prefix: u8, gateway: IpAddr| {
            link::add_address(&mut batch, index, own, prefix);
            Route::default(gateway, index).add(&mut batch);
        };
        let gateway = subnet.gateway();
        address(endpoint.address.into(), subnet.prefix(), gateway.into());
        if self.ipv6 {
            let (own, gateway) = (ipv6_of(subnet, endpoint.address), ipv6_of(subnet, gateway));
            address(own.into(), 64, gateway.into());
        }
        self.say_gateway(&mut batch, index);
        inside
            .talk(&mut batch)
            .map(drop)
            .map_err(kernel(format!("give {} its address", endpoint.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    fn endpoint(name: &str, owner: Owner) -> Endpoint {
        Endpoint {
            name: name.into(),
            aliases: Vec::new(),
            address: [10, 42, 0, 2].into(),
            ports: Vec::new(),
            owner,
        }
    }

    #[test]
    fn bridge_without_rules_has_one_project_only() {
        let of = |name: &str, project: &str| endpoint(name, Owner::Project(project.into()));
        let attached = [of("web", "shop"), of("db", "shop")];
        check_bridge(&of("more", "shop"), &attached).unwrap();
        check_bridge(&of("first", "rival"), &[]).unwrap();
        let refused = check_bridge(&of("spy", "rival"), &attached).unwrap_err();
        let text = refused.to_string();
        for part in ["spy", "rival", "web", "shop", "allow_shared_bridge"] {
            assert!(text.contains(part), "{text}");
        }
        // What is of no project is of the default one.
        check_bridge(&endpoint("own", Owner::Node), &attached).unwrap_err();
        check_bridge(&endpoint("own", Owner::Node), &[of("d", "default")]).unwrap();
    }
}
