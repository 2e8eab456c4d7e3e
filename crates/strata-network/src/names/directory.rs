//! Which endpoint has which name, and what a query for it returns. Pure but for
//! its lock, which is held for a lookup and no longer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{PoisonError, RwLock};

use super::remote::RemoteNames;
use crate::{DOMAIN, Endpoint, ProjectAccess, Subnet};

/// More addresses than this do not fit into the smallest packet.
const MAX_ADDRESSES: usize = 16;

/// What is queried, of what we can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryType {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// The name of an address.
    Ptr,
    Other,
}

/// What the answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These addresses; none when the name has none of the kind.
    Addresses(Vec<IpAddr>),
    Name(String),
    /// There is no such name.
    NoSuchName,
    NotOurs,
}

/// The names of the node.
#[derive(Debug)]
pub(crate) struct Directory {
    range: Subnet,
    known: RwLock<KnownName>,
    remote: RemoteNames,
}

#[derive(Debug, Default)]
struct KnownName {
    /// Names are unique within a project only, so one can mean several.
    names: HashMap<String, BTreeSet<Ipv4Addr>>,
    addresses: BTreeMap<Ipv4Addr, String>,
    /// The endpoints that claim this alias. The first one has it, and those
    /// behind it wait until it goes.
    aliases: HashMap<String, Vec<Ipv4Addr>>,
    /// Whose the endpoints are.
    projects: HashMap<Ipv4Addr, String>,
    /// The projects of addresses of other nodes, and which project may reach
    /// which.
    access: ProjectAccess,
    /// The host's own address among them.
    host: Option<Ipv4Addr>,
}

impl KnownName {
    fn insert(&mut self, endpoint: &Endpoint) {
        let aliases = endpoint.aliases.iter();
        let aliases: Vec<_> = aliases.map(|alias| alias.to_ascii_lowercase()).collect();
        self.remove_all_but(endpoint.address, &aliases);
        let name = endpoint.name.to_ascii_lowercase();
        self.names
            .entry(name.clone())
            .or_default()
            .insert(endpoint.address);
        self.addresses.insert(endpoint.address, name);
        let project = endpoint.owner.project().to_owned();
        self.projects.insert(endpoint.address, project);
        for alias in aliases {
            let claims = self.aliases.entry(alias).or_default();
            if !claims.contains(&endpoint.address) {
                claims.push(endpoint.address);
            }
        }
    }

    fn remove(&mut self, address: Ipv4Addr) {
        self.remove_all_but(address, &[]);
    }

    /// The same, but it keeps its place among those that claim these aliases.
    fn remove_all_but(&mut self, address: Ipv4Addr, aliases: &[String]) {
        let Some(name) = self.addresses.remove(&address) else {
            return;
        };
        self.projects.remove(&address);
        if let Some(addresses) = self.names.get_mut(&name) {
            addresses.remove(&address);
            if addresses.is_empty() {
                self.names.remove(&name);
            }
        }
        self.aliases.retain(|alias, claims| {
            claims.retain(|claim| *claim != address || aliases.contains(alias));
            !claims.is_empty()
        });
    }

    /// The endpoints of this name, of those that the client may reach: for it
    /// the others have no name. A name comes before an alias.
    fn find(&self, name: &str, client: IpAddr) -> Option<BTreeSet<Ipv4Addr>> {
        let may = |address: &&Ipv4Addr| self.may_find(client, **address);
        let named = self.names.get(name);
        let named = named.map(|all| all.iter().filter(may).copied().collect());
        let named = named.filter(|all: &BTreeSet<_>| !all.is_empty());
        let aliased = || {
            let first = self.aliases.get(name)?.iter().find(may)?;
            Some(BTreeSet::from([*first]))
        };
        named.or_else(aliased)
    }

    fn is_host(&self, address: Ipv4Addr) -> bool {
        self.host == Some(address)
    }

    /// The project of an address; none where neither this node nor the server
    /// has assigned the address. Unlike the packet filter, which checks at both
    /// ends, this is the only place that decides on a name: an address that is
    /// not announced yet is of no project, the default one included. That costs
    /// nothing: pods query the resolver of their own node, which knows them
    /// before they run.
    fn project(&self, address: Ipv4Addr) -> Option<&str> {
        let known = self.projects.get(&address);
        let known = known.or_else(|| self.access.remote.get(&address));
        known.map(String::as_str)
    }

    /// Whether the source of a query may resolve another address. The host may.
    fn may_find(&self, client: IpAddr, target: Ipv4Addr) -> bool {
        let project = self.project(target);
        project.is_some_and(|project| self.may_find_project(client, project))
    }

    fn may_find_project(&self, client: IpAddr, to: &str) -> bool {
        let client = match client {
            IpAddr::V4(client) if !client.is_loopback() && !self.is_host(client) => client,
            _ => return true,
        };
        let Some(from) = self.project(client) else {
            return false;
        };
        let pair = || (from.to_owned(), to.to_owned());
        from == to || self.access.allowed.contains(&pair())
    }
}

impl Directory {
    /// For a node of which the host has this address.
    pub(crate) fn new(range: Subnet, host: Ipv4Addr, remote: RemoteNames) -> Self {
        let known = KnownName {
            host: Some(host),
            ..KnownName::default()
        };
        Self {
            range,
            known: RwLock::new(known),
            remote,
        }
    }

    pub(crate) fn insert(&self, endpoint: &Endpoint) {
        self.write(|known| known.insert(endpoint));
    }

    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        self.write(|known| known.remove(endpoint.address));
    }

    pub(crate) fn set(&self, endpoints: &[Endpoint]) {
        self.write(|known| {
            let access = std::mem::take(&mut known.access);
            let host = known.host;
            *known = KnownName {
                access,
                host,
                ..KnownName::default()
            };
            endpoints.iter().for_each(|endpoint| known.insert(endpoint));
        });
    }

    /// Which project may resolve names of which.
    pub(crate) fn set_access(&self, access: ProjectAccess) {
        self.write(|known| known.access = access);
    }

    fn write(&self, change: impl FnOnce(&mut KnownName)) {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The project of a source, as far as it is known.
    pub(super) fn project_of(&self, client: IpAddr) -> Option<String> {
        let IpAddr::V4(client) = client else {
            return None;
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.project(client).map(str::to_owned)
    }

    /// Whether a client at this address may query: only our own.
    pub(super) fn may_ask(&self, client: IpAddr) -> bool {
        match client {
            IpAddr::V4(ip) => self.range.contains(ip) || ip.is_loopback(),
            IpAddr::V6(_) => false,
        }
    }

    /// Answers a client's query for a name, as it came.
    pub(super) fn answer(&self, name: &str, kind: QueryType, client: IpAddr) -> Answer {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(address) = reverse(&name) {
            return self.name_of(address, kind, client);
        }
        let inside = match name.strip_suffix(DOMAIN) {
            Some("") => return Answer::Addresses(Vec::new()),
            Some(rest) => rest.strip_suffix('.'),
            None => None,
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let called = inside.unwrap_or(&name);
        let may = |project: &str| known.may_find_project(client, project);
        let addresses = known.find(called, client);
        let addresses = addresses.or_else(|| self.remote.find(called, may));
        match (addresses, inside) {
            (Some(addresses), _) => Answer::Addresses(Self::of_kind(&addresses, kind)),
            (None, Some(_)) => Answer::NoSuchName,
            (None, None) => Answer::NotOurs,
        }
    }

    fn of_kind(addresses: &BTreeSet<Ipv4Addr>, kind: QueryType) -> Vec<IpAddr> {
        let some = addresses.iter().take(MAX_ADDRESSES);
        match kind {
            QueryType::A => some.map(|address| IpAddr::V4(*address)).collect(),
            // Every endpoint has an IPv4 address; a virtual machine has the
            // other only if its guest sets it, and clients try that one first.
            _ => Vec::new(),
        }
    }

    fn name_of(&self, address: Ipv4Addr, kind: QueryType, client: IpAddr) -> Answer {
        if !self.range.contains(address) {
            return Answer::NotOurs;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let name = known.addresses.get(&address).cloned();
        let own = name.filter(|_| known.may_find(client, address));
        let may = |project: &str| known.may_find_project(client, project);
        match own.or_else(|| self.remote.name_of(address, may)) {
            Some(name) if kind == QueryType::Ptr => Answer::Name(format!("{name}.{DOMAIN}")),
            Some(_) => Answer::Addresses(Vec::new()),
            None => Answer::NoSuchName,
        }
    }
}

/// The address in `7.0.42.10.in-addr.arpa`.
fn reverse(name: &str) -> Option<Ipv4Addr> {
    let address: Ipv4Addr = name.strip_suffix(".in-addr.arpa")?.parse().ok()?;
    let [a, b, c, d] = address.octets();
    Some(Ipv4Addr::new(d, c, b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_PROJECT, NameChange, Owner, RemoteName};

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);

    fn directory() -> Directory {
        let directory = Directory::new(
            "10.42.0.0/16".parse().unwrap(),
            HOST,
            RemoteNames::default(),
        );
        directory.insert(&endpoint("web", 7));
        directory
    }

    fn endpoint(name: &str, last: u8) -> Endpoint {
        Endpoint {
            name: name.into(),
            aliases: Vec::new(),
            address: Ipv4Addr::new(10, 42, 0, last),
            ports: Vec::new(),
            owner: Default::default(),
        }
    }

    fn addresses(last: &[u8]) -> Answer {
        let all = last.iter().map(|d| Ipv4Addr::new(10, 42, 0, *d).into());
        Answer::Addresses(all.collect())
    }

    #[test]
    fn a_name_is_found_with_and_without_the_domain_in_any_case() {
        let directory = directory();
        for name in ["web", "WEB", "web.strata.internal", "Web.Strata.Internal."] {
            assert_eq!(
                directory.answer(name, QueryType::A, HOST.into()),
                addresses(&[7]),
                "{name}"
            );
        }
        assert_eq!(
            directory.answer("web", QueryType::Other, HOST.into()),
            addresses(&[])
        );
    }

    #[test]
    fn unknown_names_are_denied_in_our_zone_and_forwarded_elsewhere() {
        let directory = directory();
        let answer = |name| directory.answer(name, QueryType::A, HOST.into());
        assert_eq!(answer("gone.strata.internal"), Answer::NoSuchName);
        assert_eq!(answer("example.org"), Answer::NotOurs);
        assert_eq!(answer("notstrata.internal"), Answer::NotOurs);
    }

    #[test]
    fn an_address_has_its_name_back() {
        let directory = directory();
        let ask = |name| directory.answer(name, QueryType::Ptr, HOST.into());
        assert_eq!(
            ask("7.0.42.10.in-addr.arpa."),
            Answer::Name("web.strata.internal".into())
        );
        assert_eq!(ask("8.0.42.10.in-addr.arpa"), Answer::NoSuchName);
        assert_eq!(ask("8.8.8.8.in-addr.arpa"), Answer::NotOurs);
    }

    #[test]
    fn an_alias_is_the_first_ones_until_it_goes() {
        let directory = directory();
        let aliased = |name: &str, last, aliases: &[&str]| Endpoint {
            aliases: aliases.iter().map(ToString::to_string).collect(),
            ..endpoint(name, last)
        };
        let (one, two) = (
            aliased("one", 3, &["API", "api.shop", "web"]),
            aliased("two", 4, &["api"]),
        );
        directory.insert(&one);
        directory.insert(&two);
        let ask = |name| directory.answer(name, QueryType::A, HOST.into());
        assert_eq!(ask("api"), addresses(&[3]));
        assert_eq!(ask("api.shop.strata.internal"), addresses(&[3]));
        assert_eq!(ask("web"), addresses(&[7]), "a name comes first");
        // The same again does not put it behind those that wait.
        directory.insert(&one);
        assert_eq!(ask("api"), addresses(&[3]));
        directory.remove(&one);
        assert_eq!(ask("api"), addresses(&[4]));
        assert_eq!(ask("api.shop"), Answer::NotOurs);
        directory.remove(&two);
        assert_eq!(ask("api"), Answer::NotOurs);
    }

    #[test]
    fn names_of_other_nodes_are_for_the_same_project() {
        let directory = directory();
        let remote = |last: u8, project: &str, name: &str| RemoteName {
            address: Ipv4Addr::new(10, 42, 9, last),
            project: project.into(),
            names: vec![format!("{name}.{project}"), name.into()],
        };
        directory.remote.update(NameChange {
            complete: true,
            names: vec![
                ("a".into(), remote(1, DEFAULT_PROJECT, "db")),
                ("b".into(), remote(2, "shop", "cart")),
                ("c".into(), remote(3, DEFAULT_PROJECT, "web")),
            ],
            gone: Vec::new(),
        });
        let far = |last: u8| Answer::Addresses(vec![Ipv4Addr::new(10, 42, 9, last).into()]);
        let client = IpAddr::from([10, 42, 0, 7]);
        let ask = |name: &str| directory.answer(name, QueryType::A, client);
        for name in ["db", "DB.strata.internal", "db.default"] {
            assert_eq!(ask(name), far(1), "{name}");
        }
        assert_eq!(ask("cart.shop"), Answer::NotOurs, "another project's");
        assert_eq!(ask("web"), addresses(&[7]), "one of this node comes first");
        assert_eq!(
            directory.answer("1.9.42.10.in-addr.arpa", QueryType::Ptr, client),
            Answer::Name("db.default.strata.internal".into())
        );
        directory.remote.update(NameChange {
            gone: vec!["a".into()],
            ..NameChange::default()
        });
        assert_eq!(ask("db"), Answer::NotOurs);
    }

    /// A pod of another node sends its queries here before the server has sent
    /// its project.
    #[test]
    fn source_that_is_not_announced_gets_no_names_of_any_project() {
        let directory = directory();
        directory.remote.update(NameChange {
            complete: true,
            names: vec![(
                "a".into(),
                RemoteName {
                    address: Ipv4Addr::new(10, 42, 9, 1),
                    project: DEFAULT_PROJECT.into(),
                    names: vec!["db.default".into(), "db".into()],
                },
            )],
            gone: Vec::new(),
        });
        // Of another node, and of this one's subnet without an endpoint.
        for client in [[10, 42, 8, 5], [10, 42, 0, 99]] {
            let client = IpAddr::from(client);
            for name in ["web", "db", "db.default"] {
                assert_eq!(
                    directory.answer(name, QueryType::A, client),
                    Answer::NotOurs
                );
            }
            for name in ["web.strata.internal", "db.strata.internal"] {
                assert_eq!(
                    directory.answer(name, QueryType::A, client),
                    Answer::NoSuchName
                );
            }
            for name in ["7.0.42.10.in-addr.arpa", "1.9.42.10.in-addr.arpa"] {
                assert_eq!(
                    directory.answer(name, QueryType::Ptr, client),
                    Answer::NoSuchName
                );
            }
        }
        let announced = Ipv4Addr::new(10, 42, 8, 5);
        directory.set_access(ProjectAccess {
            remote: [(announced, "shop".to_owned())].into(),
            allowed: [("shop".to_owned(), DEFAULT_PROJECT.to_owned())].into(),
        });
        assert_eq!(
            directory.answer("web", QueryType::A, announced.into()),
            addresses(&[7])
        );
    }

    #[test]
    fn a_name_of_two_means_both_until_one_goes() {
        let directory = directory();
        directory.insert(&endpoint("web", 9));
        assert_eq!(
            directory.answer("web", QueryType::A, HOST.into()),
            addresses(&[7, 9])
        );
        directory.remove(&endpoint("web", 7));
        assert_eq!(
            directory.answer("web", QueryType::A, HOST.into()),
            addresses(&[9])
        );
        directory.set(&[]);
        assert_eq!(
            directory.answer("web", QueryType::A, HOST.into()),
            Answer::NotOurs
        );
    }

    #[test]
    fn names_are_for_the_same_project_and_those_it_allows() {
        let directory = directory();
        let of = |name: &str, last, project: &str| Endpoint {
            owner: Owner::Project(project.into()),
            aliases: vec![format!("{name}.{project}")],
            ..endpoint(&format!("i-{last}"), last)
        };
        directory.insert(&of("db", 20, "shop"));
        directory.insert(&of("web", 21, "shop"));
        directory.insert(&of("spy", 22, "rival"));
        let ask = |name: &str, from: u8| {
            let from = Ipv4Addr::new(10, 42, 0, from);
            directory.answer(name, QueryType::A, from.into())
        };
        assert_eq!(ask("db.shop", 21), addresses(&[20]));
        assert_eq!(ask("db.shop", 22), Answer::NotOurs);
        assert_eq!(ask("i-20.strata.internal", 22), Answer::NoSuchName);
        assert_eq!(ask("db.shop", 7), Answer::NotOurs, "of no project");
        assert_eq!(ask("web", 22), Answer::NotOurs, "the default project's");
        assert_eq!(ask("db.shop", 1), addresses(&[20]), "the host itself");
        let reverse = "20.0.42.10.in-addr.arpa";
        let ptr = |from: u8| {
            let from = Ipv4Addr::new(10, 42, 0, from);
            directory.answer(reverse, QueryType::Ptr, from.into())
        };
        assert!(matches!(ptr(21), Answer::Name(_)));
        assert_eq!(ptr(22), Answer::NoSuchName);
        let allowed = [("rival".to_owned(), "shop".to_owned())].into();
        directory.set_access(ProjectAccess {
            allowed,
            ..ProjectAccess::default()
        });
        assert_eq!(ask("db.shop", 22), addresses(&[20]));
        assert_eq!(ask("spy.rival", 21), Answer::NotOurs, "one way");
    }
}
