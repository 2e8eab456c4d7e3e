//! Random directory trees with whatever a layer can hold, and a list of what
//! is in one, by which two trees are compared.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

/// How many entries a tree has.
const ENTRIES: usize = 60;
/// Of no particular kind but for root: root of the tree, then its entries.
const MAX_PATH: usize = 900;

/// A linear congruential generator: the same tree for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// Makes a tree. `modest` ones have what the oldest format can express: short
/// paths, small ids, times after 1970.
pub fn make(root: &Path, seed: u64, modest: bool) {
    let random = &mut Random::new(seed);
    fs::create_dir(root).unwrap();
    let mut directories = vec![PathBuf::new()];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut made = vec![(PathBuf::new(), FileType::Directory)];
    for number in 0..ENTRIES {
        let parent = random.pick(&directories).clone();
        let path = parent.join(name(random, number, parent.as_os_str().len(), modest));
        let longest = if modest { 90 } else { MAX_PATH };
        if path.as_os_str().len() > longest {
            continue;
        }
        let kind = entry(random, root, &path, &files, modest);
        match kind {
            FileType::Directory => directories.push(path.clone()),
            FileType::RegularFile => files.push(path.clone()),
            _ => {}
        }
        made.push((path, kind));
    }
    // Deepest first: making an entry changes the time of its directory.
    for (path, kind) in made.iter().rev() {
        describe(random, &root.join(path), *kind, modest);
    }
}

/// A name; often one that puts the slash or the end of the path at the 100th
/// byte, where a header's field ends.
fn name(random: &mut Random, number: usize, parent: usize, modest: bool) -> OsString {
    let mut name = format!("{number}").into_bytes();
    let length = match random.below(if modest { 2 } else { 6 }) {
        0 => 1,
        1 => random.below(20) as usize,
        2 => 200,
        // With `./` in front and `/` behind the parent: 97 to 101 in all.
        _ => (94 + random.below(6) as usize).saturating_sub(parent),
    };
    let fill: &[u8] = match modest {
        true => b"x",
        false => random.pick::<&[u8]>(&[b"y", b" ", b"\xc3\xa4", b"\xff", b"\\", b"*"]),
    };
    while name.len() + fill.len() <= length.min(250) {
        name.extend_from_slice(fill);
    }
    OsString::from_vec(name)
}

fn entry(
    random: &mut Random,
    root: &Path,
    path: &Path,
    files: &[PathBuf],
    modest: bool,
) -> FileType {
    let at = root.join(path);
    match random.below(10) {
        0..=2 => {
            fs::create_dir(&at).unwrap();
            FileType::Directory
        }
        3 => {
            let target = "t/".repeat(random.below(if modest { 40 } else { 90 }) as usize) + "x";
            std::os::unix::fs::symlink(target, &at).unwrap();
            FileType::Symlink
        }
        4 if !files.is_empty() => {
            fs::hard_link(root.join(random.pick(files)), &at).unwrap();
            // Described where it was made first.
            FileType::Unknown
        }
        5 => {
            let (kind, device) = *random.pick(&[
                (FileType::Fifo, 0),
                (FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
                (FileType::BlockDevice, rustix::fs::makedev(7, 200)),
            ]);
            rustix::fs::mknodat(rustix::fs::CWD, &at, kind, Mode::from(0o600), device).unwrap();
            kind
        }
        6 => {
            sparse(random, &at);
            FileType::RegularFile
        }
        _ => {
            let length = *random.pick(&[0, 0, 1, 511, 512, 513, 70_000]);
            let data: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            fs::write(&at, data).unwrap();
            FileType::RegularFile
        }
    }
}

/// A file with holes, perhaps more than a header has room for.
fn sparse(random: &mut Random, at: &Path) {
    use std::os::unix::fs::FileExt as _;
    let file = fs::File::create(at).unwrap();
    for piece in 0..random.below(30) {
        file.write_all_at(b"data", piece * (64 << 10) + random.below(4096))
            .unwrap();
    }
    file.set_len(2 << 20).unwrap();
}

fn describe(random: &mut Random, at: &Path, kind: FileType, modest: bool) {
    if kind == FileType::Unknown {
        return;
    }
    let large: &[u32] = if modest {
        &[65_534]
    } else {
        &[65_534, 3_000_000, 4_000_000_000]
    };
    let id = |random: &mut Random| match random.below(3) {
        0 => *random.pick(large),
        n => (n - 1) as u32 * 1000,
    };
    let (uid, gid) = (id(random), id(random));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    rustix::fs::chownat(rustix::fs::CWD, at, owner.0, owner.1, flags).unwrap();
    if kind != FileType::Symlink {
        let mode = *random.pick(&[0o644, 0o755, 0o4755, 0o2750, 0o1777, 0o000, 0o600]);
        rustix::fs::chmodat(rustix::fs::CWD, at, Mode::from(mode), AtFlags::empty()).unwrap();
    }
    let attributed = matches!(kind, FileType::RegularFile | FileType::Directory);
    if attributed && random.below(3) == 0 {
        let value = *random.pick::<&[u8]>(&[b"v", b"a=b\n7 c=d\n", b"\x00\xff"]);
        rustix::fs::setxattr(at, "user.note", value, XattrFlags::empty()).unwrap();
    }
    if kind == FileType::RegularFile && random.below(4) == 0 {
        let capability = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        rustix::fs::setxattr(at, "security.capability", capability, XattrFlags::empty()).unwrap();
    }
    let earliest = if modest { 0 } else { -86_400 };
    let time = Timespec {
        tv_sec: earliest + random.below(2_000_000_000) as i64 * i64::from(random.below(4) > 0),
        tv_nsec: random.pick(&[0, 1, 500_000_000, 999_999_999]).to_owned(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(rustix::fs::CWD, at, &times, flags).unwrap();
}

/// Everything that is to be equal of two trees, by path.
pub fn list(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut first: BTreeMap<u64, String> = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    let mut paths = Vec::new();
    while let Some(path) = open.pop() {
        let metadata = fs::symlink_metadata(root.join(&path)).unwrap();
        if metadata.is_dir() {
            let entries = fs::read_dir(root.join(&path)).unwrap();
            open.extend(entries.map(|entry| path.join(entry.unwrap().file_name())));
        }
        paths.push(path);
    }
    paths.sort();
    for path in paths {
        let at = root.join(&path);
        let metadata = fs::symlink_metadata(&at).unwrap();
        let shown = path.as_os_str().as_bytes().escape_ascii().to_string();
        let same = first.entry(metadata.ino()).or_insert(shown.clone()).clone();
        let content = match metadata.file_type() {
            kind if kind.is_symlink() => fs::read_link(&at).unwrap().display().to_string(),
            kind if kind.is_file() => format!(
                "{} bytes, {}",
                metadata.len(),
                strata_image::Digest::of(&fs::read(&at).unwrap())
            ),
            _ => String::new(),
        };
        let text = format!(
            "mode {:o} owner {}:{} time {}.{:09} device {} same as {same}: {content} {:?}",
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.rdev(),
            attributes(&at),
        );
        found.insert(shown, text);
    }
    found
}

fn attributes(at: &Path) -> BTreeMap<String, String> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(at, &mut names).unwrap_or(0);
    let names = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(at, name, &mut value).unwrap();
        value[..length].escape_ascii().to_string()
    };
    names
        .map(|name| (name.escape_ascii().to_string(), value(name)))
        .collect()
}
