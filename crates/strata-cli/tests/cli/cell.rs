//! `strata cell`, whole commands against a fake node.

use crate::common::World;

#[tokio::test]
async fn list_is_a_table() {
    insta::assert_snapshot!(World::new().run("strata cell list").await, @"");
}

#[tokio::test]
async fn list_wide_tells_more() {
    insta::assert_snapshot!(World::new().run("strata cell list --under web -o wide").await, @"");
}

#[tokio::test]
async fn list_names_can_be_piped() {
    insta::assert_snapshot!(World::new().run("strata cell list -o name").await, @"");
}

#[tokio::test]
async fn no_cells_are_told_to_people_only() {
    let world = World::with(|state| state.cells.clear());
    insta::assert_snapshot!(world.run("strata cell list").await, @"");
    insta::assert_snapshot!(world.run("strata cell list -o json").await, @"");
}

#[tokio::test]
async fn list_watches_for_changes_until_the_end_of_the_stream() {
    insta::assert_snapshot!(World::new().run("strata cell list -w -o name").await, @"");
}

#[tokio::test]
async fn show_tells_all() {
    insta::assert_snapshot!(World::new().run("strata cell show web").await, @"");
}

#[tokio::test]
async fn json_has_a_stable_shape() {
    insta::assert_snapshot!(World::new().run("strata cell show web -o json").await, @"");
}

#[tokio::test]
async fn yaml_has_the_same_shape() {
    insta::assert_snapshot!(World::new().run("strata cell show batch -o yaml").await, @"");
}

#[tokio::test]
async fn show_of_none_is_refused_with_a_hint() {
    insta::assert_snapshot!(World::new().run("strata cell show nope").await, @"");
}

#[tokio::test]
async fn allocate_says_so() {
    let world = World::new();
    insta::assert_snapshot!(
        world.run("strata cell allocate db --cpus 1.5 --memory-max 64MiB --root private").await, @"");
    assert_eq!(world.node.state.lock().calls, ["allocate Some(67108864)"]);
    insta::assert_snapshot!(world.run("strata cell allocate db -q -o name").await, @"");
}

#[tokio::test]
async fn allocate_of_what_contradicts_itself_names_the_field() {
    insta::assert_snapshot!(
        World::new().run("strata cell allocate db --memory-low 2MiB --memory-max 1MiB").await, @"");
}

#[tokio::test]
async fn bad_values_are_usage_errors() {
    let world = World::new();
    for (line, said) in [
        ("strata cell allocate Web", "has 'W' in it"),
        ("strata cell allocate web --memory-max lots", "is no size"),
        ("strata cell allocate web --cpus 0", "0.01 is the least"),
        (
            "strata cell allocate web --io sda",
            "is no limit of a device",
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
    insta::assert_snapshot!(world.run("strata cell allocate -f {}/cells.yaml --dry-run").await, @"");
    insta::assert_snapshot!(world.run("strata cell allocate web/cache --network isolated --dry-run -o json").await, @"");
    insta::assert_snapshot!(world.run("strata cell free web --dry-run").await, @"");
    insta::assert_snapshot!(world.run("strata cell start web two --dry-run -- sh -c 'echo hi'").await, @"");
    insta::assert_snapshot!(world.run("strata cell start web main --dry-run -- true").await, @"");
    insta::assert_snapshot!(world.run("strata cell stop web main --dry-run").await, @"");
    assert!(world.node.state.lock().calls.is_empty());
}

#[tokio::test]
async fn a_file_that_makes_no_sense_is_named() {
    let world = World::new();
    std::fs::write(world.path("cells.yaml"), "name: a\nlimits: {memory: 1}\n").unwrap();
    insta::assert_snapshot!(world.run("strata cell allocate -f {}/cells.yaml").await, @"");
    insta::assert_snapshot!(world.run("strata cell allocate -f {}/none.yaml").await, @"");
}

#[tokio::test]
async fn free_asks_when_something_runs() {
    let mut world = World::new();
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata cell free web").await, @"");
    assert!(world.node.state.lock().calls.is_empty());
    world.answer = Some("y\n");
    assert_eq!(world.exit("strata cell free web --grace 5s").await, 0);
    assert_eq!(world.node.state.lock().calls, ["free web Some(5000)"]);
}

#[tokio::test]
async fn free_goes_on_after_a_failure() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cell free none batch neither").await, @"");
    assert_eq!(world.node.state.lock().calls, ["free batch None"]);
}

#[tokio::test]
async fn start_sends_words_that_split_back() {
    let world = World::new();
    let line = r#"strata cell start web two --env A=b -- sh -c 'echo "a b"; exit'"#;
    insta::assert_snapshot!(world.run(line).await, @"");
    let calls = world.node.state.lock().calls.clone();
    assert_eq!(calls, [r#"start sh -c 'echo "a b"; exit'"#]);
}

#[tokio::test]
async fn start_can_wait_and_tells_a_failure_by_its_exit_code() {
    let world = World::with(|state| state.exit_code = 3);
    insta::assert_snapshot!(world.run("strata cell start web two --wait -- false").await, @"");
    world.node.state.lock().exit_code = 0;
    insta::assert_snapshot!(world.run("strata cell start web three --wait -o name -- true").await, @"");
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
    insta::assert_snapshot!(world.run("strata cell start web two --follow -- sh -c x").await, @"");
}

#[tokio::test]
async fn wait_and_stop() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cell wait web job").await, @"");
    insta::assert_snapshot!(world.run("strata cell stop web main --grace 1s500ms").await, @"");
    insta::assert_snapshot!(world.run("strata cell stop web main -o table -q").await, @"");
    assert_eq!(world.node.state.lock().calls[0], "stop main Some(1500)");
}
