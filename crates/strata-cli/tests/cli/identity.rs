//! Tokens, certificates, logins: whole commands against a node that runs
//! alone and so is its own server.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::World;

#[tokio::test]
async fn tokens_are_listed_without_themselves() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata token list").await, @"");
    insta::assert_snapshot!(world.run("strata token list -o json").await, @"");
}

#[tokio::test]
async fn a_new_token_is_alone_on_stdout() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata token create --name ci --role operator --ttl 30d").await, @"");
    insta::assert_snapshot!(world.run("strata token create --name n --join -q").await, @"");
    insta::assert_snapshot!(world.run("strata token create --name n --role viewer -o yaml").await, @"");
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
    insta::assert_snapshot!(world.run("strata token revoke 0192f0c1 nope").await, @"");
}

#[tokio::test]
async fn an_issued_certificate_is_written_for_its_owner_alone() {
    let world = World::new();
    let line = "strata certificate issue --role viewer --name grafana --out {}/g --ttl 1h";
    insta::assert_snapshot!(world.run(line).await, @"");
    for name in ["ca.crt", "client.crt", "client.key"] {
        let mode = std::fs::metadata(world.path("g").join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(world.node.state.lock().calls, ["issue grafana 3600"]);
    insta::assert_snapshot!(world.run(line).await, @"");
}

#[tokio::test]
async fn whoami_is_one_row() {
    insta::assert_snapshot!(World::new().run("strata whoami").await, @"");
}

#[tokio::test]
async fn login_wants_a_server_and_a_proof() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata login").await, @"");
    insta::assert_snapshot!(world.run("strata login --server https://127.0.0.1:1").await, @"");
    assert!(!world.path("home/config.toml").exists());
}
