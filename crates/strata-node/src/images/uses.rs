//! What uses images: what runs from them, by the hook of the code that runs
//! things; and what is about to, by leases.
//!
//! A lease passes over into a use: the hook reports the use first, then the
//! lease is dropped. A prune that called the hook before that moment and
//! deletes after it would see neither, so leases that are dropped during a
//! prune are kept until no prune runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_image::{Digest, Image, ImageHold};

/// Something that uses an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The digest of the image's manifest.
    pub digest: Digest,
    /// What it is, for people: `pod web`.
    pub by: String,
    /// The project of which it is; none for what a caller of the node made.
    pub project: Option<String>,
}

type UsesHook = Arc<dyn Fn() -> Vec<ImageUse> + Send + Sync>;

#[derive(Default)]
pub(super) struct ImageUses {
    hook: Mutex<Option<UsesHook>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leased: HashMap<Digest, usize>,
    looking: usize,
    parked: Vec<ImageHold>,
}

/// An image that stays for as long as this lives.
pub struct HeldImage {
    /// The image: its digest, its layers, its run configuration.
    pub image: Image,
    hold: Option<ImageHold>,
    uses: Arc<ImageUses>,
}

impl fmt::Debug for HeldImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldImage")
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

impl Drop for HeldImage {
    fn drop(&mut self) {
        let mut state = self.uses.lock();
        if let Some(count) = state.leased.get_mut(&self.image.digest) {
            *count -= 1;
            if *count == 0 {
                state.leased.remove(&self.image.digest);
            }
        }
        if state.looking > 0 {
            state.parked.extend(self.hold.take());
        }
    }
}

/// The uses, which stay as they are found here until this is dropped.
pub(super) struct UsesSnapshot<'a> {
    pub(super) in_use: Vec<ImageUse>,
    uses: &'a ImageUses,
}

impl UsesSnapshot<'_> {
    pub(super) fn digests(&self) -> Vec<Digest> {
        self.in_use.iter().map(|used| used.digest).collect()
    }

    /// What a project runs from.
    pub(super) fn of_project(&self, project: &str) -> Vec<Digest> {
        let own = self.in_use.iter();
        let own = own.filter(|used| used.project.as_deref() == Some(project));
        own.map(|used| used.digest).collect()
    }

    /// What uses this image, for people.
    pub(super) fn of(&self, digest: &Digest) -> Vec<&str> {
        let same = self.in_use.iter().filter(|used| used.digest == *digest);
        same.map(|used| used.by.as_str()).collect()
    }
}

impl Drop for UsesSnapshot<'_> {
    fn drop(&mut self) {
        let mut state = self.uses.lock();
        state.looking -= 1;
        let free = state.looking == 0;
        let parked = if free {
            std::mem::take(&mut state.parked)
        } else {
            Vec::new()
        };
        // The store takes its own lock for each.
        drop(state);
        drop(parked);
    }
}

impl ImageUses {
    pub(super) fn set_hook(&self, hook: UsesHook) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    pub(super) fn lease(self: &Arc<Self>, image: Image, hold: ImageHold) -> HeldImage {
        *self.lock().leased.entry(image.digest).or_default() += 1;
        HeldImage {
            image,
            hold: Some(hold),
            uses: Arc::clone(self),
        }
    }

    pub(super) fn look(&self) -> UsesSnapshot<'_> {
        let leased: Vec<Digest> = {
            let mut state = self.lock();
            state.looking += 1;
            state.leased.keys().copied().collect()
        };
        let mut look = UsesSnapshot {
            in_use: Vec::new(),
            uses: self,
        };
        let hook = self
            .hook
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        look.in_use = hook.map(|hook| hook()).unwrap_or_default();
        for digest in leased {
            if look.of(&digest).is_empty() {
                let by = "something that is being started".to_owned();
                look.in_use.push(ImageUse {
                    digest,
                    by,
                    project: None,
                });
            }
        }
        look
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock left whole counts.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
