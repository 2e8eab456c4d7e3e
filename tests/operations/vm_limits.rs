//! Virtual machines are held to what was asked for, and placement counts what
//! they are held to.

use std::fs;
use std::time::{Duration, Instant};

use strata_testkit::guest::Guest;
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{skip, wait_for};

use crate::operations::world::{TEST_TIMEOUT, World};

/// What a node may use beside a guest's memory (decision 42).
const OVERHEAD: u64 = 224 << 20;

/// A disk whose boot sector jumps to itself: a guest that uses all it gets.
fn spinning_disk(world: &World) -> String {
    let mut disk = vec![0; 1 << 20];
    disk[..2].copy_from_slice(&[0xeb, 0xfe]);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    let path = world.daemon.scratch().join("spins.raw");
    fs::write(&path, disk).unwrap();
    path.to_string_lossy().into_owned()
}

/// The first number in a file of the machine's control group; `names` are those
/// of both versions.
fn group_number(world: &World, unit: &str, names: [&str; 2]) -> u64 {
    let groups = world.daemon.host().look().cgroups;
    let mut own: Vec<_> = groups
        .iter()
        .filter(|path| path.ends_with(unit))
        .flat_map(|group| names.map(|name| group.join(name)))
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect();
    own.sort();
    let text = own.first().unwrap_or_else(|| panic!("{unit}: {groups:?}"));
    let word = text
        .split_whitespace()
        .find(|word| word.parse::<u64>().is_ok());
    word.unwrap().parse().unwrap()
}

fn quota_us(world: &World, unit: &str) -> u64 {
    group_number(world, unit, ["cpu.cfs_quota_us", "cpu.max"])
}

fn memory_limit(world: &World, unit: &str) -> u64 {
    group_number(world, unit, ["memory.limit_in_bytes", "memory.max"])
}

/// Cpu time used so far.
fn used(world: &World, unit: &str) -> Duration {
    let groups = world.daemon.host().look().cgroups;
    let own = groups.iter().filter(|path| path.ends_with(unit));
    for group in own {
        if let Ok(text) = fs::read_to_string(group.join("cpuacct.usage")) {
            return Duration::from_nanos(text.trim().parse().unwrap());
        }
        if let Ok(text) = fs::read_to_string(group.join("cpu.stat")) {
            let mut lines = text.lines();
            if let Some(usec) = lines.find_map(|line| line.strip_prefix("usage_usec ")) {
                return Duration::from_micros(usec.parse().unwrap());
            }
        }
    }
    panic!("{unit} has no control group: {groups:?}");
}

async fn vm(world: &World, name: &str, disk: &str, resources: Value) -> (String, String) {
    let fields = json!({ "type": "VM", "uri": disk, "resources": resources });
    let id = world.instance(name, fields).await;
    world.runs(&id, None).await;
    let units = world.cli("vm list -o json").await;
    let units: Value = strata_testkit::serde_json::from_str(&units).unwrap();
    let mut units = units.as_array().unwrap().iter();
    let unit = units
        .find(|vm| vm["labels"]["strata.dev/id"] == *id)
        .unwrap();
    (id, unit["name"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_machines_are_held_to_what_was_asked_for() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let world = World::start("").await;
    let disk = spinning_disk(&world);
    let limits = json!({ "cpu": 250, "memory": 256 });
    let (_, small) = vm(&world, "small", &disk, limits).await;
    assert_eq!(quota_us(&world, &small), 25_000);
    let most = memory_limit(&world, &small);
    let asked = 256_000_000;
    assert!((asked..=asked + OVERHEAD).contains(&most), "{most}");

    // Half a second of cpu time takes two at a quarter of a core, however
    // much the guest wants; what it may use in one period is slack.
    let (begin, before) = (Instant::now(), used(&world, &small));
    wait_for(
        "the guest to use its share",
        TEST_TIMEOUT,
        async || match used(&world, &small) - before {
            spent if spent >= Duration::from_millis(500) => Ok(()),
            spent => Err(format!("{spent:?}")),
        },
    )
    .await;
    let (elapsed, spent) = (begin.elapsed(), used(&world, &small) - before);
    let allowed = elapsed.mul_f64(0.25) + Duration::from_millis(100);
    assert!(spent <= allowed, "{spent:?} of cpu time in {elapsed:?}");

    // Nothing was said of this one: a core and half a gigabyte, which counts.
    let (_, plain) = vm(&world, "plain", &disk, json!({})).await;
    assert_eq!(quota_us(&world, &plain), 100_000);
    assert_eq!(memory_limit(&world, &plain), (512 << 20) + OVERHEAD);
    let nodes = world.rest().get("/node").await;
    let reserved = &nodes[0]["reserved"];
    assert_eq!(reserved["cpu"], 1250, "{nodes:#}");
    let memory = reserved["memory"].as_u64().unwrap();
    let counted = (asked + (512 << 20) + 2 * OVERHEAD).div_ceil(1_000_000);
    assert_eq!(memory, counted, "{nodes:#}");
}
