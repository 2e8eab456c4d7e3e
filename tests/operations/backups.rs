//! Backups as people make, look at, restore and forget them: by the command
//! line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use strata_testkit::serde_json::{Value, from_str, json};
use strata_testkit::wait_for;

use crate::operations::world::{POOL, TEST_TIMEOUT, World};

async fn ids(world: &World) -> Vec<String> {
    let listed: Value = from_str(&world.cli("backup list -o json").await).unwrap();
    let listed = listed.as_array().unwrap().iter();
    listed
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_made_shown_restored_and_forgotten_by_hand() {
    let world = World::start(POOL).await;
    world.cli("storage volume create data --size 100MB").await;
    let data = world.volume("data");
    fs::create_dir(data.join("etc")).unwrap();
    fs::write(data.join("etc/app.toml"), "first").unwrap();
    world.cli("backup create").await;
    fs::write(data.join("etc/app.toml"), "second").unwrap();
    fs::write(data.join("more"), vec![5_u8; 2_000_000]).unwrap();
    world.cli("backup create --limit 20MB/s").await;
    let made = ids(&world).await;
    assert_eq!(made.len(), 2);
    let latest: Value = from_str(&world.cli("backup show latest -o json").await).unwrap();
    assert_eq!(latest["id"], made[1].as_str());
    assert_eq!(latest["volumes"], json!(["data"]));
    assert_eq!(latest["hasState"], true, "{latest}");
    let shown = world.cli(&format!("backup show {}", &made[0][..8])).await;
    assert!(shown.contains(&made[0]), "{shown}");
    world.cli("backup verify latest --percent 100").await;

    // A volume beside the one that is there.
    let first = &made[0];
    world
        .cli(&format!("backup restore {first} --volume data --as old"))
        .await;
    let old = world.volume("old").join("etc/app.toml");
    assert_eq!(fs::read_to_string(old).unwrap(), "first");
    assert!(!world.volume("old").join("more").exists());
    // Existing data is not overwritten by default.
    let cli = world.daemon.cli_with_endpoints();
    let words = ["backup", "restore", first, "--volume", "data"];
    let refused = cli.run(words).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("replace"), "{refused:?}");
    let words = ["backup", "restore", first, "--volume", "nothing"];
    let refused = cli.run(words).await.exits(6);
    assert!(refused.stderr.contains("data"), "{refused:?}");
    // One file of it.
    fs::remove_file(data.join("etc/app.toml")).unwrap();
    world
        .cli("backup restore latest --volume data --path etc/app.toml")
        .await;
    let back = fs::read_to_string(data.join("etc/app.toml")).unwrap();
    assert_eq!(back, "second");

    // What goes is told first.
    let plan = world.cli("backup prune --keep-last 1 --dry-run").await;
    assert!(plan.contains("would delete 1 backup and keep 1"), "{plan}");
    assert_eq!(ids(&world).await, made);
    world.cli("backup prune --keep-last 1 --yes").await;
    assert_eq!(ids(&world).await, made[1..]);
    world.cli("backup verify latest --percent 100").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_come_and_go() {
    let world = World::start(POOL).await;
    let cli = world.daemon.cli_with_endpoints();
    let add = |name: &'static str, when: &'static str| {
        let words = ["backup", "schedule", "add", name, "--when", when];
        [words.as_slice(), &["--keep-last", "3"]].concat()
    };
    cli.run(add("nightly", "30 2 * * *")).await.ok();
    for bad in ["never", "61 * * * *", "* * * *"] {
        let refused = cli.run(add("bad", bad)).await;
        assert_ne!(refused.code, Some(0), "{bad}: {refused:?}");
    }
    let listed: Value = from_str(&world.cli("backup schedule list -o json").await).unwrap();
    let names: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["nightly"], "{listed}");
    world.cli("backup schedule remove nightly --yes").await;
    let listed = world.cli("backup schedule list -o json").await;
    assert_eq!(listed.trim(), "[]");
    // Nobody asked for one yet.
    assert!(ids(&world).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_repository_password_is_reported() {
    let vault = tempfile::tempdir().unwrap();
    let path = |name: &str| vault.path().join(name).display().to_string();
    let config = |password: &str| {
        fs::write(path(password), password).unwrap();
        let (repository, file) = (path("repository"), path(password));
        format!("{POOL}[backup]\nrepository = '{repository}'\npassword_file = '{file}'\n")
    };
    let first = World::start(&config("right")).await;
    first.cli("backup create").await;
    assert_eq!(ids(&first).await.len(), 1);
    let second = World::start(&config("wrong")).await;
    let cli = second.daemon.cli_with_endpoints();
    for words in [["backup", "list"], ["backup", "create"]] {
        let refused = cli.run(words).await;
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("password"), "{refused:?}");
        assert!(!refused.stderr.contains("wrong\n"), "{refused:?}");
    }
    // Neither does it begin again over what others have there.
    assert_eq!(ids(&first).await.len(), 1);
}

/// A restic that is at work in a repository for as long as it is held.
struct BusyRestic(std::process::Child);

impl Drop for BusyRestic {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl BusyRestic {
    async fn begin(repository: &Path, password: &str) -> Self {
        let child = std::process::Command::new("restic")
            .args(["--no-cache", "--quiet", "--repo"])
            .arg(repository)
            .args(["backup", "--stdin"])
            .env("RESTIC_PASSWORD", password)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("restic is there");
        let busy = Self(child);
        wait_for("the lock of restic", TEST_TIMEOUT, async || {
            let locks = fs::read_dir(repository.join("locks")).unwrap().count();
            match locks {
                0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        busy
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_waits_for_the_lock_of_a_repository_that_has_to_be_repaired() {
    let vault = tempfile::tempdir().unwrap();
    let path = |name: &str| vault.path().join(name);
    fs::write(path("password"), "right").unwrap();
    let (repository, file) = (path("repository"), path("password"));
    let config = format!("{POOL}[backup]\nrepository = {repository:?}\npassword_file = {file:?}\n");
    let world = World::start(&config).await;
    world.cli("backup create").await;
    for pack in walk(&repository.join("data")) {
        let mut bytes = fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&pack, bytes).unwrap();
    }
    let busy = BusyRestic::begin(&repository, "right").await;
    let id = world.begin("/backup", json!({})).await;
    let waits = |one: &Value| {
        assert_ne!(one["status"], "COMPLETED", "{one:#}");
        one.to_string().contains("damaged, and it is in use by")
    };
    world.until(&format!("/operation/{id}"), waits).await;
    drop(busy);
    // Killed, restic leaves its lock; the machine it was on is known to be ours.
    let ended = world.ended(&id).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended:#}");
    let verified = world.cli("backup verify latest --percent 100").await;
    assert!(!verified.contains("damaged"), "{verified}");
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|one| one.unwrap().path());
    let (dirs, mut files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.extend(dirs.iter().flat_map(|dir| walk(dir)));
    files
}
