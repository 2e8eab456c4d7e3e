//! Starts OpenStack's Redfish emulator, which is not of this project.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use strata_testkit::{TEST_TIMEOUT, skip, wait_for};
use tempfile::TempDir;

/// `admin` with the password `s3cret`, as Apache keeps it.
const USERS: &str = "admin:$2b$04$ymzVBf4cKksEFfz378UeH.0lRN/WuggYNwQXid.vh1WrzfOMXkRAK\n";

/// The emulator's program; none, with a reason printed, where it cannot be had.
pub(crate) fn program() -> Option<PathBuf> {
    match strata_testkit::python::venv("redfish") {
        Ok(venv) => Some(venv.join("bin/sushy-emulator")),
        Err(why) => {
            skip(why);
            None
        }
    }
}

/// An emulator that runs, over TLS and with a password.
pub(crate) struct Emulator {
    process: Child,
    pub(crate) url: String,
    pub(crate) ca: PathBuf,
    pub(crate) directory: TempDir,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

impl Emulator {
    /// Starts it. `run` makes the command of a program, which lets it stand
    /// inside another.
    pub(crate) async fn start(
        directory: TempDir,
        settings: &str,
        run: impl FnOnce(&Path) -> Command,
    ) -> Self {
        let at = |name: &str| directory.path().join(name);
        for made in ["state", "tmp"] {
            fs::create_dir(at(made)).unwrap();
        }
        let named = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let pair = rcgen::generate_simple_self_signed(named).unwrap();
        fs::write(at("cert"), pair.cert.pem()).unwrap();
        fs::write(at("key"), pair.signing_key.serialize_pem()).unwrap();
        fs::write(at("users"), USERS).unwrap();
        let shown = |name: &str| at(name).display().to_string();
        let settings = format!(
            "SUSHY_EMULATOR_AUTH_FILE = {:?}\nSUSHY_EMULATOR_STATE_DIR = {:?}\n{settings}\n",
            shown("users"),
            shown("state"),
        );
        fs::write(at("settings.py"), settings).unwrap();
        // No other process is given the number again so soon.
        let bound = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = bound.local_addr().unwrap().port();
        drop(bound);
        let log = File::create(at("log")).unwrap();
        let process = run(directory.path())
            .args(["--config", &shown("settings.py"), "-i", "127.0.0.1", "-p"])
            .arg(port.to_string())
            .args([
                "--ssl-certificate",
                &shown("cert"),
                "--ssl-key",
                &shown("key"),
            ])
            .env("TMPDIR", at("tmp"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut this = Self {
            process,
            url: format!("https://127.0.0.1:{port}"),
            ca: at("cert"),
            directory,
        };
        wait_for("the emulator", 2 * TEST_TIMEOUT, async || {
            let ended = this.process.try_wait().unwrap();
            assert!(ended.is_none(), "it does not run: {ended:?}");
            let found = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
            found.map(drop).map_err(|error| error.to_string())
        })
        .await;
        this
    }

    /// With one simulated machine.
    pub(crate) async fn fake(program: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let run = |_: &Path| {
            let mut command = Command::new("setpriv");
            command
                .args(["--pdeathsig", "KILL"])
                .arg(program)
                .arg("--fake");
            command
        };
        Self::start(directory, "", run).await
    }
}
