//! Watching by server-sent events.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use strata_types::Role;

use crate::world::{WAIT_TIMEOUT, World, caller};

/// Server-sent events as they come.
pub(crate) struct Reader {
    body: BodyDataStream,
    text: String,
}

/// An event: its name, its id, its data.
pub(crate) type Event = (String, String, Value);

impl Reader {
    pub(crate) async fn new(world: &World, role: Role, path: &str) -> Self {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = world.send(Some(caller(role)), request).await;
        assert_eq!(response.status(), 200, "{path}");
        let kind = response.headers()["content-type"].to_str().unwrap();
        assert_eq!(kind, "text/event-stream");
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next event; none when they are over.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or("").trim().to_owned()
                };
                if field("event:").is_empty() {
                    continue; // A sign of life.
                }
                let data = serde_json::from_str(&field("data:")).unwrap();
                return Some((field("event:"), field("id:"), data));
            }
            let more = tokio::time::timeout(WAIT_TIMEOUT, self.body.next()).await;
            let more = more.expect("an event comes")?.unwrap();
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    async fn expect(&mut self, word: &str, name: &str) -> Event {
        let event = self.next().await.expect("an event comes");
        let named = event.2.get("name").and_then(Value::as_str).unwrap_or("");
        assert_eq!((event.0.as_str(), named), (word, name), "{event:?}");
        event
    }
}

fn stopped(name: &str) -> Value {
    json!({ "id": name, "name": name, "uri": "x", "status": "STOPPED", "environment": ["A=secret"] })
}

#[tokio::test]
async fn list_watch_starts_with_existing_records() {
    let world = World::new().await;
    world.put("/instance", &stopped("a")).await;
    let mut reader = Reader::new(&world, Role::Viewer, "/instance/?watch=true").await;
    let (_, id, data) = reader.expect("put", "a").await;
    assert_eq!(format!("\"{id}\""), world.get("/instance/a").await.etag());
    assert_eq!(data["environment"], json!(["A=***"]));
    reader.expect("synced", "").await;
    world.put("/instance", &stopped("b")).await;
    reader.expect("put", "b").await;
    world.patch("/instance/a", &json!({ "uri": "y" })).await;
    assert_eq!(reader.expect("put", "a").await.2["uri"], "y");
    world.delete("/instance/b").await;
    reader.expect("delete", "b").await;
}

#[tokio::test]
async fn record_that_leaves_the_filter_is_sent_as_deleted() {
    let world = World::new().await;
    world.node("n1").await;
    let mut reader = Reader::new(&world, Role::Admin, "/instance?state=STOPPED&watch=true").await;
    reader.expect("synced", "").await;
    world.put("/instance", &stopped("a")).await;
    reader.expect("put", "a").await;
    world
        .patch("/instance/a", &json!({ "status": "RUNNING" }))
        .await;
    let (_, _, data) = reader.expect("delete", "a").await;
    assert_eq!(data["status"], "SCHEDULING");
}

#[tokio::test]
async fn single_record_watch_ends_with_its_deletion() {
    let world = World::new().await;
    world.put("/instance", &stopped("a")).await;
    let mut reader = Reader::new(&world, Role::Viewer, "/instance/a?watch=true").await;
    reader.expect("put", "a").await;
    reader.expect("synced", "").await;
    world.put("/instance", &stopped("b")).await;
    world.patch("/instance/a", &json!({ "name": "c" })).await;
    reader.expect("put", "c").await;
    world.delete("/instance/a").await;
    reader.expect("delete", "c").await;
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn everything_else_can_be_followed_too() {
    let world = World::new().await;
    world.node("n1").await;
    for (path, first) in [
        ("/node?watch=true", "n1"),
        ("/node/n1?watch=true", "n1"),
        ("/project?watch=true", "default"),
        ("/project/default?watch=true", "default"),
    ] {
        let mut reader = Reader::new(&world, Role::Viewer, path).await;
        reader.expect("put", first).await;
        reader.expect("synced", "").await;
    }
    let mut nodes = Reader::new(&world, Role::Viewer, "/node?watch=true&state=DRAINING").await;
    nodes.expect("synced", "").await;
    let mut workloads = Reader::new(&world, Role::Viewer, "/workload?watch=true").await;
    workloads.expect("synced", "").await;
    let mut events = Reader::new(&world, Role::Viewer, "/event?watch=true&kind=workload").await;
    events.expect("synced", "").await;
    world.patch("/node/n1", &json!({ "draining": true })).await;
    nodes.expect("put", "n1").await;
    world
        .put("/workload", &json!({ "name": "w", "uri": "x" }))
        .await;
    workloads.expect("put", "w").await;
    assert_eq!(events.expect("put", "w").await.2["message"], "created");
    let mut one = Reader::new(&world, Role::Viewer, "/workload/w?watch=true").await;
    one.expect("put", "w").await;
    world.get("/workload/x?watch=true").await.refused(404, None);
}

#[tokio::test]
async fn long_list_watch_is_chunked_and_misses_no_change() {
    let world = World::new().await;
    let name = |n: usize| format!("w{n:03}");
    for n in 0..300 {
        let made = json!({ "id": name(n), "name": name(n), "uri": "x" });
        assert_eq!(world.put("/workload", &made).await.status, 201);
    }
    let mut reader = Reader::new(&world, Role::Viewer, "/workload?watch=true").await;
    let mut told = std::collections::BTreeMap::new();
    for _ in 0..10 {
        let (_, _, data) = reader.next().await.unwrap();
        told.insert(data["name"].clone().to_string(), data["uri"].clone());
    }
    // One that was sent, one of the part that is being sent, one of the last,
    // which changes twice, and one that goes.
    for (n, uri) in [(0, "y"), (20, "y"), (299, "y"), (299, "z")] {
        let path = format!("/workload/{}", name(n));
        let changed = world.patch(&path, &json!({ "uri": uri })).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }
    world.delete("/workload/w250").await;
    world
        .put(
            "/workload",
            &json!({ "id": "last", "name": "last", "uri": "x" }),
        )
        .await;
    // The last of all changes has been sent: so have all before it.
    let mut synced = false;
    while !told.contains_key("\"last\"") || !synced {
        let (word, _, data) = reader.next().await.unwrap();
        let name = data["name"].clone().to_string();
        match word.as_str() {
            "put" => drop(told.insert(name, data["uri"].clone())),
            "delete" => drop(told.remove(&name)),
            _ => synced = true,
        }
    }
    // Reported with the list, it may be sent once more; nothing follows that is
    // older than what was sent.
    let expected = |n: usize| match n {
        0 | 20 => "y",
        299 => "z",
        _ => "x",
    };
    assert_eq!(told.len(), 300, "without w250, with the last");
    for n in (0..300).filter(|n| *n != 250) {
        assert_eq!(told[&format!("\"{}\"", name(n))], expected(n), "{n}");
    }
}

#[tokio::test]
async fn slow_watch_reader_gets_a_full_list_again() {
    let world = World::new().await;
    let mut reader = Reader::new(&world, Role::Viewer, "/workload?watch=true").await;
    reader.expect("synced", "").await;
    // More changes than are kept for one watcher.
    for i in 0..4200 {
        let patch = json!({ "name": "w", "uri": "x", "id": "w" });
        match i {
            0 => world.put("/workload", &patch).await,
            i => {
                world
                    .patch("/workload/w", &json!({ "uri": format!("x{i}") }))
                    .await
            }
        };
    }
    loop {
        let (word, _, _) = reader.next().await.unwrap();
        if word == "resync" {
            break;
        }
    }
    assert_eq!(reader.expect("put", "w").await.2["uri"], "x4199");
    reader.expect("synced", "").await;
}

#[tokio::test(start_paused = true)]
async fn watch_sends_heartbeats_and_ends_in_time() {
    let world = World::new().await;
    let longest = world.state.longest_watch;
    assert_eq!(longest, Duration::from_secs(3600));
    let request = Request::get("/workload?watch=true")
        .body(Body::empty())
        .unwrap();
    let response = world.send(Some(caller(Role::Viewer)), request).await;
    let begun = tokio::time::Instant::now();
    let mut body = response.into_body().into_data_stream();
    let mut signs = 0;
    while let Some(more) = body.next().await {
        signs += u32::from(more.unwrap().starts_with(b":"));
    }
    assert!(signs > 200, "{signs}");
    assert_eq!(begun.elapsed().as_secs(), longest.as_secs());
}
