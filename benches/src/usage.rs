//! What something costs: time on the wall, time of the processors, and the
//! most memory it had.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) processors: Duration,
    pub(crate) peak_kb: u64,
}

impl Cost {
    /// One after the other: memory is not added.
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            wall: self.wall + next.wall,
            processors: self.processors + next.processors,
            peak_kb: self.peak_kb.max(next.peak_kb),
        }
    }

    /// The same time, with what another process did in it.
    pub(crate) fn beside(self, other: Self) -> Self {
        Self {
            wall: self.wall,
            processors: self.processors + other.processors,
            peak_kb: self.peak_kb + other.peak_kb,
        }
    }
}

/// Runs a command to its end, which must be a good one.
#[allow(unsafe_code)]
pub(crate) fn of_command(command: &mut Command) -> Result<Cost> {
    let begin = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut status = 0;
    // SAFETY: all zeroes is a good value of this plain structure.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it is our child, no other code waits for it, and both places are
    // ours to write to.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut used) };
    if waited < 0 || status != 0 {
        return Err(format!("{command:?} ended with {status:#x}").into());
    }
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    Ok(Cost {
        wall: begin.elapsed(),
        processors: time(used.ru_utime) + time(used.ru_stime),
        peak_kb: used.ru_maxrss as u64,
    })
}

/// What a process that goes on does from now on.
pub(crate) struct Meter {
    pid: u32,
    begin: Instant,
    processors: Duration,
}

impl Meter {
    pub(crate) fn start(pid: u32) -> Result<Self> {
        // Makes the peak begin again.
        fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        Ok(Self {
            pid,
            processors: processors(pid)?,
            begin: Instant::now(),
        })
    }

    pub(crate) fn stop(&self) -> Result<Cost> {
        Ok(Cost {
            wall: self.begin.elapsed(),
            processors: processors(self.pid)?.saturating_sub(self.processors),
            peak_kb: peak_kb(self.pid)?,
        })
    }
}

fn processors(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before may have anything in it.
    let (_, rest) = stat.rsplit_once(')').ok_or("a strange stat file")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| -> Result<u64> { Ok(fields.get(at).ok_or("a short stat")?.parse()?) };
    let per_second = rustix::param::clock_ticks_per_second();
    let ticks = ticks(11)? + ticks(12)?;
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

fn peak_kb(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.trim().strip_suffix(" kB"));
    Ok(peak.ok_or("no peak")?.parse()?)
}
