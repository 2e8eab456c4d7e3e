//! Whole commands as a user types them, with a real daemon behind them.

mod cells;
mod exit_codes;
mod host_commands;
mod output;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
