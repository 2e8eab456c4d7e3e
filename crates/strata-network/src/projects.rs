//! Which project may reach which. Each project has a number on this node, and a
//! chain of a few rules that filters what it sends. Which endpoints are in it
//! and what it may reach are elements of sets and maps: an endpoint adds one
//! for each project that may reach it, and no rule.
//!
//! The node knows the projects of its own endpoints. The server sends those of
//! the addresses of other nodes. Both ends of a connection are checked, so that
//! a node that does not know yet which project a remote address belongs to does
//! not let more through: the other end knows. Everything of no project is of
//! the default one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::endpoint::{DEFAULT_PROJECT, Owner, ipv6_of};
use crate::error::Result;
use crate::network::Inner;
use crate::rules::{DEFAULT_PROJECT_NUMBER, Element};
use crate::{Endpoint, Network, Peer, Subnet};

/// The default subnet of a node.
const USUAL_PREFIX: u8 = 24;

/// What a server sends about projects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectAccess {
    /// The projects of addresses of other nodes; those that are not listed are
    /// the default project's.
    pub remote: BTreeMap<Ipv4Addr, String>,
    /// The first may reach the second. Each reaches itself.
    pub allowed: BTreeSet<(String, String)>,
}

/// What is known of projects.
#[derive(Debug)]
pub(crate) struct Projects {
    numbers: HashMap<String, u32>,
    access: ProjectAccess,
}

impl Default for Projects {
    fn default() -> Self {
        Self {
            numbers: HashMap::from([(DEFAULT_PROJECT.to_owned(), DEFAULT_PROJECT_NUMBER)]),
            access: ProjectAccess::default(),
        }
    }
}

impl Projects {
    /// The number of a project, and whether it is new.
    fn number(&mut self, project: &str) -> (u32, bool) {
        if let Some(number) = self.numbers.get(project) {
            return (*number, false);
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers.insert(project.to_owned(), number);
        (number, true)
    }

    fn known(&self, project: &str) -> Option<u32> {
        self.numbers.get(project).copied()
    }

    /// The elements of a member of a project: its addresses, and its ports of
    /// the bridge, if it is on this node.
    fn elements_of(&self, project: &str, addresses: &[IpAddr], ports: &[String]) -> Vec<Element> {
        let Some(own) = self.known(project) else {
            return Vec::new();
        };
        let allowed = || self.access.allowed.iter();
        let guests = allowed().filter(|(_, to)| to == project);
        let guests = guests.filter_map(|(from, _)| self.known(from));
        let reachers: Vec<u32> = guests.chain([own]).collect();
        let hosts = allowed().filter(|(from, _)| from == project);
        let answerers: Vec<u32> = hosts.filter_map(|(_, to)| self.known(to)).collect();
        let mut all = Vec::new();
        for address in addresses {
            all.push(Element::sends_from(*address, own));
            if own != DEFAULT_PROJECT_NUMBER {
                all.push(Element::owned(*address));
            }
            all.extend(reachers.iter().map(|from| Element::reach(*from, *address)));
        }
        for port in ports {
            all.extend(Element::port_sends(port, own));
            all.extend(reachers.iter().map(|from| Element::reach_port(*from, port)));
            let answers = answerers.iter().map(|to| Element::answer_port(*to, port));
            all.extend(answers);
        }
        all
    }
}

fn usual_subnet(address: Ipv4Addr) -> Option<Subnet> {
    let [a, b, c, _] = address.octets();
    Subnet::new(Ipv4Addr::new(a, b, c, 0), USUAL_PREFIX).ok()
}

impl Network {
    /// Sets which projects the addresses of other nodes belong to, and which
    /// project may reach which. Only what differs is changed.
    pub fn set_projects(&self, access: ProjectAccess) -> Result<()> {
        let inner = &self.0;
        let mut rules = inner.rules();
        let (endpoints, peers) = {
            let state = inner.state();
            let endpoints: Vec<Endpoint> = state.endpoints.values().cloned().collect();
            (endpoints, state.peers.all())
        };
        let elements = |projects: &Projects| -> BTreeSet<Element> {
            let own = endpoints.iter();
            let own = own.flat_map(|endpoint| inner.elements_of_owner(projects, endpoint));
            own.chain(inner.elements_of_remote(projects, &peers))
                .collect()
        };
        let (before, after, new) = {
            let mut projects = inner.projects();
            let before = elements(&projects);
            let allowed = access.allowed.iter().flat_map(|(from, to)| [from, to]);
            let named: Vec<&String> = allowed.chain(access.remote.values()).collect();
            let mut new = Vec::new();
            for name in named {
                if let (number, true) = projects.number(name) {
                    new.push(number);
                }
            }
            projects.access = access.clone();
            (before, elements(&projects), new)
        };
        let less = |a: &BTreeSet<Element>, b: &BTreeSet<Element>| -> Vec<Element> {
            a.difference(b).cloned().collect()
        };
        let (out, into) = (less(&before, &after), less(&after, &before));
        inner.directory.set_access(access);
        inner.change_with(&mut rules, &new, &out, &into)
    }
}

impl Inner {
    fn projects(&self) -> MutexGuard<'_, Projects> {
        let projects = self.projects.lock();
        projects.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the project of an endpoint a number, if it has none: then its
    /// chain is to be made.
    pub(crate) fn number_project(&self, endpoint: &Endpoint) -> Option<u32> {
        match self.projects().number(endpoint.owner.project()) {
            (number, true) => Some(number),
            (_, false) => None,
        }
    }

    /// The elements that hold the project of an endpoint.
    pub(crate) fn elements_of_endpoint(&self, endpoint: &Endpoint) -> Vec<Element> {
        self.elements_of_owner(&self.projects(), endpoint)
    }

    fn elements_of_owner(&self, projects: &Projects, endpoint: &Endpoint) -> Vec<Element> {
        let addresses = self.both_of(self.config.subnet, endpoint.address);
        let ports = self.port_names(endpoint.address);
        let project = endpoint.owner.project();
        let mut all = projects.elements_of(project, &addresses, &ports);
        let mac = endpoint.mac();
        for address in &addresses {
            all.push(Element::pin(mac, *address));
            let pins = ports.iter();
            all.extend(pins.map(|port| Element::port_pin(port, mac, *address)));
        }
        if endpoint.owner == Owner::Machine {
            all.extend(addresses.into_iter().map(Element::machine));
        }
        all
    }

    fn elements_of_remote(&self, projects: &Projects, peers: &BTreeSet<Peer>) -> Vec<Element> {
        let own = self.config.subnet;
        let remote = projects.access.remote.iter();
        let remote = remote.filter(|(address, _)| !own.contains(**address));
        let elements = |(address, project): (&Ipv4Addr, &String)| {
            let of_peer = peers.iter().map(|peer| peer.subnet);
            let mut of_peer = of_peer.filter(|subnet| subnet.contains(*address));
            let subnet = of_peer.next().or_else(|| usual_subnet(*address));
            let addresses = subnet.map(|subnet| self.both_of(subnet, *address));
            projects.elements_of(project, &addresses.unwrap_or_default(), &[])
        };
        remote.flat_map(elements).collect()
    }

    /// An address of a subnet, and the other one that goes with it.
    fn both_of(&self, subnet: Subnet, address: Ipv4Addr) -> Vec<IpAddr> {
        let other = self.ipv6.then(|| IpAddr::V6(ipv6_of(subnet, address)));
        [Some(IpAddr::V4(address)), other]
            .into_iter()
            .flatten()
            .collect()
    }

    /// What else is in the sets, of other nodes and of the configuration; and
    /// the numbers of all projects.
    pub(crate) fn standing(&self, peers: &BTreeSet<Peer>) -> (Vec<u32>, Vec<Element>) {
        let projects = self.projects();
        let numbers = projects.numbers.values().copied().collect();
        let ports = self.config.host_ports.iter();
        let ports = ports.map(|port| Element::host_port(*port));
        let api = self.config.api_ports.iter();
        let ports = ports.chain(api.map(|port| Element::api_port(*port)));
        let remote = self.elements_of_remote(&projects, peers);
        (numbers, remote.into_iter().chain(ports).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projects(allowed: &[(&str, &str)]) -> Projects {
        let mut projects = Projects::default();
        for (from, to) in allowed {
            for name in [from, to] {
                projects.number(name);
            }
            let pair = (from.to_string(), to.to_string());
            projects.access.allowed.insert(pair);
        }
        projects
    }

    #[test]
    fn a_project_reaches_itself_and_what_allows_it() {
        let mut projects = projects(&[("front", "shop")]);
        let (front, shop) = (projects.number("front").0, projects.number("shop").0);
        let address = IpAddr::from([10, 42, 0, 7]);
        let ports = ["st-x-007".to_owned()];
        let of = |project: &str| projects.elements_of(project, &[address], &ports);
        let of_shop = of("shop");
        for from in [front, shop] {
            assert!(of_shop.contains(&Element::reach(from, address)));
            assert!(of_shop.contains(&Element::reach_port(from, &ports[0])));
        }
        assert!(of_shop.contains(&Element::owned(address)));
        let of_front = of("front");
        assert!(!of_front.contains(&Element::reach(shop, address)));
        assert!(of_front.contains(&Element::answer_port(shop, &ports[0])));
        let of_default = of(DEFAULT_PROJECT);
        assert!(of_default.contains(&Element::reach(0, address)));
        assert!(!of_default.contains(&Element::owned(address)));
        assert!(of("unheard-of").is_empty());
    }
}
