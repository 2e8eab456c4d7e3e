//! The fields of a record that this release does not know, and their way into
//! what is written in its place.

use serde_json::Value;

/// One step from a value to what is within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(String),
    Item(usize),
}

/// Fields of a record that its type does not know, wherever they are in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unknown(Vec<(Vec<Step>, Value)>);

impl Unknown {
    pub(super) fn add(&mut self, path: &[Step], value: Value) {
        self.0.push((path.to_vec(), value));
    }

    /// Whether the type knows all there was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a record with these fields in it. A field whose place is
    /// gone goes with it, and one that the text has by now stays as it is
    /// there. A list that is not as long as it was has other items: what was
    /// in one of them is left out. So is what was in an object that is not
    /// written because all that the type knows of it is empty.
    ///
    /// `before` is the text that the fields are of.
    ///
    /// # Errors
    /// When one of the texts is not JSON.
    pub fn merge(&self, before: &[u8], text: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        let before: Value = serde_json::from_slice(before)?;
        let mut record: Value = serde_json::from_slice(text)?;
        for (path, value) in &self.0 {
            insert(&mut record, &before, path, value);
        }
        serde_json::to_vec(&record)
    }
}

/// Puts a value where the path leads, as far as there is such a place.
fn insert(record: &mut Value, before: &Value, path: &[Step], value: &Value) {
    let (Some((step, rest)), Value::Object(_) | Value::Array(_)) = (path.split_first(), &*record)
    else {
        return;
    };
    match (step, record, before) {
        (Step::Field(name), Value::Object(fields), _) if rest.is_empty() => {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
        (Step::Field(name), Value::Object(fields), Value::Object(known)) => {
            if let (Some(within), Some(before)) = (fields.get_mut(name), known.get(name)) {
                insert(within, before, rest, value);
            }
        }
        (Step::Item(number), Value::Array(items), Value::Array(known))
            if items.len() == known.len() =>
        {
            if let (Some(within), Some(before)) = (items.get_mut(*number), known.get(*number)) {
                insert(within, before, rest, value);
            }
        }
        _ => {}
    }
}
