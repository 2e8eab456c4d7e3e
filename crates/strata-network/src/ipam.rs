//! The addresses of a node: given out, taken back. Pure, in memory; which pod
//! has which is recorded with the pods, and restored after a restart.
//!
//! An address that came back is given out again as late as possible, so that
//! packets on their way to its last owner do not reach an untrusted party.

use std::net::Ipv4Addr;

use crate::Subnet;

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressPoolError {
    /// All are given out.
    #[error("no address is left in {subnet}: all {total} are given out")]
    Exhausted {
        subnet: Subnet,
        /// How many addresses it has for endpoints.
        total: u32,
    },
    /// The requested one is taken.
    #[error("address {0} is given out already")]
    Taken(Ipv4Addr),
    /// The requested one is not of this node, or not for endpoints.
    #[error("address {address} is not one that {subnet} has for endpoints")]
    NotOurs { address: Ipv4Addr, subnet: Subnet },
}

/// The addresses of one subnet.
#[derive(Clone, Debug)]
pub(crate) struct AddressPool {
    subnet: Subnet,
    given: Vec<bool>,
    free: u32,
    next: u32,
}

impl AddressPool {
    /// All of a subnet but the network itself, the gateway and the broadcast
    /// address.
    pub(crate) fn new(subnet: Subnet) -> Self {
        let size = subnet.size() as usize;
        let mut given = vec![false; size];
        for reserved in [0, 1, size - 1] {
            given[reserved] = true;
        }
        Self {
            subnet,
            free: given.iter().filter(|given| !**given).count() as u32,
            given,
            next: 2,
        }
    }

    /// How many addresses there are for endpoints.
    pub(crate) fn total(&self) -> u32 {
        self.given.len() as u32 - 3
    }

    /// How many of them are given out.
    pub(crate) fn leased(&self) -> u32 {
        self.total() - self.free
    }

    /// Gives out the next free address, or the requested one.
    pub(crate) fn lease(&mut self, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr, AddressPoolError> {
        let index = match wanted {
            Some(address) => self.wanted(address)?,
            None => self.next_free()?,
        };
        self.given[index as usize] = true;
        self.free -= 1;
        if wanted.is_none() {
            self.next = index + 1;
        }
        Ok(self.subnet.at(index))
    }

    /// Takes an address back; one that was not given out is no error.
    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        if let Some(index) = self.for_endpoints(address)
            && std::mem::take(&mut self.given[index as usize])
        {
            self.free += 1;
        }
    }

    /// Gives out exactly these.
    pub(crate) fn set(&mut self, addresses: impl IntoIterator<Item = Ipv4Addr>) {
        let next = self.next;
        *self = Self::new(self.subnet);
        self.next = next;
        for address in addresses {
            let _ = self.lease(Some(address));
        }
    }

    fn for_endpoints(&self, address: Ipv4Addr) -> Option<u32> {
        let index = self.subnet.index_of(address)?;
        (2..self.given.len() as u32 - 1)
            .contains(&index)
            .then_some(index)
    }

    fn wanted(&self, address: Ipv4Addr) -> Result<u32, AddressPoolError> {
        let index = self
            .for_endpoints(address)
            .ok_or(AddressPoolError::NotOurs {
                address,
                subnet: self.subnet,
            })?;
        if self.given[index as usize] {
            return Err(AddressPoolError::Taken(address));
        }
        Ok(index)
    }

    fn next_free(&self) -> Result<u32, AddressPoolError> {
        let size = self.given.len() as u32;
        (0..size)
            .map(|step| (self.next + step) % size)
            .find(|index| !self.given[*index as usize])
            .ok_or(AddressPoolError::Exhausted {
                subnet: self.subnet,
                total: self.total(),
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn subnet() -> Subnet {
        "10.42.0.0/28".parse().unwrap()
    }

    #[test]
    fn an_exhausted_subnet_says_how_many_there_are() {
        let mut pool = AddressPool::new(subnet());
        for _ in 0..13 {
            pool.lease(None).unwrap();
        }
        let error = pool.lease(None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no address is left in 10.42.0.0/28: all 13 are given out"
        );
        pool.release(Ipv4Addr::new(10, 42, 0, 9));
        assert_eq!(pool.lease(None).unwrap(), Ipv4Addr::new(10, 42, 0, 9));
    }

    #[test]
    fn a_returned_address_is_not_given_out_at_once() {
        let mut pool = AddressPool::new(subnet());
        let first = pool.lease(None).unwrap();
        pool.release(first);
        assert_ne!(pool.lease(None).unwrap(), first);
    }

    #[test]
    fn reserved_addresses_cannot_be_leased() {
        let mut pool = AddressPool::new(subnet());
        for index in [0, 1, 15, 16] {
            let wanted = subnet().at(index);
            assert!(matches!(
                pool.lease(Some(wanted)),
                Err(AddressPoolError::NotOurs { .. })
            ));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Lease,
        Want(u32),
        Release(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Lease),
            (0..20u32).prop_map(Step::Want),
            (0..20u32).prop_map(Step::Release),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Against the plainest model: a set of those given out.
        #[test]
        fn no_address_is_given_out_twice_and_none_is_lost(steps in steps()) {
            let mut pool = AddressPool::new(subnet());
            let mut given = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Lease => match pool.lease(None) {
                        Ok(address) => prop_assert!(given.insert(address)),
                        Err(_) => prop_assert_eq!(given.len(), 13),
                    },
                    Step::Want(index) => {
                        let address = subnet().at(index);
                        let free = (2..15).contains(&index) && !given.contains(&address);
                        prop_assert_eq!(pool.lease(Some(address)).is_ok(), free);
                        if free {
                            given.insert(address);
                        }
                    }
                    Step::Release(index) => {
                        let address = subnet().at(index);
                        pool.release(address);
                        given.remove(&address);
                    }
                }
                prop_assert_eq!(pool.free as usize, 13 - given.len());
                prop_assert!(given.iter().all(|a| (2..15).contains(&subnet().index_of(*a).unwrap())));
            }
        }
    }
}
