//! The peer: kubeadm by hand on machines that are up already, as the script
//! beside this file has it.

use std::time::Duration;

use super::bundles::Bundle;
use super::ours::{World, finish};
use crate::Result;

const SCRIPT: &str = include_str!("by-hand.sh");

/// How long it took until both nodes were ready.
pub(crate) struct ByHand {
    /// From the first command on machines that are up.
    pub(crate) whole: Duration,
    /// From `kubeadm init` on.
    pub(crate) from_init: Duration,
    /// From one moment to the next, each by the name of the one it begins with.
    pub(crate) parts: Vec<(String, Duration)>,
}

/// Does it once; the machines are gone afterwards.
pub(crate) fn by_hand(world: &World, bundle: &Bundle) -> Result<ByHand> {
    let script = world.daemon.scratch().join("by-hand.sh");
    std::fs::write(&script, SCRIPT)?;
    let mut command = world.within("/bin/sh".as_ref());
    command
        .arg(script)
        .env("STRATA", &world.binary)
        .env("STRATA_DATA_DIR", world.daemon.data_dir())
        .env("BUNDLE", &bundle.dir)
        .env("VERSION", bundle.version())
        .env("PAUSE", bundle.pause()?);
    let told = finish(command)?;
    let marks: Vec<(&str, f64)> = told.lines().filter_map(mark).collect();
    let at = |name: &str| marks.iter().find(|(known, _)| *known == name);
    let since = |name: &str| {
        let (begin, end) = (at(name)?, at("ready")?);
        Some(Duration::from_secs_f64((end.1 - begin.1).max(0.0)))
    };
    let parts = marks.windows(2).filter_map(|pair| match pair {
        [(name, begin), (_, end)] => {
            let time = Duration::from_secs_f64((end - begin).max(0.0));
            Some(((*name).to_owned(), time))
        }
        _ => None,
    });
    Ok(ByHand {
        whole: since("prepare").ok_or("the script did not begin")?,
        from_init: since("init").ok_or("the script did not come to init")?,
        parts: parts.collect(),
    })
}

/// `mark SECONDS NAME`.
fn mark(line: &str) -> Option<(&str, f64)> {
    let (seconds, name) = line.strip_prefix("mark ")?.split_once(' ')?;
    Some((name, seconds.parse().ok()?))
}
