//! How long an expansion and a shrink take, beside `btrfs device add` and
//! `btrfs device remove` on the same kind of files with the same data.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use strata_types::storage::{Profile, VolumeKind};

use crate::world::{MIB, World, data, label, never, quiet};
use crate::writer::fill;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn ours(world: &World) -> (Duration, Duration) {
    let mut config = world.config(Profile::Single, 2, 1);
    config.file_bytes = 1024 * MIB;
    let pool = strata_storage::StoragePool::open(config).await.unwrap();
    pool.create_volume(&label("v"), VolumeKind::Files, None, None)
        .await
        .unwrap();
    fill(&data(&pool, "v"), 600);
    rustix::fs::sync();
    let start = Instant::now();
    pool.add_device("d3").await.unwrap();
    let expand = start.elapsed();
    let start = Instant::now();
    pool.remove_device("d1", &quiet, never()).await.unwrap();
    let shrink = start.elapsed();
    pool.close().await.unwrap();
    (expand, shrink)
}

fn plain(world: &World) -> (Duration, Duration) {
    let folder = world.folder();
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::create_dir_all(path("plain")).unwrap();
    let attach = |name: &str| {
        let file = std::fs::File::create(path(name)).unwrap();
        file.set_len(1024 * MIB).unwrap();
        let options = ["--direct-io=on", "-b", "4096", "-f", "--show"];
        run("losetup", &[&options[..], &[&path(name)]].concat())
    };
    let loops = ["p1", "p2", "p3"].map(attach);
    let options = ["-q", "-f", "-K", "-d", "single", "-m", "dup"];
    run(
        "mkfs.btrfs",
        &[&options[..], &[&loops[0], &loops[1]]].concat(),
    );
    let options = format!("noatime,discard=async,device={}", loops[1]);
    run("mount", &["-o", &options, &loops[0], &path("plain")]);
    fill(Path::new(&path("plain")), 600);
    rustix::fs::sync();
    let start = Instant::now();
    run("btrfs", &["device", "add", "-K", &loops[2], &path("plain")]);
    let expand = start.elapsed();
    let start = Instant::now();
    run("btrfs", &["device", "remove", &loops[0], &path("plain")]);
    let shrink = start.elapsed();
    (expand, shrink)
}

#[tokio::test]
#[ignore = "measures, and needs btrfs-progs and a quiet machine"]
async fn expand_and_shrink_beside_plain_btrfs() {
    for _ in 0..3 {
        let world = World::new();
        let ours = ours(&world).await;
        let plain = plain(&world);
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        tracing::info!(?ours, ?plain, "measured");
        let line = format!(
            "expand {:?} / {:?} = {:.2}, shrink {:?} / {:?} = {:.2}\n",
            ours.0,
            plain.0,
            ratio(ours.0, plain.0),
            ours.1,
            plain.1,
            ratio(ours.1, plain.1),
        );
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    }
}
