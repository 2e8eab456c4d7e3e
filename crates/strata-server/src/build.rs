//! What was built, as the binary that serves reports it: the same facts in
//! `/version` and in the metrics.

use serde::Serialize;

/// The build that is running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The version of the product.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// Whether the tree was clean.
    pub tree_state: String,
    /// When it was built.
    pub build_date: String,
    pub compiler: String,
    /// What it was built for.
    pub platform: String,
}
