//! Debian's registry server, on a port of its own, with a record of its
//! requests.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Image;
use crate::wait::{TEST_TIMEOUT, wait_for_blocking};

/// With these a closed registry is opened.
const USER: &str = "tester";
const PASSWORD: &str = "letmein";
/// Both as the registry reads them, the password as its bcrypt.
const HTPASSWD: &str = "tester:$2b$04$abcdefghijklmnopqrstuuPT0cs.zGMMB9aUG3xKmxLeI//6s0m5C\n";

/// A running registry. It ends when it goes out of scope.
#[derive(Debug)]
pub struct Registry {
    child: Child,
    address: String,
    /// The access log: one line for each request.
    asked: Arc<Mutex<Vec<String>>>,
    closed: bool,
    scratch: PathBuf,
    looks: AtomicU64,
}

impl Registry {
    /// One that is open to all, with its content in `dir`; none where the
    /// programs for it are not installed.
    ///
    /// # Panics
    /// When it does not come to serve.
    pub fn start(dir: &Path) -> Option<Self> {
        Self::serve(dir, "")
    }

    /// One that wants a name and a password.
    ///
    /// # Panics
    /// When it does not come to serve.
    pub fn closed(dir: &Path) -> Option<Self> {
        fs::create_dir_all(dir).expect("a directory can be made");
        let file = dir.join("htpasswd");
        fs::write(&file, HTPASSWD).expect("a file can be written");
        let auth = format!(
            "auth: {{htpasswd: {{realm: strata, path: {}}}}}\n",
            file.display()
        );
        let mut registry = Self::serve(dir, &auth)?;
        registry.closed = true;
        Some(registry)
    }

    fn serve(dir: &Path, more: &str) -> Option<Self> {
        for program in ["docker-registry", "skopeo"] {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            if !std::env::split_paths(&paths).any(|dir| dir.join(program).exists()) {
                return None;
            }
        }
        fs::create_dir_all(dir).expect("a directory can be made");
        let config = dir.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: \"127.0.0.1:0\"}}\n{more}",
            dir.join("data").display()
        );
        fs::write(&config, text).expect("a file can be written");
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the registry can be started");
        let stderr = child.stderr.take().expect("it has a pipe");
        let stdout = child.stdout.take().expect("it has a pipe");
        let mut lines = BufReader::new(stderr).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.ok()?;
            let rest = line.split_once("listening on ")?.1;
            Some(rest.split(['"', ' ']).next()?.to_owned())
        });
        // It writes on, and must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self {
            address: address.expect("the registry listens"),
            child,
            asked: remember(stdout),
            closed: false,
            scratch: dir.join("pushed"),
            looks: AtomicU64::new(0),
        })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The name with which a closed one is opened.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// The password with which a closed one is opened.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Puts an image there as `name` (`app:v1`); how it is called from
    /// outside.
    ///
    /// # Panics
    /// When it cannot be pushed.
    pub fn push(&self, image: &Image, name: &str) -> String {
        let dir = self.scratch.join(name.replace([':', '/'], "-"));
        let layout = image.write_layout(&dir, "pushed");
        let reference = format!("{}/{name}", self.address);
        let mut command = Command::new("skopeo");
        command.args(["copy", "--quiet", "--preserve-digests"]);
        command.arg("--dest-tls-verify=false");
        if self.closed {
            command
                .arg("--dest-creds")
                .arg(format!("{USER}:{PASSWORD}"));
        }
        let done = command
            .args([layout, format!("docker://{reference}")])
            .output()
            .expect("skopeo runs");
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "cannot push {name}: {told}");
        self.asked();
        self.lock().clear();
        reference
    }

    /// How many requests there were since the last push whose line in the
    /// access log has this part, such as `GET /v2/app/blobs/`.
    pub fn count(&self, part: &str) -> usize {
        self.asked()
            .iter()
            .filter(|line| line.contains(part))
            .count()
    }

    /// The access log since the last push. The registry writes it when it has
    /// answered, so a request of our own is waited for: all before it are in.
    ///
    /// # Panics
    /// When the registry does not answer.
    pub fn asked(&self) -> Vec<String> {
        let number = self.looks.fetch_add(1, Ordering::Relaxed);
        let mark = format!("/v2/?look={number} ");
        let mut stream = TcpStream::connect(&self.address).expect("the registry is there");
        let request = format!("GET {mark}HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_end(&mut Vec::new()))
            .expect("the registry answers");
        wait_for_blocking("the access log", TEST_TIMEOUT, || {
            let mut lines = self.lock();
            let place = lines.iter().position(|line| line.contains(&mark));
            lines.remove(place.ok_or("not yet")?);
            Ok(lines.clone())
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn remember(from: impl Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    });
    lines
}
