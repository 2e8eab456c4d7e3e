//! The authority of a request on a Unix socket: whatever bytes arrive, split
//! anywhere, the rewritten request is the one that was sent.

use std::io::Cursor;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_frame(&mut out, kind, flags, &stream.to_be_bytes(), &[payload]);
    out.to_vec()
}

/// What the reader finds when the client's bytes come in pieces of this size.
async fn read(bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut client, server) = tokio::io::duplex(piece);
    let bytes = bytes.to_vec();
    let sent = tokio::spawn(async move {
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
    });
    let mut found = Vec::new();
    WithoutAuthority::new(server)
        .read_to_end(&mut found)
        .await
        .unwrap();
    sent.await.unwrap();
    found
}

const AUTHORITY: &[u8] = b"\x41\x0f%2Frun%2Fn.sock";
const REPLACED: &[u8] = b"\x41\x01u";

#[tokio::test]
async fn header_blocks_are_rewritten_however_they_come() {
    let data = frame(0, 1, 1, &[7; 3000]);
    let mut sent = PREFACE.to_vec();
    sent.extend(frame(4, 0, 0, &[0; 6]));
    sent.extend(frame(HEADERS, END_HEADERS, 1, AUTHORITY));
    sent.extend(&data);
    // With padding and a priority, in three frames.
    let mut padded = vec![2, 0, 0, 0, 0, 9];
    padded.extend(&AUTHORITY[..4]);
    padded.extend([0, 0]);
    sent.extend(frame(HEADERS, PADDED | PRIORITY | 1, 3, &padded));
    sent.extend(frame(CONTINUATION, 0, 3, &AUTHORITY[4..9]));
    sent.extend(frame(CONTINUATION, END_HEADERS, 3, &AUTHORITY[9..]));
    let mut expected = PREFACE.to_vec();
    expected.extend(frame(4, 0, 0, &[0; 6]));
    expected.extend(frame(HEADERS, END_HEADERS, 1, REPLACED));
    expected.extend(&data);
    let mut with_priority = vec![0, 0, 0, 0, 9];
    with_priority.extend(REPLACED);
    expected.extend(frame(
        HEADERS,
        END_HEADERS | PRIORITY | 1,
        3,
        &with_priority,
    ));
    for piece in [1, 2, 7, 64, 1 << 16] {
        assert_eq!(read(&sent, piece).await, expected, "{piece}");
    }
}

#[tokio::test]
async fn a_block_of_many_frames_stays_within_frames() {
    let mut block = AUTHORITY.to_vec();
    for _ in 0..300 {
        block.extend([0x40, 1, b'a', 0x7f, 0x80, 0x01]);
        block.extend([b'x'; 255]);
    }
    let mut sent = PREFACE.to_vec();
    let pieces: Vec<_> = block.chunks(LARGEST_FRAME).collect();
    let last = pieces.len() - 1;
    for (i, piece) in pieces.into_iter().enumerate() {
        let kind = if i == 0 { HEADERS } else { CONTINUATION };
        let flags = if i == last { END_HEADERS } else { 0 };
        sent.extend(frame(kind, flags, 1, piece));
    }
    let found = read(&sent, 4096).await;
    let mut rest = &found[PREFACE.len()..];
    let mut whole = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(rest[1]) << 8 | usize::from(rest[2]);
        assert!(length <= LARGEST_FRAME);
        whole.extend(&rest[FRAME_HEADER..FRAME_HEADER + length]);
        let ends = rest[4] & END_HEADERS != 0;
        rest = &rest[FRAME_HEADER + length..];
        assert_eq!(ends, rest.is_empty());
    }
    assert_eq!(Some(whole), without_authority(&block));
}

#[tokio::test]
async fn non_http2_bytes_pass_unchanged() {
    let mut endless = PREFACE.to_vec();
    endless.extend(frame(HEADERS, 0, 1, AUTHORITY));
    endless.extend(frame(0, 0, 1, b"no continuation"));
    let mut cut = PREFACE.to_vec();
    cut.extend(frame(HEADERS, 0, 1, AUTHORITY));
    let mut other_stream = PREFACE.to_vec();
    other_stream.extend(frame(HEADERS, 0, 1, AUTHORITY));
    other_stream.extend(frame(CONTINUATION, END_HEADERS, 3, AUTHORITY));
    let mut padding = PREFACE.to_vec();
    padding.extend(frame(HEADERS, PADDED | END_HEADERS, 1, &[200, 1, 2]));
    for same in [
        b"GET / HTTP/1.1\r\nhost: %2Frun\r\n\r\n".to_vec(),
        b"PRI * HTTP/1.1\r\n".to_vec(),
        PREFACE[..9].to_vec(),
        Vec::new(),
        endless,
        cut,
        other_stream,
        padding,
    ] {
        assert_eq!(read(&same, 5).await, same);
    }
}

proptest! {
    #[test]
    fn any_bytes_of_a_client_come_to_an_end(bytes: Vec<u8>) {
        let mut sent = PREFACE.to_vec();
        sent.extend(&bytes);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut found = Vec::new();
            let mut stream = WithoutAuthority::new(Cursor::new(sent.clone()));
            stream.read_to_end(&mut found).await.unwrap();
            prop_assert!(found.len() <= sent.len());
            Ok(())
        })?;
    }
}
