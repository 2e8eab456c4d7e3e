//! Bad input of every kind on every call: a clear refusal that names the
//! field, and nothing changed.

mod fields;
mod noise;
mod wire;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
