//! Whole commands as a user types them, with a real daemon behind them.

mod cells;
mod exits;
mod machine;
mod output;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
