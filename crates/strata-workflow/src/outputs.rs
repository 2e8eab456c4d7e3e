//! What finished steps have answered.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::StepError;

/// The outputs of the steps that are done, by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs(BTreeMap<String, Value>);

impl Outputs {
    /// The output of a step, if that is done.
    pub fn find<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, StepError> {
        let Some(value) = self.0.get(step) else {
            return Ok(None);
        };
        T::deserialize(value)
            .map(Some)
            .map_err(|error| StepError::Permanent {
                message: format!("the output of {step} cannot be read: {error}"),
            })
    }

    /// The output of a step that must be done by now.
    pub fn get<T: DeserializeOwned>(&self, step: &str) -> Result<T, StepError> {
        self.find(step)?.ok_or_else(|| StepError::Permanent {
            message: format!("there is no output of {step}"),
        })
    }

    /// Whether the step is done.
    pub fn has(&self, step: &str) -> bool {
        self.0.contains_key(step)
    }

    pub(crate) fn insert(&mut self, step: impl Into<String>, output: Value) {
        self.0.insert(step.into(), output);
    }
}
