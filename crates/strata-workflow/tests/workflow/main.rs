//! Operations on a store in memory, with a fake world for their steps.
#![allow(clippy::unwrap_used)]

mod chance;
mod faults;
mod forgetting;
mod kill;
mod life;
mod recovery;
mod restored;
mod support;
mod trials;
