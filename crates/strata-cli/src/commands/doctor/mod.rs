//! `strata doctor`: what this machine can and cannot do for Strata. Facts are
//! gathered by one thin function, evaluated by a pure one.

mod checks;
mod facts;
mod findings;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;

use self::checks::evaluate;
use self::findings::{Finding, Level};
use crate::failure::{Exit, Failure, Result};
use crate::output::{self, Format, OutputArgs, Show as _, Table};
use crate::session::Session;

/// Check what this host supports
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 6 when something that is needed is missing. Changes nothing.

Examples:
  strata doctor
  strata doctor -o json | jq '.[] | select(.level != \"ok\")'")]
pub struct Doctor {
    #[command(flatten)]
    output: OutputArgs,
}

impl Doctor {
    pub(crate) fn run(self, session: &mut Session) -> Result {
        let discovery = &session.discovery;
        let data_dir = discovery
            .data_dir
            .as_ref()
            .unwrap_or(&discovery.places.data_dir);
        let path = std::env::var("PATH").unwrap_or_default();
        let findings = evaluate(&facts::gather(Path::new("/"), &path, data_dir));
        match self.output.format() {
            Format::Table => {
                let text = report(&findings, session);
                session.printer.data(text.as_bytes())?;
            }
            format => output::rows(session, format, &findings, "")?,
        }
        outcome(&findings, session)
    }
}

/// Prints the table, then the remedies.
fn report(findings: &[Finding], session: &Session) -> String {
    let mut table = Table::new(Finding::columns(false));
    for finding in findings {
        table.push(finding.row(false, session.now()));
    }
    let color = session.printer.color;
    let mut text = table.render(session.printer.width, color, true);
    for finding in findings {
        if let Some(advice) = finding.advice {
            let word = finding.level.style().paint(finding.level.word(), color);
            let _ = write!(
                text,
                "\n{word}: {} ({})\n  why: {}\n  do:  {advice}\n",
                finding.name, finding.found, finding.why
            );
        }
    }
    text
}

fn outcome(findings: &[Finding], session: &mut Session) -> Result {
    let missing: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.level == Level::Missing)
        .map(|finding| finding.name)
        .collect();
    if !missing.is_empty() {
        let what = format!("Strata cannot run here: {}", missing.join(", "));
        return Err(Failure::new(Exit::Refused, what));
    }
    let warnings = findings
        .iter()
        .filter(|finding| finding.level == Level::Warn)
        .count();
    session.printer.note(&match warnings {
        0 => "all is well".to_owned(),
        1 => "Strata can run here, with 1 warning".to_owned(),
        n => format!("Strata can run here, with {n} warnings"),
    });
    Ok(())
}
