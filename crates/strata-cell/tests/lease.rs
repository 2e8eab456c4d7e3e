//! The lease that the shim holds, on the real kernel: when it ends, the cells it
//! holds for end, and nothing else does.
#![allow(clippy::unwrap_used)]

mod world;

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use strata_cell::{InitError, Lease, LeaseFile};
use world::{Cell, World, spec};

/// Ignores the signal to end.
const STUBBORN: &str = "sh -c 'trap \"\" TERM; while :; do sleep 1; done'";

fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap()
}

fn lives(cell: &Cell<'_>) -> bool {
    cell.init.init.is_alive()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::yield_now();
    }
    begin.elapsed()
}

fn fenced<'a>(world: &'a World, name: &str) -> Result<Cell<'a>, InitError> {
    let spec = spec(name);
    let group = world.cgroups.cell(&spec.name);
    group.create(&spec).unwrap();
    group.set_fenced(true).unwrap();
    world.cell(&spec)
}

#[test]
fn cells_under_an_ended_lease_are_killed_and_no_others() {
    let world = World::new("lease");
    let set = |lease| world.shim.init.set_lease(lease, &world.cgroups.root());
    set(Lease::Until(now() + Duration::from_secs(60))).unwrap();
    let assigned = fenced(&world, "assigned").unwrap();
    let local = world.cell(&spec("local")).unwrap();
    let (_, pid) = assigned.launch(1, STUBBORN).unwrap();
    local.launch(1, STUBBORN).unwrap();
    let end = now() + Duration::from_millis(300);
    set(Lease::Until(end)).unwrap();
    assert_eq!(world.shim.init.lease().unwrap(), Lease::Until(end));
    wait_until("the cell under lease to end", || !lives(&assigned));
    assert!(now() >= end, "it ended before its lease did");
    let late = now().saturating_sub(end);
    assert!(late < Duration::from_millis(500), "{late:?}");
    wait_until("its processes to be gone", || {
        !fs::exists(format!("/proc/{pid}")).unwrap()
    });
    assert!(lives(&local));
}

#[test]
fn lease_that_is_renewed_or_waived_ends_nothing() {
    let world = World::new("renewed");
    let set = |lease| world.shim.init.set_lease(lease, &world.cgroups.root());
    set(Lease::Until(now() + Duration::from_secs(60))).unwrap();
    let cell = fenced(&world, "assigned").unwrap();
    let begin = now();
    while now() < begin + Duration::from_secs(1) {
        set(Lease::Until(now() + Duration::from_millis(500))).unwrap();
    }
    assert!(lives(&cell));
    set(Lease::Waived).unwrap();
    let begin = now();
    wait_until("some time", || now() > begin + Duration::from_secs(1));
    assert!(lives(&cell));
    assert_eq!(world.shim.init.lease().unwrap(), Lease::Waived);
}

#[test]
fn no_run_starts_under_an_expired_lease() {
    let world = World::new("late");
    let set = |lease| world.shim.init.set_lease(lease, &world.cgroups.root());
    // None was ever set, none holds any more: both refuse.
    assert!(matches!(
        fenced(&world, "never"),
        Err(InitError::LeaseEnded)
    ));
    set(Lease::Until(now())).unwrap();
    assert!(matches!(
        fenced(&world, "ended"),
        Err(InitError::LeaseEnded)
    ));
    set(Lease::Until(now() + Duration::from_secs(60))).unwrap();
    let cell = fenced(&world, "assigned").unwrap();
    let spec = cell.executable("true");
    let run = cell.prepare(1, &spec);
    let late = run.start_before(&spec, now() - Duration::from_millis(1));
    assert!(matches!(late, Err(InitError::LeaseEnded)), "{late:?}");
    run.start_before(&spec, now() + Duration::from_secs(5))
        .unwrap();
}

#[test]
fn cells_that_appear_after_the_end_are_killed_too() {
    let world = World::new("appear");
    let set = |lease| world.shim.init.set_lease(lease, &world.cgroups.root());
    let spec = spec("late");
    let cell = world.cell(&spec).unwrap();
    set(Lease::Until(now())).unwrap();
    // As if the mark had come late, or the start had been under way.
    world.cgroups.cell(&spec.name).set_fenced(true).unwrap();
    wait_until("what was marked late to end", || !lives(&cell));
}

/// Lets this much time of the boot clock pass, with something done all the while.
fn pass(time: Duration, mut meanwhile: impl FnMut()) {
    let begin = now();
    while now() < begin + time {
        meanwhile();
        std::thread::yield_now();
    }
}

#[test]
fn cell_ends_with_the_lease_it_watches_when_neither_shim_nor_daemon_is_there() {
    let world = World::new("watched");
    let [assigned, local] = ["assigned", "local"].map(|name| world.cell(&spec(name)).unwrap());
    let (_, pid) = assigned.launch(1, STUBBORN).unwrap();
    local.launch(1, STUBBORN).unwrap();
    let file = LeaseFile::new().unwrap();
    let shortly = || now() + Duration::from_millis(500);
    file.set(Lease::Until(shortly())).unwrap();
    assigned.init.init.watch_lease(Some(&file)).unwrap();
    world.shim.init.kill().unwrap();
    pass(Duration::from_secs(1), || {
        file.set(Lease::Until(shortly())).unwrap();
    });
    assert!(lives(&assigned), "it ended under a lease that was renewed");
    let end = shortly();
    file.set(Lease::Until(end)).unwrap();
    // As with the daemon: the inits alone have it.
    drop(file);
    wait_until("the cell under lease to end", || !lives(&assigned));
    assert!(now() >= end, "it ended before its lease did");
    let late = now().saturating_sub(end);
    assert!(late < Duration::from_millis(500), "{late:?}");
    wait_until("its processes to be gone", || {
        !fs::exists(format!("/proc/{pid}")).unwrap()
    });
    assert!(lives(&local));
}

#[test]
fn lease_that_is_waived_or_not_watched_any_more_ends_no_cell() {
    let world = World::new("unwatched");
    let cell = world.cell(&spec("assigned")).unwrap();
    let (file, init) = (LeaseFile::new().unwrap(), &cell.init.init);
    init.watch_lease(Some(&file)).unwrap();
    file.set(Lease::Until(now() + Duration::from_secs(60)))
        .unwrap();
    file.set(Lease::Waived).unwrap();
    pass(Duration::from_millis(2500), || {});
    assert!(lives(&cell));
    init.watch_lease(None).unwrap();
    file.set(Lease::Until(now())).unwrap();
    pass(Duration::from_millis(2500), || {});
    assert!(lives(&cell));
}

#[test]
fn lease_holds_when_another_daemon_knows_none() {
    let world = World::new("handed");
    let cell = world.cell(&spec("assigned")).unwrap();
    let (first, second) = (LeaseFile::new().unwrap(), LeaseFile::new().unwrap());
    let end = now() + Duration::from_secs(1);
    first.set(Lease::Until(end)).unwrap();
    cell.init.init.watch_lease(Some(&first)).unwrap();
    cell.init.init.watch_lease(Some(&second)).unwrap();
    wait_until("the cell to end", || !lives(&cell));
    assert!(now() >= end, "it ended before its lease did");
}
