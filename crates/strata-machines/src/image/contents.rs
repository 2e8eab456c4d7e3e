//! What is taken from the host into an archive.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Archive;

/// How far into a program its loader is named, where it needs one.
const SNIFF_BYTES: u64 = 4096;

/// Where the host has a static busybox.
pub fn busybox() -> Option<PathBuf> {
    let places = ["/bin/busybox", "/usr/bin/busybox"];
    let mut places = places.map(PathBuf::from).into_iter();
    places.find(|path| is_static(path).unwrap_or(false))
}

fn is_static(program: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    let file = fs::File::open(program)?;
    io::Read::read_to_end(&mut io::Read::take(file, SNIFF_BYTES), &mut beginning)?;
    Ok(!beginning.windows(4).any(|bytes| bytes == b"/ld-"))
}

/// Adds busybox as `bin/busybox`, and a link for each of its commands.
pub fn add_busybox<W: io::Write>(archive: &mut Archive<W>, busybox: &Path) -> io::Result<()> {
    archive.file("bin/busybox", 0o755, &fs::read(busybox)?)?;
    let list = Command::new(busybox).arg("--list").output()?;
    let list = String::from_utf8_lossy(&list.stdout);
    for applet in list.lines().filter(|applet| *applet != "busybox") {
        archive.link(&format!("bin/{applet}"), "busybox")?;
    }
    Ok(())
}

/// Adds every file right in a directory, with the mode it has here.
pub fn add_files<W: io::Write>(
    archive: &mut Archive<W>,
    directory: &Path,
    to: &str,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let mode = entry.metadata()?.permissions().mode() & 0o777;
        let path = format!("{to}/{}", entry.file_name().to_string_lossy());
        archive.file(&path, mode, &fs::read(entry.path())?)?;
    }
    Ok(())
}
