//! Small images for tests: busybox and whatever else a test puts into them,
//! as a layout directory, as an archive, or in a registry of one's own.
//!
//! ```no_run
//! use strata_testkit::images::{Image, busybox_layout};
//! # let directory = std::path::Path::new("/tmp/x");
//! let plain = busybox_layout(directory); // oci:/tmp/x/busybox:latest
//! let web = Image::busybox()
//!     .file("www/index.html", b"hello")
//!     .entrypoint(["httpd", "-f", "-h", "/www"])
//!     .user("1000:1000")
//!     .write_layout(&directory.join("web"), "v1");
//! ```

mod proxy;
mod registry;
mod tar;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use proxy::Proxy;
pub use registry::Registry;
use tar::{Tar, gzip};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Busybox in the layout directory `dir/busybox`, with `PATH` and `GREETING`
/// in its environment, `/srv` as its working directory, `sh -c` as its
/// entrypoint and `echo "$GREETING"` as its command: `oci:…/busybox:latest`.
///
/// # Panics
/// When this machine has no busybox, or no room.
pub fn busybox_layout(dir: &Path) -> String {
    Image::busybox()
        .dir("srv", 0o755, 0)
        .entrypoint(["/bin/sh", "-c"])
        .cmd(["echo \"$GREETING\""])
        .env("GREETING", "hello from busybox")
        .workdir("/srv")
        .write_layout(&dir.join("busybox"), "latest")
}

/// An image in the making: layers, the lowest first, and how to run it.
#[derive(Clone, Debug)]
pub struct Image {
    layers: Vec<Tar>,
    config: serde_json::Map<String, Value>,
    env: Vec<String>,
    architecture: String,
}

impl Image {
    /// An image with one layer and nothing in it.
    pub fn empty() -> Self {
        Self {
            layers: vec![Tar::default()],
            config: serde_json::Map::new(),
            env: vec!["PATH=/bin:/sbin:/usr/bin".into()],
            architecture: "amd64".into(),
        }
    }

    /// Busybox with all its programs in `/bin`, the usual directories, root, and
    /// a user `app` with the number 1000.
    ///
    /// # Panics
    /// When this machine has no busybox.
    pub fn busybox() -> Self {
        let busybox = ["/bin/busybox", "/usr/bin/busybox"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .expect("busybox-static is installed");
        let mut image = Self::empty();
        for name in ["bin", "etc", "home", "proc", "sys", "dev", "root", "var"] {
            image = image.dir(name, 0o755, 0);
        }
        image = image
            .dir("tmp", 0o1777, 0)
            .dir("home/app", 0o755, 1000)
            .file(
                "etc/passwd",
                b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n",
            )
            .file("etc/group", b"root:x:0:\napp:x:1000:\nextra:x:2000:app\n")
            .program("bin/busybox", &fs::read(busybox).expect("it can be read"));
        let list = Command::new(busybox).arg("--list").output();
        let list = list.expect("busybox runs").stdout;
        for applet in String::from_utf8_lossy(&list).lines() {
            if applet != "busybox" {
                image = image.symlink(&format!("bin/{applet}"), "busybox");
            }
        }
        image
    }

    /// What comes now is a layer on top.
    #[must_use]
    pub fn layer(mut self) -> Self {
        self.layers.push(Tar::default());
        self
    }

    fn top(&mut self) -> &mut Tar {
        if self.layers.is_empty() {
            self.layers.push(Tar::default());
        }
        let last = self.layers.len() - 1;
        &mut self.layers[last]
    }

    /// A directory of this owner, user and group alike. Paths have no slash in
    /// front.
    #[must_use]
    pub fn dir(mut self, path: &str, mode: u32, owner: u32) -> Self {
        self.top().dir(path, mode, owner);
        self
    }

    /// A file of root's that all can read. `.wh.NAME` takes NAME away.
    #[must_use]
    pub fn file(mut self, path: &str, bytes: &[u8]) -> Self {
        self.top().file(path, 0o644, 0, bytes);
        self
    }

    /// A file of this mode and owner.
    #[must_use]
    pub fn file_as(mut self, path: &str, mode: u32, owner: u32, bytes: &[u8]) -> Self {
        self.top().file(path, mode, owner, bytes);
        self
    }

    /// A file that can be run.
    #[must_use]
    pub fn program(mut self, path: &str, bytes: &[u8]) -> Self {
        self.top().file(path, 0o755, 0, bytes);
        self
    }

    /// A program with these file capabilities, one bit each.
    #[must_use]
    pub fn capable(mut self, path: &str, capabilities: u32, bytes: &[u8]) -> Self {
        self.top().capable(path, capabilities, bytes);
        self
    }

    /// A symbolic link.
    #[must_use]
    pub fn symlink(mut self, path: &str, target: &str) -> Self {
        self.top().symlink(path, target);
        self
    }

    /// Something else than a file: `b'6'` is a pipe, `b'3'` the device null.
    #[must_use]
    pub fn special(mut self, path: &str, kind: u8) -> Self {
        self.top().special(path, kind);
        self
    }

    /// No variables at all, not even `PATH`.
    #[must_use]
    pub fn no_environment(mut self) -> Self {
        self.env.clear();
        self
    }

    /// A file of this many bytes that no compression makes smaller; another
    /// `seed` gives others.
    #[must_use]
    pub fn noise(self, path: &str, seed: u64, length: usize) -> Self {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .take(length)
        .collect();
        self.file(path, &bytes)
    }

    /// The program.
    #[must_use]
    pub fn entrypoint<S: Into<String>>(self, words: impl IntoIterator<Item = S>) -> Self {
        self.list("Entrypoint", words)
    }

    /// Its arguments, or the program when there is no entrypoint.
    #[must_use]
    pub fn cmd<S: Into<String>>(self, words: impl IntoIterator<Item = S>) -> Self {
        self.list("Cmd", words)
    }

    fn list<S: Into<String>>(self, key: &str, words: impl IntoIterator<Item = S>) -> Self {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        self.set(key, json!(words))
    }

    /// A variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push(format!("{key}={value}"));
        self
    }

    /// Where it starts.
    #[must_use]
    pub fn workdir(self, path: &str) -> Self {
        self.set("WorkingDir", json!(path))
    }

    /// `user`, `user:group`, by name or number.
    #[must_use]
    pub fn user(self, user: &str) -> Self {
        self.set("User", json!(user))
    }

    /// Anything else of the config, by the name that the specification has
    /// for it: `StopSignal`, `Labels`, `ExposedPorts`, `Volumes`.
    #[must_use]
    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.config.insert(key.to_owned(), value);
        self
    }

    /// For another processor than amd64.
    #[must_use]
    pub fn architecture(mut self, architecture: &str) -> Self {
        self.architecture = architecture.to_owned();
        self
    }

    /// Writes a layout directory with this one image: `oci:DIR:TAG`.
    ///
    /// # Panics
    /// When there is no room.
    pub fn write_layout(&self, dir: &Path, tag: &str) -> String {
        let blobs = dir.join("blobs/sha256");
        fs::create_dir_all(&blobs).expect("a directory can be made");
        let (manifest, contents) = self.contents();
        for content in contents.iter().chain([&manifest]) {
            fs::write(blobs.join(hex(content)), content).expect("a file can be written");
        }
        let mut entry = descriptor(MANIFEST, &manifest);
        entry["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        let write = |name: &str, text: String| {
            fs::write(dir.join(name), text).expect("a file can be written");
        };
        write("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#.into());
        write("index.json", index.to_string());
        format!("oci:{}:{tag}", dir.display())
    }

    /// Writes what `docker save` would: `docker-archive:FILE`.
    ///
    /// # Panics
    /// When there is no room.
    pub fn write_archive(&self, file: &Path, name: &str) -> String {
        let (config, layers) = self.documents();
        let config_name = format!("{}.json", hex(&config));
        let mut archive = Tar::default();
        archive.file(&config_name, 0o644, 0, &config);
        let mut names = Vec::new();
        for layer in &layers {
            let name = format!("{}.tar", hex(layer));
            archive.file(&name, 0o644, 0, layer);
            names.push(name);
        }
        let manifest = json!([{ "Config": config_name, "RepoTags": [name], "Layers": names }]);
        archive.file("manifest.json", 0o644, 0, manifest.to_string().as_bytes());
        fs::write(file, archive.finish()).expect("a file can be written");
        format!("docker-archive:{}", file.display())
    }

    /// The digest of its manifest in a layout or a registry.
    pub fn digest(&self) -> String {
        format!("sha256:{}", hex(&self.contents().0))
    }

    /// The manifest, and all that it names.
    fn contents(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (config, layers) = self.documents();
        let packed: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
        let layers: Vec<Value> = packed.iter().map(|blob| descriptor(LAYER, blob)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": layers,
        });
        let mut contents = packed;
        contents.push(config);
        (manifest.to_string().into_bytes(), contents)
    }

    /// The config, and the layers before they are packed.
    fn documents(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let layers: Vec<Vec<u8>> = self.layers.iter().cloned().map(Tar::finish).collect();
        let ids: Vec<String> = layers
            .iter()
            .map(|l| format!("sha256:{}", hex(l)))
            .collect();
        let mut run = self.config.clone();
        run.insert("Env".into(), json!(self.env));
        let config = json!({
            "created": "2026-01-31T12:00:00Z",
            "os": "linux",
            "architecture": self.architecture,
            "config": run,
            "rootfs": { "type": "layers", "diff_ids": ids },
        });
        (config.to_string().into_bytes(), layers)
    }
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn descriptor(kind: &str, content: &[u8]) -> Value {
    json!({
        "mediaType": kind,
        "digest": format!("sha256:{}", hex(content)),
        "size": content.len(),
    })
}
