//! The nftables table of one run. Its rules are constant, but for a chain of a
//! few for each project: what is published where are elements of maps, so that a pod costs one small transaction and
//! a packet one lookup, however many pods there are.

mod between;
mod chains;
mod cluster;
mod elements;
mod expression;
mod meters;
mod table;

pub(crate) use cluster::{ClusterRules, rules_of};
pub(crate) use elements::Element;
pub(crate) use meters::Meters;
pub(crate) use table::{DEFAULT_PROJECT_NUMBER, Table, TableFacts, list_tables, uplinks_of};
