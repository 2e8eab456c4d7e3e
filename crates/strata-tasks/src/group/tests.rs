//! Policies, figures and shutdown, over real tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};

use super::*;
use crate::TaskStatus;
use crate::faults::Faults;

fn status(tasks: &Tasks, name: &str) -> TaskStatus {
    let all = tasks.status();
    all.into_iter().find(|task| task.name == name).unwrap()
}

async fn until(tasks: &Tasks, name: &str, holds: impl Fn(&TaskStatus) -> bool) -> TaskStatus {
    let waiting = async {
        loop {
            let now = status(tasks, name);
            if holds(&now) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), waiting)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn panicked_task_is_restarted_from_its_inputs_with_growing_waits() {
    let tasks = Tasks::default();
    let (starts, mut started) = mpsc::unbounded_channel();
    tasks.group(Stage::Controllers).restart("loop", move || {
        let starts = starts.clone();
        async move {
            starts.send(Instant::now()).unwrap();
            panic!("broken record");
        }
    });
    let mut times = Vec::new();
    while times.len() < 12 {
        times.push(started.recv().await.unwrap());
    }
    let waits: Vec<u128> = times
        .windows(2)
        .map(|two| (two[1] - two[0]).as_millis())
        .collect();
    assert_eq!(
        waits,
        [
            100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000
        ]
    );
    let now = until(&tasks, "loop", |task| task.panics == 12).await;
    assert_eq!((now.restarts, now.running), (11, 0));
    assert_eq!(now.on_panic, OnPanic::Restart);
}

#[tokio::test]
async fn restarted_task_goes_on_with_the_channel_of_the_run_before() {
    let tasks = Tasks::default();
    let (questions, asked) = mpsc::channel::<(u32, oneshot::Sender<u32>)>(4);
    let asked = Arc::new(Mutex::new(asked));
    tasks.group(Stage::Controllers).restart("answers", move || {
        let asked = asked.clone();
        async move {
            let mut asked = asked.lock().await;
            while let Some((number, answer)) = asked.recv().await {
                assert_ne!(number, 13, "unlucky");
                answer.send(number * 2).unwrap();
            }
        }
    });
    let ask = async |number| {
        let (answer, answered) = oneshot::channel();
        questions.send((number, answer)).await.unwrap();
        answered.await
    };
    assert_eq!(ask(1).await, Ok(2));
    assert!(ask(13).await.is_err(), "its question is lost");
    assert_eq!(ask(2).await, Ok(4));
    assert_eq!(status(&tasks, "answers").restarts, 1);
}

#[tokio::test]
async fn task_that_returns_is_not_restarted() {
    let tasks = Tasks::default();
    let runs = Arc::new(AtomicU32::default());
    let count = runs.clone();
    tasks.group(Stage::Services).restart("once", move || {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    // A shutdown that comes first would drop it before its run.
    while runs.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(tasks.stop(Stage::Services).await);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let now = status(&tasks, "once");
    assert_eq!((now.running, now.restarts, now.panics), (0, 0, 0));
}

#[tokio::test]
async fn panic_of_a_critical_task_is_reported_once_with_its_cause() {
    let tasks = Tasks::default();
    let group = tasks.group(Stage::Api);
    group.critical("listener", async { panic!("socket gone") });
    let failure = tasks.failed().await;
    assert_eq!(failure.to_string(), "task listener panicked: socket gone");
    group.critical("second", async { panic!("follows from the first") });
    until(&tasks, "second", |task| task.panics == 1).await;
    assert_eq!(tasks.failed().await, failure);
}

#[tokio::test(start_paused = true)]
async fn stages_stop_one_by_one_and_a_task_that_hangs_costs_its_deadline() {
    let tasks = Tasks::default();
    let group = tasks.group(Stage::Controllers);
    group.restart("waits", std::future::pending);
    group.restart_until_done("hangs", std::future::pending);
    let (sent, received) = oneshot::channel();
    let api = tasks.group(Stage::Api);
    let stopped = api.shutdown().clone();
    api.critical("drains", async move {
        stopped.cancelled().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        sent.send(()).unwrap();
    });
    let began = Instant::now();
    assert!(!tasks.stop(Stage::Controllers).await);
    assert_eq!(began.elapsed(), Stage::Controllers.deadline());
    assert_eq!(status(&tasks, "waits").running, 0);
    assert_eq!(status(&tasks, "hangs").running, 1);
    assert!(!api.shutdown().is_cancelled(), "its turn comes later");
    assert!(tasks.stop(Stage::Api).await);
    received.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn task_in_back_off_ends_with_its_group() {
    let tasks = Tasks::default();
    tasks
        .group(Stage::Agent)
        .restart_until_done("broken", || async { panic!("at once") });
    until(&tasks, "broken", |task| task.panics == 3).await;
    let began = Instant::now();
    assert!(tasks.stop(Stage::Agent).await);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn requested_panic_strikes_the_named_task_alone() {
    let file = std::env::temp_dir().join(format!("strata-faults-{}", std::process::id()));
    let tasks = Tasks::with(Faults::from_file(file.clone()), Default::default());
    let group = tasks.group(Stage::Services);
    group.restart("struck", std::future::pending);
    group.restart("spared", std::future::pending);
    until(&tasks, "struck", |task| task.running == 1).await;
    std::fs::write(&file, "struck\n").unwrap();
    let struck = until(&tasks, "struck", |task| task.restarts == 1).await;
    assert_eq!(struck.panics, 1);
    assert_eq!(status(&tasks, "spared").panics, 0);
    assert!(!file.exists(), "the request is taken");
}
