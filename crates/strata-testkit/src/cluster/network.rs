//! The wires of a cluster: a namespace with a bridge, and one for each machine
//! with an address on it. A machine that is cut off receives nothing more and
//! gets no notice: its own end stays up, as with a switch that fails.

use std::net::Ipv4Addr;

use crate::NetworkNamespace;

/// The filter of a machine that cannot receive or cannot send.
const ONE_WAY: &str = "one_way";

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

    /// The network of the switch itself, which sees all that passes.
    pub fn network(&self) -> &NetworkNamespace {
        &self.network
    }

    /// Takes a machine off the switch.
    pub fn cut(&self, plug: &Plug) {
        let port = plug.port.as_str();
        self.network.run(["ip", "link", "set", port, "nomaster"]);
    }

    /// Has nothing reach a machine any more, while what it sends still does.
    pub fn deafen(&self, plug: &Plug) {
        Self::drop_all(plug, "input", "iifname");
    }

    /// Drops all that a machine sends, while it receives everything.
    pub fn mute(&self, plug: &Plug) {
        Self::drop_all(plug, "output", "oifname");
    }

    fn drop_all(plug: &Plug, hook: &str, side: &str) {
        let chain = format!("inet {ONE_WAY} block");
        let rules = format!(
            "add table inet {ONE_WAY}; \
             add chain {chain} {{ type filter hook {hook} priority -400; }}; \
             add rule {chain} {side} wan drop"
        );
        plug.network.run(["nft", &rules]);
    }

    /// Puts it back.
    pub fn heal(&self, plug: &Plug) {
        let port = plug.port.as_str();
        self.network
            .run(["ip", "link", "set", port, "master", "switch"]);
        // There is none unless it could not receive or not send.
        let one_way = ["nft", "delete", "table", "inet", ONE_WAY];
        plug.network.output(one_way);
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}
