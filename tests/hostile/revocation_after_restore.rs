//! Credentials that were revoked, and roots of the CA that were retired, after a
//! backup was taken: a restore does not bring them back.

use std::path::{Path, PathBuf};

use strata_testkit::Daemon;

use crate::hostile::STRATA;
use crate::hostile::http2_client::Caller;

struct BackupVault(tempfile::TempDir);

impl BackupVault {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("password"), "correct horse\n").unwrap();
        Self(dir)
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
    let made = daemon.cli_with_endpoints().run(words).await.json();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Issues a certificate into a directory that outlives the server.
async fn issue(daemon: &Daemon, vault: &BackupVault, role: &str, name: &str) -> PathBuf {
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
    daemon.cli_with_endpoints().run(words).await.ok();
    out.into()
}

async fn backup(daemon: &Daemon) -> String {
    daemon
        .cli_with_endpoints()
        .run(["backup", "create"])
        .await
        .ok();
    let words = ["backup", "list", "-o", "json"];
    let listed = daemon.cli_with_endpoints().run(words).await.json();
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

async fn certificate_works(daemon: &Daemon, dir: &Path) -> bool {
    let (server, dir) = (daemon.endpoints().server.unwrap(), dir.display());
    let dir = dir.to_string();
    let words = ["whoami", "--server", &server, "--credentials", &dir];
    let ran = daemon.cli().run(words).await;
    match ran.code {
        Some(0) => true,
        Some(5) => false,
        _ => panic!("{ran:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_revoked_after_a_backup_stay_revoked_after_its_restore() {
    let vault = BackupVault::new();
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
        let cli = first.cli_with_endpoints();
        async move { cli.run(words).await.ok() }
    };
    let words = ["token", "revoke", "--yes", revoked_id.as_str()];
    first.cli_with_endpoints().run(words).await.ok();
    revoke("admin", "eve").await;
    revoke("node", "n2").await;
    let later = backup(&first).await;
    assert_ne!(before, later);
    // This no backup knows.
    let (late_id, late) = create_token(&first, "late").await;
    let words = ["token", "revoke", "--yes", late_id.as_str()];
    first.cli_with_endpoints().run(words).await.ok();
    revoke("admin", "mallory").await;
    drop(first);

    // By default no token and no person has access, but root of the host.
    let (second, told) = vault.restored(&before, &[]).await;
    assert!(told.contains("are revoked"), "{told}");
    for token in [&kept, &revoked, &late] {
        assert!(!token_works(&second, token).await);
    }
    for dir in [&bob, &eve, &mallory, &removed] {
        assert!(!certificate_works(&second, dir).await, "{dir:?}");
    }
    assert!(certificate_works(&second, &node).await, "nodes come back");
    second.cli_with_endpoints().run(["whoami"]).await.ok();
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
    second.cli_with_endpoints().run(words).await.ok();
    assert!(certificate_works(&second, Path::new(&bob_again)).await);
    drop(second);

    // Asked to keep them: what the newest backup knows is revoked stays so.
    let (third, told) = vault.restored(&before, &["--keep-credentials"]).await;
    assert!(told.contains("applied from the newest backup"), "{told}");
    assert!(token_works(&third, &kept).await);
    assert!(!token_works(&third, &revoked).await);
    assert!(certificate_works(&third, &bob).await);
    assert!(!certificate_works(&third, &eve).await);
    assert!(!certificate_works(&third, &removed).await);
    drop(third);

    let (fourth, _) = vault.restored(&before, &["--revoke-nodes"]).await;
    assert!(!certificate_works(&fourth, &node).await);
}

/// A copy of credentials that trusts what a server trusts now.
fn with_roots_of(folder: &Path, daemon: &Daemon) -> PathBuf {
    let to = folder.with_extension("updated");
    std::fs::create_dir_all(&to).unwrap();
    for file in ["client.crt", "client.key"] {
        std::fs::copy(folder.join(file), to.join(file)).unwrap();
    }
    std::fs::copy(daemon.data_dir().join("ca/ca.crt"), to.join("ca.crt")).unwrap();
    to
}

/// Backups from before a rotation of the CA and from the middle of one have the
/// key of a root that was retired later.
#[tokio::test(flavor = "multi_thread")]
async fn retired_root_stays_out_after_a_restore_from_before_and_amid_its_rotation() {
    let vault = BackupVault::new();
    let first = Daemon::build(STRATA)
        .role("server")
        .config(&vault.config())
        .start()
        .await;
    let step = async |words: &[&str]| {
        first
            .cli_with_endpoints()
            .run(words.iter().copied())
            .await
            .ok();
    };
    let old = issue(&first, &vault, "node", "n1").await;
    let before = backup(&first).await;
    step(&["ca", "rotate"]).await;
    let introduced = backup(&first).await;
    step(&["ca", "activate"]).await;
    let issuing = backup(&first).await;
    let new = issue(&first, &vault, "node", "n2").await;
    step(&["ca", "retire", "--force", "--yes"]).await;
    let verified = first.cli_with_endpoints().run(["audit", "verify"]).await;
    let noted = verified.ok().trim().rsplit(' ').next().unwrap().to_owned();
    backup(&first).await;
    let root = std::fs::read(first.data_dir().join("ca/ca.crt")).unwrap();
    drop(first);

    for backup in [&before, &introduced, &issuing] {
        let (restored, told) = vault.restored(backup, &["--keep-credentials"]).await;
        assert!(told.contains("the CA"), "{told}");
        let ca = restored.data_dir().join("ca");
        assert_eq!(std::fs::read(ca.join("ca.crt")).unwrap(), root);
        assert!(!ca.join("next.crt").exists());
        let (old, new) = (
            with_roots_of(&old, &restored),
            with_roots_of(&new, &restored),
        );
        let whoami = async |folder: &Path| {
            let (server, folder) = (restored.endpoints().server.unwrap(), folder.display());
            let folder = folder.to_string();
            let words = ["whoami", "--server", &server, "--credentials", &folder];
            restored.cli().run(words).await
        };
        let refused = whoami(&old).await;
        assert_ne!(
            refused.code,
            Some(0),
            "a certificate of the retired root works"
        );
        whoami(&new).await.ok();
        // The audit log is the newest too.
        let words = ["audit", "verify", "--noted", &noted];
        restored.cli_with_endpoints().run(words).await.ok();
    }
}

/// A repository that several control planes share: the newest backup of all is
/// not the newest of this one.
#[tokio::test(flavor = "multi_thread")]
async fn backup_of_another_control_plane_hides_no_revocation() {
    let vault = BackupVault::new();
    let start = async || {
        let build = Daemon::build(STRATA).role("server");
        build.config(&vault.config()).start().await
    };
    let first = start().await;
    let (id, token) = create_token(&first, "revoked").await;
    let before = backup(&first).await;
    let words = ["token", "revoke", "--yes", id.as_str()];
    first.cli_with_endpoints().run(words).await.ok();
    backup(&first).await;
    drop(first);
    let other = start().await;
    backup(&other).await;
    drop(other);
    let (restored, _) = vault.restored(&before, &["--keep-credentials"]).await;
    assert!(!token_works(&restored, &token).await);
}
