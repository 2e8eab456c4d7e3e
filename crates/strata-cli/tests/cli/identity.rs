//! Tokens, certificates, logins: whole commands against a node that runs
//! alone and so is its own server.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::World;

#[tokio::test]
async fn tokens_are_listed_without_themselves() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata token list").await, @r#"
    exit 0
    --- stdout
    NAME     ID        KIND  ROLE      LEFT  AGE
    ci       0192f0c1  api   operator  30d   1h
    rack1-7  0192f0c2  join  node      10m   1h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata token list -o json").await, @r#"
    exit 0
    --- stdout
    [
      {
        "name": "ci",
        "id": "0192f0c1",
        "kind": "api",
        "role": "operator",
        "created_at": "2026-01-31T11:00:00Z",
        "expires_at": "2026-03-02T12:00:00Z"
      },
      {
        "name": "rack1-7",
        "id": "0192f0c2",
        "kind": "join",
        "role": "node",
        "created_at": "2026-01-31T11:00:00Z",
        "expires_at": "2026-01-31T12:10:00Z"
      }
    ]
    --- stderr
    "#);
}

#[tokio::test]
async fn a_new_token_is_alone_on_stdout() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata token create --name ci --role operator --ttl 30d").await, @r"
    exit 0
    --- stdout
    the-secret
    --- stderr
    created token 0192f0c3 (api, operator), valid for 30d; it is shown only once:
    ");
    insta::assert_snapshot!(world.run("strata token create --name n --join -q").await, @r#"
    exit 0
    --- stdout
    the-secret
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata token create --name n --role viewer -o yaml").await, @r#"
    exit 0
    --- stdout
    name: "n"
    id: 0192f0c3
    kind: api
    role: viewer
    created_at: "2026-01-31T12:00:00Z"
    expires_at: "2026-01-31T12:15:00Z"
    token: the-secret
    --- stderr
    "#);
    assert_eq!(
        world
            .exit("strata token create --name n --role viewer --join")
            .await,
        2
    );
    assert_eq!(world.exit("strata token create --name n").await, 2);
}

#[tokio::test]
async fn revoking_asks_and_tells() {
    let mut world = World::new();
    world.answer = Some("\n");
    assert_eq!(world.exit("strata token revoke 0192f0c1").await, 6);
    world.answer = None;
    world.stderr.take();
    insta::assert_snapshot!(world.run("strata token revoke 0192f0c1 nope").await, @r#"
    exit 6
    --- stdout
    --- stderr
    revoked 0192f0c1
    error: cannot revoke the token nope
      there is no token nope
    "#);
}

#[tokio::test]
async fn an_issued_certificate_is_written_for_its_owner_alone() {
    let world = World::new();
    let line = "strata certificate issue --role viewer --name grafana --out {}/g --ttl 1h";
    insta::assert_snapshot!(world.run(line).await, @r"
    exit 0
    --- stdout
    --- stderr
    issued grafana (viewer) into {}/g, valid until 2026-02-01T12:00:00Z
    ");
    for name in ["ca.crt", "client.crt", "client.key"] {
        let mode = std::fs::metadata(world.path("g").join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(world.node.state.lock().calls, ["issue grafana 3600"]);
    insta::assert_snapshot!(world.run(line).await, @r"
    exit 6
    --- stdout
    --- stderr
    error: {}/g already contains credentials
    hint: choose another directory, or overwrite them with --force
    ");
}

#[tokio::test]
async fn whoami_is_one_row() {
    let world = World::new();
    assert_eq!(world.exit("strata whoami").await, 0);
    let stdout = world.stdout.take();
    let row: Vec<_> = stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["uid-0", "admin", "socket"]);
}

#[tokio::test]
async fn login_wants_a_server_and_a_proof() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata login").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: no server specified
    hint: add --server https://HOST:PORT
    "#);
    insta::assert_snapshot!(world.run("strata login --server https://127.0.0.1:1").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: no credentials specified
    hint: add --credentials DIRECTORY, or --token-file FILE and --ca FILE
    "#);
    assert!(!world.path("home/config.toml").exists());
}
