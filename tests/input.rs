//! Bad input of every kind on every call: a clear refusal that names the
//! field, and nothing changed.

mod arbitrary_input;
mod field_validation;
mod malformed_messages;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
