//! What was built: the same facts in `/version`, in the metrics, and wherever
//! else a person asks.

use serde::Serialize;

/// The build that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The version of the product.
    pub version: &'static str,
    /// The commit it was built from, where the build knew it.
    pub commit: &'static str,
    /// The machine it was built for.
    pub platform: &'static str,
}

impl Build {
    /// The facts of this very binary.
    pub const THIS: Self = Self {
        version: env!("CARGO_PKG_VERSION"),
        commit: match option_env!("STRATA_COMMIT") {
            Some(commit) => commit,
            None => "unknown",
        },
        platform: std::env::consts::ARCH,
    };
}
