//! Layers as the usual writers pack them: random trees, packed by each in each
//! of its formats, unpack to what umoci makes of the same tar.

#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use strata_image::{Limits, unpack};

use crate::support::image::Made;
use crate::support::layer::Layer;
use crate::support::tree;

/// Seeds that are always tried; one more is new every time.
const SEEDS: std::ops::Range<u64> = 0..2;

const PYTHON: &str = "
import sys, tarfile
tree, file, form = sys.argv[1:]
formats = {'gnu': tarfile.GNU_FORMAT, 'pax': tarfile.PAX_FORMAT, 'ustar': tarfile.USTAR_FORMAT}
with tarfile.open(file, 'w', format=formats[form]) as out:
    out.add(tree, '.')
";

/// Whether a program is there; without it a test says so, or fails where all
/// tests have to run.
fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no {program}");
        let required = std::env::var_os("STRATA_REQUIRE_ALL").is_some_and(|value| value != "0");
        assert!(!required, "this test needs {program}");
    }
    found
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// Packs random trees with `pack` and compares what comes out of the tar here
/// and with umoci.
fn compare(modest: bool, pack: impl Fn(&Path, &Path)) {
    if there("umoci") {
        compare_with(modest, pack, umoci);
    }
}

fn umoci(world: &Path, into: &Path) {
    let image = format!("{}:it", world.join("layout").display());
    run(Command::new("umoci")
        .args(["raw", "unpack", "--image", &image])
        .arg(into));
}

fn gnu_tar(world: &Path, into: &Path) {
    fs::create_dir(into).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "-xpf"]);
    run(tar.arg(world.join("layer.tar")).arg("-C").arg(into));
}

fn compare_with(modest: bool, pack: impl Fn(&Path, &Path), other: fn(&Path, &Path)) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for seed in SEEDS.chain([now.as_nanos() as u64]) {
        let world = tempfile::tempdir().unwrap();
        let path = |name: &str| world.path().join(name);
        tree::make(&path("tree"), seed, modest);
        pack(&path("tree"), &path("layer.tar"));
        let layer = Layer::raw(fs::read(path("layer.tar")).unwrap());
        let go_on = |_| ControlFlow::Continue(());
        let limits = Limits::default();
        let ours = unpack(
            layer.tar().as_slice(),
            &path("ours"),
            layer.diff_id(),
            &limits,
            &go_on,
        );
        ours.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        Made::new(&[layer]).write_layout(&path("layout"), &["it"]);
        other(world.path(), &path("theirs"));
        let (ours, others) = (tree::list(&path("ours")), tree::list(&path("theirs")));
        assert!(ours.len() > 20, "seed {seed}: a tree of {}", ours.len());
        for (name, other) in &others {
            assert_eq!(ours.get(name), Some(other), "seed {seed}: {name}");
        }
        assert_eq!(
            ours.len(),
            others.len(),
            "seed {seed}: more than the other has"
        );
    }
}

fn compare_gnu(format: &str, options: &[&str]) {
    // umoci does not know the sparse files of this format.
    let old_sparse = format == "gnu" && options.contains(&"--sparse");
    let other = if old_sparse { gnu_tar } else { umoci };
    let pack = |tree: &Path, file: &Path| {
        run(Command::new("tar")
            .args(["--format", format, "--numeric-owner"])
            .args(options)
            .arg("-cf")
            .arg(file)
            .arg("-C")
            .arg(tree)
            .arg("."));
    };
    if there("umoci") {
        compare_with(format == "ustar", pack, other);
    }
}

#[test]
fn layers_of_gnu_tar_unpack_as_with_umoci() {
    compare_gnu("gnu", &[]);
    compare_gnu("gnu", &["--sparse"]);
    compare_gnu("pax", &["--xattrs", "--xattrs-include=*"]);
    compare_gnu("pax", &["--xattrs", "--xattrs-include=*", "--sparse"]);
    compare_gnu("pax", &["--sparse", "--sparse-version=0.0"]);
    compare_gnu("pax", &["--sparse", "--sparse-version=0.1"]);
    compare_gnu("ustar", &[]);
}

#[test]
fn layers_of_python_unpack_as_with_umoci() {
    if !there("python3") {
        return;
    }
    for format in ["gnu", "pax", "ustar"] {
        compare(format == "ustar", |tree, file| {
            run(Command::new("python3")
                .args(["-c", PYTHON])
                .arg(tree)
                .arg(file)
                .arg(format));
        });
    }
}

#[test]
fn layers_of_bsdtar_unpack_as_with_umoci() {
    if !there("bsdtar") {
        return;
    }
    for format in ["pax", "gnutar", "ustar"] {
        compare(format == "ustar", |tree, file| {
            let mut bsdtar = Command::new("bsdtar");
            bsdtar.args(["--format", format, "--numeric-owner", "-cf"]);
            run(bsdtar.arg(file).arg("-C").arg(tree).arg("."));
        });
    }
}

/// Go is no package that tests need otherwise: where it is missing, its writer
/// is left out.
#[test]
fn layers_of_go_unpack_as_with_umoci() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: no go");
        return;
    }
    let world = tempfile::tempdir().unwrap();
    let writer = world.path().join("writer");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/writer.go");
    run(Command::new("go")
        .args(["build", "-o"])
        .arg(&writer)
        .arg(source));
    for format in ["pax", "gnu"] {
        compare(false, |tree, file| {
            run(Command::new(&writer).arg(tree).arg(file).arg(format));
        });
    }
}
