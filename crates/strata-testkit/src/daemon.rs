//! A daemon of the test's own: the real binary in a directory of its own, on
//! ports of its own. It can be killed, started again on the same directory, and
//! stopped. When it goes out of scope everything of it goes, and must be gone.

mod process;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use strata_client::{Endpoints, Error, NodeClient, Target};
use strata_identity::Credentials;
use tempfile::TempDir;

use crate::cli::{Cli, PROGRAMS, copy_into};
use crate::gate::Gate;
use crate::host::{Host, open_file_names, open_files, watches};
use crate::netns::NetworkNamespace;
use crate::node::Node;
use crate::wait::{TEST_TIMEOUT, wait_for};
use process::{end, start};

/// What kind of daemon to start.
#[derive(Clone, Debug)]
pub struct DaemonBuilder {
    binary: PathBuf,
    role: &'static str,
    config: Option<String>,
    arguments: Vec<String>,
    network: Option<NetworkNamespace>,
    disk: Option<PathBuf>,
    listen: String,
    /// Files and directories that its data directory begins with.
    begins_with: Vec<PathBuf>,
    /// Where it looks for programs first.
    programs: Option<PathBuf>,
    environment: Vec<(String, OsString)>,
}

impl DaemonBuilder {
    /// `up`, `node` or `server`.
    #[must_use]
    pub fn role(mut self, role: &'static str) -> Self {
        self.role = role;
        self
    }

    /// The text of a file for `--config`.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        self.config = Some(text.to_owned());
        self
    }

    /// Everything of it in this network namespace.
    #[must_use]
    pub fn within(mut self, network: &NetworkNamespace) -> Self {
        self.network = Some(network.clone());
        self
    }

    /// Everything of it below this directory.
    #[must_use]
    pub fn on_disk(mut self, dir: &Path) -> Self {
        self.disk = Some(dir.to_owned());
        self
    }

    /// Where its server listens; a free port of the loopback by default.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        self.listen = address.to_owned();
        self
    }

    /// With the CA, the tokens and the store key of this server, as a second
    /// one has them.
    #[must_use]
    pub fn beside(mut self, first: &Daemon) -> Self {
        let data = first.data_dir();
        self.begins_with = ["ca", "tokens.json", "store.key"]
            .map(|name| data.join(name))
            .to_vec();
        self
    }

    /// Looks for programs, QEMU for one, in this directory first.
    #[must_use]
    pub fn programs(mut self, dir: &Path) -> Self {
        self.programs = Some(dir.to_owned());
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// When it does not come to serve.
    pub async fn start(self) -> Daemon {
        let mut daemon = self.stopped();
        daemon.restart().await;
        daemon
    }

    /// A directory for it, and nothing that runs yet.
    ///
    /// # Panics
    /// When there is no room for the directory.
    pub fn stopped(self) -> Daemon {
        strata_identity::install_crypto_provider();
        let dir = tempfile::Builder::new()
            .prefix("strata-test-")
            .tempdir_in(self.disk.clone().unwrap_or_else(std::env::temp_dir))
            .expect("a directory can be made");
        let daemon = Daemon {
            builder: self,
            dir,
            child: None,
            ready: String::new(),
        };
        register(&daemon.data_dir());
        copy_into(&daemon.data_dir(), &daemon.builder.begins_with);
        daemon
    }
}

/// Writes a data directory to the list of the test runner, which removes what
/// belongs to it if it has to kill the test.
fn register(data_dir: &Path) {
    let Some(list) = std::env::var_os("STRATA_TEST_WORLDS") else {
        return;
    };
    let file = fs::OpenOptions::new().append(true).open(list);
    let line = format!("{}\n", data_dir.display());
    // The list is gone where the runner is: nothing to clean up for.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// A running daemon, or one that was killed and may be started again.
#[derive(Debug)]
pub struct Daemon {
    builder: DaemonBuilder,
    dir: TempDir,
    child: Option<Child>,
    ready: String,
}

impl Daemon {
    /// A daemon of this binary; `strata up` by default.
    pub fn build(binary: impl Into<PathBuf>) -> DaemonBuilder {
        DaemonBuilder {
            binary: binary.into(),
            role: "up",
            config: None,
            arguments: Vec::new(),
            network: None,
            disk: None,
            listen: "127.0.0.1:0".to_owned(),
            begins_with: Vec::new(),
            programs: None,
            environment: Vec::new(),
        }
    }

    /// `strata up` with defaults, and a connected client.
    pub async fn up(binary: impl Into<PathBuf>) -> (Self, Node) {
        let daemon = Self::build(binary).start().await;
        let node = daemon.node().await;
        (daemon, node)
    }

    /// Gives it another configuration from its next start on.
    pub fn set_config(&mut self, text: &str) {
        self.builder.config = Some(text.to_owned());
    }

    /// Gives an argument another value, from the next start on.
    ///
    /// # Panics
    /// When it was not started with such an argument.
    pub fn set_argument(&mut self, name: &str, value: &str) {
        let arguments = &mut self.builder.arguments;
        let at = arguments.iter().position(|argument| argument == name);
        arguments[at.expect("it has the argument") + 1] = value.to_owned();
    }

    /// Another binary, from the next start on.
    pub fn set_binary(&mut self, binary: impl Into<PathBuf>) {
        self.builder.binary = binary.into();
    }

    /// A variable of its environment, from the next start on.
    pub fn set_environment(&mut self, name: &str, value: impl Into<OsString>) {
        let variable = (name.to_owned(), value.into());
        self.builder.environment.push(variable);
    }

    /// Starts again, or for the first time, on the same directory.
    ///
    /// # Panics
    /// When it does not come to serve.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "the daemon runs");
        let command = self.command();
        let starting = tokio::task::spawn_blocking(move || start(command));
        match starting.await.expect("starting does not panic") {
            Ok((child, ready)) => {
                self.ready = ready;
                self.child = Some(child);
            }
            Err(why) => panic!("the daemon does not serve: {why}\n{}", self.log()),
        }
    }

    /// The same where it may refuse to serve: then why.
    ///
    /// # Errors
    /// What it wrote before it ended.
    ///
    /// # Panics
    /// When it runs.
    pub async fn try_restart(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "the daemon runs");
        let command = self.command();
        let starting = tokio::task::spawn_blocking(move || start(command));
        match starting.await.expect("starting does not panic") {
            Ok((child, ready)) => {
                self.ready = ready;
                self.child = Some(child);
                Ok(())
            }
            Err(why) => Err(format!("{why}\n{}", self.log())),
        }
    }

    /// One more argument, from the next start on.
    pub fn add_argument(&mut self, argument: &str) {
        self.builder.arguments.push(argument.to_owned());
    }

    fn command(&self) -> Command {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("stderr"))
            .expect("a log can be made");
        let DaemonBuilder {
            role,
            config,
            arguments,
            listen,
            programs,
            environment,
            ..
        } = &self.builder;
        let mut command = self.cli().command([*role, "--data-dir"]);
        command.arg(self.data_dir()).stderr(log);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(programs) = programs {
            command.env("PATH", format!("{}:{PROGRAMS}", programs.display()));
        }
        if *role != "node" {
            command.args(["--listen", listen]);
        }
        if *role != "server" {
            command.args(["--node-listen", "127.0.0.1:0"]);
        }
        if let Some(text) = config {
            let file = self.dir.path().join("config.toml");
            fs::write(&file, text).expect("a file can be written");
            command.arg("--config").arg(file);
        }
        command.args(arguments);
        command
    }

    /// The line it printed when it was ready.
    pub fn ready(&self) -> &str {
        &self.ready
    }

    /// All state of the run.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A directory beside the data directory, for whatever a test needs.
    pub fn scratch(&self) -> PathBuf {
        let dir = self.dir.path().join("scratch");
        fs::create_dir_all(&dir).expect("a directory can be made");
        dir
    }

    /// A gate for scripts that run in its cells.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::new(&self.scratch(), name)
    }

    /// The pid of the daemon.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the daemon runs").id()
    }

    /// Whether it was started and not killed since.
    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// How many files the daemon has open.
    pub fn open_files(&self) -> usize {
        open_files(self.pid())
    }

    /// What the files are that the daemon has open.
    pub fn open_file_names(&self) -> Vec<String> {
        open_file_names(self.pid())
    }

    /// How many files and directories the daemon watches.
    pub fn watches(&self) -> usize {
        watches(self.pid())
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        let log = fs::read(self.dir.path().join("stderr")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Where traces of the run are looked for.
    pub fn host(&self) -> Host {
        let host = Host::of(&self.data_dir());
        match &self.builder.network {
            Some(network) => host.within(network),
            None => host,
        }
    }

    /// The binary, with a home of its own and no word about any daemon.
    pub fn cli(&self) -> Cli {
        let cli = Cli::new(&self.builder.binary, self.dir.path());
        match &self.builder.network {
            Some(network) => cli.within(network),
            None => cli,
        }
    }

    /// The binary, with the address of this daemon.
    pub fn cli_with_endpoints(&self) -> Cli {
        self.cli().env("STRATA_DATA_DIR", self.data_dir())
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When it never served.
    pub fn endpoints(&self) -> Endpoints {
        let endpoints = Endpoints::read(&self.data_dir().join("client"));
        endpoints
            .expect("the endpoints can be read")
            .expect("the daemon has served")
    }

    /// A client of the node's TLS port with a certificate of this role, whose
    /// name is that of the role.
    ///
    /// # Panics
    /// When it gets no certificate, or no answer.
    pub async fn node_as(&self, role: &str) -> Node {
        let directory = self.scratch().join(format!("as-{role}"));
        let out = directory.display().to_string();
        let issue = [
            "certificate",
            "issue",
            "--role",
            role,
            "--name",
            role,
            "--out",
            &out,
        ];
        self.cli_with_endpoints().run(issue).await.ok();
        self.node_with(&directory).await.expect("the node answers")
    }

    /// A client over the Unix socket.
    ///
    /// # Panics
    /// When it cannot connect.
    pub async fn node(&self) -> Node {
        let socket = self.endpoints().node_socket.expect("there is a node");
        let client = NodeClient::connect(&Target::Unix(socket)).await;
        Node::new(client.unwrap_or_else(|error| panic!("{error}\n{}", self.log())))
    }

    /// A client over the node's TLS port with the credentials in `dir`.
    pub async fn node_with(&self, dir: &Path) -> Result<Node, Error> {
        let address = self.endpoints().node.expect("there is a node");
        let target = Target::Tls {
            address: address.parse().expect("an address is one"),
            credentials: Credentials::read(dir).expect("the credentials can be read"),
        };
        NodeClient::connect(&target).await.map(Node::new)
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
    }

    /// Stops its process where it is, or has it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze(&self, frozen: bool) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(pid.expect("a daemon that runs has a pid"), signal)
            .expect("a daemon can be signalled");
    }

    /// SIGTERM, without waiting for its end.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal_end(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a daemon that runs has a pid"), Signal::TERM)
            .expect("a daemon can be signalled");
    }

    /// Waits until it has ended by itself; how it did.
    ///
    /// # Panics
    /// When it does not run or does not end.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the daemon runs");
        wait_for("the daemon to end by itself", TEST_TIMEOUT, async || {
            let status = child.try_wait().map_err(|error| error.to_string())?;
            status.ok_or_else(|| "it runs".to_owned())
        })
        .await
    }

    /// SIGTERM; how it ended and how long that took.
    ///
    /// # Panics
    /// When it does not run or does not end.
    pub async fn terminate(&mut self) -> (ExitStatus, Duration) {
        let child = self.child.take().expect("the daemon runs");
        let ending = tokio::task::spawn_blocking(move || end(child));
        ending.await.expect("the daemon ends")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let host = self.host();
        let failed = self.take_down();
        let left = host.look();
        if std::thread::panicking() {
            self.show();
            return;
        }
        if let Err(why) = failed {
            panic!("`strata down` failed: {why}\n{}", self.log());
        }
        assert!(left.is_empty(), "the run left {left:#?}\n{}", self.log());
    }
}

impl Daemon {
    /// Ends and removes everything of the run.
    fn take_down(&mut self) -> Result<(), String> {
        let has = |name: &str| self.data_dir().join(name).exists();
        let has_run = has("node/run") || has("pool");
        let down = has_run.then(|| {
            self.cli()
                .command(["down", "--yes", "--data-dir"])
                .arg(self.data_dir())
                .stdout(Stdio::null())
                .output()
        });
        if let Some(child) = self.child.take() {
            end(child);
        }
        match down {
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(output)) if !output.status.success() => {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
            _ => Ok(()),
        }
    }

    /// The end of the log, for the reader of a failed test.
    #[allow(clippy::print_stderr)]
    fn show(&self) {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.len().saturating_sub(40);
        eprintln!("--- the daemon's log\n{}\n---", lines[last..].join("\n"));
    }
}
