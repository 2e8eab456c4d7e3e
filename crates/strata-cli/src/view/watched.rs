//! What a watch prints of a resource: its key, and the fields whose change is
//! worth a line.

use strata_client::rest::Resource;

use crate::output::Show;

/// A resource that can be watched.
pub(crate) trait Watched: Resource + Show {
    fn key(&self) -> String;
    /// The fields whose change prints a line; usage figures are left out.
    fn summary(&self) -> String;
}
