//! The progress of a pull, for display.

use tokio::sync::watch;

use crate::{Digest, Manifest};

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The source is queried, or it is not this layer's turn yet.
    #[default]
    Waiting,
    /// Bytes come in.
    Downloading,
    /// The layer is unpacked.
    Unpacking,
    /// It is here now.
    Done,
    /// It was here before, or another pull brought it.
    Exists,
}

/// How far a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerProgress {
    pub digest: Digest,
    /// What is being done with it.
    pub phase: Phase,
    /// Packed bytes that came in or were unpacked.
    pub done: u64,
    /// Packed bytes in all.
    pub total: u64,
}

/// How far a pull is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The layers, the lowest first; none before the manifest is known.
    pub layers: Vec<LayerProgress>,
    /// Whether the image is recorded.
    pub recorded: bool,
}

impl Progress {
    /// What the pull as a whole is doing: what its slowest layer is doing.
    pub fn phase(&self) -> Phase {
        let slowest = self.layers.iter().map(|layer| layer.phase).min();
        match slowest {
            _ if self.recorded => Phase::Done,
            // Some wait for a place while others are on their way.
            Some(Phase::Waiting) => Phase::Downloading,
            Some(Phase::Done | Phase::Exists) => Phase::Unpacking,
            Some(phase) => phase,
            None => Phase::Waiting,
        }
    }
}

/// Notifies the listener, if there is one.
#[derive(Clone, Default)]
pub(super) struct Reporter(Option<watch::Sender<Progress>>);

impl Reporter {
    pub(super) fn new(sender: Option<watch::Sender<Progress>>) -> Self {
        Self(sender)
    }

    pub(super) fn begin(&self, manifest: &Manifest) {
        let layers = manifest.layers.iter().map(|layer| LayerProgress {
            digest: layer.digest,
            phase: Phase::Waiting,
            done: 0,
            total: layer.size,
        });
        let layers: Vec<_> = layers.collect();
        self.change(|progress| progress.layers = layers);
    }

    pub(super) fn layer(&self, digest: Digest, phase: Phase, done: u64) {
        self.change(|progress| {
            for layer in &mut progress.layers {
                if layer.digest == digest {
                    layer.phase = phase;
                    layer.done = done.min(layer.total);
                }
            }
        });
    }

    pub(super) fn recorded(&self) {
        self.change(|progress| progress.recorded = true);
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(sender) = &self.0 {
            sender.send_modify(change);
        }
    }
}
