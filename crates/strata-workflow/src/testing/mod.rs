//! Tests that every kind of operation has to pass.
//!
//! The author of a kind writes a [`KindHarness`] for it, which makes a world to
//! work on and checks it afterwards, and has it run through:
//!
//! - [`every_step_twice`]: doing a step again changes nothing,
//! - [`fail_at_every_step`]: wherever it fails, nothing is left,
//! - [`fail_and_undo_twice`]: undoing again changes nothing,
//! - [`crash_at_every_step`]: wherever the program dies, the next one finishes,
//! - [`cancel_at_every_step`]: wherever it is cancelled, nothing is left.
//!
//! They drive the real engine on a store in memory and panic where something
//! is wrong. They are part of the crate, not of its tests, because the kinds
//! are elsewhere.

mod crashing_store;
mod fault_injector;
mod harness;

use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use crashing_store::{CrashPoint, CrashingStore};

use crate::{Kind, Operation, Reason, State};
use fault_injector::{FaultInjector, When};
use harness::Harness;

/// A kind of operation on trial.
pub trait KindHarness: Send + Sync {
    type Kind: Kind;

    fn kind(&self) -> Self::Kind;

    /// A world in which the operation has not run yet; a new one each time,
    /// or the same one again if [`KindHarness::clean`] holds for it.
    fn world(&self) -> BoxFuture<'_, Arc<<Self::Kind as Kind>::Context>>;

    /// The input of the operation in this world.
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
pub async fn every_step_twice<T: KindHarness>(trial: &T) {
    let fault_injector = FaultInjector {
        do_times: 2,
        ..FaultInjector::default()
    };
    let harness = Harness::new(trial, fault_injector).await;
    let operation = harness.run().await;
    assert_completed(&operation, "with every step done twice");
    trial.done(&harness.world).await;
}

/// Fails at every step in turn, before and after the step has had its effect.
/// It must undo everything each time.
///
/// # Panics
/// If it does not.
pub async fn fail_at_every_step<T: KindHarness>(trial: &T) {
    fail(trial, 1).await;
}

/// The same, with every undo done twice.
///
/// # Panics
/// If anything is left, or an undo fails for the second time.
pub async fn fail_and_undo_twice<T: KindHarness>(trial: &T) {
    fail(trial, 2).await;
}

async fn fail<T: KindHarness>(trial: &T, undo_times: u32) {
    for when in [When::Before, When::After] {
        for step in 0.. {
            let fault_injector = FaultInjector {
                fail: Some((step, when)),
                undo_times,
                ..FaultInjector::default()
            };
            let harness = Harness::new(trial, fault_injector).await;
            let operation = harness.run().await;
            if operation.steps.len() <= step {
                end(&operation, step);
                trial.done(&harness.world).await;
                break;
            }
            let point = format!("failing {when:?} the effect of step {step}");
            assert_failed(&operation, &point);
            trial.clean(&harness.world).await;
        }
    }
}

/// Cancels it while each step in turn runs. It must undo everything.
///
/// # Panics
/// If it does not.
pub async fn cancel_at_every_step<T: KindHarness>(trial: &T) {
    for step in 0.. {
        let fault_injector = FaultInjector {
            cancel: Some(step),
            ..FaultInjector::default()
        };
        let harness = Harness::new(trial, fault_injector).await;
        let operation = harness.run().await;
        if operation.steps.len() <= step {
            end(&operation, step);
            trial.done(&harness.world).await;
            break;
        }
        let point = format!("cancelled in step {step}");
        assert_failed(&operation, &point);
        let cancelled = operation.reason().is_some_and(Reason::is_cancelled);
        assert!(cancelled, "{point}: {:?}", operation.state);
        trial.clean(&harness.world).await;
    }
}

/// Lets the engine die at every write, before and after that takes effect,
/// and has another engine finish: on the way forward, and on the rollback
/// from a failure of each step.
///
/// # Panics
/// If the second engine does not end it as the first would have.
pub async fn crash_at_every_step<T: KindHarness>(trial: &T) {
    let steps = crash_everywhere(trial, None).await;
    for step in 0..steps {
        crash_everywhere(trial, Some((step, When::After))).await;
    }
}

/// Answers how many steps the operation had.
async fn crash_everywhere<T: KindHarness>(trial: &T, fail: Option<(usize, When)>) -> usize {
    let mut steps = 0;
    for death in [CrashPoint::BeforeEffect, CrashPoint::AfterEffect] {
        for commits in 0.. {
            let fault_injector = FaultInjector {
                fail,
                ..FaultInjector::default()
            };
            let harness = Harness::new(trial, fault_injector).await;
            let (operation, died) = harness.run_with_crash(commits, death).await;
            let point = format!("dying {death:?} of write {commits}, failing at {fail:?}");
            if fail.is_some() {
                assert_failed(&operation, &point);
                trial.clean(&harness.world).await;
            } else {
                assert_completed(&operation, &point);
                trial.done(&harness.world).await;
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
