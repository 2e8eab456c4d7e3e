//! The wires of a cluster: a namespace with a bridge, and one for each machine
//! with an address on it. Whoever is cut off hears nothing more and is told
//! nothing: its own end stays up, as with a switch that fails.

use std::net::Ipv4Addr;

use crate::NetworkNamespace;

/// The bridge, and what hangs on it.
#[derive(Clone, Debug)]
pub struct Switch {
    network: NetworkNamespace,
}

/// A machine on the switch.
#[derive(Clone, Debug)]
pub struct Plug {
    /// Its own network.
    pub network: NetworkNamespace,
    /// Its address.
    pub address: Ipv4Addr,
    port: String,
}

impl Switch {
    /// A switch with nothing on it.
    pub fn new() -> Self {
        let network = NetworkNamespace::new();
        network.run(["ip", "link", "add", "switch", "type", "bridge"]);
        network.run(["ip", "link", "set", "switch", "up"]);
        Self { network }
    }

    /// A machine with the address 192.0.2.`number`.
    ///
    /// # Panics
    /// When this machine cannot.
    pub fn plug(&self, number: u8) -> Plug {
        let inner = NetworkNamespace::new();
        let address = Ipv4Addr::new(192, 0, 2, number);
        let (port, cidr) = (format!("port{number}"), format!("{address}/24"));
        let path = inner.path().display().to_string();
        let pid = path.split('/').nth(2).expect("a path of proc").to_owned();
        self.network.run([
            "ip", "link", "add", &port, "type", "veth", "peer", "name", "wan", "netns", &pid,
        ]);
        inner.run(["ip", "addr", "add", &cidr, "dev", "wan"]);
        inner.run(["ip", "link", "set", "wan", "up"]);
        self.network.run(["ip", "link", "set", &port, "up"]);
        let plug = Plug {
            network: inner,
            address,
            port,
        };
        self.heal(&plug);
        plug
    }

    /// Takes a machine off the switch.
    pub fn cut(&self, plug: &Plug) {
        let port = plug.port.as_str();
        self.network.run(["ip", "link", "set", port, "nomaster"]);
    }

    /// Puts it back.
    pub fn heal(&self, plug: &Plug) {
        let port = plug.port.as_str();
        self.network
            .run(["ip", "link", "set", port, "master", "switch"]);
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}
