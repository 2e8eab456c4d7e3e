//! Programs of this host for a guest, with the libraries they need: busybox
//! has an `ip` that knows little.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

/// Writes an archive of programs and of what they are linked with, to be
/// unpacked in a guest's root. They are found by name in `PATH`.
///
/// # Errors
/// When one is not there, or the archive cannot be written.
pub fn programs_archive(to: &Path, names: &[&str]) -> io::Result<()> {
    let mut files = BTreeSet::new();
    for name in names {
        let path = std::env::var("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .map(|dir| dir.join(name))
            .find(|file| file.is_file())
            .ok_or_else(|| io::Error::other(format!("no program {name}")))?;
        let linked = Command::new("ldd").arg(&found).output()?;
        let text = String::from_utf8_lossy(&linked.stdout).into_owned();
        // `libc.so.6 => /lib/libc.so.6 (0x…)`, or the loader's path alone.
        let words = text.split_whitespace().filter(|word| word.starts_with('/'));
        files.extend(words.map(str::to_owned));
        files.insert(found.display().to_string());
    }
    let relative = files.iter().map(|file| file.trim_start_matches('/'));
    let made = Command::new("tar")
        .args(["--dereference", "-C", "/", "-cf"])
        .arg(to)
        .args(relative)
        .status()?;
    match made.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("tar: {made}"))),
    }
}
