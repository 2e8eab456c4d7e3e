//! Loads the kernel modules that the image brings.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::finit_module;
use strata_machines::image::MODULES;

use super::say;

/// Loads all modules in their order. What is not there for this hardware is
/// no reason to stop.
pub(super) fn load() {
    let Ok(paths) = fs::read_to_string(MODULES) else {
        return;
    };
    for path in paths.lines().filter(|line| !line.is_empty()) {
        if let Err(error) = load_one(Path::new(path)) {
            say(&format!("cannot load {path}: {error}"));
        }
    }
}

fn load_one(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    match finit_module(&file, c"", 0) {
        Err(Errno::EXIST) => Ok(()),
        done => Ok(done?),
    }
}
