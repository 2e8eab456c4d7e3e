//! `strata image`, whole commands against a fake node.

use crate::common::World;

#[tokio::test]
async fn list_is_a_table() {
    insta::assert_snapshot!(World::new().run("strata image list").await, @r#"
    exit 0
    --- stdout
    NAME                          DIGEST         SIZE  AGE
    docker.io/library/nginx:1.27  aaaaaaaaaaaa  70MiB  1h
    registry.lan:5000/app:v1      bbbbbbbbbbbb  70MiB  1h
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata image list -o name").await, @r#"
    exit 0
    --- stdout
    image/docker.io/library/nginx:1.27
    image/registry.lan:5000/app:v1
    --- stderr
    "#);
    let world = World::with(|state| state.images.clear());
    insta::assert_snapshot!(world.run("strata image list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no images; pull one with `strata image pull IMAGE`
    "#);
}

#[tokio::test]
async fn show_tells_all_and_nothing_steers_the_terminal() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata image show nginx:1.27").await, @r#"
    exit 0
    --- stdout
    Name         docker.io/library/nginx:1.27
    Digest       sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    Platform     linux/amd64
    Size         70MiB packed, 190MiB unpacked
    Created      2026-01-30T12:00:00Z (24h ago)
    Pulled       2026-01-31T11:00:00Z (1h ago)
    Used         2026-01-31T11:59:00Z (1m ago)
    Used by      pod web
    Entrypoint   /docker-entrypoint.sh
    Cmd          nginx -g 'daemon off;'
    User         nginx
    Workdir      /srv
    Ports        80/tcp
    Volumes      /var/cache
    Stop signal  SIGQUIT
    Env          PATH=/usr/bin
    Env          EVIL= [2J
    Label        maintainer=them

    LAYER                                                                    PACKED
    sha256:0000000000000000000000000000000000000000000000000000000000000000   20MiB
    sha256:1111111111111111111111111111111111111111111111111111111111111111   20MiB
    sha256:2222222222222222222222222222222222222222222222222222222222222222   20MiB
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata image show app:v1 -o yaml").await, @r#"
    exit 0
    --- stdout
    name: registry.lan:5000/app:v1
    digest: sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    platform: linux/amd64
    packed_bytes: 73400320
    unpacked_bytes: 199229440
    created_at: "2026-01-30T12:00:00Z"
    pulled_at: "2026-01-31T11:00:00Z"
    used_at: "2026-01-31T11:59:00Z"
    used_by: []
    layers:
    - digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
      diff_id: sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
      packed_bytes: 20971520
    config:
      entrypoint: []
      cmd: []
      env: []
      user: ""
      working_dir: ""
      exposed_ports: []
      volumes: []
      labels: {}
      stop_signal: ""
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata image show redis").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the image redis
      there is no image redis
    hint: `strata image list` shows those there are
    "#);
}

#[tokio::test]
async fn a_pull_tells_each_step_and_ends_with_the_digest() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata image pull nginx").await, @r#"
    exit 0
    --- stdout
    sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc
    --- stderr
    000000000000: already present
    111111111111: downloading 20MiB
    222222222222: downloading 20MiB
    111111111111: unpacking
    222222222222: done
    111111111111: done
    pulled nginx (70MiB in 3 layers)
    "#);
    insta::assert_snapshot!(world.run("strata image pull nginx -q --platform arm64").await, @r#"
    exit 0
    --- stdout
    sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc
    --- stderr
    "#);
    assert_eq!(
        world.node.state.lock().calls,
        ["pull nginx \"\"", "pull nginx \"arm64\""]
    );
}

#[tokio::test]
async fn a_terminal_is_drawn_over() {
    let mut world = World::new();
    world.answer = Some("");
    assert_eq!(world.exit("strata image pull nginx").await, 0);
    let drawn = world.stderr.take();
    assert!(drawn.contains("\u{1b}[2A"), "{drawn:?}");
    assert!(drawn.contains("3 of 3 layers present"), "{drawn:?}");
}

#[tokio::test]
async fn passwords_come_from_files_and_stdin() {
    let mut world = World::new();
    world.answer = Some("from stdin\n");
    std::fs::write(world.path("pw"), "from file\n").unwrap();
    for file in ["{}/pw", "-"] {
        let line = format!("strata image pull x --user me --password-file {file}");
        assert_eq!(world.exit(&line).await, 0);
    }
    assert_eq!(
        world.node.state.lock().calls,
        [
            "pull x \"\" as me \"from file\"",
            "pull x \"\" as me \"from stdin\""
        ]
    );
    assert_eq!(world.exit("strata image pull x --user me").await, 2);
}

#[tokio::test]
async fn local_paths_are_sent_absolute() {
    let world = World::new();
    assert_eq!(
        world.exit("strata image pull oci:some/directory:v1").await,
        0
    );
    let here = std::env::current_dir().unwrap();
    let call = format!("pull oci:{}/some/directory:v1 \"\"", here.display());
    assert_eq!(world.node.state.lock().calls, [call]);
}

#[tokio::test]
async fn remove_asks_tells_and_goes_on_after_a_refusal() {
    let mut world = World::new();
    insta::assert_snapshot!(world.run("strata image remove nginx:1.27 app:v1 --dry-run").await, @r#"
    exit 0
    --- stdout
    would not remove docker.io/library/nginx:1.27: in use by pod web
    would remove registry.lan:5000/app:v1
    --- stderr
    "#);
    world.answer = Some("n\n");
    assert_eq!(world.exit("strata image remove app:v1").await, 6);
    assert!(world.node.state.lock().calls.is_empty());
    world.answer = None;
    world.stderr.take();
    insta::assert_snapshot!(world.run("strata image remove nginx:1.27 app:v1").await, @r#"
    exit 6
    --- stdout
    --- stderr
    removed registry.lan:5000/app:v1, freed 70MiB
    error: cannot remove the image nginx:1.27
      image docker.io/library/nginx:1.27 is in use by pod web
    "#);
}

#[tokio::test]
async fn prune_respects_its_flags() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata image prune").await, @r#"
    exit 0
    --- stdout
    --- stderr
    freed 5MiB
    "#);
    insta::assert_snapshot!(world.run("strata image prune --all --dry-run").await, @r#"
    exit 0
    --- stdout
    would remove registry.lan:5000/app:v1
    would free 5MiB
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata image prune --all --yes -o json").await, @r#"
    exit 0
    --- stdout
    {
      "dry_run": false,
      "images": [
        "registry.lan:5000/app:v1"
      ],
      "freed_bytes": 5242880,
      "blobs": 2,
      "layers": 1
    }
    --- stderr
    "#);
    assert_eq!(world.exit("strata image prune --free 20GiB").await, 0);
    assert_eq!(world.exit("strata image prune --packed").await, 0);
    assert_eq!(
        world.node.state.lock().calls,
        [
            "prune Garbage 0",
            "prune Unused 0",
            "prune Free 21474836480",
            "prune Packed 0"
        ]
    );
    assert_eq!(world.exit("strata image prune --all --packed").await, 2);
}
