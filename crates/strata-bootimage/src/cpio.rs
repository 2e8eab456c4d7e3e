//! Archives as the kernel unpacks them into its first root: cpio, "newc".
//! The format is a page long and we write a few kinds of entries only.

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive in the making. Everything in it belongs to root.
#[derive(Debug)]
pub struct Archive<W> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// An empty one.
    pub fn new(to: W) -> Self {
        Self { to, entries: 0 }
    }

    /// Adds a directory; those above it come first.
    pub fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.entry(path, DIRECTORY | mode, &[])
    }

    pub fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.entry(path, FILE | mode, bytes)
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK | 0o777, target.as_bytes())
    }

    /// Writes the entry that ends an archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// A header of eight-digit numbers, the name, the bytes; name and bytes
    /// each filled up to a multiple of four, counted from the header.
    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let too_large =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("{path}: too large"));
        let size = u32::try_from(bytes.len()).map_err(|_| too_large())?;
        let name = u32::try_from(path.len() + 1).map_err(|_| too_large())?;
        self.entries += 1;
        let [uid, gid, links, time] = [0, 0, 1, 0];
        let [major, minor, of_major, of_minor, check] = [0; 5];
        let fields = [
            self.entries,
            mode,
            uid,
            gid,
            links,
            time,
            size,
            major,
            minor,
            of_major,
            of_minor,
            name,
            check,
        ];
        self.to.write_all(b"070701")?;
        for field in fields {
            write!(self.to, "{field:08x}")?;
        }
        self.to.write_all(path.as_bytes())?;
        self.to.write_all(&[0])?;
        self.fill(110 + path.len() + 1)?;
        self.to.write_all(bytes)?;
        self.fill(bytes.len())
    }

    fn fill(&mut self, written: usize) -> io::Result<()> {
        self.to
            .write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpio_entries_follow_the_format() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("etc", 0o755).unwrap();
        archive.file("etc/a", 0o600, b"12345").unwrap();
        archive.link("b", "etc/a").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("07070100000001000041ed"), "{text}");
        let file = text.find("etc/a\0").unwrap();
        // 110 of header and 6 of name are a multiple of four.
        assert_eq!(&text[file - 110..file - 96], "07070100000002");
        assert_eq!(&text[file + 6..file + 14], "12345\0\0\0");
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
    }
}
