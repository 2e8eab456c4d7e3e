//! Backups: the first, the next after a little has changed, and the way
//! back, beside restic and borg on the same tree. All encrypt and all
//! compress with zstd at its usual level; each works as a process of its
//! own, on files that are in memory, and takes turns with the others.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use strata_backup::{
    BackupRequest, Location, Repository, RepositoryConfig, RestoreOptions, Secret, Silent, Source,
};
use tokio_util::sync::CancellationToken;

use crate::big_image::PseudoRandom;
use crate::stats::load;
use crate::usage::{Cost, of_command};
use crate::{Effort, Result};

/// Makes this program do one backup or restore.
pub(crate) const OURS: &str = "--backup";
const PASSWORD: &str = "bench";
const WAYS: [&str; 3] = ["strata", "restic", "borg"];
const WORKS: [&str; 3] = ["first", "next", "restore"];

/// One backup or restore of ours, in the directory of a bench.
pub(crate) fn ours(work: &str, dir: &Path) -> Result {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let repository = Repository::new(RepositoryConfig {
        location: Location::Directory(dir.join("strata")),
        password: Secret::new(PASSWORD),
        compression: 3,
        cache: None,
    });
    let (silent, cancel) = (Arc::new(Silent), CancellationToken::new());
    runtime.block_on(async {
        if work == "restore" {
            let ask = RestoreOptions {
                from: "/tree".to_owned(),
                to: dir.join("back-strata"),
            };
            repository.restore("latest", ask, silent, cancel).await?;
            return Ok(());
        }
        let ask = BackupRequest {
            sources: vec![Source {
                path: dir.join("tree"),
                at: "/tree".to_owned(),
            }],
            host: "bench".to_owned(),
            operation: work.to_owned(),
            ..BackupRequest::default()
        };
        repository.backup(ask, silent, cancel).await?;
        Ok(())
    })
}

fn command(way: &str, work: &str, dir: &Path) -> Result<Command> {
    let repository = dir.join(way);
    let mut command = match way {
        "strata" => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([OURS, work]).arg(dir);
            return Ok(command);
        }
        "restic" => {
            let mut command = Command::new("restic");
            command
                .args(["--no-cache", "--quiet", "--repo"])
                .arg(repository);
            match work {
                "restore" => {
                    let to = dir.join("back-restic");
                    command.args(["restore", "latest", "--target"]).arg(to);
                }
                _ => {
                    command.args(["backup", "tree"]);
                }
            }
            command
        }
        _ => {
            let mut command = Command::new("borg");
            match work {
                "restore" => {
                    let to = dir.join("back-borg");
                    fs::create_dir_all(&to)?;
                    let archive = format!("{}::next", repository.display());
                    command.args(["extract", &archive]).current_dir(to);
                }
                _ => {
                    let archive = format!("{}::{work}", repository.display());
                    command.args(["create", "--compression", "zstd,3", &archive, "tree"]);
                }
            }
            command
        }
    };
    if work != "restore" {
        command.current_dir(dir);
    }
    command
        .env("RESTIC_PASSWORD", PASSWORD)
        .env("BORG_PASSPHRASE", PASSWORD)
        .env("BORG_BASE_DIR", dir.join("borg-home"));
    Ok(command)
}

fn make_repositories(dir: &Path) -> Result {
    let mut restic = Command::new("restic");
    restic
        .args(["init", "--quiet", "--repo"])
        .arg(dir.join("restic"));
    of_command(restic.env("RESTIC_PASSWORD", PASSWORD))?;
    let mut borg = Command::new("borg");
    borg.args(["init", "--encryption", "repokey-blake2"])
        .arg(dir.join("borg"));
    borg.env("BORG_PASSPHRASE", PASSWORD);
    of_command(borg.env("BORG_BASE_DIR", dir.join("borg-home")))?;
    Ok(())
}

#[allow(clippy::print_stdout)]
pub(crate) fn run(effort: Effort) -> Result {
    load("before");
    let mut best = [[None::<Cost>; 3]; 3];
    let mut sizes = [0; 3];
    let mut tree = (0, 0);
    for _ in 0..effort.backup_rounds {
        let world = tempfile::tempdir()?;
        let dir = world.path();
        let mut chance = PseudoRandom(0x5eed_0f57_a7a1_ced1);
        tree = make_tree(&dir.join("tree"), effort.backup_bytes, &mut chance)?;
        make_repositories(dir)?;
        for (number, work) in WORKS.into_iter().enumerate() {
            if work == "next" {
                change(&dir.join("tree"), &mut chance)?;
            }
            for (way, name) in WAYS.into_iter().enumerate() {
                let cost = of_command(&mut command(name, work, dir)?)?;
                let best = &mut best[number][way];
                if best.is_none_or(|known| cost.wall < known.wall) {
                    *best = Some(cost);
                }
                sizes[way] = weight(&dir.join(name))?;
            }
        }
    }
    let (files, bytes) = tree;
    println!(
        "{files} files, {} MB; the best of {}.\n",
        bytes >> 20,
        effort.backup_rounds
    );
    println!("| what | who | time | processors | memory | ours is |\n|---|---|---|---|---|---|");
    for (number, work) in WORKS.into_iter().enumerate() {
        let ours = best[number][0].map_or(Duration::ZERO, |cost| cost.wall);
        for (way, name) in WAYS.into_iter().enumerate() {
            let Some(cost) = best[number][way] else {
                continue;
            };
            println!(
                "| {work} | {name} | {:.2} s | {:.2} s | {} MB | {:.2}× as fast |",
                cost.wall.as_secs_f64(),
                cost.processors.as_secs_f64(),
                cost.peak_kb >> 10,
                cost.wall.as_secs_f64() / ours.as_secs_f64(),
            );
        }
    }
    for (way, name) in WAYS.into_iter().enumerate() {
        println!("| size | {name} | {} MB | | | |", sizes[way] >> 20);
    }
    println!();
    load("after");
    Ok(())
}

/// Two fifths in large files, the rest in small ones; how many and how large.
fn make_tree(root: &Path, bytes: usize, chance: &mut PseudoRandom) -> Result<(usize, usize)> {
    fs::create_dir_all(root.join("large"))?;
    let (mut files, mut written) = (0, 0);
    while written < bytes * 2 / 5 {
        let size = (8 << 20) + chance.below(32 << 20);
        fs::write(root.join(format!("large/{files}")), chance.program(size))?;
        files += 1;
        written += size;
    }
    while written < bytes {
        let most = 1 << (10 + chance.below(9));
        let size = 200 + chance.below(most);
        let dir = root.join(format!("part{}/below{}", files % 53, files % 31));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join(format!("file{files}")), chance.text(size))?;
        files += 1;
        written += size;
    }
    Ok((files, written))
}

/// One small file of a hundred is another, and a large one has a new piece.
fn change(root: &Path, chance: &mut PseudoRandom) -> Result {
    let mut seen = 0;
    for part in 0..53 {
        for below in 0..31 {
            let Ok(entries) = fs::read_dir(root.join(format!("part{part}/below{below}"))) else {
                continue;
            };
            for entry in entries {
                seen += 1;
                if seen % 100 == 0 {
                    fs::write(entry?.path(), chance.text(5000))?;
                }
            }
        }
    }
    let large = root.join("large/0");
    let mut bytes = fs::read(&large)?;
    let new = chance.program(1 << 20);
    let middle = bytes.len() / 2;
    bytes.splice(middle..middle, new);
    fs::write(large, bytes)?;
    Ok(())
}

fn weight(dir: &Path) -> Result<u64> {
    let mut total = 0;
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                pending.push(entry.path());
            } else {
                total += meta.len();
            }
        }
    }
    Ok(total)
}
