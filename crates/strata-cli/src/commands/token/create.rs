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

/// Create a token; it is shown only once
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
    /// Name of the token; with --join, the name of the node
    #[arg(long)]
    name: String,

    /// Role of the holder: admin, operator or viewer
    #[arg(long, value_parser = role, required_unless_present = "join", conflicts_with = "join")]
    role: Option<Role>,

    /// Limit the token to this project; repeatable
    #[arg(long = "project", value_name = "PROJECT", conflicts_with = "join")]
    projects: Vec<String>,

    /// Create a single-use join token for a node
    #[arg(long)]
    join: bool,

    /// Let the node replace a lost one of this name, whose certificates are
    /// revoked
    #[arg(long, requires = "join")]
    replace: bool,

    /// Label of the node, as key=value; repeatable
    #[arg(long = "label", value_name = "LABEL", requires = "join")]
    labels: Vec<LabelArg>,

    /// Accept the labels requested by the configuration of the node
    #[arg(long, requires = "join")]
    accept_labels: bool,

    /// Validity [default: 15m to join, 90d for the API]
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
        match self.output.requested() {
            Some(format @ (Format::Json | Format::Yaml)) => {
                view.token = Some(created.token);
                output::document(session, format, &view)
            }
            Some(Format::Name) => output::one(session, Format::Name, &view),
            _ => {
                let left = view.expires_at.map_or(String::new(), |at| {
                    let seconds = at.as_second() - session.now().as_second();
                    format!(", valid for {}", human::seconds(seconds.max(0)))
                });
                session.printer.note(&format!(
                    "created token {} ({}, {}){left}; it is shown only once:",
                    view.id, view.kind, view.role
                ));
                Ok(session
                    .printer
                    .data(format!("{}\n", created.token).as_bytes())?)
            }
        }
    }
}
