//! `strata.v1.Images`: pull, list, get, remove, prune.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use strata_api::strata::v1;
use strata_identity::Caller;
use strata_image::{Image, LayerProgress, Phase, Progress, Pruned, Reference};
use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::status;
use crate::Node;
use crate::blocking::detached;
use crate::images::{
    Credentials, ImageUse, Images, Login, PruneScope, PullRequest, Pulling, may_read,
    platform_from_field, reference_from_field,
};

/// Between two messages about the same pull.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct ImagesApi {
    images: Images,
}

type Answers = Pin<Box<dyn Stream<Item = Result<v1::PullImageProgress, Status>> + Send>>;

impl ImagesApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            images: node.images.clone(),
        }
    }

    fn pull(&self, request: Request<v1::PullImageRequest>) -> Result<Pulling> {
        let caller = request.extensions().get::<Caller>().cloned();
        let request = request.into_inner();
        let reference = reference_from_field("reference", &request.reference)?;
        let platform = platform_from_field("platform", &request.platform)?;
        let dirs = &self.images.config().local_dirs;
        may_read(caller.as_ref(), &reference, dirs)?;
        let login = request.credentials.map_or(Login::Node, |given| {
            Login::Own(Credentials {
                user: given.user,
                password: given.password,
            })
        });
        if login != Login::Node && !matches!(reference, Reference::Registry(_)) {
            return Err(Error::invalid("credentials", "go with a registry alone"));
        }
        self.images.pull(PullRequest {
            reference,
            platform,
            login,
            force: request.force,
            project: None,
        })
    }
}

/// Reports a pull to a caller until its end, or until the caller is gone.
async fn tell(
    images: Images,
    mut pulling: Pulling,
    sender: mpsc::Sender<Result<v1::PullImageProgress, Status>>,
) {
    let mut told = Progress::default();
    let ended = loop {
        tokio::select! {
            biased;
            ended = pulling.image() => break ended,
            () = sender.closed() => return,
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {}
        }
        let now = pulling.progress();
        if now != told {
            let message = v1::PullImageProgress {
                layers: now.layers.iter().map(layer_progress).collect(),
                image: None,
            };
            told = now;
            if sender.send(Ok(message)).await.is_err() {
                return;
            }
        }
    };
    let last = ended.map(|image| v1::PullImageProgress {
        layers: pulling
            .progress()
            .layers
            .iter()
            .map(layer_progress)
            .collect(),
        image: Some(info(&image, &images.uses())),
    });
    // A caller that left needs no report.
    let _ = sender.send(last.map_err(status)).await;
}

fn layer_progress(layer: &LayerProgress) -> v1::ImageLayerProgress {
    let phase = match layer.phase {
        Phase::Waiting => v1::ImageLayerPhase::Waiting,
        Phase::Downloading => v1::ImageLayerPhase::Downloading,
        Phase::Unpacking => v1::ImageLayerPhase::Unpacking,
        Phase::Done => v1::ImageLayerPhase::Done,
        Phase::Exists => v1::ImageLayerPhase::Exists,
    };
    v1::ImageLayerProgress {
        digest: layer.digest.to_string(),
        phase: phase.into(),
        done_bytes: layer.done,
        total_bytes: layer.total,
    }
}

fn info(image: &Image, uses: &[ImageUse]) -> v1::ImageInfo {
    let run = &image.config.config;
    let diff_ids = image.config.rootfs.diff_ids.iter();
    let layers = image.manifest.layers.iter().zip(diff_ids);
    let users = uses.iter().filter(|used| used.digest == image.digest);
    let ms = |time: jiff::Timestamp| time.as_millisecond();
    v1::ImageInfo {
        reference: image.reference.to_string(),
        digest: image.digest.to_string(),
        platform: image.config.platform.to_string(),
        created_at_ms: image.config.created.map_or(0, ms),
        pulled_at_ms: ms(image.pulled_at),
        used_at_ms: ms(image.used_at),
        packed_bytes: image.packed_size,
        unpacked_bytes: image.unpacked_size,
        layers: layers
            .map(|(layer, diff_id)| v1::ImageLayer {
                digest: layer.digest.to_string(),
                diff_id: diff_id.to_string(),
                packed_bytes: layer.size,
            })
            .collect(),
        config: Some(v1::ImageRunConfig {
            entrypoint: run.entrypoint.clone(),
            cmd: run.cmd.clone(),
            env: run.env.clone(),
            user: run.user.clone(),
            working_dir: run.working_dir.clone(),
            exposed_ports: run.exposed_ports.keys().cloned().collect(),
            volumes: run.volumes.keys().cloned().collect(),
            labels: run.labels.clone().into_iter().collect(),
            stop_signal: run.stop_signal.clone(),
        }),
        used_by: users.map(|used| used.by.clone()).collect(),
    }
}

fn pruned(pruned: &Pruned) -> v1::PrunedImages {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    v1::PrunedImages {
        references: pruned.images.iter().map(ToString::to_string).collect(),
        freed_bytes: pruned.bytes,
        blobs: count(pruned.blobs),
        layers: count(pruned.layers),
    }
}

fn goal(request: &v1::PruneImagesRequest) -> Result<PruneScope> {
    let goal = v1::ImagePruneGoal::try_from(request.goal)
        .map_err(|_| Error::invalid("goal", "is none that this node knows"))?;
    if request.free_bytes != 0 && goal != v1::ImagePruneGoal::Free {
        return Err(Error::invalid(
            "free_bytes",
            "goes with the goal FREE alone",
        ));
    }
    match goal {
        v1::ImagePruneGoal::Garbage => Ok(PruneScope::Garbage),
        v1::ImagePruneGoal::Packed => Ok(PruneScope::Packed),
        v1::ImagePruneGoal::Unused => Ok(PruneScope::Unused),
        v1::ImagePruneGoal::Free if request.free_bytes == 0 => Err(Error::invalid(
            "free_bytes",
            "must say how much is to be free",
        )),
        v1::ImagePruneGoal::Free => Ok(PruneScope::FreeSpace(request.free_bytes)),
    }
}

#[tonic::async_trait]
impl v1::images_server::Images for ImagesApi {
    type PullStream = Answers;

    async fn pull(
        &self,
        request: Request<v1::PullImageRequest>,
    ) -> Result<Response<Answers>, Status> {
        let pulling = self.pull(request).map_err(status)?;
        let (sender, stream) = mpsc::channel(1);
        spawn_detached("pull-progress", tell(self.images.clone(), pulling, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn list(
        &self,
        _request: Request<v1::ListImagesRequest>,
    ) -> Result<Response<v1::ListImagesResponse>, Status> {
        let images = self.images.list().map_err(status)?;
        let uses = self.images.uses();
        Ok(Response::new(v1::ListImagesResponse {
            images: images.iter().map(|image| info(image, &uses)).collect(),
        }))
    }

    async fn get(
        &self,
        request: Request<v1::GetImageRequest>,
    ) -> Result<Response<v1::ImageInfo>, Status> {
        let image = self.images.find("image", &request.get_ref().image);
        let image = image.map_err(status)?;
        Ok(Response::new(info(&image, &self.images.uses())))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveImageRequest>,
    ) -> Result<Response<v1::PrunedImages>, Status> {
        let (images, request) = (self.images.clone(), request.into_inner());
        let removing = async move { images.remove("image", &request.image).await };
        let removed = detached(removing).await.map_err(status)?;
        Ok(Response::new(pruned(&removed)))
    }

    async fn prune(
        &self,
        request: Request<v1::PruneImagesRequest>,
    ) -> Result<Response<v1::PrunedImages>, Status> {
        let goal = goal(request.get_ref()).map_err(status)?;
        let (images, dry_run) = (self.images.clone(), request.get_ref().dry_run);
        let pruning = async move { images.prune(goal, dry_run).await };
        let gone = detached(pruning).await.map_err(status)?;
        Ok(Response::new(pruned(&gone)))
    }
}
