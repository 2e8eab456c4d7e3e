//! The disaster drill: everything of a control plane is gone but its
//! repository of backups and the password of that, and it begins again
//! elsewhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use strata_testkit::serde_json::{Value, json};
use strata_testkit::{holds, wait_for};

use crate::operations::world::{POOL, World};

/// Not of this world: what remains.
struct SurvivingRepository {
    dir: tempfile::TempDir,
}

impl SurvivingRepository {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("password"), "correct horse\n").unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn config(&self) -> String {
        let (repository, password) = (self.path("repository"), self.path("password"));
        format!("{POOL}[backup]\nrepository = '{repository}'\npassword_file = '{password}'\n")
    }

    /// The words that restore everything into the directory of a world.
    fn restore(&self, world: &World) -> Vec<String> {
        let data = world.daemon.data_dir();
        let config = data.with_file_name("restore.toml");
        fs::write(&config, POOL).unwrap();
        let (config, data) = (config.display().to_string(), data.display().to_string());
        let (repository, password) = (self.path("repository"), self.path("password"));
        let named = [
            ("--repository", repository),
            ("--password-file", password),
            ("--config", config),
            ("--data-dir", data),
        ];
        let named = named
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value]);
        std::iter::once("restore".to_owned()).chain(named).collect()
    }

    /// Debian's restic on the repository, which must succeed.
    fn restic(&self, words: &[&str]) {
        let output = Command::new("restic")
            .args(["-r", &self.path("repository"), "--password-file"])
            .args([&self.path("password"), "--no-cache", "-q"])
            .args(words)
            .output()
            .expect("restic is installed");
        assert!(output.status.success(), "{output:?}");
    }
}

/// The same bytes each time, and no two blocks alike.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

async fn writes_into_its_volume(world: &World) -> String {
    world.create_volume(json!({ "name": "data" })).await;
    let script = "trap exit TERM; if [ ! -e /data/file ]; then echo precious > /data/file; fi; \
                  date > /data/starts; while :; do sleep 60 & wait; done";
    let fields = json!({
        "environment": [format!("SCRIPT={script}")],
        "volumes": ["pool=data:/data"],
    });
    let web = world.instance("web", fields).await;
    world.runs(&web, None).await;
    let written = world.volume("data");
    let told = |name: &str| fs::read_to_string(written.join(name)).unwrap_or_default();
    wait_for(
        "the file",
        crate::operations::world::TEST_TIMEOUT,
        async || strata_testkit::same(told("file"), &"precious\n".to_owned()),
    )
    .await;
    fs::write(written.join("noise"), noise(3_000_000)).unwrap();
    web
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_is_restored_from_a_backup_alone() {
    let vault = SurvivingRepository::new();
    let mut first = World::start(&vault.config()).await;
    let web = writes_into_its_volume(&first).await;
    first.cli("backup create").await;
    // What comes after the backup is not in it.
    fs::write(first.volume("data").join("late"), "lost").unwrap();
    let image = first.image.clone();

    // Everything is gone.
    first.daemon.kill();
    let data = first.daemon.data_dir();
    let down = ["down", "--purge", "--yes", "--data-dir"];
    let mut words: Vec<&str> = down.to_vec();
    let shown = data.display().to_string();
    words.push(&shown);
    first.daemon.cli().run(words).await.ok();
    assert!(!data.exists());

    // Another program reads it, byte for byte.
    let aside = vault.path("aside");
    vault.restic(&["check", "--read-data"]);
    vault.restic(&["restore", "latest", "--target", &aside]);
    let volume = Path::new(&aside).join("volumes/data/data");
    assert_eq!(
        fs::read_to_string(volume.join("file")).unwrap(),
        "precious\n"
    );
    assert!(fs::read(volume.join("noise")).unwrap() == noise(3_000_000));
    assert!(!volume.join("late").exists());

    // Elsewhere, in another directory and another network.
    let mut second = World::stopped(&vault.config()).await;
    second.image = image;
    let words = vault.restore(&second);
    let cli = second.daemon.cli();
    let restored = cli.run(&words).await.exits(0);
    assert!(restored.stderr.contains("1 volumes"), "{restored:?}");
    // Nothing is written over.
    let again = cli.run(&words).await.exits(6);
    assert!(again.stderr.contains("is not empty"), "{again:?}");

    second.daemon.restart().await;
    let runs = second.runs(&web, None).await;
    assert_eq!(runs["name"], "web");
    let data = second.volume("data");
    assert_eq!(fs::read_to_string(data.join("file")).unwrap(), "precious\n");
    assert!(fs::read(data.join("noise")).unwrap() == noise(3_000_000));
    assert!(!data.join("late").exists());
    let pool = second.rest().get("/storage").await;
    assert_eq!(pool["state"], "ONLINE", "{pool}");
    let backups = second.rest().get("/backup").await;
    assert_eq!(backups.as_array().unwrap().len(), 1, "{backups}");
    // It is a control plane as any other: it makes the next backup.
    let made = second.done("/backup", json!({})).await;
    assert_ne!(made["id"], Value::Null);
    let backups = second.rest().get("/backup").await;
    assert_eq!(backups.as_array().unwrap().len(), 2, "{backups}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_cut_short_is_done_again() {
    let vault = SurvivingRepository::new();
    let first = World::start(&vault.config()).await;
    for name in ["one", "two", "three"] {
        first.create_volume(json!({ "name": name })).await;
        crate::operations::files::fill(&first.volume(name), 12);
    }
    first.cli("backup create").await;
    let mut second = World::stopped(&vault.config()).await;
    let (cli, words) = (second.daemon.cli(), vault.restore(&second));
    let data = second.daemon.data_dir();
    // Further each time.
    let signs: [&dyn Fn() -> bool; 5] = [
        &|| data.join("restoring").exists(),
        &|| data.join("store").exists(),
        &|| data.join("pool/mount/volumes").exists(),
        &|| data.join("pool/mount/volumes/one").exists(),
        &|| data.join("pool/mount/volumes/three").exists(),
    ];
    for sign in signs {
        let mut restoring = cli.command(&words).spawn().unwrap();
        wait_for(
            "a sign",
            crate::operations::world::TEST_TIMEOUT,
            async || holds(sign() || restoring.try_wait().unwrap().is_some()),
        )
        .await;
        let _ = restoring.kill();
        restoring.wait().unwrap();
    }
    if data.join("restoring").exists() {
        cli.run(&words).await.ok();
    }
    second.daemon.restart().await;
    let volumes = second.rest().get("/storage/volume").await;
    assert_eq!(volumes.as_array().unwrap().len(), 3, "{volumes}");
    for name in ["one", "two", "three"] {
        crate::operations::files::check(&second.volume(name), 12);
    }
    // The operation that made the backup was under way in it. It comes to its
    // end here as well, and finds that it has made it.
    let over = |one: &Value| one["status"] == "COMPLETED";
    let all_over = |all: &Value| all.as_array().is_some_and(|all| all.iter().all(over));
    second.until("/operation", all_over).await;
    let backups = second.rest().get("/backup").await;
    assert_eq!(backups.as_array().unwrap().len(), 1, "{backups}");
    second.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hypervisors_of_before_are_not_there_and_can_be_made_again() {
    let vault = SurvivingRepository::new();
    let config = format!("{}[scheduler]\nlease_seconds = 3\n", vault.config());
    let mut first = World::start(&config).await;
    first.create_volume(json!({ "name": "data" })).await;
    first.done("/hypervisor/local-1/create", Value::Null).await;
    // It runs on a machine that is there no more afterwards.
    let fields = json!({ "volumes": ["pool=data:/data"] });
    let outside = first.image.clone();
    first.use_image_within(&["local-1"]).await;
    first.close_own_node().await;
    let web = first.instance("web", fields).await;
    first.runs(&web, Some("local-1")).await;
    first.cli("backup create").await;
    let nodes = first.rest().get("/node").await;
    let mut names = nodes.as_array().unwrap().iter().map(|node| &node["name"]);
    let host = names.find(|name| *name != "local-1").unwrap();
    let host = host.as_str().unwrap().to_owned();
    drop(first);

    let mut second = World::stopped(&config).await;
    let (cli, words) = (second.daemon.cli(), vault.restore(&second));
    cli.run(&words).await.ok();
    second.daemon.restart().await;
    second.image = outside;
    // Until it is removed, the host of before could still run what the backup
    // has elsewhere.
    second
        .until(&format!("/node/{host}"), |node| node["status"] == "LOST")
        .await;
    second.cli(&format!("node remove {host} --yes")).await;
    // What is not there is told, goes, and comes again.
    second
        .done("/hypervisor/local-1/destroy", Value::Null)
        .await;
    let machine = second.rest().get("/machine/local-1").await;
    assert_eq!(machine["state"], "AVAILABLE_TO_CREATE", "{machine:#}");
    second.done("/hypervisor/local-1/create", Value::Null).await;
    second.use_image_within(&["local-1"]).await;
    second.close_own_node().await;
    second.runs(&web, Some("local-1")).await;
}
