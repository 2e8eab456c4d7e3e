//! `strata machine console`: what a machine prints, byte by byte, for as long
//! as somebody reads. Nothing can be typed into it: a machine that boots is
//! looked at, not talked to.

use clap::Args;
use strata_api::rest::Machine;

use super::MachineArg;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Show the console output of a machine
#[derive(Args, Debug)]
#[command(after_help = "\
Buffered output comes first, then live output. Ctrl-C detaches; the machine
keeps running.

Examples:
  strata machine console rack1-7
  strata machine console rack1-7 > boot.log")]
pub struct Console {
    #[command(flatten)]
    one: MachineArg,
}

impl Console {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let id = &self.one.id;
        let failed = || unable(format!("read the console of the machine {id}"));
        let text = rest.text::<Machine>(id, "console").await;
        let mut text = text.map_err(failed())?;
        loop {
            let next = session.printer.unless_gone(text.next()).await?;
            match next.map_err(failed())? {
                Some(bytes) => session.printer.data(&bytes)?,
                None => break,
            }
        }
        session.printer.note("the console was closed");
        Ok(())
    }
}
