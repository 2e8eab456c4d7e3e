//! How fast output gets through: from a process into its log, and from there
//! to a client that follows it, line by line.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use strata_api::observe::GetSubProcessStreamRequest;
use strata_api::strata::v1::{ReadLogsRequest, WaitExecutableRequest};

use crate::daemon::Daemon;
use crate::stats::ratio;
use crate::{Effort, Result};

/// A line of a usual log: a hundred bytes with its end.
const LINE: &[u8; 100] = b"2026-01-01T00:00:00Z INFO request served path=/index.html status=200 bytes=5120 time=1.25ms agent=a\n";
/// Of each way, the best of so many.
const ROUNDS: usize = 3;
/// All of it is kept, so that a slower follower misses nothing.
const CONFIG: &str = "[logs]\nsegment_bytes = 134217728\nsegments = 16\n";

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("lines");
    let lines = write_lines(&file, effort.log_bytes)?;
    let command = format!("/bin/busybox cat {}", file.display());
    let daemon = Daemon::start(binary, CONFIG).await?;
    daemon.allocate("logs").await?;

    let direct = cat_to_file(&file, &dir.path().join("copy"))?;
    let mut alone = Duration::MAX;
    for i in 0..ROUNDS {
        settle()?;
        let name = format!("alone-{i}");
        let begin = Instant::now();
        daemon.run("logs", &name, &command).await?;
        wait(&daemon, &name).await?;
        alone = alone.min(begin.elapsed());
    }
    settle()?;

    let begin = Instant::now();
    let pid = daemon.run("logs", "followed", &command).await?;
    let seen = follow(&daemon, pid).await?;
    let followed = begin.elapsed();
    if seen != lines {
        return Err(format!("{seen} of {lines} lines came through").into());
    }
    let begin = Instant::now();
    let seen = read_by_name(&daemon, "followed").await?;
    let by_name = begin.elapsed();
    if seen != lines {
        return Err(format!("{seen} of {lines} lines came through by name").into());
    }
    daemon.free("logs").await?;

    let rate = |time: Duration| lines as f64 / time.as_secs_f64() / 1e6;
    println!("| what | time | lines/s |\n|---|---|---|");
    println!("| cat to a file | {direct:.2?} | {:.2} M |", rate(direct));
    println!(
        "| strata: into the log, nobody follows | {alone:.2?} | {:.2} M |",
        rate(alone)
    );
    println!(
        "| strata: to a client, GetSubProcessStream | {followed:.2?} | {:.2} M |",
        rate(followed)
    );
    println!(
        "| strata: to a client, Logs.Read of history | {by_name:.2?} | {:.2} M |",
        rate(by_name)
    );
    println!();
    ratio("into the log / cat to a file", alone, direct, "-");
    ratio("to a client / cat to a file", followed, direct, "-");
    Ok(())
}

fn write_lines(file: &Path, bytes: u64) -> Result<u64> {
    let lines = bytes / LINE.len() as u64;
    let chunk = LINE.repeat(1000);
    let mut out = File::create(file)?;
    for _ in 0..lines / 1000 {
        out.write_all(&chunk)?;
    }
    Ok(lines / 1000 * 1000)
}

/// Lets the disk finish with what was written before, outside of any
/// measurement.
fn settle() -> Result {
    Command::new("/bin/busybox").arg("sync").status()?;
    Ok(())
}

/// The best of some rounds: the first one warms the page cache.
fn cat_to_file(file: &Path, copy: &Path) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        settle()?;
        let out = File::create(copy)?;
        let begin = Instant::now();
        let mut child = Command::new("/bin/busybox")
            .arg("cat")
            .arg(file)
            .stdout(Stdio::from(out))
            .spawn()?;
        child.wait()?;
        best = best.min(begin.elapsed());
    }
    std::fs::remove_file(copy)?;
    Ok(best)
}

async fn wait(daemon: &Daemon, name: &str) -> Result {
    let request = WaitExecutableRequest {
        cell_name: "logs".into(),
        executable_name: name.into(),
    };
    daemon.node.cells().wait(request).await?;
    Ok(())
}

async fn follow(daemon: &Daemon, pid: i64) -> Result<u64> {
    let request = GetSubProcessStreamRequest {
        channel_type: 0,
        process_id: pid,
    };
    let mut stream = daemon
        .node
        .observe()
        .get_sub_process_stream(request)
        .await?
        .into_inner();
    let mut lines = 0;
    while let Some(item) = stream.message().await? {
        lines += u64::from(item.line.len() == LINE.len() - 1);
    }
    Ok(lines)
}

async fn read_by_name(daemon: &Daemon, name: &str) -> Result<u64> {
    let request = ReadLogsRequest {
        cell_name: "logs".into(),
        executable_name: name.into(),
        stdout: true,
        ..ReadLogsRequest::default()
    };
    let mut stream = daemon.node.logs().read(request).await?.into_inner();
    let mut lines = 0;
    while stream.message().await?.is_some() {
        lines += 1;
    }
    Ok(lines)
}
