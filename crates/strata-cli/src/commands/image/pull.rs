//! `strata image pull`: brings an image onto the node, and shows how far it
//! is. Ends with the digest on stdout. The pull is the node's: it goes on when
//! this command does not.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_api::strata::v1::{ImageCredentials, PullImageRequest};

use super::image_name;
use super::progress::PullProgress;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs, human};
use crate::session::Session;
use crate::view::ImageView;

/// Longer ones are something else.
const MAX_PASSWORD: u64 = 64 << 10;

/// Pull an image to the node
#[derive(Args, Debug)]
#[command(after_help = "\
oci: and docker-archive: are read by the node, from its own disk and as root:
for admins, and for operators below the directories its configuration names.
Ctrl-C detaches; the pull continues on the node, and the same command attaches
to it again.

Examples:
  strata image pull nginx:1.27
  strata image pull registry.lan:5000/app --user me --password-file ~/.pw
  strata image pull oci:./build/web:v1
  strata image pull docker-archive:saved.tar -q")]
pub struct Pull {
    /// Image reference: nginx, registry:5000/x:tag, x@sha256:…, oci:PATH[:tag]
    /// or docker-archive:PATH
    #[arg(value_name = "IMAGE", value_parser = image_name)]
    image: String,

    /// Platform, e.g. linux/arm64 [default: that of the node]
    #[arg(long, default_value = "", hide_default_value = true)]
    platform: String,

    /// Registry user, for this pull only
    #[arg(long, requires = "password_file")]
    user: Option<String>,

    /// File with the password or token; - is stdin
    #[arg(long, value_name = "FILE", requires = "user", value_hint = ValueHint::FilePath)]
    password_file: Option<PathBuf>,

    /// Query the registry even if the pinned digest is present
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Pull {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let request = PullImageRequest {
            reference: self.image.clone(),
            platform: self.platform.clone(),
            credentials: self.credentials(session)?,
            force: self.force,
        };
        let node = session.node().await?;
        let failed = || cannot(&node, format!("pull the image {}", self.image));
        let answer = node.images().pull(request).await.map_err(failed())?;
        let mut messages = answer.into_inner();
        let mut shown = PullProgress::new(session.redraws());
        let mut image = None;
        loop {
            let message = tokio::select! {
                message = messages.message() => message,
                _ = tokio::signal::ctrl_c() => return self.detach(session),
            };
            let Some(message) = message.map_err(failed())? else {
                break;
            };
            shown.show(&mut session.printer, &message.layers);
            image = message.image.or(image);
        }
        let Some(image) = image else {
            let what = format!("the node did not report the result of {}", self.image);
            return Err(Failure::new(Exit::Server, what));
        };
        self.finish(session, &image.into())
    }

    fn finish(&self, session: &mut Session, image: &ImageView) -> Result {
        match self.output.requested() {
            Some(format @ (Format::Json | Format::Yaml | Format::Name)) => {
                output::one(session, format, image)
            }
            _ => {
                session.printer.note(&format!(
                    "pulled {} ({} in {} layers)",
                    image.name,
                    human::bytes(image.packed_bytes),
                    image.layers.len()
                ));
                let line = format!("{}\n", image.digest);
                Ok(session.printer.data(line.as_bytes())?)
            }
        }
    }

    fn detach(&self, session: &mut Session) -> Result {
        session.printer.note(&format!(
            "\nthe pull continues on the node; `strata image pull {}` attaches to it again",
            self.image
        ));
        Err(Failure::silent(Exit::Interrupted))
    }

    /// A password is never an argument: arguments can be read by every user
    /// of the machine.
    fn credentials(&self, session: &mut Session) -> Result<Option<ImageCredentials>> {
        let (Some(user), Some(path)) = (&self.user, &self.password_file) else {
            return Ok(None);
        };
        let mut password = String::new();
        let read = if path.as_os_str() == "-" {
            (&mut session.input)
                .take(MAX_PASSWORD)
                .read_to_string(&mut password)
        } else {
            let file = std::fs::File::open(path);
            file.and_then(|file| file.take(MAX_PASSWORD).read_to_string(&mut password))
        };
        read.map_err(|why| Failure::file("read", path, &why))?;
        password.truncate(password.trim_end_matches(['\r', '\n']).len());
        Ok(Some(ImageCredentials {
            user: user.clone(),
            password,
        }))
    }
}
