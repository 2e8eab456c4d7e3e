//! From a parsed command to an exit code; the one place where failures are
//! printed.

use std::process::ExitCode;

use crate::commands::Command;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::session::Session;

/// For the end of the binary's own help.
pub const AFTER_HELP: &str = "\
Examples:
  strata up                                       everything on this host
  strata instance create web --image nginx:1.27 -p 8080:80
  strata instance logs web -f
  strata node list
  strata apply -f shop.yaml
  strata doctor                                   what this host supports

Exit codes:
  0 ok   1 unexpected   2 usage   3 cannot connect   4 server error
  5 forbidden   6 rejected   7 the awaited resource failed";

/// Runs a command with the streams of this process.
pub async fn run(command: Command, global: &Global) -> ExitCode {
    let mut session = Session::of_process(global);
    run_in(command, &mut session).await.into()
}

/// Runs a command in surroundings of the caller's choice.
pub async fn run_in(command: Command, session: &mut Session) -> Exit {
    let result = command.run(session).await;
    finish(result, session)
}

/// Prints a failure of the binary's own commands as those here are printed.
pub fn report(result: Result, global: &Global) -> ExitCode {
    finish(result, &mut Session::of_process(global)).into()
}

fn finish(result: Result, session: &mut Session) -> Exit {
    match result {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            session.printer.failure(&failure);
            Failure::exit(&failure)
        }
    }
}
