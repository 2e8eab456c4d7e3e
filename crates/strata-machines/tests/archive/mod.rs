//! An archive with one file, as the kernel unpacks it over others.

/// In the format that the kernel reads: cpio, "newc".
pub(crate) fn archive(name: &str, content: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, mode, bytes) in [(name, 0o100_600, content), ("TRAILER!!!", 0, "")] {
        let size = bytes.len();
        let fields = [1, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name.len() + 1, 0];
        out.extend(b"070701");
        out.extend(fields.iter().flat_map(|n| format!("{n:08X}").into_bytes()));
        out.extend(name.bytes().chain([0]));
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(bytes.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}
