//! What a kind of operation is: the one trait that code with long work
//! implements.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Claim, Outputs, Step, StepError};

/// A kind of operation.
///
/// ```
/// use std::sync::Arc;
/// use strata_workflow::{Claim, Kind, Outputs, Registry, Step, StepContext, StepError};
///
/// struct Switch; // what the steps work with
/// impl Switch {
///     async fn set(&self, _on: bool) -> std::io::Result<()> { Ok(()) }
/// }
///
/// struct PowerOn;
/// impl Kind for PowerOn {
///     type Input = String;
///     type Context = Switch;
///     const NAME: &'static str = "power-on";
///
///     fn claims(&self, machine: &String) -> Vec<Claim> {
///         vec![Claim::exclusive(format!("machine/{machine}"))]
///     }
///
///     fn steps(&self, _: &String, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
///         Ok(vec![
///             Step::new("switch", |ctx: StepContext<Self>| async move {
///                 ctx.context.set(true).await.map_err(StepError::transient)
///             })
///             .undo(|ctx: StepContext<Self>| async move {
///                 ctx.context.set(false).await.map_err(StepError::transient)
///             }),
///         ])
///     }
/// }
///
/// let mut registry = Registry::new();
/// registry.register(PowerOn, Arc::new(Switch)).unwrap();
/// ```
pub trait Kind: Sized + Send + Sync + 'static {
    /// What the operation is to do. It is stored, and read again by later
    /// versions of the program: give new fields defaults. Every caller that may
    /// list operations sees it: no secrets, only where to find them. The same
    /// goes for the outputs of steps.
    type Input: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What its steps work with: drivers, clients. It is not stored.
    type Context: Send + Sync + 'static;

    /// Its name, which is stored.
    const NAME: &'static str;

    /// What it must have to itself. Called once, when it is submitted.
    fn claims(&self, input: &Self::Input) -> Vec<Claim>;

    /// Its steps in order, as far as they are known from the outputs of the
    /// steps that are done.
    ///
    /// It is called again after every step, after a restart, and before an
    /// undo, and must be a pure function: with more outputs it may return more
    /// steps at the end, or return others there, but never change those that
    /// have begun. Names are unique within one operation. An error fails the
    /// operation, and what was done is undone.
    fn steps(&self, input: &Self::Input, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError>;
}
