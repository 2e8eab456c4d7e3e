//! Strata can be all there is on a machine: in a QEMU guest with Debian's
//! cloud kernel our binary is PID 1. Everything is asked over the node's TLS
//! port from outside. One boot serves all of it, because a boot takes seconds
//! and most machines that run this have no KVM for it.
//!
//! The guest has cgroup v2, so the mechanism's own tests run there too: this
//! very file, static as everything here, is packed into the machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a test may tell how it is going")]

#[path = "../crates/strata-cell/tests/cell.rs"]
mod mechanism;

#[path = "machine/cells.rs"]
mod cells;
#[path = "machine/host_lifecycle.rs"]
mod host_lifecycle;
#[path = "machine/host_shell.rs"]
mod host_shell;
#[path = "machine/limits.rs"]
mod limits;
#[path = "machine/pods.rs"]
mod pods;
#[path = "machine/roots.rs"]
mod roots;
#[path = "machine/spawn.rs"]
mod spawn;

use std::io::Write as _;
use std::time::Instant;

use host_shell::Machine;
use strata_testkit::guest::{Guest, Image};
use strata_testkit::skip;

/// Says it whether or not the test's output is captured.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "machine: {text}");
}

/// Runs a check and prints how long it took.
macro_rules! check {
    ($check:expr) => {{
        let begin = Instant::now();
        $check.await;
        let name = stringify!($check).split('(').next().unwrap_or_default();
        println!("{name}: {:.1} s", begin.elapsed().as_secs_f64());
    }};
}

#[tokio::test]
async fn a_machine_runs_on_strata_alone() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let begin = Instant::now();
    let scratch = tempfile::tempdir().unwrap();
    let archive = scratch.path().join("busybox.tar");
    strata_testkit::images::Image::busybox().write_archive(&archive, "busybox:1");
    let image = Image {
        program: env!("CARGO_BIN_EXE_strata").into(),
        programs: vec![("bin/mechanism".to_owned(), std::env::current_exe().unwrap())],
        files: vec![(pods::IMAGE.to_owned(), archive)],
        start: host_shell::START.to_owned(),
    };
    let guest = Guest::boot(&image).unwrap();
    println!("image: {:.1} s", begin.elapsed().as_secs_f64());
    let machine = Machine::new(guest).await;

    check!(host_lifecycle::the_machine_is_set_up(&machine));
    check!(limits::a_cells_limits_are_in_its_files(&machine));
    check!(limits::limits_hold(&machine));
    check!(limits::disks_are_limited_and_measured(&machine));
    check!(limits::cells_nest(&machine));
    check!(cells::namespaces_are_the_cells_own(&machine));
    check!(cells::several_run_at_once_and_their_output_arrives(
        &machine
    ));
    check!(cells::stop_takes_along_all_that_was_forked(&machine));
    check!(cells::free_leaves_nothing(&machine));
    check!(roots::roots_are_as_asked_for(&machine));
    check!(pods::pods_have_users_of_their_own(&machine));
    check!(pods::pods_find_their_limits(&machine));
    check!(pods::program_can_be_pid_1(&machine));
    check!(spawn::machines_are_spawned_in_it(&machine));
    check!(host_lifecycle::orphans_are_reaped(&machine));
    check!(host_lifecycle::a_storm_leaves_no_zombies(&machine));
    check!(host_lifecycle::the_mechanism_holds_on_cgroup_v2(&machine));
    check!(host_lifecycle::the_daemons_death_is_a_restart(&machine));
    check!(host_lifecycle::it_switches_itself_off(machine));
    println!("all: {:.1} s", begin.elapsed().as_secs_f64());
}
