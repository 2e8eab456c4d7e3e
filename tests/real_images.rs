//! Services of Debian, packed as their own images are (`scripts/real-images`),
//! used with their own clients. `make test-images`; one daemon for all of them,
//! because the layer that they share takes long to unpack.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use strata_testkit::pods::{idle, shell, volume};
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{ExecStart, PodLimits, PodSecurity, PodSpec, RestartPolicy};
use strata_testkit::{TEST_TIMEOUT, skip, wait_for};

use crate::pods::{World, world};

const IMAGES: &str = "STRATA_REAL_IMAGES";

struct Services {
    world: World,
    images: String,
}

impl Services {
    /// A pod of a service, as its image says.
    fn pod(&self, name: &str, service: &str) -> PodSpec {
        PodSpec {
            entrypoint: Vec::new(),
            stop_grace_ms: Some(30_000),
            ..idle(name, &format!("oci:{}/{service}:latest", self.images))
        }
    }

    async fn run(&self, spec: PodSpec) {
        let name = spec.name.clone();
        let run = self.world.node.run_pod(spec).await;
        run.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Waits until a command in a pod answers as expected.
    async fn answers(&self, pod: &str, user: &str, command: &str, expected: &str) {
        let what = format!("{pod}: {command}");
        wait_for(&what, TEST_TIMEOUT * 4, async || {
            let start = ExecStart {
                user: user.into(),
                ..shell(pod, command)
            };
            let said = self.world.node.exec(start).await;
            let said = said.map_err(|error| error.to_string())?;
            match said.stdout.contains(expected) {
                true => Ok(()),
                false => Err(format!("{said:?}")),
            }
        })
        .await;
    }

    /// Waits until a pod has logged something.
    async fn logs(&self, pod: &str, expected: &str) {
        wait_for(
            &format!("{pod}: {expected}"),
            TEST_TIMEOUT * 4,
            async || {
                let lines = self.world.node.pod_log(pod).await;
                let lines = lines.map_err(|error| error.to_string())?;
                match lines.iter().any(|line| line.contains(expected)) {
                    true => Ok(()),
                    false => Err(format!("{lines:?}")),
                }
            },
        )
        .await;
    }

    async fn stops_with(&self, pod: &str, code: i32) {
        let stopped = self.world.node.stop_pod(pod).await.unwrap();
        assert_eq!(stopped.exit_code, Some(code), "{pod}: {stopped:?}");
    }
}

fn named(spec: PodSpec, data: &str, target: &str) -> PodSpec {
    PodSpec {
        volumes: vec![volume(Source::Volume(data.into()), target)],
        ..spec
    }
}

fn with_host_users(spec: PodSpec) -> PodSpec {
    PodSpec {
        security: Some(PodSecurity {
            user_namespace: Some(false),
            ..PodSecurity::default()
        }),
        ..spec
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_work_with_their_own_clients() {
    let Ok(images) = std::env::var(IMAGES) else {
        return skip(format!("{IMAGES} is not set: make test-images"));
    };
    let services = Services {
        world: world().await,
        images,
    };
    redis(&services).await;
    postgres(&services).await;
    nginx(&services).await;
    python(&services).await;
    node(&services).await;
    java(&services).await;
    memcached(&services).await;
    busybox(&services).await;
    s6(&services).await;
    sshd(&services).await;
    tools(&services).await;
    mariadb(&services).await;
    haproxy(&services).await;
    rabbitmq(&services).await;
    go(&services).await;
}

/// A user that is not root, on a named volume: it owns the directory.
async fn redis(services: &Services) {
    for (name, host) in [("redis", false), ("redis-host", true)] {
        let spec = named(services.pod(name, "redis"), name, "/data");
        let spec = if host { with_host_users(spec) } else { spec };
        services.run(spec.clone()).await;
        services
            .answers(name, "", "redis-cli set key value", "OK")
            .await;
        services.stops_with(name, 0).await;
        services.world.node.destroy_pod(name).await.unwrap();
        services.run(spec).await;
        services
            .answers(name, "", "redis-cli get key", "value")
            .await;
        services.world.node.destroy_pod(name).await.unwrap();
    }
}

/// Begins as root, changes owners and becomes another user.
async fn postgres(services: &Services) {
    let target = "/var/lib/postgresql/data";
    services
        .run(named(services.pod("pg", "postgres"), "pg", target))
        .await;
    let psql = |text: &str| format!("psql -h 127.0.0.1 -U postgres -Atc '{text}'");
    services
        .answers("pg", "postgres", &psql("select 40 + 2"), "42")
        .await;
    let fill = psql("create table t as select generate_series(1, 50000) as n");
    services
        .answers("pg", "postgres", &fill, "SELECT 50000")
        .await;
    services.stops_with("pg", 0).await;
    services.logs("pg", "database system is shut down").await;
    services.world.node.start_pod("pg").await.unwrap();
    services
        .answers("pg", "postgres", &psql("select count(*) from t"), "50000")
        .await;
    services.world.node.destroy_pod("pg").await.unwrap();
}

/// Logs are links to the standard streams; the site is a named volume.
async fn nginx(services: &Services) {
    for name in ["nginx", "nginx-user"] {
        let spec = named(services.pod(name, name), name, "/var/www/html");
        services.run(spec).await;
        let ask = "curl -s http://127.0.0.1/index.html";
        services
            .answers(name, "", ask, "hello from the image")
            .await;
        services.logs(name, "GET /index.html").await;
        services
            .answers(
                name,
                "",
                "curl -s http://127.0.0.1/none; echo asked",
                "asked",
            )
            .await;
        services.logs(name, "/none").await;
        services.stops_with(name, 0).await;
        services.world.node.destroy_pod(name).await.unwrap();
    }
}

/// A user that is not root, on port 80.
async fn python(services: &Services) {
    services.run(services.pod("python", "python")).await;
    let ask = "curl -s http://127.0.0.1:80/";
    services
        .answers("python", "", ask, "hello from flask")
        .await;
    services.stops_with("python", 0).await;
    services.world.node.destroy_pod("python").await.unwrap();
}

async fn node(services: &Services) {
    let mut spec = services.pod("node", "node");
    spec.limits = Some(PodLimits {
        memory_bytes: Some(200 << 20),
        ..PodLimits::default()
    });
    services.run(spec).await;
    services.logs("node", "ready").await;
    services.logs("node", "memory 209715200").await;
    let ask = "curl -s http://127.0.0.1:8080/";
    services.answers("node", "", ask, "hello from node").await;
    services.stops_with("node", 0).await;
    services.logs("node", "handler ran").await;
    services.world.node.destroy_pod("node").await.unwrap();
}

/// A quarter of the memory limit, and as many processors as the limit says.
async fn java(services: &Services) {
    let mut spec = services.pod("java", "java");
    spec.set_restart(RestartPolicy::Never);
    spec.limits = Some(PodLimits {
        cpu_millis: Some(1000),
        memory_bytes: Some(512 << 20),
        ..PodLimits::default()
    });
    services.run(spec).await;
    services.world.node.wait_pod("java").await.unwrap();
    let lines = services.world.node.pod_log("java").await.unwrap();
    let max = lines
        .iter()
        .find_map(|line| line.strip_prefix("cpus 1 max "));
    let max: u64 = max.unwrap_or_else(|| panic!("{lines:?}")).parse().unwrap();
    assert!((100..=128).contains(&max), "{lines:?}");
    assert!(lines.contains(&"stores true".to_owned()), "{lines:?}");
    services.world.node.destroy_pod("java").await.unwrap();
}

async fn memcached(services: &Services) {
    services.run(services.pod("memcached", "memcached")).await;
    let ask = "printf 'set k 0 0 5\\r\\nvalue\\r\\nget k\\r\\nquit\\r\\n' | nc -N 127.0.0.1 11211";
    services.answers("memcached", "", ask, "value").await;
    services.stops_with("memcached", 0).await;
    services.world.node.destroy_pod("memcached").await.unwrap();
}

/// An init that is PID 1 or nothing.
async fn busybox(services: &Services) {
    let spec = PodSpec {
        init: Some(false),
        ..services.pod("box", "busybox")
    };
    services.run(spec).await;
    services.logs("box", "booted").await;
    services
        .answers("box", "", "cat /proc/1/comm", "init")
        .await;
    services.world.node.destroy_pod("box").await.unwrap();
}

/// PID 1 is the supervisor: it starts what ends again, reaps what is left to it,
/// and takes all down when it is asked to.
async fn s6(services: &Services) {
    for (name, host) in [("s6", false), ("s6-host", true)] {
        let spec = PodSpec {
            init: Some(false),
            ..services.pod(name, "s6")
        };
        let spec = if host { with_host_users(spec) } else { spec };
        services.run(spec).await;
        services.logs(name, "web runs").await;
        let first = "cat /proc/1/comm";
        services.answers(name, "", first, "s6-svscan").await;
        services
            .answers(name, "", "pkill sleep; echo $?", "0")
            .await;
        wait_for("the service to run again", TEST_TIMEOUT, async || {
            let lines = services.world.node.pod_log(name).await;
            let lines = lines.map_err(|error| error.to_string())?;
            match lines
                .iter()
                .filter(|line| line.contains("web runs"))
                .count()
            {
                2.. => Ok(()),
                _ => Err(format!("{lines:?}")),
            }
        })
        .await;
        let zombies = "(sleep 0 &); sleep 1; ps axo stat= | grep -c Z || :";
        services.answers(name, "", zombies, "0").await;
        services.stops_with(name, 0).await;
        services.world.node.destroy_pod(name).await.unwrap();
    }
}

/// A session with a terminal is put on record by the server, or ended.
async fn sshd(services: &Services) {
    for (name, host) in [("sshd", false), ("sshd-host", true)] {
        let spec = services.pod(name, "sshd");
        let spec = if host { with_host_users(spec) } else { spec };
        services.run(spec).await;
        let plain = "ssh user@127.0.0.1 'echo plain $USER'";
        services.answers(name, "root", plain, "plain user").await;
        let terminal = "ssh -tt user@127.0.0.1 'tty; echo terminal $USER' < /dev/null";
        services
            .answers(name, "root", terminal, "terminal user")
            .await;
        services.world.node.destroy_pod(name).await.unwrap();
    }
}

/// Programs that ask for what pods have not, or for what they have to be given.
async fn tools(services: &Services) {
    services.run(services.pod("tools", "tools")).await;
    for user in ["root", "user"] {
        services
            .answers("tools", user, "ping -c 1 127.0.0.1", "1 received")
            .await;
        let own = "prlimit --pid $$ --nofile=100:200 && ulimit -n";
        services.answers("tools", user, own, "100").await;
    }
    let others = "prlimit --pid 1 --nofile=100:200 2>&1";
    services
        .answers("tools", "root", others, "Operation not permitted")
        .await;
    services
        .answers("tools", "user", "sudo id -u 2>&1", "no new privileges")
        .await;
    let hosts = "echo 192.0.2.7 other >> /etc/hosts && getent hosts other";
    services.answers("tools", "root", hosts, "192.0.2.7").await;
    let mut gaining = services.pod("gaining", "tools");
    gaining.security = Some(PodSecurity {
        privilege_escalation: true,
        ..PodSecurity::default()
    });
    services.run(gaining).await;
    services.answers("gaining", "user", "sudo id -u", "0").await;
    for pod in ["tools", "gaining"] {
        services.world.node.destroy_pod(pod).await.unwrap();
    }
}

/// Makes its database as root on a named volume, and becomes another user; its
/// clients use a socket in `/run`.
async fn mariadb(services: &Services) {
    let target = "/var/lib/mysql";
    services
        .run(named(services.pod("mariadb", "mariadb"), "mariadb", target))
        .await;
    let sql = |text: &str| format!("mariadb -N -e '{text}'");
    services
        .answers("mariadb", "root", &sql("select 40 + 2"), "42")
        .await;
    let fill = sql("create database if not exists d; use d; \
         create or replace table t as select seq from seq_1_to_50000");
    services
        .answers(
            "mariadb",
            "root",
            &format!("{fill} && echo filled"),
            "filled",
        )
        .await;
    services.stops_with("mariadb", 0).await;
    services.logs("mariadb", "Shutdown complete").await;
    services.world.node.start_pod("mariadb").await.unwrap();
    services
        .answers("mariadb", "root", &sql("select count(*) from d.t"), "50000")
        .await;
    services.world.node.destroy_pod("mariadb").await.unwrap();
}

/// A master and its workers, of a user that is not root, on port 80.
async fn haproxy(services: &Services) {
    services.run(services.pod("haproxy", "haproxy")).await;
    let ask = "curl -s http://127.0.0.1/";
    services
        .answers("haproxy", "", ask, "hello from haproxy")
        .await;
    services.logs("haproxy", "GET / HTTP").await;
    services.stops_with("haproxy", 0).await;
    services.world.node.destroy_pod("haproxy").await.unwrap();
}

/// Erlang finds its own host name, and keeps a cookie that only its user reads.
async fn rabbitmq(services: &Services) {
    let target = "/var/lib/rabbitmq";
    services
        .run(named(
            services.pod("rabbitmq", "rabbitmq"),
            "rabbitmq",
            target,
        ))
        .await;
    let cli = "/usr/lib/rabbitmq/bin/rabbitmqctl";
    let ask = format!("{cli} await_startup && {cli} add_user someone secret && {cli} list_users");
    services.answers("rabbitmq", "", &ask, "someone").await;
    services.stops_with("rabbitmq", 0).await;
    services.world.node.start_pod("rabbitmq").await.unwrap();
    let ask = format!("{cli} await_startup && {cli} list_users");
    services.answers("rabbitmq", "", &ask, "someone").await;
    services.world.node.destroy_pod("rabbitmq").await.unwrap();
}

/// A static program alone in its image: no shell, no users, nothing to write to.
/// It has as many threads as its limit says, of which Go has two at least.
async fn go(services: &Services) {
    let mut spec = services.pod("go", "go");
    spec.limits = Some(PodLimits {
        cpu_millis: Some(1000),
        ..PodLimits::default()
    });
    spec.security = Some(PodSecurity {
        read_only_root: true,
        ..PodSecurity::default()
    });
    services.run(spec).await;
    services.logs("go", "ready").await;
    let lines = services.world.node.pod_log("go").await.unwrap();
    let threads = lines
        .iter()
        .find_map(|line| line.strip_prefix("GOMAXPROCS "));
    assert!(matches!(threads, Some("1" | "2")), "{lines:?}");
    let seen = "uid 65532 unknown true read-only true".to_owned();
    assert!(lines.contains(&seen), "{lines:?}");
    let address = services.world.node.pod("go").await.unwrap().address;
    services.run(services.pod("caller", "tools")).await;
    let ask = format!("curl -s http://{address}:8080/");
    services.answers("caller", "", &ask, "hello from go").await;
    services.stops_with("go", 0).await;
    services.logs("go", "drained").await;
    for pod in ["go", "caller"] {
        services.world.node.destroy_pod(pod).await.unwrap();
    }
}
