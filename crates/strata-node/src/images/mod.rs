//! The images of this node: one owner of the store, of the ways to registries,
//! and of what is known about their use.
//!
//! A pull is not tied to the callers that wait for it: it runs to its end, and
//! a caller that requests the same image meanwhile joins it. Code that turns an
//! image into something that runs calls [`Images::ensure`] and keeps the
//! returned lease until the hook of [`Images::report_uses_by`] reports the use:
//! in between and from then on neither Remove nor any prune removes the image.

mod config;
mod docker_config;
mod error;
mod handover;
mod joined;
mod local;
mod platform;
mod pulls;
mod remove;
mod removed;
mod selector;
mod server;
mod space;
#[cfg(test)]
mod tests;
mod uses;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use strata_client::Target;
use strata_image::{Image, Platform, Reference, Registries, Store};
use strata_tasks::TaskGroup;
use strata_types::{Error, Result};

use crate::blocking::blocking;
pub use config::ImagesConfig;
use config::is_limited;
pub use docker_config::{DockerConfigError, read_docker_config, read_secret};
use error::public;
pub use handover::Handover;
pub(crate) use handover::quoted;
pub use joined::{joined_section, keep_joined};
pub use local::{may_read, may_read_path, reference_from_field};
pub(crate) use platform::platform_from_field;
use pulls::Pulls;
pub(crate) use pulls::{Login, PullRequest, Pulling};
pub(crate) use remove::PruneScope;
use removed::RemovedNames;
use selector::Selector;
pub use strata_image::{Credentials, Digest, DiskReserve, RegistryOptions};
pub use strata_types::pod::PullPolicy;
use uses::ImageUses;
pub use uses::{HeldImage, ImageUse};

/// How often an image may be removed concurrently before we give up.
const ATTEMPTS: usize = 3;
/// Between two looks at how full the disk is.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The images of a node. Cheap to clone.
#[derive(Clone)]
pub struct Images(Arc<Inner>);

struct Inner {
    config: ImagesConfig,
    dir: PathBuf,
    store: Store,
    registries: Registries,
    pulls: Pulls,
    uses: Arc<ImageUses>,
    removed: Mutex<RemovedNames>,
    /// Where images of the server's host are requested, while one is followed.
    server: Mutex<Option<Target>>,
    /// Held while room is made, so that it is made once.
    making_room: tokio::sync::Mutex<()>,
    tasks: TaskGroup,
}

impl Inner {
    fn server(&self) -> Option<Target> {
        let server = self.server.lock();
        server.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Images {
    /// Opens the images in this directory, and clears away what a death left
    /// half done.
    pub async fn open(dir: PathBuf, config: ImagesConfig, tasks: TaskGroup) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::internal(format!("cannot open the image store: {error}"))
        };
        let root = dir.clone();
        let options = config.store_options();
        let opening = tokio::task::spawn_blocking(move || Store::open(root, options));
        let store = opening.await.map_err(|error| failed(&error))?;
        let registries = Registries::new(config.registries.clone());
        let inner = Inner {
            store: store.map_err(|error| failed(&error))?,
            registries: registries.map_err(|error| Error::wrong_state(error.to_string()))?,
            pulls: Pulls::new(config.parallel_pulls),
            uses: Arc::default(),
            removed: Mutex::new(RemovedNames::open(dir.join("removed"))),
            server: Mutex::default(),
            making_room: tokio::sync::Mutex::default(),
            tasks,
            dir,
            config,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Ensures that the image is here and holds it, for a caller that is about
    /// to run it: its layers, the lowest first, stay at least as long as the
    /// returned value. May be repeated, and be called for the same image
    /// concurrently.
    pub async fn ensure(&self, reference: &Reference, policy: PullPolicy) -> Result<HeldImage> {
        self.ensure_for(reference, policy, None).await
    }

    /// The same for a pod of a project. Where the node's credentials are not
    /// for that project, the registry is queried without them, also for an
    /// image that is here: it may be here for others. The same goes for an
    /// image that came by the credentials of a caller.
    pub async fn ensure_for(
        &self,
        reference: &Reference,
        policy: PullPolicy,
        project: Option<&str>,
    ) -> Result<HeldImage> {
        let withheld = self.0.config.withholds_credentials(reference, project);
        let mut policy = policy;
        let mut asked = !withheld;
        for _ in 0..ATTEMPTS {
            if policy != PullPolicy::Always
                && asked
                && let Some(held) = self.hold(reference)?
                && !(held.image.private && is_limited(project))
            {
                self.claim(&held.image, project)?;
                return Ok(held);
            }
            if policy == PullPolicy::Never {
                return Err(Error::not_found(format!("image {reference} is not here"))
                    .with_hint(format!("pull it first: strata image pull {reference}")));
            }
            let mut wanted = PullRequest::new(reference.clone());
            wanted.project = project.map(str::to_owned);
            if withheld {
                wanted.login = Login::Anonymous;
            }
            let pulled = self.pull(wanted)?.image().await;
            pulled.map_err(|error| match (withheld, project) {
                (true, Some(project)) => error.with_hint(format!(
                    "the node's credentials for this registry are not for project {project}; \
                     `projects` of the registry in [images.registries] of the node's \
                     configuration says whom they are for"
                )),
                _ => error,
            })?;
            (policy, asked) = (PullPolicy::Missing, true);
        }
        Err(Error::unavailable(format!(
            "image {reference} is removed as soon as it is pulled"
        )))
    }

    /// The image, held and noted as used, if it is here for this machine.
    fn hold(&self, reference: &Reference) -> Result<Option<HeldImage>> {
        use strata_image::StoreError::UnknownImage;
        let store = &self.0.store;
        let (image, hold) = match blocking(|| store.hold(reference)) {
            Ok(held) => held,
            Err(UnknownImage(_)) => return Ok(None),
            Err(error) => return Err(public(error)),
        };
        if !image.config.platform.serves(&Platform::host()) {
            return Ok(None);
        }
        if let Err(error) = store.touch(reference) {
            tracing::debug!(%reference, %error, "last use of the image not saved");
        }
        Ok(Some(self.0.uses.lease(image, hold)))
    }

    /// Charges a project for an image that came for another, or that a caller
    /// of the node pulled.
    fn claim(&self, image: &Image, project: Option<&str>) -> Result<()> {
        let Some(project) = project.filter(|one| !image.projects.contains(*one)) else {
            return Ok(());
        };
        let used = self.0.uses.look().of_project(project);
        let store = &self.0.store;
        match blocking(|| store.claim(&image.reference, project, &used)) {
            // It is held, whatever its name means by now.
            Err(strata_image::StoreError::UnknownImage(_)) => Ok(()),
            claimed => claimed.map_err(public),
        }
    }

    /// Every image that is here, in the order of their names.
    pub fn list(&self) -> Result<Vec<Image>> {
        let mut images = blocking(|| self.0.store.list()).map_err(public)?;
        images.sort_by_cached_key(|image| image.reference.to_string());
        Ok(images)
    }

    /// One image, by its name, its digest, or the beginning of that.
    pub fn find(&self, field: &str, text: &str) -> Result<Image> {
        let selector = Selector::from_field(field, text)?;
        let all = self.list()?;
        let names = all
            .iter()
            .map(|image| (image.reference.to_string(), image.digest));
        let found = selector.pick(&names.collect::<Vec<_>>())?;
        let first = found.first().and_then(|found| all.into_iter().nth(*found));
        first.ok_or_else(|| selector.unknown())
    }

    /// Starts a pull, or joins the one that is under way. It goes on when no
    /// caller waits for it any more.
    pub(crate) fn pull(&self, wanted: PullRequest) -> Result<Pulling> {
        pulls::pull(&self.0, wanted)
    }

    /// How far the pull of an image is, as a message, if one is under way.
    pub(crate) fn pull_progress(&self, reference: &Reference) -> Option<String> {
        pulls::describe(&self.0, reference)
    }

    /// Names what uses images, from now on. The hook is called before anything
    /// is removed; it must report a use before the [`HeldImage`] that the use
    /// came from is dropped, and must not wait for anything.
    pub fn report_uses_by(&self, hook: impl Fn() -> Vec<ImageUse> + Send + Sync + 'static) {
        self.0.uses.set_hook(Arc::new(hook));
        // Not before: until it is known what is used, nothing may be taken
        // for unused.
        self.watch_disk_space();
    }

    /// What uses images now.
    pub fn uses(&self) -> Vec<ImageUse> {
        self.0.uses.look().in_use.clone()
    }

    /// Names the server that is followed: images that are files of a host, and
    /// are not here, are requested there.
    pub(crate) fn follow_server(&self, server: Option<Target>) {
        *self.0.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// How this node deals with images.
    pub fn config(&self) -> &ImagesConfig {
        &self.0.config
    }

    /// Checks periodically whether the disk is filling up, for as long as
    /// `Images` is referenced.
    fn watch_disk_space(&self) {
        let images = Arc::downgrade(&self.0);
        self.0.tasks.restart("image-gc", move || {
            let images = images.clone();
            async move {
                let mut ticks = tokio::time::interval(SPACE_CHECK_INTERVAL);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let Some(inner) = images.upgrade() else {
                        return;
                    };
                    space::make_room(&inner).await;
                }
            }
        });
    }
}
