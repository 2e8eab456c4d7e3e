//! Indexes over the nodes that are ready: by size of what is free, by free
//! disk, by used port, by label. Each answers in a time that does not grow, or
//! hardly grows, with the number of nodes, and each is kept up to date by the
//! one node that changed.

mod bits;
mod disk;
mod grid;
mod labels;
mod ports;
mod search;
mod size;

pub(crate) use bits::Bits;
pub(crate) use disk::DiskIndex;
pub(crate) use grid::Grid;
pub(crate) use labels::LabelIndex;
pub(crate) use ports::PortIndex;
pub(crate) use search::{Found, SearchTarget, order, packing};
pub(crate) use size::Cell;
