//! Pulls: each runs in a task of its own to its end, with or without waiters; a
//! second one of the same image joins the first. How many run, how many wait,
//! and how long one may take is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_image::{
    ArchiveSource, Credentials, Image, LayerProgress, LayoutSource, Phase, Platform, Progress,
    PullOptions, Reference, Registries, Shares, Source, StoreError,
};
use strata_tasks::spawn_detached;
use strata_types::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::error::public;
use super::local::{open_reference, path_of};
use super::server::ServerSource;
use super::{Inner, space};
use crate::blocking::blocking;

/// Running and waiting ones together; half of them for one project.
const MAX_PULLS: usize = 1024;
/// Whatever a registry does: no caller waits longer for an image.
/// Percent of its share that a project keeps of images that it does not use,
/// when the share is taken: so that not every further pull evicts some.
const SHARE_LEFT: u8 = 50;
const PULL_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

/// What to pull, and how.
#[derive(Clone, Debug)]
pub(crate) struct PullRequest {
    pub(crate) reference: Reference,
    pub(crate) platform: Platform,
    pub(crate) login: Login,
    pub(crate) force: bool,
    /// The project that it is for, which shares the places with others; none
    /// for a caller of this node.
    pub(crate) project: Option<String>,
}

/// With which credentials a registry is queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// As the configuration says.
    Node,
    /// Anonymously, whatever the configuration contains.
    Anonymous,
    /// With the credentials of the caller, for this pull alone.
    Own(Credentials),
}

impl PullRequest {
    /// For this machine, with what the configuration says.
    pub(crate) fn new(reference: Reference) -> Self {
        Self {
            reference,
            platform: Platform::host(),
            login: Login::Node,
            force: false,
            project: None,
        }
    }
}

type Outcome = Option<Result<Arc<Image>>>;

/// A pull under way, or one that has ended.
#[derive(Clone)]
pub(crate) struct Pulling {
    progress: watch::Receiver<Progress>,
    ended: watch::Receiver<Outcome>,
}

impl Pulling {
    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// The image, once it is here.
    pub(crate) async fn image(&mut self) -> Result<Arc<Image>> {
        let died = || Error::internal("internal error; see the daemon log");
        match self.ended.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(died())),
            Err(_) => Err(died()),
        }
    }

    /// One that has nothing to do.
    fn done(image: Image) -> Self {
        let layers = image.manifest.layers.iter().map(|layer| LayerProgress {
            digest: layer.digest,
            phase: Phase::Exists,
            done: layer.size,
            total: layer.size,
        });
        let progress = Progress {
            layers: layers.collect(),
            recorded: true,
        };
        Self {
            progress: watch::channel(progress).1,
            ended: watch::channel(Some(Ok(Arc::new(image)))).1,
        }
    }
}

/// Pulls with credentials of their own are never joined: the registry decides
/// each time which user may read an image. Those without any join each other,
/// within a project: one project's wait for a place is not another's. The store
/// downloads once for both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    reference: Reference,
    platform: String,
    anonymous: bool,
    alone: Option<u64>,
    project: Option<String>,
}

pub(super) struct Pulls {
    flights: Mutex<PullsInFlight>,
    running: Arc<Shares>,
}

#[derive(Default)]
struct PullsInFlight {
    next: u64,
    pulling: HashMap<Key, Pulling>,
}

impl Pulls {
    pub(super) fn new(parallel: usize) -> Self {
        Self {
            flights: Mutex::default(),
            running: Shares::new(parallel.clamp(1, MAX_PULLS)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PullsInFlight> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a pull off the list, also when its task panics.
struct PullGuard {
    images: Arc<Inner>,
    key: Key,
}

impl Drop for PullGuard {
    fn drop(&mut self) {
        self.images.pulls.lock().pulling.remove(&self.key);
    }
}

pub(super) fn pull(images: &Arc<Inner>, wanted: PullRequest) -> Result<Pulling> {
    if !wanted.force
        && let Some(image) = pinned(images, &wanted)
    {
        return Ok(Pulling::done(image));
    }
    let mut flights = images.pulls.lock();
    flights.next += 1;
    let key = Key {
        reference: wanted.reference.clone(),
        platform: wanted.platform.to_string(),
        anonymous: wanted.login == Login::Anonymous,
        alone: matches!(wanted.login, Login::Own(_)).then_some(flights.next),
        project: wanted.project.clone(),
    };
    if let Some(under_way) = flights.pulling.get(&key) {
        return Ok(under_way.clone());
    }
    let same_project = flights.pulling.keys();
    let same_project = same_project.filter(|other| other.project == key.project);
    if same_project.count() >= MAX_PULLS / 2 {
        let whose = key.project.as_deref().unwrap_or("callers of the node");
        let most = MAX_PULLS / 2;
        let why = format!("{most} pulls for {whose} are under way or wait already");
        return Err(Error::new(ErrorKind::Exhausted, why).with_hint("try again later"));
    }
    if flights.pulling.len() >= MAX_PULLS {
        let why = format!("{MAX_PULLS} pulls are under way or wait already");
        return Err(Error::new(ErrorKind::Exhausted, why).with_hint("try again later"));
    }
    let (progress, watched) = watch::channel(Progress::default());
    let (end, ended) = watch::channel(None);
    let pulling = Pulling {
        progress: watched,
        ended,
    };
    flights.pulling.insert(key.clone(), pulling.clone());
    drop(flights);
    let landing = PullGuard {
        images: Arc::clone(images),
        key,
    };
    spawn_detached("image-pull", async move {
        let reference = wanted.reference.clone();
        let outcome = tokio::time::timeout(PULL_TIMEOUT, run(&landing.images, wanted, progress))
            .await
            .unwrap_or_else(|_| {
                let hours = PULL_TIMEOUT.as_secs() / 3600;
                Err(Error::unavailable(format!(
                    "{reference} was not here after {hours} hours"
                )))
            });
        match &outcome {
            Ok(image) => tracing::info!(image = %reference, digest = %image.digest, "image pulled"),
            Err(error) => tracing::info!(image = %reference, %error, "image pull failed"),
        }
        // Off the list first: a caller that is notified of the end and requests
        // the image again starts a new pull.
        drop(landing);
        end.send_replace(Some(outcome.map(Arc::new)));
    });
    Ok(pulling)
}

/// How far the pull of an image is, if one is under way.
pub(super) fn describe(images: &Inner, reference: &Reference) -> Option<String> {
    let flights = images.pulls.lock();
    let mut all = flights.pulling.iter();
    let (_, pulling) = all.find(|(key, _)| key.reference == *reference)?;
    Some(text(&pulling.progress()))
}

fn text(progress: &Progress) -> String {
    let bytes = |of: fn(&LayerProgress) -> u64| progress.layers.iter().map(of).sum::<u64>();
    let (done, total) = (bytes(|layer| layer.done), bytes(|layer| layer.total));
    match progress.phase() {
        _ if progress.layers.is_empty() => "pulling the image: asking its source".into(),
        Phase::Unpacking => "unpacking the image".into(),
        _ => {
            let mb = |bytes: u64| bytes.div_ceil(1_000_000);
            format!("pulling the image: {} of {} MB", mb(done), mb(total))
        }
    }
}

/// An image whose name identifies its content, and that is here: its source has
/// nothing to add. Not with another login than the node's, which may be no
/// good, nor one that came by another.
fn pinned(images: &Inner, wanted: &PullRequest) -> Option<Image> {
    let Reference::Registry(name) = &wanted.reference else {
        return None;
    };
    if name.digest().is_none() || wanted.login != Login::Node {
        return None;
    }
    let image = blocking(|| images.store.show(&wanted.reference)).ok()?;
    let serves = image.config.platform.serves(&wanted.platform);
    (serves && !image.private).then_some(image)
}

async fn run(
    images: &Arc<Inner>,
    wanted: PullRequest,
    progress: watch::Sender<Progress>,
) -> Result<Image> {
    let holder = wanted.project.clone().unwrap_or_default();
    let _place = images.pulls.running.take(&holder).await;
    space::make_room(images).await;
    let source = source(images, &wanted)?;
    let options = PullOptions {
        platform: wanted.platform,
        progress: Some(progress),
        private: matches!(wanted.login, Login::Own(_)),
        used: images.uses.look().of_project(&holder),
        holder,
    };
    let pulling = |options| images.store.pull(&wanted.reference, &source, options);
    let mut pulled = pulling(options.clone()).await;
    // First some of what it does not use now, then all of it.
    for percent in [SHARE_LEFT, 0] {
        if !pulled.as_ref().is_err_and(StoreError::is_share)
            || !space::trim_share(images, &options.holder, percent).await
        {
            break;
        }
        pulled = pulling(options.clone()).await;
    }
    if pulled.as_ref().is_err_and(StoreError::is_out_of_space) {
        space::remove_garbage(images).await;
    }
    pulled.map_err(public)
}

fn source(images: &Inner, wanted: &PullRequest) -> Result<Arc<dyn Source>> {
    if let Some(path) = path_of(&wanted.reference)
        && blocking(|| !path.exists())
        && let Some(server) = images.server()
    {
        let source = ServerSource::new(server, wanted.reference.clone());
        return Ok(Arc::new(source));
    }
    let dirs = &images.config.local_dirs;
    let opened = blocking(|| open_reference(&wanted.reference, dirs)).map_err(|error| {
        Error::wrong_state(format!("{} cannot be opened: {error}", wanted.reference))
    })?;
    match (&wanted.reference, opened) {
        (Reference::Layout { path, tag }, Some(opened)) => {
            let source = LayoutSource::within(opened, path, tag.clone());
            return Ok(Arc::new(source));
        }
        (Reference::Archive { path }, Some(opened)) => {
            return Ok(Arc::new(ArchiveSource::opened(opened, path)));
        }
        _ => {}
    }
    let Reference::Registry(name) = &wanted.reference else {
        return Ok(images.registries.source(&wanted.reference));
    };
    let mut options = images.config.registries.clone();
    match &wanted.login {
        Login::Node => return Ok(images.registries.source(&wanted.reference)),
        Login::Anonymous => options.credentials.remove(name.host()),
        Login::Own(credentials) => {
            let host = name.host().to_owned();
            options.credentials.insert(host, credentials.clone())
        }
    };
    let registries = blocking(|| Registries::new(options));
    let registries = registries.map_err(|error| Error::wrong_state(error.to_string()))?;
    Ok(registries.source(&wanted.reference))
}
