//! A machine whose boot is readable on its way: it is sent nothing secret but a
//! token that is good for one join, and has the registries of its server when it
//! has joined. The region is simulated, as far as one machine needs it; the node
//! is real.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use strata_testkit::images::{Image, Registry};
use strata_testkit::serde_json::{Value, from_str};
use strata_testkit::{Daemon, wait_for};

use crate::operations::STRATA;
use crate::operations::world::TEST_TIMEOUT;

/// How full the disk is does not matter here.
const IMAGES: &str = "[images]\nhigh_water = 100\n";
/// A region with one machine, which is deployed at once. What that is to execute
/// first is written to a file.
const REGION: &str = r#"
import base64, http.server, json, os, sys, urllib.parse
machine = {"system_id": "aaa111", "hostname": "host", "status_name": "Ready",
    "power_state": "off", "owner": None, "owner_data": {}, "ip_addresses": []}
agent = None
class Region(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        where = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(where.query)
        named = query.get("agent_name", [agent]) == [agent]
        listed = [machine] if named else []
        self.answer(listed if where.path.endswith("/machines/") else machine)
    def do_POST(self):
        global agent
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {key: value[0] for key, value in urllib.parse.parse_qs(body).items()}
        operation = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["op"][0]
        if operation == "allocate":
            agent = form["agent_name"]
            machine.update(status_name="Allocated", owner="strata")
        elif operation == "set_owner_data":
            machine["owner_data"].update(form)
        elif operation == "deploy":
            with open(sys.argv[1] + ".new", "wb") as file:
                file.write(base64.b64decode(form["user_data"]))
            os.rename(sys.argv[1] + ".new", sys.argv[1])
            machine.update(status_name="Deployed", power_state="on")
        self.answer(machine)
    def answer(self, value):
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Region)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// Ends with the test.
struct Region(Child);

impl Region {
    /// With its address.
    fn start(user_data: &Path) -> (Self, String) {
        let mut child = Command::new("python3")
            .args(["-c", REGION])
            .arg(user_data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut port).unwrap();
        let address = format!("http://127.0.0.1:{}/MAAS", port.trim());
        (Self(child), address)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn config(region: &str, registry: &Registry) -> String {
    let address = registry.address();
    format!(
        "{IMAGES}plain_http = [{address:?}]\n\
         [images.registries.{address:?}]\nuser = {:?}\npassword = {:?}\n\
         [machines.maas]\nbinary_url = \"http://127.0.0.1:1/strata\"\nbinary_sha256 = {:?}\n\
         [machines.maas.credentials.lab]\n\
         address = {region:?}\napi_key = \"con:tok:sec\"\ninsecure = true\n",
        registry.user(),
        registry.password(),
        "ab".repeat(32),
    )
}

async fn node(config: &str, server: &str, name: &str, token: &str) -> Daemon {
    Daemon::build(STRATA)
        .role("node")
        .config(config)
        .arg("--server")
        .arg(server)
        .arg("--name")
        .arg(name)
        .arg("--join-token")
        .arg(token)
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn deployed_machine_receives_registries_when_it_joins_and_not_before() {
    let scratch = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::closed(scratch.path()) else {
        return;
    };
    let image = registry.push(&Image::empty(), "app:v1");
    let user_data = scratch.path().join("user-data");
    let (_region, address) = Region::start(&user_data);
    let server = Daemon::build(STRATA)
        .role("server")
        .config(&config(&address, &registry))
        .start()
        .await;
    let cli = server.cli_with_endpoints();
    let add = "machine add m1 --provider maas --handle aaa111 --credentials-name lab";
    cli.run(add.split(' ')).await.ok();
    let create = ["hypervisor", "create", "m1", "--detach"];
    cli.run(create).await.ok();

    let told = wait_for("the deployment", TEST_TIMEOUT, async || {
        std::fs::read_to_string(&user_data).map_err(|error| error.to_string())
    })
    .await;
    assert!(!told.contains(registry.password()), "{told}");
    let told: Value = from_str(told.strip_prefix("#cloud-config\n").unwrap()).unwrap();
    let file = |at: usize| told["write_files"][at]["content"].as_str().unwrap();
    let value = |key: &str| {
        let line = file(0).lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.strip_prefix('=')).unwrap()
    };
    let config = format!("{}{IMAGES}", file(1));
    let (address, token) = (value("STRATA_SERVER"), value("STRATA_JOIN_TOKEN"));
    let mut machine = node(&config, address, value("STRATA_NAME"), token).await;
    let pull = ["image", "pull", &image];
    machine.cli_with_endpoints().run(pull).await.ok();
    assert!(!machine.log().contains(registry.password()));
    // It joins once, and knows them still when it starts again.
    let remove = ["image", "rm", &image];
    machine.cli_with_endpoints().run(remove).await.ok();
    machine.kill();
    machine.restart().await;
    machine.cli_with_endpoints().run(pull).await.ok();

    // A node that people set up has what they configured.
    let words = ["token", "create", "--join", "--name", "n2", "-q"];
    let token = cli.run(words).await.ok();
    let other = node(IMAGES, address, "n2", token.trim()).await;
    let refused = other.cli_with_endpoints().run(pull).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
}
