//! The machine's one file: an initramfs with our binary as its init, busybox
//! for everything else, the drivers of the network, and a CA that the test
//! knows too.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

use strata_machines::image::{Archive, add_busybox, add_files, busybox};

/// Directories that every program expects; those without files of their own.
const DIRS: [&str; 8] = ["dev", "proc", "sys", "run", "tmp", "root", "var", "bin"];

/// What goes into a machine.
pub struct Image {
    /// The `strata` binary, static.
    pub program: PathBuf,
    /// Further programs, static: path in the machine, file here.
    pub programs: Vec<(String, PathBuf)>,
    /// Further files: path in the machine, file here.
    pub files: Vec<(String, PathBuf)>,
    /// Lines for `/etc/strata/start`, after drivers and network are there.
    pub start: String,
}

/// Loads the drivers and sets the address that QEMU's user network expects.
const START: &str = "\
#!/bin/sh
cd /lib/modules
while read -r module; do insmod \"$module\" || echo \"cannot load $module\"; done <order
cd /
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
";

impl Image {
    /// Writes the initramfs to `to`. `guest` holds the kernel's modules, `ca`
    /// the CA of the node, `work` takes temporary files.
    pub(super) fn write(&self, to: &Path, guest: &Path, ca: &Path, work: &Path) -> io::Result<()> {
        let mut archive = Archive::new(BufWriter::new(File::create(to)?));
        for dir in DIRS {
            archive.directory(dir, 0o755)?;
        }
        for dir in ["etc", "etc/strata", "lib", "lib/modules", "var/lib"] {
            archive.directory(dir, 0o755)?;
        }
        archive.file("init", 0o755, &stripped(&self.program, work)?)?;
        for (path, file) in &self.programs {
            archive.file(path, 0o755, &stripped(file, work)?)?;
        }
        for (path, file) in &self.files {
            archive.file(path, 0o644, &fs::read(file)?)?;
        }
        with_busybox(&mut archive)?;
        add_files(&mut archive, &guest.join("modules"), "lib/modules")?;
        for dir in ["var/lib/strata", "var/lib/strata/ca"] {
            archive.directory(dir, 0o700)?;
        }
        add_files(&mut archive, ca, "var/lib/strata/ca")?;
        let start = format!("{START}{}", self.start);
        archive.file("etc/strata/start", 0o755, start.as_bytes())?;
        archive.finish().map(drop)
    }
}

/// Half of a binary is for debuggers, and the machine has it all in memory.
fn stripped(program: &Path, work: &Path) -> io::Result<Vec<u8>> {
    let to = work.join("stripped");
    let status = Command::new("strip")
        .arg("-o")
        .arg(&to)
        .arg(program)
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "strip {}: {status}",
            program.display()
        )));
    }
    fs::read(&to)
}

/// Adds busybox, which machines of tests do everything else with.
pub(super) fn with_busybox<W: io::Write>(archive: &mut Archive<W>) -> io::Result<()> {
    let busybox = busybox().ok_or_else(|| io::Error::other("no static busybox"))?;
    add_busybox(archive, &busybox)
}
