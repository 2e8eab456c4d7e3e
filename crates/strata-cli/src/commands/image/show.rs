//! `strata image show`: one image, all that is known of it.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use strata_api::strata::v1::GetImageRequest;

use super::image_name;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::{self, Column, Format, OutputArgs, Table, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::ImageView;

/// Show an image and its configuration
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata image show nginx:1.27
  strata image show 4bf3ab            # the beginning of its digest
  strata image show nginx -o json | jq .config.env")]
pub struct Show {
    /// Name, digest or digest prefix
    #[arg(value_name = "IMAGE", value_parser = image_name, add = complete::images())]
    image: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = GetImageRequest {
            image: self.image.clone(),
        };
        let answer = node
            .images()
            .get(request)
            .await
            .map_err(cannot(&node, format!("show the image {}", self.image)))?;
        let image = ImageView::from(answer.into_inner());
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&image, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &image),
        }
    }
}

/// Quotes words as a shell would read them.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', "'\\''"))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn describe(image: &ImageView, now: Timestamp, printer: &Printer) -> String {
    let at = |time: Option<Timestamp>| {
        time.map_or("-".to_owned(), |at| {
            format!("{at} ({} ago)", human::age(Some(at), now))
        })
    };
    let words = |words: &[String]| words.join(" ");
    let config = &image.config;
    let labels: Vec<String> = config
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let size = format!(
        "{} packed, {} unpacked",
        human::bytes(image.packed_bytes),
        human::bytes(image.unpacked_bytes)
    );
    let mut text = String::new();
    let mut row = |label: &str, value: &str| {
        if !value.is_empty() {
            // What an image says must not steer the terminal.
            let plain: String = value
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let _ = writeln!(text, "{label:<13}{plain}");
        }
    };
    row("Name", &image.name);
    row("Digest", &image.digest);
    row("Platform", &image.platform);
    row("Size", &size);
    row("Created", &at(image.created_at));
    row("Pulled", &at(image.pulled_at));
    row("Used", &at(image.used_at));
    row("Used by", &image.used_by.join(", "));
    row("Entrypoint", &command(&config.entrypoint));
    row("Cmd", &command(&config.cmd));
    row("User", &config.user);
    row("Workdir", &config.working_dir);
    row("Ports", &words(&config.exposed_ports));
    row("Volumes", &words(&config.volumes));
    row("Stop signal", &config.stop_signal);
    for variable in &config.env {
        row("Env", variable);
    }
    for label in &labels {
        row("Label", label);
    }
    let mut table = Table::new(vec![Column::new("LAYER"), Column::figures("PACKED")]);
    for layer in &image.layers {
        table.push(vec![
            layer.digest.clone().into(),
            human::bytes(layer.packed_bytes).into(),
        ]);
    }
    text.push('\n');
    text + &table.render(printer.width, printer.color, true)
}
