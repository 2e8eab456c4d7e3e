//! What a node tells about pods: logs, figures, events, ends, lists.

use std::collections::HashMap;
use std::time::Duration;

use strata_testkit::pods::{idle, script, text_of};
use strata_testkit::v1::attach_input::Input;
use strata_testkit::v1::exec_output::Output;
use strata_testkit::v1::{
    AttachInput, AttachStart, ListPodsRequest, LogChannel, LogLine, PodEvent, PodLogsRequest,
    PodState, PodStatsRequest, RestartPolicy, WatchPodsRequest,
};
use strata_testkit::{Code, Streaming, all, refused};
use tokio::time::timeout;

use crate::pods::{logged, world};

fn logs(name: &str) -> PodLogsRequest {
    PodLogsRequest {
        name: name.into(),
        ..PodLogsRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_can_be_chosen_and_followed_across_restarts() {
    let world = world().await;
    let node = &world.node;
    // Each run tells its number; the third is the last.
    let counting = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; \
        echo run $n; echo about $n >&2; [ $n = 3 ]";
    node.run_pod(script("counts", &world.image, counting))
        .await
        .unwrap();
    let followed = PodLogsRequest {
        follow: true,
        stdout: true,
        ..logs("counts")
    };
    let lines = node.pod_logs(followed).await.unwrap();
    let lines = timeout(Duration::from_secs(30), all(lines))
        .await
        .unwrap()
        .unwrap();
    let texts: Vec<_> = lines.iter().map(text_of).collect();
    assert_eq!(texts, ["run 1", "run 2", "run 3"]);
    let texts = async |request: PodLogsRequest| -> Vec<String> {
        let lines = all(node.pod_logs(request).await.unwrap()).await.unwrap();
        lines.iter().map(text_of).collect()
    };
    let previous = PodLogsRequest {
        previous: true,
        ..logs("counts")
    };
    assert_eq!(
        texts(PodLogsRequest {
            stdout: true,
            ..previous.clone()
        })
        .await,
        ["run 2"]
    );
    assert_eq!(
        texts(PodLogsRequest {
            stderr: true,
            ..previous
        })
        .await,
        ["about 2"]
    );
    assert_eq!(
        texts(PodLogsRequest {
            tail: Some(0),
            ..logs("counts")
        })
        .await,
        [""; 0]
    );
    let both = all(node.pod_logs(logs("counts")).await.unwrap())
        .await
        .unwrap();
    let channels: Vec<_> = both.iter().map(LogLine::channel).collect();
    assert!(
        channels.contains(&LogChannel::Stderr) && channels.len() == 2,
        "{both:?}"
    );
    node.create_pod(idle("new", &world.image)).await.unwrap();
    refused(
        node.pod_logs(logs("new")).await.map(drop),
        Code::FailedPrecondition,
    );
    refused(node.pod_logs(logs("other")).await.map(drop), Code::NotFound);
    let many = script("many", &world.image, "seq 1 1000");
    node.run_pod(many).await.unwrap();
    node.wait_pod("many").await.unwrap();
    assert_eq!(
        texts(PodLogsRequest {
            tail: Some(2),
            ..logs("many")
        })
        .await,
        ["999", "1000"]
    );
}

async fn until(
    events: &mut Streaming<PodEvent>,
    wanted: impl Fn(&PodEvent) -> bool,
) -> Vec<PodEvent> {
    let mut seen = Vec::new();
    loop {
        let event = timeout(Duration::from_secs(20), events.message()).await;
        let event = event.unwrap_or_else(|_| panic!("{seen:#?}"));
        seen.push(event.expect("events come").expect("events do not end"));
        if wanted(&seen[seen.len() - 1]) {
            return seen;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_what_happened_also_before() {
    let world = world().await;
    let node = &world.node;
    node.run_pod(script("once", &world.image, "exit 0"))
        .await
        .unwrap();
    node.wait_pod("once").await.unwrap();
    let watch = async |name: &str, history: bool| {
        let request = WatchPodsRequest {
            name: name.into(),
            history,
        };
        node.client()
            .pods()
            .watch(request)
            .await
            .unwrap()
            .into_inner()
    };
    let mut past = watch("", true).await;
    let seen = until(&mut past, |event| event.state() == PodState::Exited).await;
    let messages: Vec<_> = seen.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(messages, ["created", "started", "ended: exit 0"]);
    assert!(
        seen.iter()
            .all(|event| event.pod == "once" && event.at_ms > 0 && !event.pod_id.is_empty())
    );
    node.run_pod(idle("web", &world.image)).await.unwrap();
    let mut one = watch("web", false).await;
    node.stop_pod("web").await.unwrap();
    node.destroy_pod("web").await.unwrap();
    node.destroy_pod("once").await.unwrap();
    let seen = until(&mut one, |event| event.message == "destroyed").await;
    let messages: Vec<_> = seen.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(messages, ["stopping", "stopped", "destroyed"]);
    let request = WatchPodsRequest {
        name: "nosuch".into(),
        history: false,
    };
    refused(
        node.client().pods().watch(request).await.map(drop),
        Code::NotFound,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_come_at_each_interval() {
    let world = world().await;
    let node = &world.node;
    let busy = "dd if=/dev/zero of=file bs=1M count=8 2>/dev/null; sync; ping -c 2 -s 1000 $(ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p') >/dev/null; echo done; while :; do sleep 60 & wait; done";
    let mut spec = script("busy", &world.image, busy);
    spec.security = Some(strata_testkit::v1::PodSecurity {
        add_capabilities: vec!["NET_RAW".into()],
        ..Default::default()
    });
    node.run_pod(spec).await.unwrap();
    logged(node, "busy", "done").await;
    let request = PodStatsRequest {
        name: "busy".into(),
        interval_ms: Some(100),
    };
    let mut stats = node
        .client()
        .pods()
        .stats(request)
        .await
        .unwrap()
        .into_inner();
    let first = stats.message().await.unwrap().unwrap();
    let second = stats.message().await.unwrap().unwrap();
    assert!(second.observed_at_ms > first.observed_at_ms);
    let [pod] = &second.pods[..] else {
        panic!("{second:?}")
    };
    let usage = pod.usage.unwrap();
    let cell = usage.cell.unwrap();
    assert_eq!(pod.state(), PodState::Running);
    assert!(usage.disk_bytes >= 8 << 20, "{usage:?}");
    assert!(
        usage.network_received_bytes > 1000 && usage.network_sent_bytes > 1000,
        "{usage:?}"
    );
    assert!(
        cell.cpu_usec > 0 && cell.memory_bytes > 0 && cell.pids > 0,
        "{usage:?}"
    );
    assert_eq!(
        node.pod("busy").await.unwrap().usage.map(|u| u.disk_bytes),
        Some(usage.disk_bytes)
    );
    for (name, interval_ms, code) in [
        ("nosuch", None, Code::NotFound),
        ("", Some(1), Code::InvalidArgument),
    ] {
        let request = PodStatsRequest {
            name: name.into(),
            interval_ms,
        };
        refused(node.client().pods().stats(request).await.map(drop), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_listed_by_their_labels() {
    let world = world().await;
    let node = &world.node;
    let labels = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    };
    for (name, pairs) in [
        ("b", &[("app", "web"), ("tier", "front")][..]),
        ("a", &[("app", "web")]),
        ("c", &[]),
    ] {
        let mut spec = idle(name, &world.image);
        spec.labels = labels(pairs);
        node.create_pod(spec).await.unwrap();
    }
    let names = async |pairs: &[(&str, &str)]| -> Vec<String> {
        let request = ListPodsRequest {
            labels: labels(pairs),
        };
        let answer = node
            .client()
            .pods()
            .list(request)
            .await
            .unwrap()
            .into_inner();
        answer
            .pods
            .into_iter()
            .map(|pod| pod.spec.unwrap().name)
            .collect()
    };
    assert_eq!(names(&[]).await, ["a", "b", "c"]);
    assert_eq!(names(&[("app", "web")]).await, ["a", "b"]);
    assert_eq!(names(&[("app", "web"), ("tier", "front")]).await, ["b"]);
    assert_eq!(names(&[("app", "other")]).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_can_be_attached_to() {
    let world = world().await;
    let node = &world.node;
    let mut spec = script(
        "talks",
        &world.image,
        "echo before; while read line; do echo \"got $line\"; [ \"$line\" = end ] && exit 6; done",
    );
    spec.stdin = true;
    spec.restart = RestartPolicy::Never.into();
    node.run_pod(spec).await.unwrap();
    logged(node, "talks", "before").await;
    let attach = async |inputs: Vec<Input>| {
        let inputs = inputs
            .into_iter()
            .map(|input| AttachInput { input: Some(input) });
        // The input stays open until the pod has ended.
        let inputs = futures_util::StreamExt::chain(
            futures_util::stream::iter(inputs),
            futures_util::stream::pending(),
        );
        let answer = node.client().pods().attach(inputs).await?;
        Ok::<_, strata_testkit::Status>(answer.into_inner())
    };
    let start = |tail| {
        Input::Start(AttachStart {
            pod: "talks".into(),
            tail,
            terminal: None,
        })
    };
    // One comes, types and leaves; the pod goes on.
    let mut first = attach(vec![start(0), Input::Stdin("one\n".into())])
        .await
        .unwrap();
    loop {
        if let Some(Output::Stdout(bytes)) = first.message().await.unwrap().unwrap().output {
            assert_eq!(&bytes[..], b"got one\n");
            break;
        }
    }
    drop(first);
    let second = attach(vec![start(10), Input::Stdin("end\n".into())])
        .await
        .unwrap();
    let messages = timeout(Duration::from_secs(20), all(second))
        .await
        .unwrap()
        .unwrap();
    let mut text = Vec::new();
    let mut code = None;
    for message in messages {
        match message.output {
            Some(Output::Stdout(bytes)) => text.extend_from_slice(&bytes),
            Some(Output::Ended(ended)) => code = ended.exit_code,
            _ => {}
        }
    }
    assert_eq!(String::from_utf8_lossy(&text), "before\ngot one\ngot end\n");
    assert_eq!(code, Some(6));
    refused(
        attach(vec![start(0)]).await.map(drop),
        Code::FailedPrecondition,
    );
}
