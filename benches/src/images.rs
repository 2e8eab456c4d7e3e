//! A large image: from a layout directory to unpacked layers, checked. The
//! peers: skopeo and umoci one after the other, and `ctr`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::containerd::{self, Containerd};
use crate::stats::{Scoreboard, ratio, skipped};
use crate::usage::{Cost, Meter, of_command};
use crate::world::{World, settle};
use crate::{Effort, Result, big_image};

const OURS: &str = "strata: Pull";
const TWO: &str = "skopeo copy + umoci unpack";
const CTR: &str = "ctr images import";
const CTR_IMAGE: &str = "bench/big:latest";
const ON_DISK: &str = ", and on the disk";

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let world = World::new(binary).await?;
    let layout = world.layout("big");
    let begin = Instant::now();
    let image = big_image::write(&layout, effort.image_bytes);
    let packed = dir_bytes(&layout.join("blobs/sha256"))?;
    println!(
        "An image of {} MB, {} MB packed (made in {:.0?}).\n",
        effort.image_bytes >> 20,
        packed >> 20,
        begin.elapsed()
    );
    let archive = containerd::archive(&layout, world.dir.path().join("big.tar"))?;
    let mut table = Table::default();
    let containerd = Containerd::start();
    let two = ["skopeo", "umoci"].map(|tool| Command::new(tool).arg("--version").output());
    let two = two.into_iter().all(|found| found.is_ok());
    if !two {
        skipped(TWO, "they are not installed");
    }
    for _ in 0..effort.image_rounds {
        settle();
        let meter = Meter::start(world.daemon.pid())?;
        world.pull(&image).await?;
        table.add(OURS, meter.stop()?);
        world.remove_image(&image).await?;
        if two {
            table.add(TWO, skopeo_and_umoci(&layout)?);
        }
        if let Some(containerd) = &containerd {
            settle();
            let meter = Meter::start(containerd.pid())?;
            let cost = of_command(&mut containerd.import(&archive, "bench/big"))?;
            table.add(CTR, cost.beside(meter.stop()?));
            containerd.remove(CTR_IMAGE)?;
        }
    }
    table.print();
    Ok(())
}

fn skopeo_and_umoci(layout: &Path) -> Result<Cost> {
    let dir = tempfile::tempdir()?;
    let copy = format!("{}:latest", dir.path().join("copy").display());
    settle();
    let copied = of_command(
        Command::new("skopeo")
            .args(["copy", "--insecure-policy"])
            .arg(format!("oci:{}:latest", layout.display()))
            .arg(format!("oci:{copy}")),
    )?;
    let unpacked = of_command(
        Command::new("umoci")
            .args(["unpack", "--image", &copy])
            .arg(dir.path().join("bundle")),
    )?;
    Ok(copied.then(unpacked))
}

/// Times until it is reported as done, and until it is on the disk; what it
/// cost otherwise.
#[derive(Default)]
struct Table {
    board: Scoreboard,
    last: Vec<(&'static str, Cost)>,
}

impl Table {
    fn add(&mut self, what: &'static str, cost: Cost) {
        self.board.add(what, cost.wall);
        let begin = Instant::now();
        settle();
        let on_disk = cost.wall + begin.elapsed();
        self.board.add(&format!("{what}{ON_DISK}"), on_disk);
        self.last.retain(|(known, _)| *known != what);
        self.last.push((what, cost));
    }

    #[allow(clippy::print_stdout)]
    fn print(&self) {
        self.board.print();
        println!("| what, last round | processors | most memory |\n|---|---|---|");
        for (what, cost) in &self.last {
            let seconds = cost.processors.as_secs_f64();
            println!("| {what} | {seconds:.2} s | {} MB |", cost.peak_kb >> 10);
        }
        println!();
        // The aim, 1.5 times as fast as the fastest, as a ratio of times.
        for end in ["", ON_DISK] {
            let median = |what: &str| self.board.median(&format!("{what}{end}"));
            let fastest: Option<Duration> = [TWO, CTR].into_iter().filter_map(median).min();
            if let (Some(ours), Some(fastest)) = (median(OURS), fastest) {
                ratio(
                    &format!("{OURS}{end} / fastest peer"),
                    ours,
                    fastest,
                    "0.67",
                );
            }
        }
    }
}

fn dir_bytes(dir: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(dir)? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}
