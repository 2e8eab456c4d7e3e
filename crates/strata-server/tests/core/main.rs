//! The rules of the control plane over a store in memory, with nodes that are
//! played by the test.

mod instances;
mod nodes;
mod operations;
mod world;
