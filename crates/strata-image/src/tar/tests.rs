//! Streams as the usual writers make them, and any bytes at all.

use std::io::Cursor;

use proptest::prelude::*;

use super::header::Header;
use super::*;

/// A header block with a right checksum.
fn block(path: &str, flag: u8, size: &str, more: &[(usize, &[u8])]) -> [u8; 512] {
    let mut block = [0; 512];
    block[..path.len()].copy_from_slice(path.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[124..124 + size.len()].copy_from_slice(size.as_bytes());
    block[156] = flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    for (at, bytes) in more {
        block[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// Records whose lengths count themselves, their space and their newline.
fn pax_records(records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let digits = (1..4).find(|digits| (rest + digits).to_string().len() == *digits);
        bytes.extend_from_slice((rest + digits.unwrap()).to_string().as_bytes());
        bytes.extend_from_slice(&[b" ", *key, b"=", *value, b"\n"].concat());
    }
    bytes
}

fn read_all(stream: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, TarError> {
    let mut reader = TarReader::new(Cursor::new(stream));
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        let mut data = Vec::new();
        loop {
            let piece = reader.data()?;
            if piece.is_empty() {
                break;
            }
            let length = piece.len();
            data.extend_from_slice(piece);
            reader.consume(length);
        }
        entries.push((entry, data));
    }
    reader.finish()?;
    Ok(entries)
}

#[test]
fn long_names_and_prefixes_make_one_path() {
    let long = "d/".repeat(80) + "file";
    let stream = [
        block("././@LongLink", b'L', "00000000245", &[]).to_vec(),
        padded(format!("{long}\0").as_bytes()),
        block("d/short", b'0', "00000000003", &[]).to_vec(),
        padded(b"abc"),
        block("name", b'0', "0", &[(345, b"some/prefix")]).to_vec(),
        vec![0; 1024],
    ]
    .concat();
    let entries = read_all(&stream).unwrap();
    assert_eq!(entries[0].0.path, long.as_bytes());
    assert_eq!(entries[0].1, b"abc");
    assert_eq!(entries[1].0.path, b"some/prefix/name");
}

/// The header's field holds the first 100 bytes of a long path, the last of
/// them a slash: that implies nothing about the entry.
#[test]
fn long_path_with_a_slash_at_byte_100_is_a_file() {
    let directory = "a".repeat(99);
    let long = format!("{directory}/file");
    let cut = format!("{directory}/");
    let records = pax_records(&[(b"path", long.as_bytes())]);
    let pax_size = format!("{:011o}", records.len());
    let gnu_size = format!("{:011o}", long.len() + 1);
    for (flag, data, size) in [
        (b'0', &b"abc"[..], "00000000003"),
        (b'0', b"", "0"),
        (0, b"", "0"),
    ] {
        let with_pax = [
            block("pax", b'x', &pax_size, &[]).to_vec(),
            padded(&records),
            block(&cut, flag, size, &[]).to_vec(),
            padded(data),
        ];
        let with_gnu = [
            block("././@LongLink", b'L', &gnu_size, &[]).to_vec(),
            padded(format!("{long}\0").as_bytes()),
            block(&cut, flag, size, &[]).to_vec(),
            padded(data),
        ];
        for stream in [with_pax, with_gnu] {
            let (entry, found) = read_all(&stream.concat()).unwrap().remove(0);
            assert_eq!(entry.kind, Kind::File);
            assert_eq!(
                (entry.path, found),
                (long.clone().into_bytes(), data.to_vec())
            );
        }
    }
}

#[test]
fn directory_of_an_archive_older_than_posix_has_a_slash_behind_its_name() {
    let kind = |path, flag| read_all(&block(path, flag, "0", &[])).unwrap()[0].0.kind;
    assert_eq!(kind("a/", 0), Kind::Directory);
    assert_eq!(kind("a", 0), Kind::File);
    assert_eq!(kind("a/", b'0'), Kind::File);
}

#[test]
fn pax_record_without_a_value_leaves_what_the_header_says() {
    let records = pax_records(&[
        (b"path", b"a/b"),
        (b"path", b""),
        (b"uid", b""),
        (b"size", b""),
    ]);
    let size = format!("{:011o}", records.len());
    let stream = [
        block("pax", b'x', &size, &[]).to_vec(),
        padded(&records),
        block("x", b'0', "00000000001", &[]).to_vec(),
        padded(b"y"),
    ]
    .concat();
    let (entry, data) = read_all(&stream).unwrap().remove(0);
    assert_eq!(
        (entry.path.as_slice(), data.as_slice()),
        (&b"x"[..], &b"y"[..])
    );
}

#[test]
fn pax_overrides_what_the_header_says() {
    let records = pax_records(&[
        (b"path", b"a/b"),
        (b"uid", b"70000"),
        (b"mtime", b"1.000000001"),
        (b"SCHILY.xattr.user.a", b"x\ny\0z"),
    ]);
    let size = format!("{:011o}", records.len());
    let stream = [
        block("pax", b'x', &size, &[]).to_vec(),
        padded(&records),
        block("x", b'0', "0", &[]).to_vec(),
    ]
    .concat();
    let entries = read_all(&stream).unwrap();
    let entry = &entries[0].0;
    assert_eq!(entry.path, b"a/b");
    assert_eq!(entry.uid, 70_000);
    assert_eq!(entry.mtime, (1, 1));
    assert_eq!(entry.xattrs, [(b"user.a".to_vec(), b"x\ny\0z".to_vec())]);
}

#[test]
fn sparse_maps_of_all_writers_are_read() {
    let gnu = block(
        "s",
        b'S',
        "00000000003",
        &[
            (386, b"00000010000\x0000000000003\x00"),
            (483, b"00000020000\x00"),
        ],
    );
    let stream = [gnu.to_vec(), padded(b"abc")].concat();
    let (entry, data) = read_all(&stream).unwrap().remove(0);
    assert_eq!((entry.size, data.as_slice()), (8192, &b"abc"[..]));
    assert_eq!(
        entry.sparse,
        Some(vec![Span {
            at: 4096,
            length: 3
        }])
    );

    let records = pax_records(&[
        (b"GNU.sparse.major", b"1"),
        (b"GNU.sparse.realsize", b"8192"),
        (b"GNU.sparse.name", b"n"),
    ]);
    let size = format!("{:011o}", records.len());
    let stream = [
        block("pax", b'x', &size, &[]).to_vec(),
        padded(&records),
        block("s", b'0', "00000001003", &[]).to_vec(),
        padded(b"1\n4096\n3\n"),
        padded(b"abc"),
    ]
    .concat();
    let (entry, data) = read_all(&stream).unwrap().remove(0);
    assert_eq!(entry.path, b"n");
    assert_eq!((entry.size, data.as_slice()), (8192, &b"abc"[..]));
    assert_eq!(
        entry.sparse,
        Some(vec![Span {
            at: 4096,
            length: 3
        }])
    );
}

#[test]
fn maps_that_leave_the_file_are_refused() {
    let map = |map: &[u8], size: &[u8]| {
        let gnu = block("s", b'S', "00000000003", &[(386, map), (483, size)]);
        read_all(&[gnu.to_vec(), padded(b"abc")].concat()).map(drop)
    };
    let behind = map(b"00000010000\x0000000000003\x00", b"00000000010\x00");
    assert!(matches!(behind, Err(TarError::Sparse)));
    let longer = map(b"00000000000\x0000000000004\x00", b"00000020000\x00");
    assert!(matches!(longer, Err(TarError::Sparse)));
}

#[test]
fn damaged_tar_streams_yield_distinct_errors() {
    let mut broken = block("a", b'0', "0", &[]);
    broken[0] = b'b';
    assert!(matches!(read_all(&broken), Err(TarError::Checksum)));
    let cut = block("a", b'0', "00000001000", &[]);
    assert!(matches!(read_all(&cut), Err(TarError::Truncated)));
    let huge = block("a", b'x', "77777777777", &[]);
    assert!(matches!(
        read_all(&huge),
        Err(TarError::ExtensionTooLarge(_))
    ));
    let odd = block("a", b'!', "0", &[]);
    assert!(matches!(read_all(&odd), Err(TarError::Kind('!'))));
}

#[test]
fn large_numbers_are_in_base_256() {
    let field = [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
    assert_eq!(header::number(&field, "size").unwrap(), 2 << 32);
    let minus_one = [0xff; 12];
    assert_eq!(header::number(&minus_one, "mtime").unwrap(), -1);
    let mut huge = [0xaa; 12];
    huge[0] = 0x81;
    assert!(header::number(&huge, "size").is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let _ = read_all(&bytes);
    }

    #[test]
    fn any_header_with_a_right_checksum_is_read_or_refused(
        flag in prop::sample::select(b"\x0001234567xgLKSV".to_vec()),
        at in 0_usize..500,
        noise in prop::collection::vec(any::<u8>(), 1..12),
        size in "[0-7]{1,4}",
        data in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let noise = &noise[..noise.len().min(512 - at)];
        let mut header = block("some/path", flag, &size, &[(at, noise)]);
        // The noise may have hit the sum; most of the time it did not.
        let _ = Header::parse(&header);
        header[156] = flag;
        let _ = read_all(&[header.to_vec(), data].concat());
    }

    #[test]
    fn any_pax_records_are_read_or_refused(text in "([0-9]{1,3} )?(path|size|mtime|GNU.sparse.map|SCHILY.xattr.a)=[ -~]{0,20}\n?") {
        let _ = pax::Pax::parse(text.as_bytes());
    }
}
