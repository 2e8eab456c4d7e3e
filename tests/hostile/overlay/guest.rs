//! A guest with a kernel that has WireGuard, for hosts whose kernel has none:
//! the tests of `encrypted` and `rekey` run in there.

use std::path::Path;
use std::time::Duration;

use strata_testkit::guest::{Guest, Image, programs_archive};
use strata_testkit::skip;

use super::world::has_wireguard;
use crate::hostile::STRATA;

/// What the tests run besides busybox.
const PROGRAMS: [&str; 5] = ["ip", "nsenter", "unshare", "bash", "nft"];
/// Guests without KVM are slow, and three clusters are started in it.
const TIMEOUT: Duration = Duration::from_secs(900);
/// All of its files are in memory, the binary of the tests among them.
const MEMORY: u32 = 2048;

/// The node's files are on a disk: pods need a file system with idmapped
/// mounts.
fn start() -> String {
    let dir = Path::new(STRATA).parent().unwrap().display();
    format!(
        "tar -C / -xf /programs.tar && rm /programs.tar\n\
         mkdir -p {dir} && ln -s /init {STRATA}\n\
         mkdir /data && mount /dev/nvme0n1 /data && mkdir /data/tmp\n\
         export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/data/tmp HOME=/root STRATA_LOG=info\n\
         (cd /; for test in encrypted rekey; do \
           /bin/e2e hostile::overlay::$test:: --test-threads 1 --nocapture; \
           echo \"overlay: $test ended with $?\"; done; echo overlay: done) \
           >/dev/console 2>&1 </dev/null &\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_encrypted_overlay_holds_in_a_guest() {
    if has_wireguard() {
        return; // The tests have run on this very kernel.
    }
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let scratch = tempfile::tempdir().unwrap();
    let archive = scratch.path().join("programs.tar");
    programs_archive(&archive, &PROGRAMS).unwrap();
    let image = Image {
        program: STRATA.into(),
        programs: vec![("bin/e2e".to_owned(), std::env::current_exe().unwrap())],
        files: vec![("programs.tar".to_owned(), archive)],
        start: start(),
    };
    let mut guest = Guest::boot_with(&image, MEMORY).unwrap();
    guest.wait_console("overlay: done", TIMEOUT).await;
    let console = guest.console();
    for test in ["encrypted", "rekey"] {
        let ended = format!("overlay: {test} ended with 0");
        assert!(console.contains(&ended), "{console}");
    }
    assert!(!console.contains(" 0 passed"), "{console}");
    for line in console.lines().filter(|line| line.starts_with("overlay: ")) {
        println!("{line}");
    }
}
