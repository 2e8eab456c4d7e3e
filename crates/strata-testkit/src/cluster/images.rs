//! The published API has no field for a command: what runs is the image's. So
//! tests use one image that runs what its environment holds.

use std::path::Path;

use crate::images::Image;

/// Busybox that runs the shell script in `SCRIPT`; without one it does nothing
/// until it is stopped.
pub fn scripted(dir: &Path) -> String {
    Image::busybox()
        .entrypoint(["/bin/sh", "-c", "eval \"$SCRIPT\""])
        .env(
            "SCRIPT",
            "trap exit TERM; while :; do sleep 60 & wait; done",
        )
        .write_layout(&dir.join("scripted"), "v1")
}
