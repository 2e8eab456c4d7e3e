//! Output that is no tidy text.

use strata_testkit::v1::ReadLogsRequest;
use strata_testkit::{Daemon, Node, all};

use crate::logs::STRATA;

async fn lines(node: &Node, name: &str) -> Vec<Vec<u8>> {
    let request = ReadLogsRequest {
        cell_name: "web".into(),
        executable_name: name.into(),
        stdout: true,
        ..Default::default()
    };
    let stream = node.read(request).await.expect("the log can be read");
    let lines = all(stream).await.expect("the log can be read to its end");
    lines.into_iter().map(|line| line.line.to_vec()).collect()
}

/// A name, what is printed, the bytes and the texts that are read.
type Case = (
    &'static str,
    &'static str,
    &'static [&'static [u8]],
    &'static [&'static str],
);

#[tokio::test(flavor = "multi_thread")]
async fn bytes_come_back_as_they_were_written() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let cases: [Case; 6] = [
        (
            "broken",
            r"a\377\376b\nplain\n",
            &[b"a\xff\xfeb", b"plain"],
            &["a\u{fffd}\u{fffd}b", "plain"],
        ),
        ("nul", r"a\000b\n\000\n", &[b"a\0b", b"\0"], &["a\0b", "\0"]),
        (
            "crlf",
            r"one\r\ntwo\r\n",
            &[b"one\r", b"two\r"],
            &["one\r", "two\r"],
        ),
        (
            "empty",
            r"\n\n\nx\n\n",
            &[b"", b"", b"", b"x", b""],
            &["", "", "", "x", ""],
        ),
        (
            "partial",
            r"whole\nhalf",
            &[b"whole", b"half"],
            &["whole", "half"],
        ),
        (
            "unicode",
            r"\303\274\n\342\202\254",
            &[b"\xc3\xbc", b"\xe2\x82\xac"],
            &["ü", "€"],
        ),
    ];
    for (name, format, bytes, texts) in cases {
        let command = format!("printf '{format}'");
        let pid = node.start("web", name, &command).await.unwrap();
        node.wait("web", name).await.unwrap();
        assert_eq!(lines(&node, name).await, bytes, "{name}");
        assert_eq!(node.stdout(pid).await.unwrap(), texts, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_does_not_end_comes_in_pieces_that_any_client_can_take() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'head -c 9000000 /dev/zero | tr \"\\0\" x; echo; echo after'";
    let pid = node.start("web", "long", script).await.unwrap();
    node.wait("web", "long").await.unwrap();
    let pieces = node.stdout(pid).await.unwrap();
    // What a gRPC client takes unless it is told otherwise.
    assert!(pieces.iter().all(|piece| piece.len() < 4 << 20));
    let (last, long) = pieces.split_last().unwrap();
    assert_eq!(last, "after");
    assert_eq!(long.iter().map(String::len).sum::<usize>(), 9_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn order_is_kept_however_it_is_written() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    // Lines torn over many writes, by two processes that take turns.
    let script = "sh -c 'i=0; while [ $i -lt 300 ]; do printf \"%s\" a$i; printf \"%s\\n\" b; \
                  (printf \"c%s\\n\" $i); i=$((i+1)); done'";
    let pid = node.start("web", "torn", script).await.unwrap();
    let lines = node.stdout(pid).await.unwrap();
    let wanted: Vec<String> = (0..300)
        .flat_map(|i| [format!("a{i}b"), format!("c{i}")])
        .collect();
    assert_eq!(lines, wanted);
}
