//! Names and published ports of endpoints, in memory and in the rules. The
//! rules are made from memory: where a small change is refused because another
//! program changed the table, the table is rebuilt.

use crate::error::Result;
use crate::netlink::{NetlinkError, Socket};
use crate::network::Inner;
use crate::rules::Element;
use crate::{Endpoint, error};

impl Inner {
    /// The elements of an endpoint.
    pub(crate) fn elements(&self, endpoint: &Endpoint) -> Vec<Element> {
        let mut all = Element::of_endpoint(endpoint, self.config.subnet, self.ipv6);
        all.extend(self.elements_of_endpoint(endpoint));
        all
    }

    /// Writes down an endpoint and what it publishes.
    pub(crate) fn publish(&self, endpoint: &Endpoint) -> Result<()> {
        let mut rules = self.rules();
        let before = self
            .state()
            .endpoints
            .insert(endpoint.address, endpoint.clone());
        self.directory.insert(endpoint);
        let new = self.number_project(endpoint);
        let into = self.elements(endpoint);
        let mut out = before.as_ref().map_or_else(Vec::new, |e| self.elements(e));
        out.retain(|element| !into.contains(element));
        let done = self.change_with(&mut rules, new.as_slice(), &out, &into);
        if done.is_err() {
            self.directory.remove(endpoint);
            let mut state = self.state();
            match before {
                Some(before) => state.endpoints.insert(before.address, before),
                None => state.endpoints.remove(&endpoint.address),
            };
        }
        done
    }

    /// Removes an endpoint and what it publishes.
    pub(crate) fn unpublish(&self, endpoint: &Endpoint) -> Result<()> {
        let mut rules = self.rules();
        let known = self.state().endpoints.remove(&endpoint.address);
        self.directory.remove(endpoint);
        let out = known.as_ref().map_or_else(Vec::new, |e| self.elements(e));
        self.change(&mut rules, &out, &[])
    }

    /// Changes the rules, or makes them again where they are not as expected.
    pub(crate) fn change(
        &self,
        rules: &mut Socket,
        out: &[Element],
        into: &[Element],
    ) -> Result<()> {
        self.change_with(rules, &[], out, into)
    }

    /// The same with projects that are new.
    pub(crate) fn change_with(
        &self,
        rules: &mut Socket,
        projects: &[u32],
        out: &[Element],
        into: &[Element],
    ) -> Result<()> {
        let (out, into) = (self.possible(out), self.possible(into));
        let mut table = self.table_of(rules);
        match table.change(&self.facts, projects, &out, &into) {
            Err(NetlinkError::Refused { .. }) => self.rebuild(rules),
            done => done.map_err(error::kernel(format!("change the table {}", self.table))),
        }
    }

    /// Makes the table again from what is known.
    pub(crate) fn rebuild(&self, rules: &mut Socket) -> Result<()> {
        let state = self.state();
        let mut elements: Vec<Element> = Vec::new();
        for endpoint in state.endpoints.values() {
            self.number_project(endpoint);
            elements.extend(self.elements(endpoint));
        }
        elements.extend(state.uplinks.iter().map(|name| Element::uplink(name)));
        elements.extend(state.peers.admitted().map(Element::peer));
        let (projects, standing) = self.standing(&state.peers.all());
        elements.extend(standing);
        drop(state);
        let elements = self.possible(&elements);
        self.table_of(rules)
            .rebuild(&self.facts, &projects, &elements)
    }

    /// Without what the kernel has no table for; in the order of their sets.
    fn possible(&self, elements: &[Element]) -> Vec<Element> {
        let all = elements
            .iter()
            .filter(|one| self.facts.frames || !one.is_of_bridge());
        let mut all: Vec<Element> = all.cloned().collect();
        all.sort();
        all
    }
}
