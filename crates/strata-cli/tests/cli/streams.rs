//! `strata logs` and `strata top`: streams, their ends, and readers that
//! leave.

use strata_testkit::{TEST_TIMEOUT, holds};

use crate::common::World;

#[tokio::test]
async fn both_channels_go_where_they_came_from() {
    let world = World::new();
    assert_eq!(world.exit("strata logs web main").await, 0);
    assert_eq!(
        world.stdout.bytes(),
        b"first\nraw \xff bytes\nafter a gap\n"
    );
    assert_eq!(
        world.stderr.take(),
        "a complaint\nwarning: 2KiB were lost here\n"
    );
}

#[tokio::test]
async fn several_executables_are_merged_by_time() {
    insta::assert_snapshot!(World::new().run("strata logs web --timestamps").await, @r#"
    exit 0
    --- stdout
    main | 2026-01-31T12:00:00.001Z first
    job  | 2026-01-31T12:00:00.003Z job in between
    main | 2026-01-31T12:00:00.004Z raw � bytes
    main | 2026-01-31T12:00:00.005Z after a gap
    --- stderr
    main | 2026-01-31T12:00:00.002Z a complaint
    warning: 2KiB of main were lost here
    "#);
}

#[tokio::test]
async fn the_tail_is_the_tail_of_each() {
    insta::assert_snapshot!(World::new().run("strata logs web --tail 1").await, @r#"
    exit 0
    --- stdout
    job  | job in between
    main | after a gap
    --- stderr
    warning: 2KiB of main were lost here
    "#);
}

#[tokio::test]
async fn a_cell_in_which_nothing_ran_says_so() {
    insta::assert_snapshot!(World::new().run("strata logs batch").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no executable has run in batch
    "#);
}

#[tokio::test]
async fn the_daemon_log_ends_with_its_history() {
    insta::assert_snapshot!(World::new().run("strata logs --daemon --tail 2 -t").await, @r#"
    exit 0
    --- stdout
    2026-01-31T12:00:00.000Z recovered 3 cells
    2026-01-31T12:00:00.000Z ready
    --- stderr
    "#);
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut world = World::new();
    world.stdout_breaks_after = Some(6);
    insta::assert_snapshot!(world.run("strata logs web main").await, @r#"
    exit 0
    --- stdout
    first
    --- stderr
    a complaint
    "#);
    world.stdout_breaks_after = Some(0);
    insta::assert_snapshot!(world.run("strata cell list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    "#);
}

#[tokio::test]
async fn lost_server_is_reported() {
    let world = World::with(|state| state.endless = true);
    let exit = {
        let command = world.exit("strata logs web main -f");
        let stdout = world.stdout.clone();
        let seen = wait_for(move || stdout.bytes().ends_with(b"after a gap\n"));
        tokio::pin!(command);
        tokio::select! {
            exit = &mut command => panic!("ended by itself with {exit}"),
            () = seen => {}
        }
        world.node.vanish();
        command.await
    };
    assert_eq!(exit, 3);
    let stderr = world.stderr.take();
    assert!(
        stderr.contains("error: lost the connection to unix:"),
        "{stderr}"
    );
    assert!(
        stderr.contains("hint: check whether the daemon still runs"),
        "{stderr}"
    );
}

#[tokio::test]
async fn top_tells_rates_between_two_looks() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata top --once").await, @r#"
    exit 0
    --- stdout
    NAME       RUNNING  CPU%  MEMORY   PEAK  READ/S  WRITE/S  PIDS  AGE
    web              1  50.0   12MiB  20MiB      0B    10KiB     3  3m12s
    web/cache        0  50.0   12MiB  20MiB      0B    10KiB     3  9s
    batch            0   0.0      0B     0B      0B       0B     0  2d
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata top --once -o json --under batch").await, @r#"
    exit 0
    --- stdout
    {"at":"2026-01-31T12:00:00Z","cells":[{"name":"batch","state":"dead","running":0,"cpu_percent":0.0,"memory_bytes":0,"memory_peak_bytes":0,"read_bytes_per_second":0,"write_bytes_per_second":0,"pids":0,"allocated_at":"2026-01-29T12:00:00Z"}]}
    --- stderr
    "#);
}

#[tokio::test]
async fn top_into_a_pipe_prints_a_table_each_time() {
    insta::assert_snapshot!(World::new().run("strata top --interval 200ms --sort name").await, @r#"
    exit 0
    --- stdout
    NAME       RUNNING  CPU%  MEMORY   PEAK  READ/S  WRITE/S  PIDS  AGE
    batch            0   0.0      0B     0B      0B       0B     0  2d
    web              1  50.0   12MiB  20MiB      0B    10KiB     3  3m12s
    web/cache        0  50.0   12MiB  20MiB      0B    10KiB     3  9s

    --- stderr
    "#);
}

async fn wait_for(condition: impl Fn() -> bool) {
    strata_testkit::wait_for("a condition", TEST_TIMEOUT, async || holds(condition())).await;
}
