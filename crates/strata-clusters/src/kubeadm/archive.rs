//! A tar of a few small files, to be unpacked on a machine in one call: paths
//! below its root, modes kept, everything owned by root.

/// A block of the format, which everything is a multiple of.
const BLOCK: usize = 512;
/// The longest path of the oldest form, which is enough here.
const MAX_LENGTH: usize = 100;

/// Files that go to a machine together.
#[derive(Default)]
pub(super) struct Archive(Vec<u8>);

impl Archive {
    /// Adds a file by its full path.
    ///
    /// Paths are our own, and none is too long; one that were would be cut by
    /// the format.
    pub(super) fn file(self, path: &str, mode: u32, content: impl AsRef<[u8]>) -> Self {
        self.entry(path, mode, b"0", "", content.as_ref())
    }

    /// Adds a link to a path.
    pub(super) fn link(self, path: &str, to: &str) -> Self {
        self.entry(path, 0o777, b"2", to, b"")
    }

    fn entry(mut self, path: &str, mode: u32, kind: &[u8; 1], to: &str, content: &[u8]) -> Self {
        let path = path.trim_start_matches('/');
        debug_assert!(path.len().max(to.len()) <= MAX_LENGTH, "{path}");
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, &path.as_bytes()[..path.len().min(MAX_LENGTH)]);
        put(100, format!("{mode:07o}").as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{:011o}", content.len()).as_bytes());
        put(136, b"00000000000");
        // The sum is made with spaces in its own place.
        put(148, b"        ");
        put(156, kind);
        put(157, &to.as_bytes()[..to.len().min(MAX_LENGTH)]);
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        let padded = self.0.len().next_multiple_of(BLOCK);
        self.0.resize(padded, 0);
        self
    }

    /// The whole, with its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let end = self.0.len() + 2 * BLOCK;
        self.0.resize(end, 0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn archive_is_unpacked_by_tar_with_its_modes() {
        let dir = tempfile::tempdir().unwrap();
        let tar = Archive::default()
            .file("/etc/kubernetes/pki/etcd/ca.key", 0o600, "secret")
            .file("/run/it", 0o755, vec![b'x'; 1025])
            .link("/run/now", "/run/it")
            .finish();
        let mut child = Command::new("tar")
            .args(["-x", "-p", "-C"])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&tar).unwrap();
        assert!(child.wait().unwrap().success());
        let file = dir.path().join("etc/kubernetes/pki/etcd/ca.key");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "secret");
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file), 0o600);
        let run = dir.path().join("run/it");
        assert_eq!(std::fs::metadata(&run).unwrap().len(), 1025);
        assert_eq!(mode(run), 0o755);
        let link = std::fs::read_link(dir.path().join("run/now")).unwrap();
        assert_eq!(link.to_str(), Some("/run/it"));
    }
}
