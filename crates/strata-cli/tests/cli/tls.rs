//! Commands over TLS: certificates, tokens, logins, and those that do not
//! trust each other.

use std::os::unix::fs::PermissionsExt as _;

use strata_identity::{Ca, CertificateSpec};
use strata_types::Role;

use crate::common::World;

#[tokio::test]
async fn a_certificate_opens_the_port() {
    let world = World::new();
    let port = world.tls().await;
    let line = format!("strata cell list -o name --node https://{port} --credentials {{}}/admin");
    assert_eq!(world.exit(&line).await, 0, "{}", world.stderr.take());
    assert_eq!(
        world.stdout.take(),
        "cell/batch\ncell/web\ncell/web/cache\n"
    );
}

#[tokio::test]
async fn a_saved_token_is_shown_with_every_call() {
    let world = World::new();
    let port = world.tls().await;
    std::fs::write(world.path("token"), "the-secret\n").unwrap();
    let line =
        format!("strata login --server https://{port} --ca {{}}/ca.crt --token-file {{}}/token");
    let said = world.run(&line).await.replace(&port, "[PORT]");
    insta::assert_snapshot!(said, @r#"
    exit 0
    --- stdout
    --- stderr
    logged in as ci (admin) by token at https://[PORT]
    "#);
    let file = world.path("home/config.toml");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let said = world
        .run("strata whoami -o yaml")
        .await
        .replace(&port, "[PORT]");
    insta::assert_snapshot!(said, @r#"
    exit 0
    --- stdout
    name: ci
    role: admin
    proof: token
    server: https://[PORT]
    --- stderr
    "#);
}

#[tokio::test]
async fn a_wrong_token_saves_no_login() {
    let world = World::new();
    let port = world.tls().await;
    std::fs::write(world.path("token"), "guessed").unwrap();
    let line =
        format!("strata login --server https://{port} --ca {{}}/ca.crt --token-file {{}}/token");
    insta::assert_snapshot!(world.run(&line).await, @r#"
    exit 5
    --- stdout
    --- stderr
    error: cannot show the current identity
      the token is unknown
    "#);
    assert!(!world.path("home/config.toml").exists());
}

#[tokio::test]
async fn unauthenticated_requests_are_rejected() {
    let world = World::new();
    let port = world.tls().await;
    let anonymous = Ca::open(&world.path("other-ca")).unwrap();
    let spec = CertificateSpec::caller("me".parse().unwrap(), Role::Admin);
    let mut credentials = anonymous.issue(&spec).unwrap();

    credentials.write(&world.path("stranger")).unwrap();
    let line = format!("strata cell list --node https://{port} --credentials {{}}/stranger");
    let said = world.run(&line).await.replace(&port, "[PORT]");
    insta::assert_snapshot!(said, @r#"
    exit 5
    --- stdout
    --- stderr
    error: TLS authentication with https://[PORT] failed
      invalid peer certificate: BadSignature
    hint: use the ca.crt and the certificate that this server issued; --data-dir DIR takes those in DIR/client
    "#);

    // We trust the port; it does not trust us.
    credentials.ca_pem = world.authority().ca_pem();
    credentials.write(&world.path("stranger")).unwrap();
    assert_eq!(world.exit(&line).await, 5);
    let stderr = world.stderr.take();
    assert!(stderr.contains("TLS authentication with"), "{stderr}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_cannot_be_connected_to() {
    let world = World::new();
    world.tls().await;
    let line = "strata cell list --node https://127.0.0.1:1 --credentials {}/admin";
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 3
    --- stdout
    --- stderr
    error: cannot connect to https://127.0.0.1:1
      Connection refused (os error 111)
    hint: check whether the daemon runs there and the port is reachable
    "#);
}
