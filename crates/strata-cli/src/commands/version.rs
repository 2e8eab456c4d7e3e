//! `strata version`: what this binary was built from. Asks nobody.

use clap::Args;

use crate::build_info::BuildInfo;
use crate::failure::Result;
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;

/// Show version and build information
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata version
  strata version -o json | jq -r .commit")]
pub struct Version {
    #[command(flatten)]
    output: OutputArgs,
}

impl Version {
    pub(crate) fn run(self, session: &mut Session) -> Result {
        let build = BuildInfo::current();
        match self.output.format() {
            format @ (Format::Json | Format::Yaml) => output::document(session, format, &build),
            Format::Name => Ok(session
                .printer
                .data(format!("strata/{}\n", build.version).as_bytes())?),
            Format::Table | Format::Wide => Ok(session.printer.data(text(&build).as_bytes())?),
        }
    }
}

fn text(build: &BuildInfo) -> String {
    let date = build
        .build_date
        .map_or("unknown".to_owned(), |date| date.to_string());
    format!(
        "strata {}\n\
         commit    {} ({})\n\
         built     {date}\n\
         compiler  {}\n\
         platform  {}\n",
        build.version,
        build.commit,
        match build.tree_state {
            "unknown" => "tree state unknown",
            state => state,
        },
        build.rustc,
        build.platform
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_well_and_keeps_its_json() {
        let build = BuildInfo {
            version: "0.1.0",
            commit: "0123abc",
            tree_state: "clean",
            build_date: "2026-01-31T12:00:00Z".parse().ok(),
            rustc: "rustc 1.95.0",
            platform: "x86_64-unknown-linux-gnu",
        };
        insta::assert_snapshot!(text(&build), @r#"
        strata 0.1.0
        commit    0123abc (clean)
        built     2026-01-31T12:00:00Z
        compiler  rustc 1.95.0
        platform  x86_64-unknown-linux-gnu
        "#);
        insta::assert_snapshot!(serde_json::to_string(&build).unwrap(), @r#"{"version":"0.1.0","commit":"0123abc","tree_state":"clean","build_date":"2026-01-31T12:00:00Z","rustc":"rustc 1.95.0","platform":"x86_64-unknown-linux-gnu"}"#);
        assert!(!BuildInfo::current().rustc.is_empty());
    }
}
