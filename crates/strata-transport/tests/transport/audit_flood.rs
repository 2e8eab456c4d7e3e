//! The audit log is of bounded size, and no caller pushes what it has of others
//! out of it: each causes so many lines a second, and short ones. What is beyond
//! is refused, and not done without a line.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::routing::{delete, get, post};
use http::{Method, StatusCode};
use strata_audit::{AuditLog, SessionEnd, SessionKind, SessionRecorder};
use strata_transport::{Budgets, CallerLimits, Limits, ProjectLookup, ShowsValues};
use strata_types::Role;

use crate::world::{World, bearing, name, request};

const RATE: usize = 4;
const BURST: usize = 10;

fn limits() -> CallerLimits {
    CallerLimits {
        audited_per_second: RATE.try_into().unwrap(),
        audited_burst: BURST.try_into().unwrap(),
        ..CallerLimits::default()
    }
}

fn audited(world: &mut World, files: usize) -> std::path::PathBuf {
    let dir = world.directory.path().join("audit");
    let limits = strata_audit::Limits {
        file_bytes: 8 << 10,
        files,
    };
    let log = AuditLog::open(&dir, limits).unwrap();
    world.auth = world.auth.clone().with_audit(log);
    dir
}

fn text_of(dir: &Path) -> String {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

fn bearer(world: &World, caller: &str, role: Role, project: Option<&str>) -> String {
    let projects: Vec<_> = project.iter().map(|it| it.parse().unwrap()).collect();
    let made = world
        .tokens
        .create_api_in(&name(caller), role, &projects, None);
    format!("Bearer {}", made.unwrap().1.expose())
}

/// A server, and how often its handler ran.
fn counting(done: &Arc<AtomicUsize>) -> axum::Router {
    let done = done.clone();
    let handler = delete(async move || {
        done.fetch_add(1, Ordering::SeqCst);
        StatusCode::ACCEPTED
    });
    axum::Router::new()
        .route("/instance/{id}", handler)
        .route("/version", get(async || "ok"))
}

#[tokio::test]
async fn flood_of_allowed_calls_leaves_the_lines_of_others() {
    let mut world = World::new();
    let dir = audited(&mut world, 8);
    let done = Arc::<AtomicUsize>::default();
    let transport = Limits::default();
    let budgets = Budgets::new(&transport, limits());
    let server = world
        .serve_within(counting(&done), transport, budgets)
        .await;
    let victim = bearer(&world, "victim", Role::Operator, None);
    let attacker = bearer(&world, "attacker", Role::Operator, None);
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let evidence = bearing(request(Method::DELETE, "/instance/evidence"), &victim);
    assert_eq!(
        http.send(evidence).await.unwrap().status,
        StatusCode::ACCEPTED
    );
    let begin = Instant::now();
    let flood = (0..400).map(|n| {
        let path = format!("/instance/{n}{}", "x".repeat(2000));
        let asked = bearing(request(Method::DELETE, &path), &attacker);
        let mut http = http.clone();
        tokio::spawn(async move { http.send(asked).await.unwrap() })
    });
    let mut passed = 0;
    for answer in flood.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        passed += usize::from(answer.status == StatusCode::ACCEPTED);
        if answer.status != StatusCode::ACCEPTED {
            assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
            assert!(answer.headers.contains_key("retry-after"));
            assert!(answer.text.contains("audit log"), "{}", answer.text);
        }
    }
    let seconds = usize::try_from(begin.elapsed().as_secs()).unwrap() + 1;
    assert!(passed >= BURST, "{passed}");
    assert!(passed <= BURST + seconds * RATE, "{passed} in {seconds} s");
    // What is only read has no such budget, and nor has anyone else.
    let read = bearing(request(Method::GET, "/version"), &attacker);
    assert_eq!(http.send(read).await.unwrap().status, StatusCode::OK);
    let other = bearing(request(Method::DELETE, "/instance/more"), &victim);
    assert_eq!(http.send(other).await.unwrap().status, StatusCode::ACCEPTED);
    let admin = bearer(&world, "boss", Role::Admin, None);
    for n in 0..3 * BURST {
        let asked = bearing(request(Method::DELETE, &format!("/instance/{n}")), &admin);
        assert_eq!(http.send(asked).await.unwrap().status, StatusCode::ACCEPTED);
    }
    let text = text_of(&dir);
    assert!(text.contains("/instance/evidence"), "{text}");
    let lines = text.lines().filter(|line| line.contains("\"allowed\""));
    assert_eq!(lines.count(), done.load(Ordering::SeqCst), "{text}");
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 1400, "a line of {longest} bytes");
}

/// A session has lines of many times the usual length, by the caller's choice:
/// a caller has a budget of bytes, whatever the number of its lines.
#[tokio::test]
async fn flood_of_sessions_leaves_the_lines_of_others() {
    let mut world = World::new();
    let dir = audited(&mut world, 16);
    let session = post(async |Extension(recorder): Extension<SessionRecorder>| {
        let command = ["\u{1}".repeat(4000)];
        let session = recorder.start(SessionKind::Exec, "instance/web", None, &command);
        session.end(SessionEnd::default());
        StatusCode::ACCEPTED
    });
    let gone = delete(async || StatusCode::ACCEPTED);
    let app = axum::Router::new()
        .route("/instance/{id}/exec", session)
        .route("/instance/{id}", gone);
    let transport = Limits::default();
    let caller = CallerLimits {
        audited_bytes_per_second: 64,
        audited_byte_burst: 60 << 10,
        ..CallerLimits::default()
    };
    let budgets = Budgets::new(&transport, caller);
    let server = world.serve_within(app, transport, budgets).await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let victim = bearer(&world, "victim", Role::Operator, None);
    let evidence = bearing(request(Method::DELETE, "/instance/evidence"), &victim);
    let answer = http.send(evidence).await.unwrap();
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let attacker = bearer(&world, "attacker", Role::Operator, Some("shop"));
    let mut refused = 0;
    for _ in 0..40 {
        let exec = bearing(request(Method::POST, "/instance/web/exec"), &attacker);
        let answer = http.send(exec).await.unwrap();
        if answer.status != StatusCode::ACCEPTED {
            assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
            assert!(answer.text.contains("audit log"), "{}", answer.text);
            refused += 1;
        }
    }
    let text = text_of(&dir);
    assert!(text.contains("/instance/evidence"), "pushed out");
    assert!((30..40).contains(&refused), "{refused}");
    // Other callers have their own budget.
    let other = bearing(request(Method::DELETE, "/instance/more"), &victim);
    let answer = http.send(other).await.unwrap();
    assert_eq!(answer.status, StatusCode::ACCEPTED);
}

/// A little more than the rate waits for its turn instead.
#[tokio::test]
async fn call_beyond_the_rate_waits_for_its_line() {
    let mut world = World::new();
    audited(&mut world, 64);
    let done = Arc::<AtomicUsize>::default();
    let transport = Limits::default();
    let budgets = Budgets::new(&transport, limits());
    let server = world
        .serve_within(counting(&done), transport, budgets)
        .await;
    let token = bearer(&world, "ci", Role::Operator, None);
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let begin = Instant::now();
    for n in 0..BURST + RATE {
        let asked = bearing(request(Method::DELETE, &format!("/instance/{n}")), &token);
        assert_eq!(http.send(asked).await.unwrap().status, StatusCode::ACCEPTED);
    }
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(700), "{took:?}");
}

/// Clients without a credential, of however many addresses, hide no refusal of
/// a caller, and one caller none of another.
#[tokio::test]
async fn refusals_of_others_hide_none_of_a_caller() {
    let mut world = World::new();
    let dir = audited(&mut world, 64);
    let server = world
        .serve_with(counting(&Arc::default()), Limits::default())
        .await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    for _ in 0..50 {
        let asked = request(Method::DELETE, "/instance/web");
        let answer = http.send(asked).await.unwrap();
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    let flooder = bearer(&world, "flooder", Role::Viewer, None);
    for _ in 0..50 {
        let asked = bearing(request(Method::DELETE, "/instance/web"), &flooder);
        let answer = http.send(asked).await.unwrap();
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    let spy = bearer(&world, "spy", Role::Viewer, None);
    let asked = bearing(request(Method::DELETE, "/instance/web"), &spy);
    let answer = http.send(asked).await.unwrap();
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let text = text_of(&dir);
    let of = |principal: &str| {
        let principal = format!("\"principal\":\"{principal}\"");
        text.lines().filter(|it| it.contains(&principal)).count()
    };
    assert_eq!(of("spy"), 1, "{text}");
    assert!((20..25).contains(&of("flooder")), "{text}");
}

/// An answer with values has a line: one for a path in a while, so that polling
/// costs no budget; and none is shown beyond the budget.
#[tokio::test]
async fn read_of_values_is_recorded_within_the_budget_of_its_caller() {
    let mut world = World::new();
    let dir = audited(&mut world, 64);
    let shown = async || (Extension(ShowsValues), "secret");
    let app = axum::Router::new()
        .route("/instance/{id}", get(shown))
        .route("/version", get(async || "ok"));
    let transport = Limits::default();
    let budgets = Budgets::new(&transport, limits());
    let server = world.serve_within(app, transport, budgets).await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let token = bearer(&world, "ops", Role::Operator, None);
    for _ in 0..20 * BURST {
        let polled = bearing(request(Method::GET, "/instance/web"), &token);
        assert_eq!(http.send(polled).await.unwrap().status, StatusCode::OK);
        let read = bearing(request(Method::GET, "/version"), &token);
        assert_eq!(http.send(read).await.unwrap().status, StatusCode::OK);
    }
    let reads = |text: &str| {
        let lines = text.lines();
        lines.filter(|it| it.contains("GET /instance/")).count()
    };
    let text = text_of(&dir);
    assert_eq!(reads(&text), 1, "{text}");
    assert!(!text.contains("GET /version"), "{text}");
    let all = (0..100).map(|n| {
        let asked = bearing(request(Method::GET, &format!("/instance/{n}")), &token);
        let mut http = http.clone();
        tokio::spawn(async move { http.send(asked).await.unwrap() })
    });
    let mut shown = 1;
    for answer in all.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        match answer.status {
            StatusCode::OK => shown += 1,
            status => {
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
                assert!(!answer.text.contains("secret"), "{}", answer.text);
            }
        }
    }
    assert!(shown < 100, "{shown}");
    assert_eq!(reads(&text_of(&dir)), shown);
}

struct AllInShop;

impl ProjectLookup for AllInShop {
    fn project_of(&self, _: &str, name: &str, project: Option<&str>) -> Option<String> {
        let is_there = name != "none" && project.is_none_or(|project| project == "shop");
        is_there.then(|| "shop".to_owned())
    }
}

/// Handlers answer that there is no such object; the log says that it was of
/// others, whether the call would have been written or not.
#[tokio::test]
async fn object_of_another_project_is_a_refusal_in_the_log() {
    let mut world = World::new();
    let dir = audited(&mut world, 64);
    world.auth = world.auth.clone().with_lookup(Arc::new(AllInShop));
    let missing = async || StatusCode::NOT_FOUND;
    let app = axum::Router::new().route("/instance/{id}", get(missing).delete(missing));
    let server = world.serve_with(app, Limits::default()).await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    for (principal, project) in [
        ("rival", Some("rival")),
        ("owner", Some("shop")),
        ("all", None),
    ] {
        let token = bearer(&world, principal, Role::Operator, project);
        for path in [
            "/instance/web",
            "/instance/none",
            // None of its own has this name; that of others is not meant.
            "/instance/web?project=rival",
        ] {
            for method in [Method::GET, Method::DELETE] {
                let answer = http.send(bearing(request(method, path), &token)).await;
                assert_eq!(answer.unwrap().status, StatusCode::NOT_FOUND);
            }
        }
    }
    let text = text_of(&dir);
    let denied: Vec<_> = text
        .lines()
        .filter(|it| it.contains("\"denied\""))
        .collect();
    // The owner has named a project that is not its own.
    let expected = [
        ("GET", "rival", "shop"),
        ("DELETE", "rival", "shop"),
        ("GET", "owner", "rival"),
        ("DELETE", "owner", "rival"),
    ];
    assert_eq!(denied.len(), expected.len(), "{denied:#?}");
    for (line, (call, principal, project)) in denied.iter().zip(expected) {
        assert!(line.contains(&format!("{call} /instance/web")), "{line}");
        let principal = format!("\"principal\":\"{principal}\"");
        assert!(line.contains(&principal), "{line}");
        let project = format!("\"project\":\"{project}\"");
        assert!(line.contains(&project), "{line}");
    }
}
