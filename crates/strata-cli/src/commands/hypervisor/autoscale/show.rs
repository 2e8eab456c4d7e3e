//! `strata hypervisor autoscale show`: what the autoscaler goes by.

use clap::Args;
use strata_api::rest::Autoscaling;

use super::{current, room};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::session::Session;

/// Show the autoscaler settings
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata hypervisor autoscale show
  strata hypervisor autoscale show -o json")]
pub struct Show {
    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let settings = current(&rest).await?;
        print(session, self.output.format(), &settings)
    }
}

/// Prints the settings in any format.
pub(super) fn print(session: &mut Session, format: Format, settings: &Autoscaling) -> Result {
    let text = match format {
        Format::Json | Format::Yaml => return output::document(session, format, settings),
        Format::Name => "autoscaling\n".to_owned(),
        Format::Table | Format::Wide => describe(settings),
    };
    Ok(session.printer.data(text.as_bytes())?)
}

fn describe(settings: &Autoscaling) -> String {
    let mut details = Details::new(8);
    details.row("State", if settings.enabled { "on" } else { "off" });
    let free = room(settings.cpu, settings.memory, settings.gpu);
    details.row("Free", &free);
    details.row("Least", &settings.least.to_string());
    let most = match settings.most {
        0 => "all machines".to_owned(),
        n => n.to_string(),
    };
    details.row("Most", &most);
    details.finish()
}
