//! Against the real thing: Debian's registry server, images pushed and
//! converted by skopeo, unpacked by umoci for comparison.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::image::BuiltImage;
use crate::support::layer::{Entry, Layer, gzip, zstd};
use crate::support::store;
use strata_image::{Image, PullOptions, Reference, Registries, RegistryOptions, Store};

/// A registry of our own on a port of its own.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(dir: &Path) -> Self {
        let config = dir.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"127.0.0.1:0\"}}\n",
            dir.join("data").display()
        );
        fs::write(&config, text).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .find_map(|line| {
                let line = line.ok()?;
                let rest = line.split_once("listening on ")?.1;
                Some(rest.split(['"', ' ']).next()?.to_owned())
            })
            .expect("the registry ended before it listened");
        // It writes on, and must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this machine has the peers; prints a message when it has not.
fn have(programs: &[&str]) -> bool {
    let found = |program: &&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|dir| dir.join(program).exists())
    };
    let missing: Vec<_> = programs.iter().filter(|program| !found(program)).collect();
    if !missing.is_empty() {
        let required = std::env::var_os("STRATA_REQUIRE_ALL").is_some_and(|value| value != "0");
        assert!(
            !required,
            "this cannot run here: not installed: {missing:?}"
        );
        println!("skipped, nothing is proven: not installed: {missing:?}");
    }
    missing.is_empty()
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {told}");
}

/// A program, links, owners, and two layers that change the first.
fn layers() -> Vec<Layer> {
    let busybox = fs::read("/bin/busybox").unwrap_or_else(|_| vec![7; 700_000]);
    let program = Entry {
        path: b"bin/busybox",
        data: &busybox,
        mode: 0o4755,
        ..Entry::default()
    };
    let owned = Entry {
        path: b"home/me/file",
        data: b"mine",
        mode: 0o640,
        owner: (1000, 1000),
        ..Entry::default()
    };
    vec![
        Layer::new()
            .dir("bin")
            .entry(&program)
            .hard_link("bin/sh", "bin/busybox")
            .symlink("bin/ls", "busybox")
            .dir("etc")
            .file("etc/one", b"1")
            .file("etc/two", b"2")
            .dir("var")
            .dir("var/old")
            .file("var/old/file", b"old"),
        Layer::new()
            .dir("etc")
            .file("etc/.wh.one", b"")
            .file("etc/three", b"3")
            .dir("var")
            .dir("var/old")
            .file("var/old/.wh..wh..opq", b"")
            .file("var/old/new", b"new"),
        Layer::new()
            .dir("home")
            .dir("home/me")
            .entry(&owned)
            .dir("etc")
            .file("etc/two", b"two"),
    ]
}

/// What is at a path: mode, owner, group, time, content or target.
type Tree = BTreeMap<PathBuf, (u32, u32, u32, i64, Vec<u8>)>;

/// Puts a directory on top of a tree as an overlay would.
fn add(tree: &mut Tree, root: &Path, path: &Path) {
    let mut entries: Vec<_> = fs::read_dir(root.join(path)).unwrap().collect();
    entries.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    for entry in entries {
        let path = path.join(entry.unwrap().file_name());
        let whole = root.join(&path);
        let metadata = fs::symlink_metadata(&whole).unwrap();
        let kind = metadata.file_type();
        let mut value = [0; 1];
        let opaque = rustix::fs::lgetxattr(&whole, "trusted.overlay.opaque", &mut value).is_ok();
        let gone = kind.is_char_device() && metadata.rdev() == 0;
        if !kind.is_dir() || opaque {
            tree.retain(|known, _| !known.starts_with(&path));
        }
        if gone {
            continue;
        }
        let content = if kind.is_file() {
            fs::read(&whole).unwrap()
        } else if kind.is_symlink() {
            fs::read_link(&whole)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else {
            Vec::new()
        };
        let mtime = metadata.mtime();
        let facts = (
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            mtime,
            content,
        );
        tree.insert(path.clone(), facts);
        if kind.is_dir() {
            add(tree, root, &path);
        }
    }
}

fn merged(image: &Image) -> Tree {
    let mut tree = Tree::new();
    for layer in &image.layers {
        add(&mut tree, layer, Path::new(""));
    }
    tree
}

async fn pull(store: &Store, name: &str, plain: &[String]) -> Image {
    let reference: Reference = name.parse().unwrap();
    let registries = Registries::new(RegistryOptions {
        plain_http: plain.to_vec(),
        ..RegistryOptions::default()
    });
    let source = registries.unwrap().source(&reference);
    let pulled = store
        .pull(&reference, &source, PullOptions::default())
        .await;
    pulled.unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[tokio::test]
async fn every_way_of_an_image_ends_in_what_umoci_unpacks() {
    if !have(&["docker-registry", "skopeo", "umoci"]) {
        return;
    }
    let world = tempfile::tempdir().unwrap();
    let path = |name: &str| world.path().join(name).to_str().unwrap().to_owned();
    let layout = path("layout");
    BuiltImage::new(&layers()).write_layout(Path::new(&layout), &["v1"]);
    let server = Server::start(world.path());
    let from = format!("oci:{layout}:v1");
    let to = |tag: &str| format!("docker://{}/some/app:{tag}", server.address);
    let push = ["copy", "--quiet", "--dest-tls-verify=false"];
    run("skopeo", &[&push[..], &[&from, &to("oci")]].concat());
    run(
        "skopeo",
        &[&push[..], &["--format", "v2s2", &from, &to("docker")]].concat(),
    );
    let archive = format!("docker-archive:{}", path("saved.tar"));
    let named = format!("{archive}:app:v1");
    run("skopeo", &["copy", "--quiet", &from, &named]);
    run(
        "umoci",
        &[
            "unpack",
            "--image",
            &format!("{layout}:v1"),
            &path("bundle"),
        ],
    );
    let mut expected = Tree::new();
    add(
        &mut expected,
        &world.path().join("bundle/rootfs"),
        Path::new(""),
    );
    assert!(expected.contains_key(Path::new("var/old/new")));
    assert!(!expected.contains_key(Path::new("etc/one")));

    let plain = [server.address.clone()];
    let ways = [
        format!("{}/some/app:oci", server.address),
        format!("{}/some/app:docker", server.address),
        from,
        archive,
    ];
    for (number, name) in ways.iter().enumerate() {
        let store = store(&world.path().join(format!("store{number}")));
        let image = pull(&store, name, &plain).await;
        let found = merged(&image);
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (path, facts) in &found {
            assert_eq!(facts, &expected[path], "{name}: {}", path.display());
        }
        let links = fs::metadata(image.layers[0].join("bin/sh"))
            .unwrap()
            .nlink();
        assert_eq!(links, 2);
    }
}

#[tokio::test]
async fn a_tag_and_its_digest_are_the_same_image_in_one_store() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let world = tempfile::tempdir().unwrap();
    let server = Server::start(world.path());
    let store = store(&world.path().join("store"));
    let plain = [server.address.clone()];
    let mut digests = Vec::new();
    for (tag, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        let layout = world.path().join(tag);
        BuiltImage::packed(&layers(), pack).write_layout(&layout, &["v1"]);
        let from = format!("oci:{}:v1", layout.display());
        let to = format!("docker://{}/app:{tag}", server.address);
        let copy = [
            "copy",
            "--quiet",
            "--preserve-digests",
            "--dest-tls-verify=false",
        ];
        run("skopeo", &[&copy[..], &[&from, &to]].concat());
        let image = pull(&store, &format!("{}/app:{tag}", server.address), &plain).await;
        let pinned = format!("{}/app@{}", server.address, image.digest);
        assert_eq!(pull(&store, &pinned, &plain).await.digest, image.digest);
        digests.push(image);
    }
    // Packed otherwise, unpacked the same: one set of layers.
    assert_ne!(digests[0].digest, digests[1].digest);
    assert_eq!(digests[0].layers, digests[1].layers);
    assert_eq!(store.list().unwrap().len(), 4);
}
