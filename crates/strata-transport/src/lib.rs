//! Listeners of the APIs: TLS and Unix listeners, and the auth layer that every
//! request passes before a handler sees it.
//!
//! ```text
//! listener ─▶ handshake ─▶ Peer ─▶ AuthLayer ─▶ Budget ─▶ Audit ─▶ router ─▶ handler
//!             bounded      once     who is it,  how much   what is it   finds a Caller
//!             timed        per      may it?     already?   about?       in the request's
//!             by source    connection                                   extensions
//! ```
//!
//! Connections with a node's certificate are served on a runtime of their own
//! and take part in no budget but their own: see [`Serve::with_nodes_on`].
#![forbid(unsafe_code)]

mod accept;
mod audit;
mod audited;
mod auth;
mod authority;
mod bearer;
mod budget;
mod connection;
mod guard;
mod handshake;
mod limits;
mod peer;
mod prefixed_body;
mod problem;
mod recent_reads;
mod renew;
mod serve;
mod socket;
mod source;
mod subject;
mod table;
mod tunnel;
mod tunnel_io;
mod unix;

pub use auth::{AuthLayer, AuthService, Refusals};
pub use budget::{Budgets, CallerLimits};
pub use guard::GuardedBody;
pub use limits::Limits;
pub use peer::Peer;
pub use problem::{problem, problem_as, status_code};
pub use renew::{keep_renewed, keep_served, keep_written};
pub use serve::{Serve, serve_tls, serve_unix};
pub use subject::ProjectLookup;
pub use tunnel::{CALLER_NAME, CALLER_ROLE, FollowedTerm, LEADER_TERM, serve_tunnel};
pub use tunnel_io::{TunnelIo, TunnelSender};
pub use unix::{BindError, bind_unix};

/// In the extensions of an answer that shows values of variables or user data:
/// the audit log has a line of it, which reads have not otherwise.
#[derive(Clone, Copy, Debug)]
pub struct ShowsValues;
