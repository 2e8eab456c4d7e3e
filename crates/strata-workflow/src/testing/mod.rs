//! Tests that every kind of operation has to pass.
//!
//! Whoever writes a kind writes a [`Trial`] of it, which makes a world to
//! work on and checks it afterwards, and has it run through:
//!
//! - [`every_step_twice`]: doing a step again changes nothing,
//! - [`fail_at_every_step`]: wherever it fails, nothing is left,
//! - [`fail_and_undo_twice`]: undoing again changes nothing,
//! - [`die_at_every_step`]: wherever the program dies, the next one finishes,
//! - [`cancel_at_every_step`]: wherever it is cancelled, nothing is left.
//!
//! They drive the real engine on a store in memory and panic where something
//! is wrong. They are part of the crate, not of its tests, because the kinds
//! are elsewhere.

mod mortal;
mod rig;
mod tamper;

use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use mortal::{Death, Mortal};

use crate::{Kind, Operation, Reason, State};
use rig::Rig;
use tamper::{Tamper, When};

/// A kind of operation on trial.
pub trait Trial: Send + Sync {
    /// The kind.
    type Kind: Kind;

    /// One of it.
    fn kind(&self) -> Self::Kind;

    /// A world in which the operation has not run yet; a new one each time,
    /// or the same one again if [`Trial::clean`] holds for it.
    fn world(&self) -> BoxFuture<'_, Arc<<Self::Kind as Kind>::Context>>;

    /// What the operation is asked to do in this world.
    fn input(&self, world: &<Self::Kind as Kind>::Context) -> <Self::Kind as Kind>::Input;

    /// Panics unless everything is there that the operation should have made,
    /// once. May tidy up afterwards.
    fn done<'a>(&'a self, world: &'a <Self::Kind as Kind>::Context) -> BoxFuture<'a, ()>;

    /// Panics unless the world is as it was before.
    fn clean<'a>(&'a self, world: &'a <Self::Kind as Kind>::Context) -> BoxFuture<'a, ()>;
}

/// Does every step twice. It must complete, as if each had been done once,
/// and a step must answer the same both times.
///
/// # Panics
/// If it does not.
pub async fn every_step_twice<T: Trial>(trial: &T) {
    let tamper = Tamper {
        do_times: 2,
        ..Tamper::default()
    };
    let rig = Rig::new(trial, tamper).await;
    let operation = rig.run().await;
    assert_completed(&operation, "with every step done twice");
    trial.done(&rig.world).await;
}

/// Fails at every step in turn, before and after the step has had its effect.
/// It must undo everything each time.
///
/// # Panics
/// If it does not.
pub async fn fail_at_every_step<T: Trial>(trial: &T) {
    fail(trial, 1).await;
}

/// The same, with every undo done twice.
///
/// # Panics
/// If anything is left, or an undo fails for the second time.
pub async fn fail_and_undo_twice<T: Trial>(trial: &T) {
    fail(trial, 2).await;
}

async fn fail<T: Trial>(trial: &T, undo_times: u32) {
    for when in [When::Before, When::After] {
        for step in 0.. {
            let tamper = Tamper {
                fail: Some((step, when)),
                undo_times,
                ..Tamper::default()
            };
            let rig = Rig::new(trial, tamper).await;
            let operation = rig.run().await;
            if operation.steps.len() <= step {
                end(&operation, step);
                trial.done(&rig.world).await;
                break;
            }
            let point = format!("failing {when:?} the effect of step {step}");
            assert_failed(&operation, &point);
            trial.clean(&rig.world).await;
        }
    }
}

/// Cancels it while each step in turn runs. It must undo everything.
///
/// # Panics
/// If it does not.
pub async fn cancel_at_every_step<T: Trial>(trial: &T) {
    for step in 0.. {
        let tamper = Tamper {
            cancel: Some(step),
            ..Tamper::default()
        };
        let rig = Rig::new(trial, tamper).await;
        let operation = rig.run().await;
        if operation.steps.len() <= step {
            end(&operation, step);
            trial.done(&rig.world).await;
            break;
        }
        let point = format!("cancelled in step {step}");
        assert_failed(&operation, &point);
        let cancelled = operation.reason().is_some_and(Reason::is_cancelled);
        assert!(cancelled, "{point}: {:?}", operation.state);
        trial.clean(&rig.world).await;
    }
}

/// Lets the engine die at every write, before and after that takes effect,
/// and has another engine finish: on the way forward, and on the way back
/// from a failure of each step.
///
/// # Panics
/// If the second engine does not end it as the first would have.
pub async fn die_at_every_step<T: Trial>(trial: &T) {
    let steps = die_everywhere(trial, None).await;
    for step in 0..steps {
        die_everywhere(trial, Some((step, When::After))).await;
    }
}

/// Answers how many steps the operation had.
async fn die_everywhere<T: Trial>(trial: &T, fail: Option<(usize, When)>) -> usize {
    let mut steps = 0;
    for death in [Death::BeforeEffect, Death::AfterEffect] {
        for commits in 0.. {
            let tamper = Tamper {
                fail,
                ..Tamper::default()
            };
            let rig = Rig::new(trial, tamper).await;
            let (operation, died) = rig.run_with_death(commits, death).await;
            let point = format!("dying {death:?} of write {commits}, failing at {fail:?}");
            if fail.is_some() {
                assert_failed(&operation, &point);
                trial.clean(&rig.world).await;
            } else {
                assert_completed(&operation, &point);
                trial.done(&rig.world).await;
            }
            steps = operation.steps.len();
            if !died {
                break;
            }
        }
    }
    steps
}

/// There is no step to tamper with any more: all were, and there was one.
fn end(operation: &Operation, step: usize) {
    assert!(step > 0, "it has no steps");
    assert_completed(operation, "untampered");
}

fn assert_completed(operation: &Operation, point: &str) {
    let completed = matches!(operation.state, State::Completed { .. });
    assert!(completed, "{point}: {:?}", operation.state);
}

fn assert_failed(operation: &Operation, point: &str) {
    let failed = matches!(operation.state, State::Failed { .. });
    assert!(failed, "{point}: {:?}", operation.state);
    let left = operation.leftovers();
    assert!(left.is_empty(), "{point}: left behind: {left:?}");
}
