//! Credentials that were revoked after a backup was taken: a restore does not
//! bring them back.

use std::path::{Path, PathBuf};

use strata_testkit::Daemon;

use crate::hostile::STRATA;
use crate::hostile::client::Caller;

struct Vault(tempfile::TempDir);

impl Vault {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "correct horse\n").unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn config(&self) -> String {
        let (repository, password) = (self.path("repository"), self.path("password"));
        format!("[backup]\nrepository = '{repository}'\npassword_file = '{password}'\n")
    }

    /// A server that begins with a backup.
    async fn restored(&self, backup: &str, flags: &[&str]) -> (Daemon, String) {
        let mut daemon = Daemon::build(STRATA)
            .role("server")
            .config(&self.config())
            .stopped();
        let data = daemon.data_dir().display().to_string();
        let (repository, password) = (self.path("repository"), self.path("password"));
        let words = [
            "restore",
            backup,
            "--repository",
            &repository,
            "--password-file",
            &password,
            "--data-dir",
            &data,
        ];
        let ran = daemon.cli().run([&words, flags].concat()).await.exits(0);
        daemon.restart().await;
        (daemon, ran.stderr)
    }
}

async fn create_token(daemon: &Daemon, name: &str) -> (String, String) {
    let words = ["token", "create", "--role", "operator", "--name", name];
    let words = [&words[..], &["-o", "json"]].concat();
    let made = daemon.told_cli().run(words).await.json();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Issues a certificate into a folder that outlives the server.
async fn issue(daemon: &Daemon, vault: &Vault, role: &str, name: &str) -> PathBuf {
    let out = vault.path(name);
    let words = [
        "certificate",
        "issue",
        "--role",
        role,
        "--name",
        name,
        "--out",
        &out,
    ];
    daemon.told_cli().run(words).await.ok();
    out.into()
}

async fn backup(daemon: &Daemon) -> String {
    daemon.told_cli().run(["backup", "create"]).await.ok();
    let words = ["backup", "list", "-o", "json"];
    let listed = daemon.told_cli().run(words).await.json();
    let all = listed.as_array().unwrap().iter();
    let newest = all.max_by_key(|one| one["takenAtMs"].as_i64());
    newest.unwrap()["id"].as_str().unwrap().to_owned()
}

async fn token_works(daemon: &Daemon, token: &str) -> bool {
    let caller = Caller::of(daemon, Some(token));
    match caller.ask_once("/project/default").await.unwrap().0 {
        200 => true,
        401 => false,
        other => panic!("{other}"),
    }
}

async fn certificate_works(daemon: &Daemon, folder: &Path) -> bool {
    let (server, folder) = (daemon.endpoints().server.unwrap(), folder.display());
    let folder = folder.to_string();
    let words = ["whoami", "--server", &server, "--credentials", &folder];
    let ran = daemon.cli().run(words).await;
    match ran.code {
        Some(0) => true,
        Some(5) => false,
        _ => panic!("{ran:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_revoked_after_a_backup_stays_out_after_its_restore() {
    let vault = Vault::new();
    let first = Daemon::build(STRATA)
        .role("server")
        .config(&vault.config())
        .start()
        .await;
    let (_, kept) = create_token(&first, "kept").await;
    let (revoked_id, revoked) = create_token(&first, "revoked").await;
    let bob = issue(&first, &vault, "operator", "bob").await;
    let eve = issue(&first, &vault, "admin", "eve").await;
    let node = issue(&first, &vault, "node", "n1").await;
    let removed = issue(&first, &vault, "node", "n2").await;
    let before = backup(&first).await;

    // After it: two lose access, one is new and loses it again.
    let mallory = issue(&first, &vault, "admin", "mallory").await;
    let revoke = |role: &'static str, name: &'static str| {
        let words = [
            "certificate",
            "revoke",
            "--yes",
            "--role",
            role,
            "--name",
            name,
        ];
        let cli = first.told_cli();
        async move { cli.run(words).await.ok() }
    };
    let words = ["token", "revoke", "--yes", revoked_id.as_str()];
    first.told_cli().run(words).await.ok();
    revoke("admin", "eve").await;
    revoke("node", "n2").await;
    let later = backup(&first).await;
    assert_ne!(before, later);
    // This no backup knows.
    let (late_id, late) = create_token(&first, "late").await;
    let words = ["token", "revoke", "--yes", late_id.as_str()];
    first.told_cli().run(words).await.ok();
    revoke("admin", "mallory").await;
    drop(first);

    // By default no token and no person has access, but root of the host.
    let (second, told) = vault.restored(&before, &[]).await;
    assert!(told.contains("are revoked"), "{told}");
    for token in [&kept, &revoked, &late] {
        assert!(!token_works(&second, token).await);
    }
    for folder in [&bob, &eve, &mallory, &removed] {
        assert!(!certificate_works(&second, folder).await, "{folder:?}");
    }
    assert!(certificate_works(&second, &node).await, "nodes come back");
    second.told_cli().run(["whoami"]).await.ok();
    let (_, new) = create_token(&second, "new").await;
    assert!(token_works(&second, &new).await);
    // Also one that is issued for a name that was revoked.
    let bob_again = vault.path("bob-again");
    let words = [
        "certificate",
        "issue",
        "--role",
        "operator",
        "--name",
        "bob",
        "--out",
        &bob_again,
    ];
    second.told_cli().run(words).await.ok();
    assert!(certificate_works(&second, Path::new(&bob_again)).await);
    drop(second);

    // Asked to keep them: what the newest backup knows is revoked stays so.
    let (third, told) = vault.restored(&before, &["--keep-credentials"]).await;
    assert!(
        told.contains("took over what the newest backup knows"),
        "{told}"
    );
    assert!(token_works(&third, &kept).await);
    assert!(!token_works(&third, &revoked).await);
    assert!(certificate_works(&third, &bob).await);
    assert!(!certificate_works(&third, &eve).await);
    assert!(!certificate_works(&third, &removed).await);
    drop(third);

    let (fourth, _) = vault.restored(&before, &["--revoke-nodes"]).await;
    assert!(!certificate_works(&fourth, &node).await);
}
