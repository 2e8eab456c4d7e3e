//! How long each step of a root takes on this machine, in microseconds.
//!
//! `cargo run --release -p strata-rootfs --example timing -- [DIR] [ROUNDS] [NAMESPACE]`
//!
//! With a user namespace, such as `/proc/PID/ns/user`, roots are seen by it.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use strata_rootfs::{
    BindOptions, Owner, RootError, RootOptions, Roots, bind, devices, devpts, shm,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().unwrap_or_else(|| "/var/tmp".into());
    let rounds = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let namespace = arguments.next().map(File::open).transpose()?;
    let options = RootOptions {
        id_map: namespace.as_ref().map(AsFd::as_fd),
        ..RootOptions::default()
    };
    let home = tempfile::tempdir_in(parent)?;
    let roots = Roots::open(&home.path().join("roots"))?;
    println!("disk limits: {}", roots.disk_limits());
    println!("{:<28}{:>10}{:>10}", "µs", "median", "worst");

    let layers = make_layers(home.path(), 100)?;
    for (name, disk, count) in [
        ("no limit, 8 layers", None, 8),
        ("no limit, 100 layers", None, 100),
        ("64 MB, 8 layers", Some(64_000_000), 8),
        ("1 GB, 8 layers", Some(1_000_000_000), 8),
    ] {
        println!("-- {name}");
        // The first of a size formats its file system.
        let start = Instant::now();
        roots.create("first", disk)?;
        println!("{:<28}{:>10}", "first create", start.elapsed().as_micros());
        roots.remove("first")?;
        one_root(&roots, disk, &layers[..count], options, rounds)?;
    }
    println!("-- others");
    measure("devices", rounds, || done(devices(Owner::default())))?;
    measure("devpts", rounds, || done(devpts(Owner::default())))?;
    measure("shm", rounds, || done(shm(64 << 20, Owner::default())))?;
    let volume = &layers[0];
    measure("bind", rounds, || {
        done(bind(volume, BindOptions::default()))
    })?;
    Ok(())
}

fn one_root(
    roots: &Roots,
    disk: Option<u64>,
    layers: &[PathBuf],
    options: RootOptions<'_>,
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    let mut steps = [const { Vec::new() }; 4];
    for round in 0..rounds {
        let id = format!("pod-{round}");
        let start = Instant::now();
        roots.create(&id, disk)?;
        let created = Instant::now();
        let mount = roots.mount(&id, layers, options)?;
        let mounted = Instant::now();
        drop(mount);
        let dropped = Instant::now();
        roots.remove(&id)?;
        steps[0].push(created - start);
        steps[1].push(mounted - created);
        steps[2].push(dropped - mounted);
        steps[3].push(dropped.elapsed());
    }
    for (name, times) in ["create", "mount", "unmount", "remove"].iter().zip(steps) {
        print(name, times);
    }
    Ok(())
}

fn measure(
    name: &str,
    rounds: usize,
    mut step: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        step()?;
        times.push(start.elapsed());
    }
    print(name, times);
    Ok(())
}

/// Ends what was made at once: that is part of the time.
fn done(made: Result<OwnedFd, RootError>) -> Result<(), Box<dyn Error>> {
    drop(made?);
    Ok(())
}

fn print(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let median = times[times.len() / 2].as_micros();
    let worst = times[times.len() - 1].as_micros();
    println!("{name:<28}{median:>10}{worst:>10}");
}

fn make_layers(home: &Path, count: usize) -> std::io::Result<Vec<PathBuf>> {
    (0..count)
        .map(|number| {
            let layer = home.join(format!("layers/{number:064x}/root"));
            std::fs::create_dir_all(layer.join("etc"))?;
            std::fs::write(layer.join(format!("etc/file-{number}")), "text\n")?;
            Ok(layer)
        })
        .collect()
}
