//! From the wire into checked types, and back. Nothing behind a face sees
//! input that did not come through here.

mod cell;
mod cluster;
mod executable;
mod image;
pub mod instance;
pub mod pod;
mod role;

pub use executable::{grace_from_field, take_input};
