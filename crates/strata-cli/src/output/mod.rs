//! How results look: tables for people, JSON and YAML of a stable shape for
//! programs, and bare names for shells.

mod details;
mod format;
pub(crate) mod human;
mod table;

pub(crate) use details::Details;
pub(crate) use format::{Format, OutputArgs, Show, document, line, one, rows, table};
pub(crate) use table::{Column, Table, TableCell};
