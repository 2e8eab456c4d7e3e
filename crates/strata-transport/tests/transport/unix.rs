//! Unix sockets: who is on the other end, and what the path promises.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Barrier;

use strata_transport::{BindError, bind_unix, serve_unix};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::world::{Http, World, app};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn user_of_the_daemon_is_admin_on_the_socket() {
    let world = World::new();
    let path = world.directory.path().join("run/node.sock");
    let listener = bind_unix(&path, 0o600).unwrap();
    let shutdown = CancellationToken::new();
    let serve = serve_unix(listener, app(), world.auth.clone(), shutdown.clone());
    let task = tokio::spawn(serve);
    let stream = UnixStream::connect(&path).await.unwrap();
    let mut http = Http::over(stream).await.unwrap();
    assert_eq!(http.get("/version").await.text, "admin root socket false");

    shutdown.cancel();
    task.await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn socket_has_the_configured_mode() {
    let world = World::new();
    for wanted in [0o600, 0o660, 0o666] {
        let path = world
            .directory
            .path()
            .join(format!("{wanted:o}/deep/node.sock"));
        let _listener = bind_unix(&path, wanted).unwrap();
        assert_eq!(mode(&path), wanted);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
}

#[tokio::test]
async fn a_daemon_that_answers_keeps_its_socket_and_one_that_is_gone_does_not() {
    let world = World::new();
    let path = world.directory.path().join("node.sock");
    let alive = bind_unix(&path, 0o600).unwrap();
    assert!(matches!(bind_unix(&path, 0o600), Err(BindError::InUse(_))));
    UnixStream::connect(&path).await.unwrap();

    drop(alive);
    assert!(path.exists());
    let _next = bind_unix(&path, 0o600).unwrap();
    UnixStream::connect(&path).await.unwrap();
}

#[tokio::test]
async fn of_many_who_bind_over_a_dead_socket_one_wins() {
    let world = World::new();
    let runtime = tokio::runtime::Handle::current();
    for round in 0..50 {
        let path = world.directory.path().join(format!("{round}.sock"));
        drop(bind_unix(&path, 0o600).unwrap());
        let start = Barrier::new(4);
        let bind = || {
            let _runtime = runtime.enter();
            start.wait();
            bind_unix(&path, 0o600)
        };
        let bound: Vec<_> = std::thread::scope(|scope| {
            let binding: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
            binding.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(bound.iter().filter(|it| it.is_ok()).count(), 1);
        UnixStream::connect(&path).await.unwrap();
    }
}

#[tokio::test]
async fn file_at_the_socket_path_is_never_removed() {
    let world = World::new();
    let file = world.directory.path().join("precious");
    fs::write(&file, "data").unwrap();
    let link = world.directory.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link, &world.directory.path().join("ca")] {
        assert!(matches!(
            bind_unix(path, 0o600),
            Err(BindError::NotASocket(_))
        ));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    let long = world.directory.path().join("x".repeat(120));
    assert!(matches!(
        bind_unix(&long, 0o600),
        Err(BindError::TooLong(_))
    ));
}
