//! The image of a pod, brought here before the pod is made: the node would
//! fetch it too, but without a word on how far it is.

use strata_api::strata::v1::{GetImageRequest, PullImageRequest};
use strata_client::NodeClient;
use tonic::Code;

use crate::commands::image::progress::PullProgress;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::session::Session;
use crate::view::{PodSpecView, Pull};

/// Pulls the image according to the pull policy of the pod. Returns the
/// specification to create the pod with.
pub(super) async fn ensure(
    session: &mut Session,
    node: &NodeClient,
    pod: PodSpecView,
) -> Result<PodSpecView> {
    let wanted = match pod.pull {
        Pull::Never => false,
        Pull::Always => true,
        Pull::Missing => is_missing(node, &pod.image).await?,
    };
    if wanted {
        pull(session, node, &pod.image, pod.pull == Pull::Always).await?;
    }
    let pull = match pod.pull {
        Pull::Never => Pull::Never,
        // It is here now. Should it go in between, the node fetches it.
        Pull::Always | Pull::Missing => Pull::Missing,
    };
    Ok(PodSpecView { pull, ..pod })
}

async fn is_missing(node: &NodeClient, image: &str) -> Result<bool> {
    let request = GetImageRequest {
        image: image.to_owned(),
    };
    match node.images().get(request).await {
        Ok(_) => Ok(false),
        Err(status) => match status.code() {
            // A path is no name to look for: pulling says what it is.
            Code::NotFound | Code::InvalidArgument => Ok(true),
            // A node without this service fetches images by itself.
            Code::Unimplemented => Ok(false),
            _ => Err(cannot(node, format!("look for the image {image}"))(status)),
        },
    }
}

async fn pull(session: &mut Session, node: &NodeClient, image: &str, force: bool) -> Result {
    let failed = || cannot(node, format!("pull the image {image}"));
    let request = PullImageRequest {
        reference: image.to_owned(),
        force,
        ..Default::default()
    };
    session.printer.note(&format!("pulling {image}"));
    let answer = node.images().pull(request).await.map_err(failed())?;
    let mut messages = answer.into_inner();
    let mut shown = PullProgress::new(session.redraws());
    loop {
        let message = tokio::select! {
            message = messages.message() => message.map_err(failed())?,
            _ = tokio::signal::ctrl_c() => {
                session.printer.note("\nthe pull continues on the node; no pod was created");
                return Err(Failure::silent(Exit::Interrupted));
            }
        };
        match message {
            Some(message) => shown.show(&mut session.printer, &message.layers),
            None => return Ok(()),
        }
    }
}
