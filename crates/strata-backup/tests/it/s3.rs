//! The same in a bucket, on an S3 server that is not ours.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{PASSWORD, World, ask, look, make, restore, save, verify};
use strata_backup::{
    BackupError, Bucket, Location, RepairScope, Repaired, Repository, RepositoryConfig, Secret,
    Silent,
};
use strata_types::backup::Retention;
use tokio_util::sync::CancellationToken;

/// A server with a bucket, for as long as it is held.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Option<Self> {
        let venv = match strata_testkit::python::venv("s3") {
            Ok(venv) => venv,
            Err(why) => {
                strata_testkit::skip(why);
                return None;
            }
        };
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("a port").port();
        drop(free);
        let child = Command::new(venv.join("bin/python"))
            .args(["-c", "from moto.server import main; main()"])
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a server");
        let server = Self { child, port };
        server.make_bucket();
        Some(server)
    }

    /// Waits for the server, and makes the bucket as any client would.
    fn make_bucket(&self) {
        use std::io::{Read as _, Write as _};
        let until = Instant::now() + Duration::from_secs(60);
        let address = ("127.0.0.1", self.port);
        let mut stream = loop {
            match std::net::TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < until, "no server: {error}"),
            }
            std::thread::yield_now();
        };
        let request = "PUT /backups HTTP/1.1\r\nHost: 127.0.0.1\r\n\
            Authorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request\r\n\
            Content-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn bucket(&self) -> Bucket {
        Bucket {
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            region: "us-east-1".to_owned(),
            name: "backups".to_owned(),
            prefix: "strata/one".to_owned(),
            access_key: Secret::new("key"),
            secret_key: Secret::new("secret"),
            allow_http: true,
            authorities: Vec::new(),
        }
    }
}

/// Runs a script of Python with this server's bucket as `bucket`.
fn overwrites(server: &Server, script: &str) {
    let venv = strata_testkit::python::venv("s3").expect("it was there for the server");
    let begin = format!(
        "import boto3\ns3 = boto3.resource('s3', endpoint_url='http://127.0.0.1:{}', \
         aws_access_key_id='key', aws_secret_access_key='secret', region_name='us-east-1')\n\
         bucket = s3.Bucket('backups')\n",
        server.port
    );
    let ran = Command::new(venv.join("bin/python"))
        .args(["-c", &format!("{begin}{script}")])
        .output()
        .expect("a program");
    assert!(ran.status.success(), "{ran:?}");
}

async fn changed(repository: &Repository) -> Repaired {
    let (scope, cancel) = (RepairScope::Changed, CancellationToken::new());
    let repaired = repository.repair(scope, Arc::new(Silent), cancel).await;
    repaired.expect("a repair")
}

#[tokio::test]
async fn damaged_packs_of_a_bucket_are_found_by_the_next_backup() {
    let Some(server) = Server::start() else {
        return;
    };
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 50, 1);
    let repository = repository(server.bucket(), &world.path("cache"));
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    let read = changed(&repository).await;
    assert!(read.checked > 0 && read.damaged.is_empty(), "{read:?}");
    assert_eq!(
        changed(&repository).await.checked,
        0,
        "nothing is read twice"
    );

    overwrites(
        &server,
        "packs = list(bucket.objects.filter(Prefix='strata/one/data/'))\n\
         assert packs\n\
         for pack in packs:\n    \
             body = bytearray(pack.get()['Body'].read())\n    \
             body[len(body) // 2] ^= 1\n    \
             pack.put(Body=bytes(body))\n",
    );
    let found = changed(&repository).await;
    assert_eq!(found.damaged.len() as u64, read.checked, "{found:?}");
    let second = save(&repository, ask("op-2", &source, 1_700_000_060_000)).await;
    assert!(second.new_bytes > 100_000, "it is stored again: {second:?}");
    for id in ["latest", &second.id] {
        let verified = verify(&repository, id, 100).await;
        assert!(verified.is_sound(), "{verified:?}");
    }
    let to = world.path("restored");
    restore(&repository, &second.id, "/volumes/web", &to).await;
    look::assert_same(&source, &to);
}

fn repository(bucket: Bucket, cache: &Path) -> Repository {
    Repository::new(RepositoryConfig {
        location: Location::S3(bucket),
        password: Secret::new(PASSWORD),
        compression: 3,
        cache: Some(cache.to_owned()),
    })
}

#[tokio::test]
async fn a_bucket_is_as_good_as_a_directory() {
    let Some(server) = Server::start() else {
        return;
    };
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 200, 2);
    make::odd(&source.join("odd"));
    let nowhere = Bucket {
        name: "nowhere".to_owned(),
        ..server.bucket()
    };
    let failed = repository(nowhere, &world.path("cache")).ensure().await;
    assert!(
        matches!(failed, Err(BackupError::Settings { .. })),
        "{failed:?}"
    );
    let repository = repository(server.bucket(), &world.path("cache"));
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    std::fs::remove_file(source.join("large0")).expect("a file");
    std::fs::write(source.join("new"), b"new").expect("a file");
    let second = save(&repository, ask("op-2", &source, 1_700_000_060_000)).await;
    assert!(second.new_bytes < 200_000, "{second:?}");
    assert!(verify(&repository, "latest", 100).await.is_sound());
    let to = world.path("restored");
    restore(&repository, &second.id, "/volumes/web", &to).await;
    look::assert_same(&source, &to);

    let keep = Retention {
        last: Some(1),
        ..Retention::default()
    };
    let cancel = CancellationToken::new();
    let pruned = repository.prune(&keep, Arc::new(Silent), cancel).await;
    let pruned = pruned.expect("a prune");
    assert_eq!(pruned.forgotten.len(), 1);
    assert!(pruned.freed_bytes > 5 << 20, "{pruned:?}");
    assert!(verify(&repository, "latest", 100).await.is_sound());
    restic_reads(&server, &world, &source);
}

fn restic_reads(server: &Server, world: &World, source: &Path) {
    let url = format!("s3:http://127.0.0.1:{}/backups/strata/one", server.port);
    let to = world.path("by-restic");
    for name in ["socket", "badlink"] {
        std::fs::remove_file(source.join("odd").join(name)).expect("an odd file");
    }
    let restic = |args: &[&str]| {
        let output = Command::new("restic")
            .args(["--no-cache", "--quiet", "--repo", &url])
            .args(args)
            .env("RESTIC_PASSWORD", PASSWORD)
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .expect("restic");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "restic {args:?}: {errors}");
    };
    restic(&["check", "--read-data"]);
    restic(&["restore", "latest", "--target", to.to_str().expect("text")]);
    let restored = to.join("volumes/web/d01");
    look::assert_same(&source.join("d01"), &restored);
}

#[tokio::test]
async fn missing_store_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("a port").port();
    drop(free);
    let world = World::new();
    let bucket = Bucket {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        region: "us-east-1".to_owned(),
        name: "backups".to_owned(),
        prefix: String::new(),
        access_key: Secret::new("key"),
        secret_key: Secret::new("secret"),
        allow_http: true,
        authorities: Vec::new(),
    };
    let failed = repository(bucket, &world.path("cache")).list().await;
    let Err(BackupError::Unreachable { location, detail }) = failed else {
        panic!("{failed:?}");
    };
    assert!(location.contains(&port.to_string()), "{location}");
    assert!(!detail.contains("secret"), "{detail}");
}
