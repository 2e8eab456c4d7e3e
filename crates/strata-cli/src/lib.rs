//! The command line: one file per noun and verb, one printer.
//!
//! The binary flattens [`Command`] and [`Global`] into its own parser, calls
//! [`complete`] before it parses, and hands what it parsed to [`run`]. Every
//! command is a plain client of the public API.
//!
//! Exit codes: 0 ok, 1 unexpected, 2 usage, 3 cannot connect, 4 server error,
//! 5 not allowed, 6 refused (not found, conflict, wrong state, invalid), 7
//! the thing waited for failed. What runs a program in the caller's place, as
//! `pod exec`, exits as that does.

mod build_info;
mod commands;
mod complete;
mod failure;
mod global;
mod output;
mod printer;
mod run;
mod session;
mod terminal;
mod values;
mod view;

pub use build_info::BuildInfo;
pub use commands::{AUDIT, AUDIT_HEAD, Command, NodeCommand};
pub use complete::complete;
pub use failure::{Exit, Failure, Result};
pub use global::Global;
pub use printer::{Color, Printer};
pub use run::{AFTER_HELP, report, run, run_in};
pub use session::Session;
