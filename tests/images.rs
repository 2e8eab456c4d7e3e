//! Images, end to end: every call of `strata.v1.Images` and every command of
//! `strata image` against a daemon of its own and Debian's registry.

mod access;
mod concurrent_pulls;
mod image_gc;
mod image_lifecycle;
mod proxy;
mod pull_crash;
mod pull_errors;

use strata_testkit::v1::{ImageInfo, ListImagesRequest, PullImageProgress, PullImageRequest};
use strata_testkit::{Daemon, Node, Status, all};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A daemon that may speak to these registries without TLS.
async fn daemon(plain: &[&str], more: &str) -> (Daemon, Node) {
    let config = format!("[images]\nplain_http = {plain:?}\n{more}");
    let daemon = Daemon::build(STRATA).config(&config).start().await;
    let node = daemon.node().await;
    (daemon, node)
}

fn request(reference: &str) -> PullImageRequest {
    PullImageRequest {
        reference: reference.into(),
        ..Default::default()
    }
}

/// Pulls to the end; all that was told.
async fn told(node: &Node, request: PullImageRequest) -> Result<Vec<PullImageProgress>, Status> {
    let answer = node.client().images().pull(request).await?;
    all(answer.into_inner()).await
}

/// Pulls to the end.
async fn pull(node: &Node, reference: &str) -> Result<ImageInfo, Status> {
    let told = told(node, request(reference)).await?;
    let last = told.into_iter().last().and_then(|last| last.image);
    last.ok_or_else(|| Status::internal("the last message has no image"))
}

/// The names of all images.
async fn names(node: &Node) -> Vec<String> {
    let answer = node.client().images().list(ListImagesRequest {}).await;
    let images = answer.expect("the node lists its images").into_inner();
    let names = images.images.into_iter().map(|image| image.reference);
    names.collect()
}

/// Where the daemon keeps this kind of thing.
fn kept(daemon: &Daemon, dir: &str) -> Vec<String> {
    let dir = daemon.data_dir().join("node/images").join(dir);
    let entries = std::fs::read_dir(dir).expect("the store has its directories");
    let names = entries.map(|entry| {
        let name = entry.expect("a directory can be read").file_name();
        name.to_string_lossy().into_owned()
    });
    names.collect()
}
