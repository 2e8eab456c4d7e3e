//! Images that machines and guests boot from or read at boot.
//!
//! ```text
//! medium    a CD for BIOS and UEFI with a kernel and an initramfs (El Torito, FAT)
//! files     an ISO 9660 image with a few files, such as cloud-init's NoCloud
//! iso9660   the parts of ISO 9660 that both have
//! cpio      archives that kernels unpack into their first root
//! ```
//!
//! The formats are written, never read. Nothing here knows what is on an image.
#![forbid(unsafe_code)]

mod cpio;
mod files;
mod iso9660;
mod medium;

pub use cpio::Archive;
pub use files::files_image;
pub use medium::{IsoError, Loaders, Medium, Part};
