//! The kinds that this program knows, each with what its steps work with.
//!
//! The engine does not know the types of inputs and contexts: behind the
//! registry a kind is an [`AnyKind`] and its steps are [`AnyStep`]s.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::step::{Action, Limits};
use crate::step_context::StepScope;
use crate::{Claim, Kind, Outputs, Step, StepContext, StepError, WorkflowError};

/// More steps than this are a bug.
const MAX_STEPS: usize = 256;

/// The kinds of operations there are.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<String, Arc<dyn AnyKind>>,
}

impl Registry {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind, with what its steps work with.
    pub fn register<K: Kind>(
        &mut self,
        kind: K,
        context: Arc<K::Context>,
    ) -> Result<(), WorkflowError> {
        self.insert(K::NAME, Arc::new(Registered { kind, context }))
    }

    /// The names of all kinds.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    pub(crate) fn insert(
        &mut self,
        name: &str,
        kind: Arc<dyn AnyKind>,
    ) -> Result<(), WorkflowError> {
        if self.kinds.contains_key(name) {
            return Err(WorkflowError::DuplicateKind { kind: name.into() });
        }
        self.kinds.insert(name.into(), kind);
        Ok(())
    }

    pub(crate) fn find(&self, kind: &str) -> Option<Arc<dyn AnyKind>> {
        self.kinds.get(kind).cloned()
    }
}

/// A kind whose types are not known.
pub(crate) trait AnyKind: Send + Sync {
    /// What an operation with this input claims; an error if the input is not
    /// of the kind.
    fn claims(&self, input: &Value) -> Result<Vec<Claim>, serde_json::Error>;

    /// The steps as they are known from these outputs.
    fn plan(&self, input: &Value, outputs: &Outputs) -> Result<Vec<AnyStep>, StepError>;
}

/// A step whose types are not known.
#[derive(Clone)]
pub(crate) struct AnyStep {
    pub(crate) name: String,
    pub(crate) run: Action<StepScope>,
    pub(crate) undo: Option<Action<StepScope>>,
    pub(crate) limits: Limits,
}

pub(crate) struct Registered<K: Kind> {
    pub(crate) kind: K,
    pub(crate) context: Arc<K::Context>,
}

impl<K: Kind> AnyKind for Registered<K> {
    fn claims(&self, input: &Value) -> Result<Vec<Claim>, serde_json::Error> {
        Ok(self.kind.claims(&K::Input::deserialize(input)?))
    }

    fn plan(&self, input: &Value, outputs: &Outputs) -> Result<Vec<AnyStep>, StepError> {
        let input = K::Input::deserialize(input).map_err(|error| StepError::Permanent {
            message: format!("the input cannot be read: {error}"),
        })?;
        let steps = self.kind.steps(&input, outputs)?;
        check(&steps)?;
        let input = Arc::new(input);
        let forget_types = |step: Step<K>| AnyStep {
            run: with(&self.context, &input, step.run),
            undo: step.undo.map(|undo| with(&self.context, &input, undo)),
            name: step.name,
            limits: step.limits,
        };
        Ok(steps.into_iter().map(forget_types).collect())
    }
}

fn with<K: Kind>(
    context: &Arc<K::Context>,
    input: &Arc<K::Input>,
    action: Action<StepContext<K>>,
) -> Action<StepScope> {
    let (context, input) = (Arc::clone(context), Arc::clone(input));
    Arc::new(move |scope| {
        action(StepContext {
            context: Arc::clone(&context),
            input: Arc::clone(&input),
            scope,
        })
    })
}

fn check<K: Kind>(steps: &[Step<K>]) -> Result<(), StepError> {
    let bug = |message| Err(StepError::Permanent { message });
    if steps.len() > MAX_STEPS {
        return bug(format!("{} steps are more than {MAX_STEPS}", steps.len()));
    }
    let mut names = HashSet::new();
    match steps.iter().find(|step| !names.insert(step.name.as_str())) {
        Some(step) => bug(format!("two steps are called {}", step.name)),
        None => Ok(()),
    }
}
