//! A CD that a server boots: our kernel, its initramfs and a command line,
//! for a BIOS by Debian's isolinux, and for UEFI by systemd's boot menu in a
//! FAT image. Standards: ECMA-119 (ISO 9660), El Torito 1.0.
//!
//! Nothing is held in memory but the small files: kernel and initramfs stream
//! from where they are.
//!
//! ```text
//! sector 16   descriptor, boot record, end of descriptors
//!        19   the table of directories, in both byte orders
//!        21   the one directory
//!        22   El Torito's catalogue
//!        23   the FAT image, with kernel and initramfs in it; isolinux and its menu
//! ```

mod directory;
mod fat;
mod torito;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use bytes::Bytes;

const SECTOR: u64 = 2048;
const DIRECTORY: u64 = 21;
const CATALOGUE: u64 = 22;
const FILES: u64 = 23;
/// The most that Linux takes as its command line.
const MAX_COMMAND_LINE: usize = 2047;

/// A piece of a file on the medium.
#[derive(Clone, Debug)]
pub enum Part {
    /// A file of this machine.
    File(PathBuf),
    /// What is in memory.
    Bytes(Bytes),
    Zeros(u64),
}

impl Part {
    fn len(&self) -> Result<u64, IsoError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::Zeros(count) => Ok(*count),
            Self::File(path) => {
                let found = path.metadata().map_err(|source| unreadable(path, source))?;
                Ok(found.len())
            }
        }
    }

    /// Copies exactly `len` bytes: what was measured is what is written.
    fn copy(&self, to: &mut dyn Write, len: u64) -> Result<(), IsoError> {
        let copied = match self {
            Self::Bytes(bytes) => io::copy(&mut &bytes[..], to),
            Self::Zeros(count) => io::copy(&mut io::repeat(0).take(*count), to),
            Self::File(path) => {
                let file = File::open(path).map_err(|source| unreadable(path, source))?;
                io::copy(&mut file.take(len), to)
            }
        };
        match copied.map_err(IsoError::Write)? {
            copied if copied == len => Ok(()),
            _ => Err(IsoError::Changed(self.name())),
        }
    }

    fn read(&self) -> Result<Vec<u8>, IsoError> {
        let mut bytes = Vec::new();
        self.copy(&mut bytes, self.len()?)?;
        Ok(bytes)
    }

    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Bytes(_) | Self::Zeros(_) => "a part of the medium".into(),
        }
    }
}

/// Why a medium could not be written.
#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// A file that belongs on it cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A file became shorter while it was written.
    #[error("{0} changed while it was read")]
    Changed(String),
    /// It cannot be written to where it was to go.
    #[error("the medium cannot be written: {0}")]
    Write(io::Error),
    /// A command line that a boot loader would read as something else.
    #[error("the command line must be one line of at most {MAX_COMMAND_LINE} bytes")]
    CommandLine,
    /// A file that is not isolinux.
    #[error("{0} is not isolinux")]
    Loader(String),
    /// It has more than fits.
    #[error("the medium is larger than fits: {0} bytes")]
    TooLarge(u64),
    /// Neither a loader for a BIOS nor one for UEFI was named.
    #[error("no boot loader: a medium needs isolinux, or systemd's boot menu for UEFI")]
    NoLoader,
}

/// The loaders that bring the kernel up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaders {
    /// `isolinux.bin` and `ldlinux.c32`, for a BIOS.
    pub bios: Option<(PathBuf, PathBuf)>,
    /// `systemd-bootx64.efi`, for UEFI.
    pub uefi: Option<PathBuf>,
}

impl Loaders {
    /// Those of Debian's packages isolinux, syslinux-common and
    /// systemd-boot-efi that are installed.
    pub fn debian() -> Self {
        let isolinux = PathBuf::from("/usr/lib/ISOLINUX/isolinux.bin");
        let module = PathBuf::from("/usr/lib/syslinux/modules/bios/ldlinux.c32");
        let menu = PathBuf::from("/usr/lib/systemd/boot/efi/systemd-bootx64.efi");
        let bios = isolinux.is_file() && module.is_file();
        Self {
            bios: bios.then_some((isolinux, module)),
            uefi: menu.is_file().then_some(menu),
        }
    }
}

/// What a medium boots.
#[derive(Clone, Debug)]
pub struct Medium {
    pub kernel: PathBuf,
    /// The initramfs: archives that the kernel unpacks one over the other.
    pub initrd: Vec<Part>,
    /// The kernel's command line.
    pub command_line: String,
    /// How it gets there.
    pub loaders: Loaders,
}

/// A file on the medium: its name, what it is made of, and how long each part
/// is.
struct Entry {
    name: &'static str,
    parts: Vec<(Part, u64)>,
}

impl Entry {
    fn new(name: &'static str, parts: Vec<Part>) -> Result<Self, IsoError> {
        let measured = parts.into_iter().map(|part| {
            let len = part.len()?;
            Ok((part, len))
        });
        let parts = measured.collect::<Result<_, IsoError>>()?;
        Ok(Self { name, parts })
    }

    fn size(&self) -> u64 {
        self.parts.iter().map(|(_, len)| len).sum()
    }

    fn copy(&self, to: &mut dyn Write) -> Result<(), IsoError> {
        let mut parts = self.parts.iter();
        parts.try_for_each(|(part, len)| part.copy(to, *len))
    }
}

impl Medium {
    /// Writes it, and returns how long it is.
    pub fn write(&self, to: &mut dyn Write) -> Result<u64, IsoError> {
        let line = &self.command_line;
        if line.len() > MAX_COMMAND_LINE || line.chars().any(char::is_control) {
            return Err(IsoError::CommandLine);
        }
        if self.loaders.bios.is_none() && self.loaders.uefi.is_none() {
            return Err(IsoError::NoLoader);
        }
        let Contents { entries, inside } = self.contents()?;
        let mut next = FILES;
        let mut places = Vec::new();
        for entry in &entries {
            places.push((entry.name, next, entry.size()));
            next += entry.size().div_ceil(SECTOR).max(1);
        }
        // The FAT image is the first, where there is one.
        let named = |(name, at, size)| (name, FILES + at / SECTOR, size);
        let mut directory: Vec<_> = inside.into_iter().map(named).collect();
        directory.extend(&places);
        // Sorted by name, as the standard requires.
        directory.sort_unstable();
        // Numbers of sectors and sizes of files have 32 bits.
        let largest = places.iter().map(|(_, _, size)| *size).max().unwrap_or(0);
        if u32::try_from(largest).is_err() || u32::try_from(next).is_err() {
            return Err(IsoError::TooLarge(next * SECTOR));
        }
        let place = |name: &str| places.iter().find(|(known, ..)| *known == name);
        let write = |to: &mut dyn Write, bytes: &[u8]| to.write_all(bytes).map_err(IsoError::Write);
        write(to, &directory::head(next, &directory))?;
        write(to, &torito::catalogue(place(ISOLINUX), place(EFI)))?;
        for (entry, (_, at, size)) in entries.iter().zip(&places) {
            match entry.name {
                ISOLINUX => write(to, &torito::with_boot_info(entry.parts[0].0.read()?, *at)?)?,
                _ => entry.copy(to)?,
            }
            let room = size.div_ceil(SECTOR).max(1) * SECTOR;
            write_zeros(to, room - size)?;
        }
        Ok(next * SECTOR)
    }

    /// Each archive begins at a multiple of four, as the kernel requires.
    fn archives(&self) -> Result<Vec<Part>, IsoError> {
        let mut parts = Vec::new();
        for part in &self.initrd {
            let len = part.len()?;
            parts.push(part.clone());
            parts.push(Part::Zeros(len.next_multiple_of(4) - len));
        }
        Ok(parts)
    }

    fn contents(&self) -> Result<Contents, IsoError> {
        let (mut entries, mut inside) = (Vec::new(), Vec::new());
        if let Some(menu) = &self.loaders.uefi {
            let image = fat::Image {
                menu: Part::File(menu.clone()),
                kernel: Part::File(self.kernel.clone()),
                initrd: self.archives()?,
                command_line: &self.command_line,
            };
            let laid = image.lay()?;
            inside.push((KERNEL, laid.kernel.0, laid.kernel.1));
            inside.push((INITRD, laid.initrd.0, laid.initrd.1));
            entries.push(Entry::new(EFI, laid.parts)?);
        } else {
            entries.push(Entry::new(KERNEL, vec![Part::File(self.kernel.clone())])?);
            entries.push(Entry::new(INITRD, self.archives()?)?);
        }
        if let Some((isolinux, module)) = &self.loaders.bios {
            let menu = format!(
                "DEFAULT strata\nPROMPT 0\nLABEL strata\nKERNEL /VMLINUZ\nINITRD /INITRD\nAPPEND {}\n",
                self.command_line
            );
            let menu = vec![Part::Bytes(menu.into())];
            entries.push(Entry::new(ISOLINUX, vec![Part::File(isolinux.clone())])?);
            entries.push(Entry::new("ISOLINUX.CFG;1", menu)?);
            entries.push(Entry::new(
                "LDLINUX.C32;1",
                vec![Part::File(module.clone())],
            )?);
        }
        Ok(Contents { entries, inside })
    }
}

/// What is on a medium.
struct Contents {
    entries: Vec<Entry>,
    /// Names, places and sizes of what is inside the FAT image.
    inside: Vec<(&'static str, u64, u64)>,
}

const EFI: &str = "EFI.IMG;1";
const INITRD: &str = "INITRD.;1";
const ISOLINUX: &str = "ISOLINUX.BIN;1";
const KERNEL: &str = "VMLINUZ.;1";

fn write_zeros(to: &mut dyn Write, count: u64) -> Result<(), IsoError> {
    Part::Zeros(count).copy(to, count)
}

fn unreadable(path: &std::path::Path, source: io::Error) -> IsoError {
    let path = path.to_owned();
    IsoError::Unreadable { path, source }
}
