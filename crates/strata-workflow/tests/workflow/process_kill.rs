//! Processes that are killed while they run operations, on a store on disk
//! and with files as the world.
//!
//! The child is this test binary again, with a variable that names where to
//! work. It prints each effect it has; the parent kills it after so many of
//! them.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use strata_store::{Embedded, EmbeddedOptions, Store};
use strata_workflow::{
    Claim, Filter, Kind, Operations, Outputs, Registry, Settings, State, Step, StepContext,
    StepError, Workflow,
};

use crate::support::soon;

const DIR: &str = "STRATA_TEST_WORKFLOW_DIR";
const OPERATIONS: u32 = 24;
const FILES: u32 = 4;

/// Makes some files; every third operation finds at the end that it fails.
struct Files;

impl Kind for Files {
    type Input = u32;
    type Context = PathBuf;
    const NAME: &'static str = "files";

    fn claims(&self, number: &u32) -> Vec<Claim> {
        vec![Claim::exclusive(format!("lane/{}", number % 4))]
    }

    fn steps(&self, number: &u32, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps: Vec<_> = (0..FILES).map(file).collect();
        if number.is_multiple_of(3) {
            steps.push(Step::new("fail", |_: StepContext<Self>| async {
                Err::<(), _>(StepError::permanent("as it should"))
            }));
        }
        Ok(steps)
    }
}

fn path(ctx: &StepContext<Files>, n: u32) -> PathBuf {
    ctx.context.join(format!("{}-{n}", ctx.input))
}

fn file(n: u32) -> Step<Files> {
    Step::new(
        format!("file-{n}"),
        move |ctx: StepContext<Files>| async move {
            fs::write(path(&ctx, n), "").map_err(StepError::transient)?;
            say("effect");
            Ok(())
        },
    )
    .undo(move |ctx: StepContext<Files>| async move {
        match fs::remove_file(path(&ctx, n)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StepError::transient(error))
            }
            _ => {
                say("effect");
                Ok(())
            }
        }
    })
}

fn say(what: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{what}").unwrap();
    out.flush().unwrap();
}

fn operations(dir: &Path) -> Operations {
    let world = dir.join("world");
    fs::create_dir_all(&world).unwrap();
    let store = Embedded::open(&dir.join("store"), &EmbeddedOptions::default()).unwrap();
    let mut registry = Registry::new();
    registry.register(Files, Arc::new(world)).unwrap();
    Operations::new(Arc::new(store) as Arc<dyn Store>, registry)
}

/// Submits what was not yet, and runs all to its end.
async fn work(operations: Operations) {
    let engine = Workflow::open(operations, Settings::default())
        .await
        .unwrap();
    let asking = engine.operations();
    let mut ids = Vec::new();
    for number in 0..OPERATIONS {
        let key = number.to_string();
        let id = asking.submit::<Files>(&number, "ann", Some(&key)).await;
        ids.push(id.unwrap());
    }
    for id in ids {
        asking.wait(id).await.unwrap();
    }
    engine.shutdown().await;
}

#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(work(operations(Path::new(&dir))));
}

/// Runs a child and kills it after so many effects. Reports whether it was
/// still at work.
fn kill_after(dir: &Path, effects: usize) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "process_kill::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok);
    let seen = said
        .filter(|it| it.contains("effect"))
        .take(effects)
        .count();
    child.kill().unwrap();
    child.wait().unwrap();
    seen == effects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_engine_loses_no_operation_and_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut kills = 0;
    for round in 0..12 {
        kills += usize::from(kill_after(dir.path(), 3 + round * 5 % 13));
    }
    assert!(kills >= 6, "killed at work only {kills} times");
    let asking = operations(dir.path());
    soon(work(asking.clone())).await;
    let all = asking.list(&Filter::default()).await.unwrap();
    assert_eq!(all.len(), OPERATIONS as usize, "each was asked for once");
    for operation in all {
        let number = operation.input.as_u64().unwrap();
        let file = |n: &u32| dir.path().join(format!("world/{number}-{n}"));
        let there = (0..FILES).filter(|n| file(n).exists()).count();
        match operation.state {
            State::Completed { .. } => assert_eq!((there, number % 3 == 0), (4, false)),
            State::Failed { .. } => assert_eq!((there, number % 3 == 0), (0, true)),
            other => panic!("not ended: {other:?}"),
        }
        assert_eq!(operation.reason().is_some(), number % 3 == 0);
    }
}
