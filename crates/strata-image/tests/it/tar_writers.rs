//! Layers as the usual writers pack them: random trees, packed by each in each
//! of its formats, unpack to what umoci makes of the same tar, or are refused
//! where umoci refuses them. bsdtar cuts the names of sparse files that are not
//! UTF-8, so that a member of such a layer has the name of another one.
//!
//! A failure names its seed; `STRATA_SEED` runs that seed alone.

#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use strata_image::{Limits, unpack};

use crate::support::image::BuiltImage;
use crate::support::layer::Layer;
use crate::support::tree;

/// Seeds that are always tried; one more is new every time.
const SEEDS: std::ops::Range<u64> = 0..2;
/// Names the seed of a run that is to be repeated.
const SEED: &str = "STRATA_SEED";

const PYTHON: &str = "
import sys, tarfile
tree, file, form = sys.argv[1:]
formats = {'gnu': tarfile.GNU_FORMAT, 'pax': tarfile.PAX_FORMAT, 'ustar': tarfile.USTAR_FORMAT}
with tarfile.open(file, 'w', format=formats[form]) as out:
    out.add(tree, '.')
";

/// Whether a program is there; without it a test reports that, or fails where
/// all tests have to run.
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
    attempt(command).unwrap_or_else(|why| panic!("{why}"));
}

/// Runs a program that may fail; then its output.
fn attempt(command: &mut Command) -> Result<(), String> {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {errors}")),
    }
}

/// The seeds of this run: a named one, or those of every run and a new one.
fn seeds() -> Vec<u64> {
    if let Ok(text) = std::env::var(SEED) {
        let seed = text.parse();
        return vec![seed.unwrap_or_else(|_| panic!("{SEED} is no number: {text:?}"))];
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    SEEDS.chain([now.as_nanos() as u64]).collect()
}

/// Packs random trees with `pack` and compares what comes out of the tar here
/// and with umoci.
fn compare(modest: bool, pack: impl Fn(&Path, &Path)) {
    if there("umoci") {
        compare_with(modest, pack, umoci);
    }
}

/// Unpacks the layer of a world; why not, where it is refused.
type Unpack = fn(&Path, &Path) -> Result<(), String>;

fn umoci(world: &Path, into: &Path) -> Result<(), String> {
    let image = format!("{}:it", world.join("layout").display());
    attempt(
        Command::new("umoci")
            .args(["raw", "unpack", "--image", &image])
            .arg(into),
    )
}

fn gnu_tar(world: &Path, into: &Path) -> Result<(), String> {
    fs::create_dir(into).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "-xpf"]);
    attempt(tar.arg(world.join("layer.tar")).arg("-C").arg(into))
}

fn compare_with(modest: bool, pack: impl Fn(&Path, &Path), other: Unpack) {
    for seed in seeds() {
        let world = tempfile::tempdir().unwrap();
        let path = |name: &str| world.path().join(name);
        tree::make(&path("tree"), seed, modest);
        pack(&path("tree"), &path("layer.tar"));
        let same = compare_layer(world.path(), other).unwrap_or_else(|why| {
            panic!("seed {seed} (run it again with {SEED}={seed}): {why}");
        });
        // Otherwise a writer whose layers both refuse would prove nothing.
        let known = SEEDS.contains(&seed);
        assert!(same == Same::Files || !known, "seed {seed}: {same:?}");
    }
}

/// What a layer came to, here and elsewhere.
#[derive(Debug, PartialEq)]
enum Same {
    Files,
    Refusal,
}

/// Compares what comes of a world's `layer.tar` here and elsewhere. What
/// differs, if anything does.
fn compare_layer(world: &Path, other: Unpack) -> Result<Same, String> {
    let path = |name: &str| world.join(name);
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
    BuiltImage::new(&[layer]).write_layout(&path("layout"), &["it"]);
    match (ours, other(world, &path("theirs"))) {
        (Ok(_), Ok(())) => {}
        (Err(error), Err(_)) => {
            eprintln!("refused by both: {error}");
            return Ok(Same::Refusal);
        }
        (Err(error), Ok(())) => return Err(format!("refused here alone: {error}")),
        (Ok(_), Err(why)) => return Err(format!("refused by the other alone: {why}")),
    }
    let (ours, others) = (tree::list(&path("ours")), tree::list(&path("theirs")));
    if ours.len() <= 20 {
        return Err(format!("a tree of {}", ours.len()));
    }
    for (name, other) in &others {
        if ours.get(name) != Some(other) {
            let own = ours.get(name);
            return Err(format!("{name}: {own:?}, and {other:?} with the other"));
        }
    }
    match ours.len() == others.len() {
        true => Ok(Same::Files),
        false => Err("more than the other has".to_owned()),
    }
}

fn compare_gnu(format: &str, options: &[&str]) {
    // umoci does not know the sparse files of this format.
    let old_sparse = format == "gnu" && options.contains(&"--sparse");
    let other: Unpack = if old_sparse { gnu_tar } else { umoci };
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

fn refuses(_: &Path, _: &Path) -> Result<(), String> {
    Err("refused".to_owned())
}

fn accepts(_: &Path, _: &Path) -> Result<(), String> {
    Ok(())
}

#[test]
fn layer_that_both_refuse_is_no_difference() {
    let world = tempfile::tempdir().unwrap();
    let layer = Layer::new().file("../outside", b"x");
    fs::write(world.path().join("layer.tar"), layer.tar()).unwrap();
    assert_eq!(compare_layer(world.path(), refuses), Ok(Same::Refusal));
    fs::remove_dir_all(world.path().join("layout")).unwrap();
    let why = compare_layer(world.path(), accepts).unwrap_err();
    assert!(why.starts_with("refused here alone"), "{why}");
}
