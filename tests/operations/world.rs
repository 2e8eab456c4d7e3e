//! A control plane as `strata up` makes it, in a network of its own: its
//! server reached over TLS, its operations begun and followed by REST.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_client::Channel;
use strata_testkit::cluster::{Rest, scripted};
use strata_testkit::operations::operations_service_client::OperationsServiceClient;
use strata_testkit::serde_json::{Value, from_str, json};
use strata_testkit::{
    Credentials, Daemon, HttpsResponse, NamespaceProxy, NetworkNamespace, ServerClient, Target,
    wait_for,
};

use crate::operations::STRATA;

/// How long anything may take on a machine that is busy with other tests.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(90);
/// Where the server listens in the network of a test.
const ADDRESS: &str = "127.0.0.1:7700";
const CONFIG: &str = "[images]\nhigh_water = 100\n";
/// Leases are long: what happens within a test is not for one that ended.
const LEASE: &str = "[scheduler]\nlease_seconds = 120\n";
/// A small pool, of files that take room as they fill.
pub(crate) const POOL: &str =
    "[storage]\nfile_gb = 1\nfiles = 1\nspare_files = 2\nreserve_mb = 16\n";

/// A control plane and its machine.
pub(crate) struct World {
    pub(crate) daemon: Daemon,
    /// An image that runs what `SCRIPT` in its environment says.
    pub(crate) image: String,
    way: NamespaceProxy,
    network: NetworkNamespace,
}

impl World {
    /// The network that it is in.
    pub(crate) fn network(&self) -> &NetworkNamespace {
        &self.network
    }

    /// With this beyond what all of them have in their configuration.
    pub(crate) async fn start(config: &str) -> Self {
        let mut world = Self::stopped(config).await;
        world.daemon.restart().await;
        world
    }

    /// One that has its directory and runs not yet.
    pub(crate) async fn stopped(config: &str) -> Self {
        Self::stopped_on(&NetworkNamespace::new(), ADDRESS, config).await
    }

    /// The same in this network, with its server at this address.
    pub(crate) async fn stopped_on(
        network: &NetworkNamespace,
        address: &str,
        config: &str,
    ) -> Self {
        let lease = match config.contains("[scheduler]") {
            true => "",
            false => LEASE,
        };
        let daemon = Daemon::build(STRATA)
            .config(&format!("{CONFIG}{lease}{config}"))
            .listen(address)
            .within(network)
            .stopped();
        let far: SocketAddr = address.parse().unwrap();
        Self {
            image: scripted(&daemon.scratch()),
            way: NamespaceProxy::to(network, far).await,
            network: network.clone(),
            daemon,
        }
    }

    /// Kills the daemon and starts it again on the same directory.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.daemon.kill();
        self.daemon.restart().await;
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.daemon.data_dir().join("client")
    }

    pub(crate) fn near(&self) -> SocketAddr {
        self.way.near()
    }

    pub(crate) fn rest(&self) -> Rest {
        Rest::new(self.near(), &self.credentials())
    }

    pub(crate) async fn client(&self) -> ServerClient {
        self.client_with(&self.credentials()).await
    }

    pub(crate) async fn client_with(&self, dir: &Path) -> ServerClient {
        let target = Target::Tls {
            address: format!("https://{}", self.near()).parse().unwrap(),
            credentials: Credentials::read(dir).unwrap(),
        };
        ServerClient::connect(&target).await.unwrap()
    }

    pub(crate) async fn operations(&self) -> OperationsServiceClient<Channel> {
        self.client().await.operations()
    }

    /// The CLI, which must succeed; what it printed for scripts.
    pub(crate) async fn cli(&self, words: &str) -> String {
        self.daemon
            .cli_with_endpoints()
            .run(words.split(' '))
            .await
            .ok()
    }

    /// Begins an operation; its id.
    pub(crate) async fn begin(&self, path: &str, body: Value) -> String {
        let answer = self.rest().call("POST", path, body).await;
        assert_eq!(answer.status, 202, "{path}: {answer:?}");
        let begun = read(&answer);
        begun["id"].as_str().unwrap().to_owned()
    }

    /// Waits until an operation has ended; its record.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        let over = |one: &Value| one["status"] == "COMPLETED" || one["status"] == "FAILED";
        self.until(&format!("/operation/{id}"), over).await
    }

    /// Waits for the good end of an operation.
    pub(crate) async fn completed(&self, id: &str) -> Value {
        let ended = self.ended(id).await;
        assert_eq!(ended["status"], "COMPLETED", "{ended:#}");
        ended
    }

    /// Does an operation from its beginning to its good end.
    pub(crate) async fn done(&self, path: &str, body: Value) -> Value {
        let id = self.begin(path, body).await;
        self.completed(&id).await
    }

    /// Waits until an object is as it is asked to be. The server may be away.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let rest = self.rest();
        wait_for(path, TEST_TIMEOUT, async || {
            let answer = rest.try_call("GET", path, Value::Null).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let one: Value = from_str(&answer.body).unwrap_or(Value::Null);
            match answer.status == 200 && wanted(&one) {
                true => Ok(one),
                false => Err(format!("{answer:?}")),
            }
        })
        .await
    }

    /// Asks for an instance with these fields beside its name and image; its
    /// id.
    pub(crate) async fn instance(&self, name: &str, fields: Value) -> String {
        let mut wanted = json!({ "name": name, "uri": self.image });
        for (key, value) in fields.as_object().unwrap() {
            wanted[key] = value.clone();
        }
        let answer = self.rest().call("PUT", "/instance", wanted).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        read(&answer)["id"].as_str().unwrap().to_owned()
    }

    /// Waits until an instance runs, on this node if one is said.
    pub(crate) async fn runs(&self, id: &str, node: Option<&str>) -> Value {
        let path = format!("/instance/{id}");
        let there =
            |one: &Value| one["status"] == "RUNNING" && node.is_none_or(|node| one["node"] == node);
        self.until(&path, there).await
    }

    /// Where the files of a volume are on this machine.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        let volumes = self.daemon.data_dir().join("pool/mount/volumes");
        volumes.join(name).join("data")
    }

    pub(crate) async fn create_volume(&self, body: Value) -> Value {
        let answer = self.rest().call("PUT", "/storage/volume", body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        read(&answer)
    }
}

impl World {
    /// Puts the image on the disk of each machine, which sees nothing of the
    /// host's, and uses it there from now on.
    pub(crate) async fn use_image_within(&mut self, machines: &[&str]) {
        let dirs = self.daemon.data_dir().join("node/_machines/folders");
        for name in machines {
            let machine = self.daemon.node().await.machine(name).await.unwrap();
            scripted(&dirs.join(&machine.id).join("lib"));
        }
        let outside = self.daemon.scratch().display().to_string();
        self.image = self.image.replace(&outside, "/var/lib");
    }

    /// The machine's own node takes nothing, so that hypervisors do.
    pub(crate) async fn close_own_node(&self) {
        let nodes = self.rest().get("/node").await;
        let names = nodes.as_array().unwrap().iter();
        let names = names.map(|node| node["name"].as_str().unwrap());
        for name in names.filter(|name| !name.starts_with("local-")) {
            let path = format!("/node/{name}");
            self.rest().patch(&path, json!({ "draining": true })).await;
        }
    }

    /// What there is, is what is known to be there.
    pub(crate) async fn nothing_is_left(&self) {
        let made = self.daemon.node().await.machines().await.unwrap();
        let mut made: Vec<String> = made.into_iter().map(|one| one.spec.unwrap().name).collect();
        made.sort();
        let inventory = self.rest().get("/machine").await;
        let inventory = inventory.as_array().unwrap().iter();
        let up = inventory.filter(|one| one["phase"] != "AVAILABLE");
        let up: Vec<&str> = up.map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(made, up);
        let data = self.daemon.data_dir();
        let mount = data.join("pool/mount");
        for dir in [
            mount.join("frozen"),
            mount.join("staging"),
            data.join("backup/state"),
        ] {
            let left = fs::read_dir(&dir).into_iter().flatten().flatten();
            let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
            assert!(left.is_empty(), "{dir:?}: {left:?}");
        }
        if mount.exists() {
            let pool = self.rest().get("/storage").await;
            assert_eq!(pool["state"], "ONLINE", "{pool}");
        }
    }
}

/// The body of an answer.
pub(crate) fn read(answer: &HttpsResponse) -> Value {
    from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}
