//! How faces are reached: TLS and Unix listeners, and the gate that every
//! request passes before a handler sees it.
//!
//! ```text
//! listener ─▶ handshake ─▶ Peer ─▶ Gate ─▶ router ─▶ handler
//!             bounded      once     who is it, may it?   finds a Caller
//!             timed        per      strata_identity::    in the request's
//!                          connection   policy           extensions
//! ```
#![forbid(unsafe_code)]

mod accept;
mod bearer;
mod connection;
mod gate;
mod limits;
mod peer;
mod problem;
mod renew;
mod serve;
mod tunnel;
mod tunnel_io;
mod unix;

pub use gate::{Gate, GateService, Refusals};
pub use limits::Limits;
pub use peer::Peer;
pub use problem::{problem, problem_as, status_code};
pub use renew::{keep_renewed, keep_served, keep_written};
pub use serve::{Serve, serve_tls, serve_unix};
pub use tunnel::{CALLER_NAME, CALLER_ROLE, serve_tunnel};
pub use tunnel_io::{TunnelIo, TunnelSender};
pub use unix::{BindError, bind_unix};
