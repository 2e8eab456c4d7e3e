//! `strata pod create` and `run`: from flags and files to what the node is
//! asked for.

use strata_api::strata::v1::health_check::Probe;
use strata_api::strata::v1::pod_volume::Source;
use strata_api::strata::v1::{PodNetwork, PodSpec, PullPolicy, RestartPolicy};

use crate::common::World;

async fn created(line: &str) -> PodSpec {
    let world = World::new();
    let exit = world.exit(line).await;
    assert_eq!(exit, 0, "{}", world.stderr.take());
    let mut created = std::mem::take(&mut world.node.state.lock().created);
    assert_eq!(created.len(), 1);
    created.remove(0)
}

#[tokio::test]
async fn flags_become_the_pod_spec() {
    let spec = created(
        "strata pod create shop nginx:1.27 -e A=1 --env B=2 -p 8080:80 -p 53:53/udp \
         -v /srv/www:/www:ro -v data:/data --tmpfs /run:1MiB --cpu 500m --memory 64MiB \
         --disk 1GiB --pids 100 --cpu-shares 512 --user 1000:1000 --workdir /srv \
         --entrypoint '/bin/sh -c' --hostname shop1 --address 10.66.0.7 \
         --ulimit nofile=1024:4096 --sysctl net.core.somaxconn=1024 \
         --health-http 80/health --health-interval 5s --health-timeout 1s --health-retries 2 \
         --health-start-period 30s --restart always --grace 90s --stdin -l app=shop \
         --cap-drop ALL --cap-add NET_BIND_SERVICE,CHOWN --read-only --user-namespace \
         --any-system-call --privilege-escalation -- 'exec nginx'",
    )
    .await;
    assert_eq!(spec.arguments, ["exec nginx"]);
    assert_eq!(spec.entrypoint, ["/bin/sh", "-c"]);
    assert_eq!(spec.environment, ["A=1", "B=2"]);
    assert_eq!(spec.ports, ["8080:80", "53:53/udp"]);
    assert_eq!(spec.pull(), PullPolicy::Missing);
    let sources: Vec<_> = spec
        .volumes
        .iter()
        .map(|volume| {
            let source = volume.source.clone().unwrap();
            (source, volume.target.as_str(), volume.read_only)
        })
        .collect();
    assert_eq!(
        sources,
        [
            (Source::Folder("/srv/www".into()), "/www", true),
            (Source::Volume("data".into()), "/data", false),
            (Source::MemoryBytes(1 << 20), "/run", false),
        ]
    );
    let limits = spec.limits.unwrap();
    assert_eq!(limits.cpu_millis, Some(500));
    assert_eq!(limits.memory_bytes, Some(64 << 20));
    assert_eq!(limits.disk_bytes, Some(1 << 30));
    assert_eq!(limits.pids, Some(100));
    assert_eq!(spec.cpu_shares, 512);
    assert_eq!(
        (spec.user.as_str(), spec.hostname.as_str()),
        ("1000:1000", "shop1")
    );
    assert_eq!(spec.working_directory, "/srv");
    assert_eq!(spec.address, "10.66.0.7");
    assert_eq!(spec.rlimits, ["nofile=1024:4096"]);
    assert_eq!(spec.sysctls, ["net.core.somaxconn=1024"]);
    let health = spec.health.clone().unwrap();
    assert!(matches!(health.probe, Some(Probe::Http(p)) if p.port == 80 && p.path == "/health"));
    assert_eq!(health.interval_ms, Some(5_000));
    assert_eq!(health.timeout_ms, Some(1_000));
    assert_eq!(health.retries, Some(2));
    assert_eq!(health.start_period_ms, Some(30_000));
    assert_eq!(spec.restart(), RestartPolicy::Always);
    assert_eq!(spec.stop_grace_ms, Some(90_000));
    assert!(spec.stdin);
    assert_eq!(spec.labels["app"], "shop");
    let security = spec.security.clone().unwrap();
    assert_eq!(security.drop_capabilities, ["ALL"]);
    assert_eq!(security.add_capabilities, ["NET_BIND_SERVICE", "CHOWN"]);
    assert!(security.read_only_root && security.user_namespace == Some(true));
    assert!(security.any_system_call && security.privilege_escalation);
}

#[tokio::test]
async fn omitted_flags_use_the_image_config() {
    let spec = created("strata pod create shop nginx:1.27 --network host").await;
    assert_eq!(spec.network(), PodNetwork::Host);
    assert!(spec.arguments.is_empty() && spec.entrypoint.is_empty());
    assert_eq!(spec.health, None);
    assert_eq!(spec.restart(), RestartPolicy::OnFailure);
    assert_eq!(spec.stop_grace_ms, None);
}

#[tokio::test]
async fn paths_are_absolute_when_they_reach_the_node() {
    let here = std::env::current_dir().unwrap();
    let spec = created("strata pod create shop oci:./web:v1 -v ./www:/www").await;
    assert_eq!(spec.image, format!("oci:{}/web:v1", here.display()));
    let source = spec.volumes[0].source.clone();
    let www = here.join("www").display().to_string();
    assert_eq!(source, Some(Source::Folder(www)));
}

#[tokio::test]
async fn variables_come_from_files_and_from_the_caller() {
    let world = World::new();
    std::fs::write(
        world.path("vars"),
        "# x\nFROM_FILE=1\nPATH\nNO_SUCH_ONE_HERE\n",
    )
    .unwrap();
    let line = "strata pod create shop nginx:1.27 --env-file {}/vars -e FROM_FLAG=2";
    assert_eq!(world.exit(line).await, 0);
    let spec = world.node.state.lock().created.remove(0);
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    assert_eq!(spec.environment, ["FROM_FILE=1", &path, "FROM_FLAG=2"]);
}

#[tokio::test]
async fn a_missing_image_is_pulled_first_and_is_seen_to_be() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod run shop alpine:3 -o name").await, @r#"
    exit 0
    --- stdout
    pod/shop
    --- stderr
    pulling alpine:3
    000000000000: already present
    111111111111: downloading 20MiB
    222222222222: downloading 20MiB
    111111111111: unpacking
    222222222222: done
    111111111111: done
    started shop on 10.66.0.9
    "#);
    let state = world.node.state.lock();
    assert_eq!(
        state.calls,
        ["pull alpine:3 \"\"", "create shop start=true"]
    );
    assert_eq!(state.created[0].pull(), PullPolicy::Missing);
}

#[tokio::test]
async fn present_image_is_pulled_only_on_request() {
    let calls = async |line: &str| {
        let world = World::new();
        assert_eq!(world.exit(line).await, 0);
        let state = world.node.state.lock();
        (state.calls.join("; "), state.created[0].pull())
    };
    assert_eq!(
        calls("strata pod create shop nginx:1.27").await,
        ("create shop start=false".into(), PullPolicy::Missing)
    );
    assert_eq!(
        calls("strata pod create shop nginx:1.27 --pull always").await,
        (
            "pull nginx:1.27 \"\"; create shop start=false".into(),
            PullPolicy::Missing
        )
    );
    assert_eq!(
        calls("strata pod create shop alpine --pull never").await,
        ("create shop start=false".into(), PullPolicy::Never)
    );
}

#[tokio::test]
async fn attaching_follows_the_output_to_the_end() {
    let world = World::with(|state| state.exit_code = 3);
    let line = "strata pod run job2 nginx:1.27 --attach --rm -- false";
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 7
    --- stdout
    first
    raw � bytes
    after a gap
    --- stderr
    started job2 on 10.66.0.9
    a complaint
    warning: 2KiB were lost here
    error: job2 ended: exit 3
    "#);
    let state = world.node.state.lock();
    assert_eq!(
        state.calls,
        ["create job2 start=true", "logs job2", "destroy job2 None"]
    );
    assert_eq!(state.created[0].restart(), RestartPolicy::Never);
}

#[tokio::test]
async fn attaching_with_input_types_to_the_pod() {
    let mut world = World::new();
    world.piped = "hello\nq\n";
    let line = "strata pod run talk nginx:1.27 --attach --stdin --restart always";
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 0
    --- stdout
    ready
    hello
    q
    --- stderr
    started talk on 10.66.0.9
    talk ended: exit 0
    "#);
    let state = world.node.state.lock();
    assert_eq!(
        state.calls,
        ["create talk start=true", "attach talk 100000"]
    );
    assert_eq!(state.created[0].restart(), RestartPolicy::Always);
}

#[tokio::test]
async fn files_may_hold_several_pods() {
    let mut world = World::new();
    world.piped = "name: a\nimage: nginx:1.27\n---\nname: b\nimage: nginx:1.27\nports: ['80:80']\n";
    insta::assert_snapshot!(world.run("strata pod run -f -").await, @r#"
    exit 0
    --- stdout
    --- stderr
    started a on 10.66.0.9
    started b on 10.66.0.9
    "#);
    assert_eq!(world.node.state.lock().created[1].ports, ["80:80"]);
    world.piped = "name: a\nimages: nginx\n";
    let refused = world.run("strata pod run -f -").await;
    assert!(refused.starts_with("exit 2\n"), "{refused}");
    assert!(refused.contains("- does not describe pods"), "{refused}");
    world.piped = "";
    insta::assert_snapshot!(world.run("strata pod run -f -").await, @r"
    exit 2
    --- stdout
    --- stderr
    error: - contains no pods
    ");
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_done() {
    let world = World::new();
    let dry = async |line: &str| {
        world
            .run(&format!("strata pod create {line} --dry-run"))
            .await
    };
    insta::assert_snapshot!(dry("shop nginx:1.27").await, @r#"
    exit 0
    --- stdout
    would create shop from nginx:1.27
    --- stderr
    "#);
    insta::assert_snapshot!(dry("job alpine").await, @r#"
    exit 0
    --- stdout
    job already exists, would not change
    --- stderr
    "#);
    insta::assert_snapshot!(dry("web alpine -o json").await, @r#"
    exit 6
    --- stdout
    [
      {
        "name": "web",
        "action": "refuse",
        "reason": "a pod of that name already exists with a different specification"
      }
    ]
    --- stderr
    "#);
    assert!(world.node.state.lock().calls.is_empty());
}

#[tokio::test]
async fn invalid_flags_are_rejected_before_the_call() {
    let world = World::new();
    for line in [
        "strata pod create shop",
        "strata pod create Shop nginx",
        "strata pod create shop nginx -p 80",
        "strata pod create shop nginx -v data:data",
        "strata pod create shop nginx --cpu 500x",
        "strata pod create shop nginx --health-interval 5s",
        "strata pod create shop nginx --health-tcp 1 --health-http 2",
        "strata pod create shop nginx --ulimit files=3",
        "strata pod create shop nginx --env-file {}/missing -e =",
        "strata pod create shop nginx -f pods.yaml",
        "strata pod run shop nginx --rm",
        "strata pod run -f pods.yaml --attach",
    ] {
        assert_eq!(world.exit(line).await, 2, "{line}");
    }
    assert!(world.node.state.lock().calls.is_empty());
}

#[tokio::test]
async fn the_node_has_the_last_word() {
    let world = World::new();
    let line = "strata pod create shop nginx:1.27 --cap-add FLY --pull never";
    let refused = world.run(line).await;
    assert!(refused.starts_with("exit 6\n"), "{refused}");
    assert!(refused.contains("cannot create the pod shop"), "{refused}");
}

#[tokio::test]
async fn a_terminal_needs_one() {
    insta::assert_snapshot!(World::new().run("strata pod run -it new alpine -- sh").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: -t requires a terminal, and the input is not one
    hint: omit -t; `strata pod create -t` creates a pod to attach to later
    "#);
}
