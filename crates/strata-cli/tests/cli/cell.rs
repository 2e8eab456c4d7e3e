//! `strata cell`, whole commands against a fake node.

use strata_api::strata::v1::{ExecutableOptions, ExecutableRestart, ExecutableState};

use crate::common::World;

#[tokio::test]
async fn list_is_a_table() {
    insta::assert_snapshot!(World::new().run("strata cell list").await, @r#"
    exit 0
    --- stdout
    NAME       STATE  RUNNING  MEMORY  PIDS  AGE
    batch      dead       0/0      0B     0  2d
    web        ready      1/2   12MiB     3  3m12s
    web/cache  ready      0/0   12MiB     3  9s
    --- stderr
    "#);
}

#[tokio::test]
async fn list_wide_tells_more() {
    insta::assert_snapshot!(World::new().run("strata cell list --under web -o wide").await, @r#"
    exit 0
    --- stdout
    NAME       STATE  RUNNING  MEMORY  PIDS   PEAK  CPU-TIME  SHARES  LIMITS                                             NETWORK   ROOT  CGROUP  INIT  AGE
    web        ready      1/2   12MiB     3  20MiB     1.23s    1024  1.5 cpus, on cpus 0-1, memory max 64MiB, 100 pids  host      host  v1      4700  3m12s
    web/cache  ready      0/0   12MiB     3  20MiB     1.23s    1024  none                                               isolated  host  v1      4700  9s
    --- stderr
    "#);
}

#[tokio::test]
async fn list_names_can_be_piped() {
    insta::assert_snapshot!(World::new().run("strata cell list -o name").await, @r#"
    exit 0
    --- stdout
    cell/batch
    cell/web
    cell/web/cache
    --- stderr
    "#);
}

#[tokio::test]
async fn empty_cell_list_prints_a_hint_to_stderr() {
    let world = World::with(|state| state.cells.clear());
    insta::assert_snapshot!(world.run("strata cell list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no cells; create one with `strata cell allocate NAME`
    "#);
    insta::assert_snapshot!(world.run("strata cell list -o json").await, @r#"
    exit 0
    --- stdout
    []
    --- stderr
    "#);
}

#[tokio::test]
async fn list_watches_for_changes_until_the_end_of_the_stream() {
    insta::assert_snapshot!(World::new().run("strata cell list -w -o name").await, @r#"
    exit 0
    --- stdout
    cell/batch
    cell/web
    cell/web/cache
    --- stderr
    "#);
}

#[tokio::test]
async fn show_tells_all() {
    insta::assert_snapshot!(World::new().run("strata cell show web").await, @r#"
    exit 0
    --- stdout
    Name       web
    State      ready
    Allocated  2026-01-31T11:56:48Z (3m12s ago)
    Isolation  cgroup v1, network host, root host, init 4700
    Shares     1024
    Limits     1.5 cpus, on cpus 0-1, memory max 64MiB, 100 pids
    Memory     12MiB (peak 20MiB)
    Cpu        1.23s in 3 pids
    Io         4KiB read, 1MiB written

    NAME  STATE     PID  RESTARTS  COMMAND                 AGE
    main  running  4711         -  nginx -g 'daemon off;'  1m
    job   exit 3   4712         -  sh -c 'exit 3'          1m
    --- stderr
    "#);
}

#[tokio::test]
async fn json_has_a_stable_shape() {
    insta::assert_snapshot!(World::new().run("strata cell show web -o json").await, @r#"
    exit 0
    --- stdout
    {
      "name": "web",
      "state": "ready",
      "cpu_shares": 1024,
      "limits": {
        "cpus": 1.5,
        "cpuset": "0-1",
        "memory_max": 67108864,
        "pids_max": 100
      },
      "network": "host",
      "root": "host",
      "cgroup": "v1",
      "init_pid": 4700,
      "allocated_at": "2026-01-31T11:56:48Z",
      "usage": {
        "cpu_usec": 1230000,
        "memory_bytes": 12582912,
        "memory_peak_bytes": 20971520,
        "pids": 3,
        "io_read_bytes": 4096,
        "io_write_bytes": 1048576
      },
      "executables": [
        {
          "name": "main",
          "cell": "web",
          "command": "nginx -g 'daemon off;'",
          "state": "running",
          "process_id": 4711,
          "started_at": "2026-01-31T11:59:00Z",
          "cpu_user_usec": 10000,
          "cpu_system_usec": 5000,
          "memory_peak_bytes": 3145728
        },
        {
          "name": "job",
          "cell": "web",
          "command": "sh -c 'exit 3'",
          "state": "exited",
          "process_id": 4712,
          "started_at": "2026-01-31T11:59:00Z",
          "ended_at": "2026-01-31T11:59:55Z",
          "exit_code": 3,
          "reason": "exit 3",
          "cpu_user_usec": 10000,
          "cpu_system_usec": 5000,
          "memory_peak_bytes": 3145728
        }
      ]
    }
    --- stderr
    "#);
}

#[tokio::test]
async fn yaml_has_the_same_shape() {
    insta::assert_snapshot!(World::new().run("strata cell show batch -o yaml").await, @r#"
    exit 0
    --- stdout
    name: batch
    state: dead
    reason: its init ended
    cpu_shares: 1024
    limits: {}
    network: host
    root: host
    cgroup: v1
    allocated_at: "2026-01-29T12:00:00Z"
    usage:
      cpu_usec: 0
      memory_bytes: 0
      memory_peak_bytes: 0
      pids: 0
      io_read_bytes: 0
      io_write_bytes: 0
    executables: []
    --- stderr
    "#);
}

#[tokio::test]
async fn show_of_none_is_refused_with_a_hint() {
    insta::assert_snapshot!(World::new().run("strata cell show nope").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the cell nope
      there is no cell nope
    hint: `strata cell list` shows those there are
    "#);
}

#[tokio::test]
async fn allocate_says_so() {
    let world = World::new();
    insta::assert_snapshot!(
        world.run("strata cell allocate db --cpus 1.5 --memory-max 64MiB --root private").await, @r#"
    exit 0
    --- stdout
    --- stderr
    allocated db (cgroup v1)
    "#);
    assert_eq!(world.node.state.lock().calls, ["allocate Some(67108864)"]);
    insta::assert_snapshot!(world.run("strata cell allocate db -q -o name").await, @r#"
    exit 0
    --- stdout
    cell/db
    --- stderr
    "#);
}

#[tokio::test]
async fn allocate_of_what_contradicts_itself_names_the_field() {
    insta::assert_snapshot!(
        World::new().run("strata cell allocate db --memory-low 2MiB --memory-max 1MiB").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot allocate the cell db
      cell.options.memory.low: is 2097152, more than max, which is 1048576
    "#);
}

#[tokio::test]
async fn bad_values_are_usage_errors() {
    let world = World::new();
    for (line, said) in [
        ("strata cell allocate Web", "has 'W' in it"),
        (
            "strata cell allocate web --memory-max lots",
            "is not a size",
        ),
        (
            "strata cell allocate web --cpus 0",
            "it must be 0.01 to 8192",
        ),
        (
            "strata cell allocate web --io sda",
            "is not a limit of a device",
        ),
        ("strata cell allocate", "<NAME>"),
        ("strata cell allocate web -f x.yaml", "cannot be used with"),
        (
            "strata cell allocate --pids-max 3 -f x.yaml",
            "cannot be used with",
        ),
        ("strata cell free web --grace 5", "write 5s for seconds"),
        ("strata cell start web main", "--command"),
        (
            "strata cell start web main --command x -- y",
            "cannot be used with",
        ),
    ] {
        assert_eq!(world.exit(line).await, 2, "{line}");
        let stderr = world.stderr.take();
        assert!(stderr.contains(said), "{line}: {stderr}");
    }
    assert!(world.node.state.lock().calls.is_empty());
}

#[tokio::test]
async fn dry_runs_tell_and_change_nothing() {
    let world = World::new();
    let file = "name: shop\n---\nname: shop/db\nlimits: {memory_max: 1GiB}\n---\nname: web\n---\nname: no/where\n";
    std::fs::write(world.path("cells.yaml"), file).unwrap();
    insta::assert_snapshot!(world.run("strata cell allocate -f {}/cells.yaml --dry-run").await, @r"
    exit 6
    --- stdout
    would allocate shop (limits: none)
    would allocate shop/db (limits: memory max 1GiB)
    would reject web: a cell of that name already exists with a different specification
    would reject no/where: its parent cell is not allocated
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata cell allocate web/cache --network isolated --dry-run -o json").await, @r#"
    exit 0
    --- stdout
    [
      {
        "name": "web/cache",
        "action": "nothing"
      }
    ]
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cell free web --dry-run").await, @r#"
    exit 0
    --- stdout
    would free web (stops main; frees web/cache first)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cell start web two --dry-run -- sh -c 'echo hi'").await, @r#"
    exit 0
    --- stdout
    would start web/two: sh -c 'echo hi'
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cell start web main --dry-run -- true").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot start web/main
      already running, pid 4711
    "#);
    insta::assert_snapshot!(world.run("strata cell stop web main --dry-run").await, @r#"
    exit 0
    --- stdout
    would stop web/main, pid 4711
    --- stderr
    "#);
    assert!(world.node.state.lock().calls.is_empty());
}

#[tokio::test]
async fn a_file_that_makes_no_sense_is_named() {
    let world = World::new();
    std::fs::write(world.path("cells.yaml"), "name: a\nlimits: {memory: 1}\n").unwrap();
    insta::assert_snapshot!(world.run("strata cell allocate -f {}/cells.yaml").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: {}/cells.yaml does not describe cells
      line 2 column 10: unknown field `memory`, expected one of cpus, cpuset, memory_low, memory_high, memory_max, pids_max, io
    "#);
    insta::assert_snapshot!(world.run("strata cell allocate -f {}/none.yaml").await, @r#"
    exit 1
    --- stdout
    --- stderr
    error: cannot read {}/none.yaml
      No such file or directory (os error 2)
    "#);
}

#[tokio::test]
async fn free_asks_when_something_runs() {
    let mut world = World::new();
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata cell free web").await, @r#"
    exit 6
    --- stdout
    --- stderr
    Free web (stops main; frees web/cache first)? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    assert!(world.node.state.lock().calls.is_empty());
    world.answer = Some("y\n");
    assert_eq!(world.exit("strata cell free web --grace 5s").await, 0);
    assert_eq!(world.node.state.lock().calls, ["free web Some(5000)"]);
}

#[tokio::test]
async fn free_goes_on_after_a_failure() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cell free none batch neither").await, @r#"
    exit 6
    --- stdout
    --- stderr
    freed batch
    error: cannot free the cell none
      there is no cell none
    hint: `strata cell list` shows those there are
    error: cannot free the cell neither
      there is no cell neither
    hint: `strata cell list` shows those there are
    "#);
    assert_eq!(world.node.state.lock().calls, ["free batch None"]);
}

#[tokio::test]
async fn start_sends_words_that_split_back() {
    let world = World::new();
    let line = r#"strata cell start web two --env A=b -- sh -c 'echo "a b"; exit'"#;
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 0
    --- stdout
    --- stderr
    started web/two, pid 4720
    "#);
    let calls = world.node.state.lock().calls.clone();
    assert_eq!(calls, [r#"start sh -c 'echo "a b"; exit'"#]);
}

#[tokio::test]
async fn start_sends_a_restart_policy_or_an_input() {
    let world = World::new();
    std::fs::write(world.path("settings"), "from a file").unwrap();
    for (line, restart, input) in [
        ("--restart on-failure", ExecutableRestart::OnFailure, None),
        ("--restart always", ExecutableRestart::Always, None),
        (
            "-i {}/settings",
            ExecutableRestart::Never,
            Some("from a file"),
        ),
        ("", ExecutableRestart::Never, None),
    ] {
        let said = world
            .run(&["strata cell start web two", line, "-- true"].join(" "))
            .await;
        assert!(said.starts_with("exit 0\n"), "{said}");
        let state = world.node.state.lock();
        let web = state.cells.iter().find(|cell| cell.name == "web").unwrap();
        let options = web.executables.last().unwrap().options.as_ref().unwrap();
        assert_eq!(options.restart(), restart);
        assert_eq!(options.input.as_deref(), input.map(str::as_bytes));
    }
    let both = "strata cell start web two --dry-run --restart always -i {}/settings -- true";
    let said = world.run(both).await;
    assert!(
        said.contains("cannot be combined with a restart policy"),
        "{said}"
    );
    let missing = world
        .run("strata cell start web two -i /there/is/none -- true")
        .await;
    assert!(missing.contains("/there/is/none"), "{missing}");
}

#[tokio::test]
async fn show_counts_restarts_and_tells_who_waits() {
    let world = World::with(|state| {
        let web = state.cells.iter_mut().find(|cell| cell.name == "web");
        let job = web.unwrap().executables.last_mut().unwrap();
        job.state = ExecutableState::Waiting.into();
        job.restarts = 7;
        job.next_start_at_ms = job.ended_at_ms + 12_800;
        job.options = Some(ExecutableOptions {
            restart: ExecutableRestart::OnFailure.into(),
            ..Default::default()
        });
    });
    let said = world.run("strata cell show web").await;
    let row = said.lines().find(|line| line.starts_with("job")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        words[1..6],
        ["waiting:", "exit", "3", "4712", "7"],
        "{said}"
    );
    let said = world.run("strata cell show web -o yaml").await;
    for part in ["restart: on-failure", "restarts: 7", "next_start_at:"] {
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn start_can_wait_and_tells_a_failure_by_its_exit_code() {
    let world = World::with(|state| state.exit_code = 3);
    insta::assert_snapshot!(world.run("strata cell start web two --wait -- false").await, @r#"
    exit 7
    --- stdout
    --- stderr
    started web/two, pid 4720
    error: web/two ended: exit 3
    "#);
    world.node.state.lock().exit_code = 0;
    insta::assert_snapshot!(world.run("strata cell start web three --wait -o name -- true").await, @r#"
    exit 0
    --- stdout
    executable/web/three
    --- stderr
    started web/three, pid 4720
    web/three ended: exit 0
    "#);
}

#[tokio::test]
async fn start_can_follow_to_the_end() {
    let world = World::with(|state| {
        state.exit_code = 3;
        state.logs = vec![
            (
                "two",
                crate::common::line(strata_api::strata::v1::LogChannel::Stdout, b"hello", 1),
            ),
            (
                "two",
                crate::common::line(strata_api::strata::v1::LogChannel::Stderr, b"oh", 2),
            ),
        ];
    });
    insta::assert_snapshot!(world.run("strata cell start web two --follow -- sh -c x").await, @r#"
    exit 7
    --- stdout
    hello
    --- stderr
    started web/two, pid 4720
    oh
    error: web/two ended: exit 3
    "#);
}

#[tokio::test]
async fn wait_and_stop() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cell wait web job").await, @r#"
    exit 7
    --- stdout
    --- stderr
    error: web/job ended: exit 3
    "#);
    insta::assert_snapshot!(world.run("strata cell stop web main --grace 1s500ms").await, @r#"
    exit 0
    --- stdout
    --- stderr
    stopped web/main
    "#);
    insta::assert_snapshot!(world.run("strata cell stop web main -o table -q").await, @r#"
    exit 0
    --- stdout
    NAME  STATE     PID  RESTARTS  COMMAND                 AGE
    main  running  4711         -  nginx -g 'daemon off;'  1m
    --- stderr
    "#);
    assert_eq!(world.node.state.lock().calls[0], "stop main Some(1500)");
}
