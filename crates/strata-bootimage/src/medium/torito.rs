//! El Torito: which file of a CD the firmware starts.

use super::{IsoError, SECTOR};

type Place = (&'static str, u64, u64);

/// Reports the firmware where the catalogue is.
pub(super) fn record(catalogue: u32) -> Vec<u8> {
    let mut out = b"\0CD001\x01".to_vec();
    out.extend(b"EL TORITO SPECIFICATION");
    out.resize(71, 0);
    out.extend(catalogue.to_le_bytes());
    out
}

/// The catalogue: one sector. The first entry is the BIOS's, if there is one.
pub(super) fn catalogue(bios: Option<&Place>, uefi: Option<&Place>) -> Vec<u8> {
    const X86: u8 = 0;
    const EFI: u8 = 0xef;
    let mut out = Vec::new();
    let first = if bios.is_some() { X86 } else { EFI };
    out.extend(validation(first));
    match (bios, uefi) {
        (Some(bios), uefi) => {
            // isolinux has the firmware load its first 2 KiB and loads the rest
            // itself.
            out.extend(entry(bios.1, 4));
            if let Some(uefi) = uefi {
                // The last section, of one entry.
                let mut header = vec![0x91, EFI, 1, 0];
                header.resize(32, 0);
                out.extend(header);
                out.extend(entry(uefi.1, sectors(uefi.2)));
            }
        }
        (None, Some(uefi)) => out.extend(entry(uefi.1, sectors(uefi.2))),
        (None, None) => {}
    }
    out.resize(SECTOR as usize, 0);
    out
}

/// In sectors of 512 bytes; what has more than fit the field has 0, which
/// firmware takes for "to the end of the medium".
fn sectors(size: u64) -> u16 {
    u16::try_from(size.div_ceil(512)).unwrap_or(0)
}

fn validation(platform: u8) -> Vec<u8> {
    let mut out = vec![1, platform];
    out.resize(30, 0);
    out.extend([0x55, 0xaa]);
    let words = out.chunks_exact(2);
    let sum = words.fold(0_u16, |sum, word| {
        sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))
    });
    out[28..30].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    out
}

/// Bootable, and no floppy or disk is simulated.
fn entry(at: u64, sectors: u16) -> Vec<u8> {
    let mut out = vec![0x88, 0, 0, 0, 0, 0];
    out.extend(sectors.to_le_bytes());
    out.extend((at as u32).to_le_bytes());
    out.resize(32, 0);
    out
}

/// isolinux reads where it lies from its own first bytes.
pub(super) fn with_boot_info(mut loader: Vec<u8>, at: u64) -> Result<Vec<u8>, IsoError> {
    loader.resize(loader.len().next_multiple_of(4), 0);
    if loader.len() < 64 {
        return Err(IsoError::Loader("a file of less than 64 bytes".into()));
    }
    let words = loader[64..].chunks_exact(4);
    let sum = words.fold(0_u32, |sum, word| {
        sum.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    });
    let length = loader.len() as u32;
    for (place, value) in [(8, 16), (12, at as u32), (16, length), (20, sum)] {
        loader[place..place + 4].copy_from_slice(&value.to_le_bytes());
    }
    loader[24..64].fill(0);
    Ok(loader)
}
