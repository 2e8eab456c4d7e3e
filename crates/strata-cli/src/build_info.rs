//! What this binary was built from.

use jiff::Timestamp;
use serde::Serialize;

/// The build, as `strata version` and the servers tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuildInfo {
    /// The version of the product.
    pub version: &'static str,
    /// The commit, or `unknown` outside a checkout.
    pub commit: &'static str,
    /// `clean`, `dirty`, or `unknown` outside a checkout and in development
    /// builds, which do not look again at every change.
    pub tree_state: &'static str,
    /// When it was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_date: Option<Timestamp>,
    pub rustc: &'static str,
    /// What it was built for.
    pub platform: &'static str,
}

impl BuildInfo {
    pub fn current() -> Self {
        let epoch: Option<i64> = env!("STRATA_BUILD_EPOCH").parse().ok();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("STRATA_BUILD_COMMIT"),
            tree_state: env!("STRATA_BUILD_TREE"),
            build_date: epoch.and_then(|s| Timestamp::from_second(s).ok()),
            rustc: env!("STRATA_BUILD_RUSTC"),
            platform: env!("STRATA_BUILD_TARGET"),
        }
    }
}
