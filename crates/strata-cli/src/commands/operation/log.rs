//! `strata operation log`: the log of an operation.

use clap::Args;
use strata_api::rest::{Operation, OperationLine};
use strata_client::rest::Query;

use super::OperationArg;
use crate::failure::{Result, unable};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::view::operation_line;

/// Show the log of an operation
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata operation log 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
  strata operation log 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e -o json")]
pub struct Log {
    #[command(flatten)]
    one: OperationArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Log {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let id = &self.one.id;
        let lines = rest
            .part::<Operation, Vec<OperationLine>>(id, "log", &Query::new())
            .await
            .map_err(unable(format!("read the log of the operation {id}")))?;
        for line in &lines {
            match self.output.format() {
                format @ (Format::Json | Format::Yaml) => output::line(session, format, line)?,
                Format::Name | Format::Table | Format::Wide => {
                    session.printer.data(operation_line(line).as_bytes())?;
                }
            }
        }
        Ok(())
    }
}
