//! Typed clients for the server and the node, and the one place that makes
//! channels to them.
//!
//! A [`Target`] says where and with which proof; [`Discovery`] finds one from
//! flags, a data directory or a saved login; [`NodeClient`] and [`ServerClient`]
//! connect to it. Errors tell a server that cannot be reached from one that
//! answered, because people do different things about the two.

mod address;
mod clients;
mod connection;
mod connector;
mod context;
mod discovery;
mod endpoints;
mod error;
mod private_file;
mod proof;
pub mod rest;
mod target;
mod tls;

pub use address::{Address, BadAddress};
pub use clients::{NodeClient, ServerClient};
pub use connection::{Bearer, Channel, Connection};
pub use context::{Context, Contexts};
pub use discovery::{Discovery, Places};
pub use endpoints::Endpoints;
pub use error::{Error, Result};
pub use private_file::write as write_private;
pub use target::Target;
