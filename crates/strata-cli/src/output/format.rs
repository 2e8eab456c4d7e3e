//! `-o table|wide|json|yaml|name`, the same on every command that prints.
//!
//! JSON and YAML are views of their own with snake_case fields and times in
//! RFC 3339; fields are added, never renamed. A list is an array; one thing
//! is an object.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

use super::{Column, Table, TableCell};
use crate::failure::{Exit, Failure, Result};
use crate::session::Session;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

/// Output flag, flattened into every command that prints.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct OutputArgs {
    /// Output format: table, wide, json, yaml or name
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    #[arg(hide_possible_values = true, help_heading = "Output")]
    output: Option<Format>,
}

impl OutputArgs {
    /// What was asked for, else a table.
    pub(crate) fn format(self) -> Format {
        self.output.unwrap_or(Format::Table)
    }

    /// What was asked for, if anything was: for commands that change things
    /// and otherwise print nothing.
    pub(crate) fn requested(self) -> Option<Format> {
        self.output
    }
}

/// A thing that can be printed in every format.
pub(crate) trait Show: Serialize {
    /// For `-o name`: `cell/web`.
    fn reference(&self) -> String;
    /// NAME first, AGE last.
    fn columns(wide: bool) -> Vec<Column>;
    /// One cell for each column.
    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell>;
}

/// Prints things, an array in JSON and YAML. `empty` is for people when there
/// are none.
pub(crate) fn rows<T: Show>(
    session: &mut Session,
    format: Format,
    things: &[T],
    empty: &str,
) -> Result {
    let now = session.now();
    match format {
        Format::Table | Format::Wide if things.is_empty() => {
            session.printer.note(empty);
            Ok(())
        }
        Format::Table | Format::Wide => table(session, format == Format::Wide, things, now, true),
        Format::Name => {
            let names: String = things.iter().map(|t| t.reference() + "\n").collect();
            Ok(session.printer.data(names.as_bytes())?)
        }
        Format::Json | Format::Yaml => document(session, format, &things),
    }
}

/// Prints one thing, an object in JSON and YAML.
pub(crate) fn one<T: Show>(session: &mut Session, format: Format, thing: &T) -> Result {
    match format {
        Format::Json | Format::Yaml => document(session, format, thing),
        _ => rows(session, format, std::slice::from_ref(thing), ""),
    }
}

/// A table of things; `header` is off for rows that follow earlier ones.
pub(crate) fn table<T: Show>(
    session: &mut Session,
    wide: bool,
    things: &[T],
    now: Timestamp,
    header: bool,
) -> Result {
    let mut table = Table::new(T::columns(wide));
    for thing in things {
        table.push(thing.row(wide, now));
    }
    let width = if wide {
        Some(usize::MAX)
    } else {
        session.printer.width
    };
    let text = table.render(width, session.printer.color, header);
    Ok(session.printer.data(text.as_bytes())?)
}

/// JSON or YAML of anything.
pub(crate) fn document(session: &mut Session, format: Format, value: &impl Serialize) -> Result {
    let mut text = match format {
        Format::Yaml => yaml(value)?,
        _ => serde_json::to_string_pretty(value).map_err(|why| unwritable(&why))?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(session.printer.data(text.as_bytes())?)
}

/// One of many things that come one after the other: a line of JSON, or a
/// document of a YAML stream.
pub(crate) fn line(session: &mut Session, format: Format, value: &impl Serialize) -> Result {
    let text = match format {
        Format::Yaml => format!("---\n{}", yaml(value)?),
        _ => serde_json::to_string(value).map_err(|why| unwritable(&why))? + "\n",
    };
    Ok(session.printer.data(text.as_bytes())?)
}

fn yaml(value: &impl Serialize) -> Result<String> {
    serde_saphyr::to_string(value).map_err(|why| unwritable(&why))
}

fn unwritable(why: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Unexpected, "cannot serialize the result").because(why.to_string())
}
