//! The Unix socket: the kernel says who calls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use strata_testkit::Daemon;
use tempfile::TempDir;

use crate::access::STRATA;

/// A directory that every user may enter, with the binary in it.
fn public() -> (TempDir, PathBuf) {
    let dir = tempfile::Builder::new()
        .prefix("strata-public-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("a directory can be made");
    let binary = dir.path().join("strata");
    fs::copy(STRATA, &binary).expect("the binary can be copied");
    (dir, binary)
}

/// Runs a command as another user; its exit code and all it said.
fn run_as(binary: &Path, uid: u32, gid: u32, socket: &Path, words: &[&str]) -> (i32, String) {
    let output = std::process::Command::new(binary)
        .args(["--node", &format!("unix:{}", socket.display())])
        .args(words)
        .env_clear()
        .uid(uid)
        .gid(gid)
        .current_dir("/")
        .output()
        .expect("the binary can be run");
    let text = [output.stdout, output.stderr].concat();
    let code = output.status.code().expect("it exits");
    (code, String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_rejects_other_users() {
    let (dir, binary) = public();
    let socket = dir.path().join("node.sock");
    let daemon = Daemon::build(STRATA)
        .arg("--node-socket")
        .arg(socket.display().to_string())
        .start()
        .await;
    daemon.node().await.allocate("web").await.unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, text) = run_as(&binary, 0, 0, &socket, &["cell", "list"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("web"));
    // Even if somebody opens the door of the file, the kernel tells who it is.
    for mode in [0o600, 0o666] {
        fs::set_permissions(&socket, fs::Permissions::from_mode(mode)).unwrap();
        for words in [&["cell", "list"][..], &["cell", "allocate", "mine"]] {
            let (code, text) = run_as(&binary, 1000, 1000, &socket, words);
            assert!([3, 5].contains(&code), "{code}: {text}");
            assert!(!text.contains("web"), "{text}");
        }
    }
    assert_eq!(daemon.node().await.names().await, ["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_the_group_have_its_role_and_others_none() {
    let (dir, binary) = public();
    let socket = dir.path().join("node.sock");
    let daemon = Daemon::build(STRATA)
        .config("[socket_group]\ngid = 54321\nrole = 'viewer'\n")
        .arg("--node-socket")
        .arg(socket.display().to_string())
        .start()
        .await;
    daemon.node().await.allocate("web").await.unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let (code, text) = run_as(&binary, 1000, 54321, &socket, &["cell", "list"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("web"), "{text}");
    let words = ["cell", "allocate", "mine"];
    let (code, text) = run_as(&binary, 1000, 54321, &socket, &words);
    assert_eq!(code, 5, "{text}");
    let (code, text) = run_as(&binary, 1000, 1000, &socket, &["cell", "list"]);
    assert!([3, 5].contains(&code), "{code}: {text}");
    assert_eq!(daemon.node().await.names().await, ["web"]);
}
