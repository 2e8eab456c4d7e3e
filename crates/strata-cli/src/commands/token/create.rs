//! `strata token create`: the token alone on stdout, so that a shell can take
//! it; what it is, on stderr.

use clap::Args;
use strata_api::strata::v1::{CreateTokenRequest, Role as WireRole, TokenKind};
use strata_types::Role;

use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, human};
use crate::session::Session;
use crate::values::{LabelArg, Span, role};
use crate::view::TokenView;

/// Make a token; it is shown this once
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata token create --name ci --role operator --ttl 30d
  strata token create --name shop --role operator --project shop
  strata token create --name rack1-7 --join --replace
  strata token create --name rack1-7 --join --label zone=eu
  strata node --server https://strata.lan:7700 \\
      --join-token \"$(strata token create --name rack1-7 --join -q)\"")]
pub struct Create {
    /// A name to tell it by; with --join the name of the node
    #[arg(long)]
    name: String,

    /// What its holder may do: admin, operator or viewer
    #[arg(long, value_parser = role, required_unless_present = "join", conflicts_with = "join")]
    role: Option<Role>,

    /// Only for this project; can be repeated
    #[arg(long = "project", value_name = "PROJECT", conflicts_with = "join")]
    projects: Vec<String>,

    /// A token for the node of this name to join with, once
    #[arg(long)]
    join: bool,

    /// Let the node take the place of a lost one that has the name, whose
    /// certificates are then revoked
    #[arg(long, requires = "join")]
    replace: bool,

    /// A label that the node has, as key=value; can be repeated
    #[arg(long = "label", value_name = "LABEL", requires = "join")]
    labels: Vec<LabelArg>,

    /// Accept the labels of the node's own configuration when it joins
    #[arg(long, requires = "join")]
    accept_labels: bool,

    /// How long it is good for; else 15 minutes to join, 90 days for the API
    #[arg(long, value_name = "DURATION")]
    ttl: Option<Span>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let server = session.server().await?;
        let kind = if self.join {
            TokenKind::Join
        } else {
            TokenKind::Api
        };
        let request = CreateTokenRequest {
            name: self.name.clone(),
            kind: kind.into(),
            role: self
                .role
                .map_or(WireRole::Unspecified, WireRole::from)
                .into(),
            ttl_seconds: self.ttl.map_or(0, |ttl| ttl.0.as_secs()),
            projects: self.projects,
            replace: self.replace,
            labels: self.labels.into_iter().map(|one| (one.0, one.1)).collect(),
            accept_labels: self.accept_labels,
        };
        let created = server
            .identity()
            .create_token(request)
            .await
            .map_err(cannot(&server, format!("create the token {}", self.name)))?
            .into_inner();
        let mut view = TokenView::from(created.info.unwrap_or_default());
        match self.output.asked() {
            Some(format @ (Format::Json | Format::Yaml)) => {
                view.token = Some(created.token);
                output::document(session, format, &view)
            }
            Some(Format::Name) => output::one(session, Format::Name, &view),
            _ => {
                let left = view.expires_at.map_or(String::new(), |at| {
                    let seconds = at.as_second() - session.now().as_second();
                    format!(", good for {}", human::seconds(seconds.max(0)))
                });
                session.printer.note(&format!(
                    "created token {} ({}, {}){left}; it is shown this once:",
                    view.id, view.kind, view.role
                ));
                Ok(session
                    .printer
                    .data(format!("{}\n", created.token).as_bytes())?)
            }
        }
    }
}
