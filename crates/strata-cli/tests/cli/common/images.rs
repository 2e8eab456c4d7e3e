//! The images of the fake node, and its service for them.

use std::pin::Pin;

use strata_api::status_from_error;
use strata_api::strata::v1::images_server::Images;
use strata_api::strata::v1::{
    GetImageRequest, ImageInfo, ImageLayer, ImageLayerPhase, ImageLayerProgress, ImagePruneGoal,
    ImageRunConfig, ListImagesRequest, ListImagesResponse, PruneImagesRequest, PrunedImages,
    PullImageProgress, PullImageRequest, RemoveImageRequest,
};
use strata_types::Error;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::data::NOW_MS;
use super::fake::{Shared, State};

pub fn images() -> Vec<ImageInfo> {
    vec![
        ImageInfo {
            used_by: vec!["pod web".into()],
            config: Some(ImageRunConfig {
                entrypoint: vec!["/docker-entrypoint.sh".into()],
                cmd: vec!["nginx".into(), "-g".into(), "daemon off;".into()],
                env: vec!["PATH=/usr/bin".into(), "EVIL=\u{1b}[2J".into()],
                user: "nginx".into(),
                working_dir: "/srv".into(),
                exposed_ports: vec!["80/tcp".into()],
                volumes: vec!["/var/cache".into()],
                labels: [("maintainer".to_owned(), "them".to_owned())].into(),
                stop_signal: "SIGQUIT".into(),
            }),
            ..image("docker.io/library/nginx:1.27", "a", 3)
        },
        image("registry.lan:5000/app:v1", "b", 1),
    ]
}

fn image(reference: &str, digit: &str, layers: usize) -> ImageInfo {
    ImageInfo {
        reference: reference.into(),
        digest: format!("sha256:{}", digit.repeat(64)),
        platform: "linux/amd64".into(),
        created_at_ms: NOW_MS - 86_400_000,
        pulled_at_ms: NOW_MS - 3_600_000,
        used_at_ms: NOW_MS - 60_000,
        packed_bytes: 70 << 20,
        unpacked_bytes: 190 << 20,
        layers: (0..layers)
            .map(|n| ImageLayer {
                digest: format!("sha256:{}", n.to_string().repeat(64)),
                diff_id: format!("sha256:{}", digit.repeat(64)),
                packed_bytes: 20 << 20,
            })
            .collect(),
        ..Default::default()
    }
}

fn find(state: &State, name: &str) -> Result<ImageInfo, Status> {
    let fits = |image: &&ImageInfo| image.reference.ends_with(name);
    let found = state.images.iter().find(fits).cloned();
    found.ok_or_else(|| {
        let error = Error::not_found(format!("there is no image {name}"));
        status_from_error(&error.with_hint("`strata image list` shows those there are"))
    })
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Images for Shared {
    type PullStream = Pin<Box<dyn Stream<Item = Result<PullImageProgress, Status>> + Send>>;

    async fn pull(&self, request: Request<PullImageRequest>) -> Answer<Self::PullStream> {
        let mut state = self.open()?;
        let request = request.into_inner();
        let with = request
            .credentials
            .map(|given| format!(" as {} {:?}", given.user, given.password));
        state.calls.push(format!(
            "pull {} {:?}{}",
            request.reference,
            request.platform,
            with.unwrap_or_default()
        ));
        let layer = |digit: &str, phase: ImageLayerPhase, done| ImageLayerProgress {
            digest: format!("sha256:{}", digit.repeat(64)),
            phase: phase.into(),
            done_bytes: done,
            total_bytes: 20 << 20,
        };
        use ImageLayerPhase::{Done, Downloading, Exists, Unpacking, Waiting};
        let step = |second, third| PullImageProgress {
            layers: vec![layer("0", Exists, 20 << 20), second, third],
            image: None,
        };
        let mut last = step(layer("1", Done, 20 << 20), layer("2", Done, 20 << 20));
        last.image = Some(ImageInfo {
            reference: request.reference,
            ..image("", "c", 3)
        });
        let steps = [
            PullImageProgress::default(),
            step(layer("1", Downloading, 1 << 20), layer("2", Waiting, 0)),
            step(layer("1", Downloading, 9 << 20), layer("2", Downloading, 1)),
            step(layer("1", Unpacking, 20 << 20), layer("2", Done, 20 << 20)),
            last,
        ];
        Ok(Response::new(Box::pin(
            tokio_stream::iter(steps).map(Ok::<_, Status>),
        )))
    }

    async fn list(&self, _request: Request<ListImagesRequest>) -> Answer<ListImagesResponse> {
        let images = self.open()?.images.clone();
        Ok(Response::new(ListImagesResponse { images }))
    }

    async fn get(&self, request: Request<GetImageRequest>) -> Answer<ImageInfo> {
        let state = self.open()?;
        find(&state, &request.get_ref().image).map(Response::new)
    }

    async fn remove(&self, request: Request<RemoveImageRequest>) -> Answer<PrunedImages> {
        let mut state = self.open()?;
        let found = find(&state, &request.get_ref().image)?;
        if !found.used_by.is_empty() {
            let why = format!("image {} is in use by pod web", found.reference);
            return Err(status_from_error(&Error::wrong_state(why)));
        }
        state.calls.push(format!("remove {}", found.reference));
        state.images.retain(|image| *image != found);
        Ok(Response::new(PrunedImages {
            references: vec![found.reference],
            freed_bytes: found.packed_bytes,
            ..Default::default()
        }))
    }

    async fn prune(&self, request: Request<PruneImagesRequest>) -> Answer<PrunedImages> {
        let mut state = self.open()?;
        let request = request.into_inner();
        if !request.dry_run {
            let call = format!("prune {:?} {}", request.goal(), request.free_bytes);
            state.calls.push(call);
        }
        let takes = request.goal() == ImagePruneGoal::Unused;
        let unused = state
            .images
            .iter()
            .filter(|i| takes && i.used_by.is_empty());
        Ok(Response::new(PrunedImages {
            references: unused.map(|image| image.reference.clone()).collect(),
            freed_bytes: 5 << 20,
            blobs: 2,
            layers: 1,
        }))
    }
}
