//! Pulls: each runs in a task of its own to its end, whoever waits for it or
//! does not; a second one of the same image joins the first. How many run,
//! how many wait, and how long one may take is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_image::{
    ArchiveSource, Credentials, Image, LayerProgress, LayoutSource, Phase, Platform, Progress,
    PullOptions, Reference, Registries, Source,
};
use strata_types::{Error, ErrorKind, Result};
use tokio::sync::{Semaphore, watch};

use super::error::public;
use super::local::{open_reference, path_of};
use super::server::ServerSource;
use super::{Inner, space};
use crate::blocking::blocking;

/// Running and waiting ones together.
const MOST: usize = 1024;
/// Whatever a registry does: nobody waits longer for an image.
const LONGEST: Duration = Duration::from_secs(2 * 3600);

/// What to pull, and how.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) reference: Reference,
    pub(crate) platform: Platform,
    pub(crate) login: Login,
    pub(crate) force: bool,
}

/// As whom a registry is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// As the configuration says.
    Node,
    /// As nobody, whatever the configuration says.
    Anonymous,
    /// As the caller says, for this pull alone.
    Own(Credentials),
}

impl Wanted {
    /// For this machine, with what the configuration says.
    pub(crate) fn new(reference: Reference) -> Self {
        Self {
            reference,
            platform: Platform::host(),
            login: Login::Node,
            force: false,
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
        let died = || Error::internal("the daemon stumbled over a bug; its log says where");
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

/// Pulls with credentials of their own are never joined: who may see an image
/// is for the registry to say each time. Those without any join each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    reference: Reference,
    platform: String,
    anonymous: bool,
    alone: Option<u64>,
}

pub(super) struct Pulls {
    flights: Mutex<Flights>,
    running: Semaphore,
}

#[derive(Default)]
struct Flights {
    next: u64,
    pulling: HashMap<Key, Pulling>,
}

impl Pulls {
    pub(super) fn new(parallel: usize) -> Self {
        Self {
            flights: Mutex::default(),
            running: Semaphore::new(parallel.clamp(1, MOST)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a pull off the list, also when its task panics.
struct Landing {
    images: Arc<Inner>,
    key: Key,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.images.pulls.lock().pulling.remove(&self.key);
    }
}

pub(super) fn pull(images: &Arc<Inner>, wanted: Wanted) -> Result<Pulling> {
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
    };
    if let Some(under_way) = flights.pulling.get(&key) {
        return Ok(under_way.clone());
    }
    if flights.pulling.len() >= MOST {
        let why = format!("{MOST} pulls are under way or wait already");
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
    let landing = Landing {
        images: Arc::clone(images),
        key,
    };
    tokio::spawn(async move {
        let reference = wanted.reference.clone();
        let outcome = tokio::time::timeout(LONGEST, run(&landing.images, wanted, progress))
            .await
            .unwrap_or_else(|_| {
                let hours = LONGEST.as_secs() / 3600;
                Err(Error::unavailable(format!(
                    "{reference} was not here after {hours} hours"
                )))
            });
        match &outcome {
            Ok(image) => tracing::info!(image = %reference, digest = %image.digest, "pulled"),
            Err(error) => tracing::info!(image = %reference, %error, "cannot pull"),
        }
        // Off the list first: whoever hears of the end and asks again starts
        // anew.
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

/// An image whose name says which one it is, and that is here: its source has
/// nothing to add. Not with another login than the node's, which may be no
/// good, nor one that came by another.
fn pinned(images: &Inner, wanted: &Wanted) -> Option<Image> {
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
    wanted: Wanted,
    progress: watch::Sender<Progress>,
) -> Result<Image> {
    // Never closed, so there is always a permit to wait for.
    let _permit = images.pulls.running.acquire().await;
    space::make_room(images).await;
    let source = source(images, &wanted)?;
    let options = PullOptions {
        platform: wanted.platform,
        progress: Some(progress),
        private: matches!(wanted.login, Login::Own(_)),
    };
    let pulled = images.store.pull(&wanted.reference, &source, options).await;
    pulled.map_err(public)
}

fn source(images: &Inner, wanted: &Wanted) -> Result<Arc<dyn Source>> {
    if let Some(path) = path_of(&wanted.reference)
        && blocking(|| !path.exists())
        && let Some(server) = images.server()
    {
        let source = ServerSource::new(server, wanted.reference.clone());
        return Ok(Arc::new(source));
    }
    let folders = &images.config.local_folders;
    let opened = blocking(|| open_reference(&wanted.reference, folders)).map_err(|error| {
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
