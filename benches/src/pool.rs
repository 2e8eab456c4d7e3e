//! A device more and a device less for a pool that is full of data, beside
//! `btrfs device add` and `btrfs device remove` on the same kind of files with
//! the same data. Both take turns, and each goes first every other time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use strata_storage::{PoolConfig, StoragePool};
use strata_types::storage::{Profile, VolumeKind};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::big_image::PseudoRandom;
use crate::stats::{Scoreboard, load, ratio, skipped};
use crate::world::settle;
use crate::{Effort, Result};

const DEVICE: u64 = 1 << 30;
const FILE: usize = 1 << 20;
const PAGE: usize = 4096;
/// The file of the peer that leaves.
const FIRST: &str = "p1";
const EXPAND: &str = "strata: a device more";
const SHRINK: &str = "strata: a device less";
const PLAIN_EXPAND: &str = "btrfs device add";
const PLAIN_SHRINK: &str = "btrfs device remove";
const PLAIN_GIVEN_BACK: &str = "btrfs device remove, its room returned";

#[allow(clippy::print_stdout)]
pub(crate) async fn run(effort: Effort) -> Result {
    if let Err(error) = command("btrfs", &["version"]) {
        skipped("the storage pool", error);
        return Ok(());
    }
    load("before");
    let mut board = Scoreboard::default();
    let mut used = (0, 0);
    for round in 0..effort.pool_rounds {
        let world = World(tempfile::tempdir()?);
        let ours = Ours::open(world.dir().join("ours")).await?;
        fill(&ours.data(), effort.pool_bytes)?;
        let plain = Plain::open(&world.dir().join("plain"))?;
        fill(&plain.mount, effort.pool_bytes)?;
        used = (on_first(ours.pool.mount())?, on_first(&plain.mount)?);
        for turn in [round, round + 1] {
            settle();
            match turn % 2 {
                0 => board.add(EXPAND, ours.expand().await?),
                _ => board.add(PLAIN_EXPAND, plain.expand()?),
            }
        }
        for turn in [round, round + 1] {
            settle();
            match turn % 2 {
                0 => board.add(SHRINK, ours.shrink().await?),
                _ => {
                    let (removed, given_back) = plain.shrink()?;
                    board.add(PLAIN_SHRINK, removed);
                    board.add(PLAIN_GIVEN_BACK, given_back);
                }
            }
        }
        ours.pool.close().await?;
    }
    println!(
        "\n{} MB of data on two devices; the one that leaves has {} MB given out, {} MB of the peer\n",
        effort.pool_bytes >> 20,
        used.0 >> 20,
        used.1 >> 20
    );
    board.print();
    for (ours, theirs) in [
        (EXPAND, PLAIN_EXPAND),
        (SHRINK, PLAIN_SHRINK),
        (SHRINK, PLAIN_GIVEN_BACK),
    ] {
        board.ratio(ours, theirs, "1.1");
        let best = board.at(ours, 0.0).zip(board.at(theirs, 0.0));
        if let Some((our, their)) = best {
            ratio(
                &format!("{ours} / {theirs}, the best of each"),
                our,
                their,
                "1.1",
            );
        }
    }
    load("after");
    Ok(())
}

/// Unmounts and detaches whatever is left of both, in any case.
struct World(TempDir);

impl World {
    fn dir(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for World {
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if let Err(error) = strata_storage::remove(self.dir()) {
            eprintln!("a pool was left behind: {error}");
        }
    }
}

struct Ours {
    pool: StoragePool,
}

impl Ours {
    async fn open(dir: PathBuf) -> Result<Self> {
        let config = PoolConfig {
            dir,
            profile: Profile::Single,
            devices: Vec::new(),
            files: 2,
            file_bytes: DEVICE,
            spare_files: 1,
            preallocate: false,
            reserve_bytes: 64 << 20,
        };
        let pool = StoragePool::open(config).await?;
        let name = "v".parse()?;
        pool.create_volume(&name, VolumeKind::Files, None, None)
            .await?;
        Ok(Self { pool })
    }

    fn data(&self) -> PathBuf {
        self.pool.mount().join("volumes/v/data")
    }

    async fn expand(&self) -> Result<Duration> {
        let begin = Instant::now();
        self.pool.add_device("d3").await?;
        Ok(begin.elapsed())
    }

    async fn shrink(&self) -> Result<Duration> {
        let begin = Instant::now();
        let never = CancellationToken::new();
        self.pool.remove_device("d1", &|_, _| {}, never).await?;
        Ok(begin.elapsed())
    }
}

/// What a person would make by hand, with the options of our pool.
struct Plain {
    mount: PathBuf,
    loops: [String; 3],
}

impl Plain {
    fn open(dir: &Path) -> Result<Self> {
        let mount = dir.join("mount");
        fs::create_dir_all(&mount)?;
        let attach = |name: &str| -> Result<String> {
            let path = dir.join(name);
            fs::File::create(&path)?.set_len(DEVICE)?;
            let path = path.to_string_lossy();
            let options = ["--direct-io=on", "-b", "4096", "-f", "--show", &path];
            command("losetup", &options)
        };
        let loops = [attach(FIRST)?, attach("p2")?, attach("p3")?];
        let options = ["-q", "-f", "-K", "-d", "single", "-m", "dup"];
        command(
            "mkfs.btrfs",
            &[&options[..], &[&loops[0], &loops[1]]].concat(),
        )?;
        let options = format!("noatime,discard=async,device={}", loops[1]);
        let point = mount.to_string_lossy();
        command("mount", &["-o", &options, &loops[0], &point])?;
        Ok(Self { mount, loops })
    }

    fn expand(&self) -> Result<Duration> {
        let mount = self.mount.to_string_lossy();
        let begin = Instant::now();
        command("btrfs", &["device", "add", "-K", &self.loops[2], &mount])?;
        Ok(begin.elapsed())
    }

    /// Until it is removed, and until the file behind it takes no room, which
    /// is where ours ends.
    fn shrink(&self) -> Result<(Duration, Duration)> {
        let mount = self.mount.to_string_lossy();
        let file = self.mount.with_file_name(FIRST);
        let begin = Instant::now();
        command("btrfs", &["device", "remove", &self.loops[0], &mount])?;
        let removed = begin.elapsed();
        command("losetup", &["-d", &self.loops[0]])?;
        command("fallocate", &["-p", "-l", "1GiB", &file.to_string_lossy()])?;
        Ok((removed, begin.elapsed()))
    }
}

/// Runs a program to its good end; returns what it wrote.
fn command(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {said}", words.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Files that do not pack and are not alike, until all of them are there.
fn fill(dir: &Path, bytes: usize) -> Result {
    let mut chance = PseudoRandom(0x5eed_0f57_a7a1_ced1);
    let mut noise = chance.program(FILE);
    for number in 0..bytes / FILE {
        for page in noise.chunks_mut(PAGE) {
            page[..8].copy_from_slice(&number.to_ne_bytes());
        }
        fs::write(dir.join(format!("file{number}")), &noise)?;
    }
    settle();
    Ok(())
}

/// How many bytes of the first device are given out.
fn on_first(mount: &Path) -> Result<u64> {
    let text = command(
        "btrfs",
        &["filesystem", "show", "--raw", &mount.to_string_lossy()],
    )?;
    let line = text
        .lines()
        .find(|line| line.trim().starts_with("devid    1 "));
    let words = line.unwrap_or_default().split_whitespace();
    let used = words.skip_while(|word| *word != "used").nth(1);
    Ok(used.ok_or("btrfs shows no first device")?.parse()?)
}
