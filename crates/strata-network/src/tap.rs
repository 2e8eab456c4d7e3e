//! A tap on the bridge for a VM. It lives as long as a process has its
//! descriptor: when daemon and VM are gone, so is the interface.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{Mode, OFlags};

use crate::error::{NetworkError, Result, kernel};
use crate::netlink::Batch;
use crate::network::Inner;
use crate::{Endpoint, Network, link, sys};

impl Network {
    /// Makes a tap for a VM, with the header of virtio before each packet.
    /// The descriptor is for QEMU; [`Endpoint::mac`] is what its NIC must
    /// have. An earlier tap of the endpoint is replaced.
    pub fn attach_tap(&self, endpoint: &Endpoint) -> Result<OwnedFd> {
        let inner = &self.0;
        inner.attach_with(endpoint, || {
            let name = inner.free_port(endpoint)?;
            let fail = |errno: rustix::io::Errno| NetworkError::Tap {
                name: name.clone(),
                source: errno.into(),
            };
            let mut links = inner.links();
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let tap = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(fail)?;
            sys::make_tap(&tap, &name).map_err(fail)?;
            let mut batch = Batch::default();
            let bridge = inner.bridge.load(Ordering::Acquire);
            link::join_bridge(&mut batch, &name, bridge, inner.mtu);
            inner.say_endpoint(&mut batch, endpoint);
            links
                .talk(&mut batch)
                .map_err(kernel(format!("attach {}", endpoint.name)))?;
            drop(links);
            inner.pin(endpoint.address)?;
            Ok(tap)
        })
    }
}

impl Inner {
    /// Takes away what the endpoint had, and finds a name that is free.
    fn free_port(&self, endpoint: &Endpoint) -> Result<String> {
        self.mark_ports_for_removal(endpoint.address)?;
        for name in self.port_names(endpoint.address) {
            if link::find(&mut self.links(), &name)?.is_none() {
                return Ok(name);
            }
        }
        self.sweeper.settle();
        let [usual, ..] = self.port_names(endpoint.address);
        Ok(usual)
    }
}
