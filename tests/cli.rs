//! Whole commands as a user types them, with a real daemon behind them.

#[path = "cli/cells.rs"]
mod cells;
#[path = "cli/exits.rs"]
mod exits;
#[path = "cli/machine.rs"]
mod machine;
#[path = "cli/output.rs"]
mod output;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
