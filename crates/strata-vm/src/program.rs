//! Which files of the host QEMU's program is made of: itself, its libraries,
//! the modules it loads to translate code, its firmware. They are all that a
//! cell has to hold for QEMU to run there.
//!
//! The program's own loader reports which libraries it would load, from where;
//! nothing of QEMU runs for that. QEMU reports where its firmware is.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::ProbeError;
use crate::probe::run::run;

/// How long the loader may take for one program. It takes some hundredths of
/// a second.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// What the loader looks libraries up in.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// How the modules that run guests are called; the others are for displays,
/// sound and far disks, which no guest of ours has.
const MODULES: &str = "accel-";
/// The most entries of a directory with firmware that are looked at.
const MAX_ENTRIES: usize = 4096;

/// The files of QEMU's program, by the paths at which it expects them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFiles {
    /// What is executed: the program and its loader.
    pub programs: Vec<PathBuf>,
    /// Libraries and modules, and what the loader finds them by.
    pub libraries: Vec<PathBuf>,
    pub firmware: Vec<PathBuf>,
}

impl ProgramFiles {
    /// Finds out what a program is made of.
    pub fn find(qemu: &Path) -> Result<Self, ProbeError> {
        let failed = |source| ProbeError::Start {
            program: qemu.into(),
            source,
        };
        let mut found = Self {
            programs: vec![qemu.to_owned()],
            libraries: Vec::new(),
            firmware: firmware(qemu).map_err(failed)?,
        };
        // One without a loader has all its libraries in it.
        let Some(loader) = loader(qemu).map_err(failed)? else {
            return Ok(found);
        };
        let mut libraries = libraries(&loader, qemu).map_err(failed)?;
        for module in modules(&libraries) {
            libraries.extend(self::libraries(&loader, &module).map_err(failed)?);
            libraries.insert(module);
        }
        if Path::new(LOADER_CACHE).exists() {
            libraries.insert(LOADER_CACHE.into());
        }
        libraries.remove(&loader);
        found.programs.push(loader);
        found.libraries = libraries.into_iter().collect();
        Ok(found)
    }
}

/// What shows whether a program is still the one that was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId([u64; 4]);

impl ProgramId {
    /// What is at this path now.
    pub fn of(program: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(program)?;
        let changed = metadata.ctime().cast_unsigned();
        Ok(Self([
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            changed ^ metadata.ctime_nsec().cast_unsigned() << 32,
        ]))
    }
}

/// The loader that a program of 64 bits names; none if it needs none.
fn loader(program: &Path) -> io::Result<Option<PathBuf>> {
    const PT_INTERP: u32 = 3;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no ELF program of 64 bits");
    let file = File::open(program)?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    if header[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
        return Err(invalid());
    }
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |n, byte| n << 8 | u64::from(*byte))
    };
    let (table, size, count) = (
        number(&header[32..40]),
        number(&header[54..56]),
        number(&header[56..58]),
    );
    for i in 0..count {
        let mut segment = [0; 56];
        file.read_exact_at(&mut segment, table + i * size)?;
        if number(&segment[..4]) != u64::from(PT_INTERP) {
            continue;
        }
        let length = usize::try_from(number(&segment[32..40])).unwrap_or(usize::MAX);
        if !(2..=4096).contains(&length) {
            return Err(invalid());
        }
        let mut path = vec![0; length - 1];
        file.read_exact_at(&mut path, number(&segment[8..16]))?;
        return Ok(Some(String::from_utf8(path).map_err(|_| invalid())?.into()));
    }
    Ok(None)
}

fn libraries(loader: &Path, program: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let program = program.to_string_lossy();
    let said = run(loader, &["--list", &program], None, LIST_TIMEOUT)?;
    Ok(listed(&said.output))
}

/// Reads `libc.so.6 => /lib/libc.so.6 (0x7f…)` and `/lib64/ld.so (0x7f…)`.
fn listed(text: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let (head, _) = line.trim().rsplit_once(" (0x")?;
        let path = head.rsplit(" => ").next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

/// Modules are beside the libraries, in a directory of QEMU's own.
fn modules(libraries: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let parents: BTreeSet<&Path> = libraries.iter().filter_map(|path| path.parent()).collect();
    let real = parents
        .into_iter()
        .filter_map(|path| path.canonicalize().ok());
    let directories: BTreeSet<PathBuf> = real.map(|path| path.join("qemu")).collect();
    let files = directories.iter().flat_map(|path| entries(path));
    let is_module = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(MODULES) && name.ends_with(".so"))
    };
    files.filter(is_module).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .take(MAX_ENTRIES)
        .map(|entry| entry.path())
        .collect()
}

/// Where QEMU looks for firmware, and where links there lead.
fn firmware(qemu: &Path) -> io::Result<Vec<PathBuf>> {
    let said = run(qemu, &["-L", "help"], None, LIST_TIMEOUT)?;
    let named = said.output.lines().map(str::trim).map(Path::new);
    let named = named.filter(|path| path.is_absolute()).map(plain);
    let mut directories: BTreeSet<PathBuf> = named.filter(|path| path.is_dir()).collect();
    let links = directories.iter().flat_map(|path| entries(path));
    let led_to: Vec<PathBuf> = links
        .filter(|path| path.is_symlink())
        .filter_map(|path| path.canonicalize().ok()?.parent().map(Path::to_owned))
        .collect();
    directories.extend(led_to);
    Ok(directories.into_iter().collect())
}

/// A path without `..`, as QEMU makes them from where its program is.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            component => plain.push(component),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f12)\n\
            \tlibgone.so => not found\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f13)\n";
        let found: Vec<_> = listed(text).into_iter().collect();
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(listed("statically linked").is_empty());
    }

    #[test]
    fn a_shell_has_a_loader_and_libraries() {
        let program = fs::canonicalize("/bin/sh").unwrap();
        // On some systems it needs none.
        let Some(loader) = loader(&program).unwrap() else {
            return;
        };
        let libraries = libraries(&loader, &program).unwrap();
        let has_libc = |path: &PathBuf| path.to_string_lossy().contains("libc.");
        assert!(libraries.iter().any(has_libc), "{libraries:?}");
    }

    #[test]
    fn non_elf_program_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [b'#'; 100]).unwrap();
        assert!(loader(file.path()).is_err());
    }

    #[test]
    fn paths_lose_their_detours() {
        assert_eq!(
            plain(Path::new("/usr/bin/../share/./qemu")),
            Path::new("/usr/share/qemu")
        );
        assert_eq!(plain(Path::new("/../x")), Path::new("/x"));
    }
}
