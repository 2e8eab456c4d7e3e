//! How the JSON text of a record is read and written, so that releases side
//! by side do each other's records no harm.
//!
//! A release that is one ahead writes fields that this one does not know.
//! [`decode`] leaves them out at every depth, also of types that refuse them
//! in a request, and hands them over as [`Unknown`]; [`Unknown::merge`] adds
//! them to what is written in place of the record. So a field survives every
//! update by a release that does not know it.
//!
//! A type names its fields when it is read (`deserialize_struct`), which is
//! how unknown ones are found. A field beneath `#[serde(flatten)]`, or in a
//! variant of an enum with `#[serde(tag)]`, is not named that way: such a
//! type ignores what it does not know, and an update drops it.

mod lenient;
mod unknown;

use serde::de::DeserializeOwned;

pub use unknown::Unknown;

/// Reads the text of a record, and what of it the type does not know.
///
/// # Errors
/// When it is not JSON, or what the type knows is not as it should be.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<(T, Unknown), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let mut unknown = Unknown::default();
    let record = lenient::read(&mut reader, &mut unknown)?;
    reader.end()?;
    Ok((record, unknown))
}

#[cfg(test)]
mod tests;
