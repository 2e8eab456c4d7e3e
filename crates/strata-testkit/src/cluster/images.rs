//! The published API has no word for a command: what runs is the image's. So
//! tests use one image that runs what its environment says.

use std::path::Path;

use crate::images::Image;

/// Busybox that runs the shell script in `SCRIPT`; without one it does nothing
/// until it is told to end.
pub fn scripted(folder: &Path) -> String {
    Image::busybox()
        .entrypoint(["/bin/sh", "-c", "eval \"$SCRIPT\""])
        .env(
            "SCRIPT",
            "trap exit TERM; while :; do sleep 60 & wait; done",
        )
        .write_layout(&folder.join("scripted"), "v1")
}
