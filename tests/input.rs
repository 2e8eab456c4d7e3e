//! Bad input of every kind on every call: a clear refusal that names the
//! field, and nothing changed.

#[path = "input/fields.rs"]
mod fields;
#[path = "input/noise.rs"]
mod noise;
#[path = "input/wire.rs"]
mod wire;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
