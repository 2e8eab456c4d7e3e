//! Standard input that is given with the start: it arrives whole, and is
//! nowhere to be read afterwards.

use std::path::Path;

use strata_testkit::v1::ExecutableRestart;
use strata_testkit::{Code, Daemon, executable_with, field_of};

use crate::cells::STRATA;

const MOST: usize = 1 << 20;

/// A text that is not there by accident.
const SECRET: &str = "mellon-8c1f";

/// Whether a file below `dir` has `text` in it.
fn holds_text(dir: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds_text(&path, text),
            Ok(kind) if kind.is_file() => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            }
            _ => false,
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mebibyte_arrives_whole_and_no_more_is_taken() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let all: Vec<u8> = (0..MOST).map(|i| (i % 251) as u8).collect();
    for (name, bytes) in [("most", &all[..]), ("some", b"a\nb\n"), ("none", b"")] {
        let command = "sh -c 'cksum; cksum </dev/stdin'";
        let wanted = executable_with("web", name, command, |options| {
            options.input = Some(bytes.to_vec());
        });
        let pid = node.start_as(wanted).await.unwrap();
        let said = node.stdout(pid).await.unwrap();
        let (sum, length) = said[0].split_once(' ').unwrap();
        assert_eq!(length, bytes.len().to_string(), "{name}");
        // Who opens it again reads it from its beginning, as a file.
        assert_eq!(said[1], format!("{sum} {length}"), "{name}");
        assert_eq!(node.wait("web", name).await.unwrap().exit_code, Some(0));
    }
    let reads = node.start("web", "empty", "cat").await.unwrap();
    assert!(node.stdout(reads).await.unwrap().is_empty());

    let refusals: [fn(&mut strata_testkit::v1::ExecutableOptions); 2] = [
        |options| options.input = Some(vec![0; MOST + 1]),
        |options| {
            options.input = Some(vec![0]);
            options.restart = ExecutableRestart::Always.into();
        },
    ];
    for change in refusals {
        let wanted = executable_with("web", "refused", "cat", change);
        let status = node.start_as(wanted).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        let field = field_of(&status);
        assert_eq!(field.as_deref(), Some("executable.options.input"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_neither_stored_nor_shown() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let command = "sh -c 'wc -c; exec sleep 1000'";
    let wanted = executable_with("web", "main", command, |options| {
        options.uid = Some(1000);
        options.input = Some(SECRET.as_bytes().to_vec());
    });
    let pid = node.start_as(wanted).await.unwrap();
    let stdout = strata_testkit::observe::LogChannelType::ChannelStdout;
    let mut lines = node.stream(stdout, pid).await.unwrap();
    let line = lines.message().await.unwrap().unwrap().line;
    assert_eq!(line.to_string(), SECRET.len().to_string());

    let shown = node.executable("web", "main").await.unwrap();
    assert_eq!(shown.options.as_ref().unwrap().input, None);
    assert!(!holds_text(&daemon.data_dir(), SECRET));
    assert!(!daemon.log().contains(SECRET));
    for file in ["cmdline", "environ"] {
        let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains(SECRET), "{file}");
    }
    // Its process cannot change it, and the daemon has let go of it.
    let input = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/fd/0"));
    let written = input.and_then(|mut file| std::io::Write::write(&mut file, b"x"));
    assert!(written.is_err());
    let open = daemon.open_file_names();
    assert!(
        !open.iter().any(|name| name.contains("memfd:input")),
        "{open:?}"
    );
}
