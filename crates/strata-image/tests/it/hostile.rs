//! Layers that want out. Each is refused, and nothing is written anywhere
//! but in the layer's own directory, which is gone afterwards.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use crate::support::layer::{Entry, Layer, gzip};
use crate::support::{names, small_limits};
use strata_image::{Digest, Limits, UnpackError, unpack};

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Unpacks in a world with a sentinel beside and above the layer, and checks
/// that the sentinels are untouched and that nothing new is there.
fn refused(layer: &Layer) -> UnpackError {
    let world = tempfile::tempdir().unwrap();
    let sentinel = world.path().join("sentinel");
    fs::create_dir(&sentinel).unwrap();
    fs::write(sentinel.join("file"), "untouched").unwrap();
    let layers = world.path().join("layers");
    fs::create_dir(&layers).unwrap();
    let tar = layer.tar();
    let into = layers.join("layer");
    let error = unpack(&tar[..], &into, Digest::of(&tar), &small_limits(), &go_on)
        .map(drop)
        .unwrap_err();
    assert_eq!(names(world.path()), ["layers", "sentinel"]);
    assert_eq!(names(&sentinel), ["file"]);
    assert_eq!(fs::read(sentinel.join("file")).unwrap(), b"untouched");
    assert_eq!(names(&layers), [""; 0], "{error}");
    error
}

fn path_of(world: &Path) -> String {
    world.to_str().unwrap().to_owned()
}

#[test]
fn paths_that_lead_out() {
    for path in ["../sentinel/evil", "a/../../sentinel/evil", "..", "a/.."] {
        let error = refused(&Layer::new().file(path, b"x"));
        assert!(matches!(error, UnpackError::Outside(_)), "{path}: {error}");
    }
    let error = refused(&Layer::new().file("/tmp/evil", b"x"));
    assert!(matches!(error, UnpackError::Absolute(_)), "{error}");
    let error = refused(&Layer::new().entry(&Entry {
        pax: &[("path", b"../sentinel/evil")],
        ..Entry::default()
    }));
    assert!(matches!(error, UnpackError::Outside(_)), "{error}");
    let error = refused(&Layer::new().entry(&Entry {
        pax: &[("path", b"a\0b")],
        ..Entry::default()
    }));
    assert!(matches!(error, UnpackError::Name(_)), "{error}");
}

#[test]
fn writing_through_symlinks() {
    let outside = tempfile::tempdir().unwrap();
    for target in ["../../sentinel", &path_of(outside.path()), ".", "inside"] {
        let layer = Layer::new().dir("inside").symlink("way", target);
        for layer in [
            layer.clone().file("way/evil", b"x"),
            layer.clone().dir("way/evil"),
            layer.clone().symlink("way/evil", "x"),
            layer
                .clone()
                .file("inside/f", b"x")
                .hard_link("way/evil", "inside/f"),
            layer.clone().file("way/.wh.file", b""),
            layer.clone().file("way/.wh..wh..opq", b""),
            layer.clone().hard_link("mine", "way/file"),
        ] {
            let error = refused(&layer);
            assert!(
                matches!(error, UnpackError::ThroughSymlink(_)),
                "{target}: {error}"
            );
        }
    }
    assert_eq!(names(outside.path()), [""; 0]);
}

#[test]
fn a_symlink_is_replaced_and_not_followed() {
    let world = tempfile::tempdir().unwrap();
    let target = world.path().join("target");
    fs::write(&target, "untouched").unwrap();
    let into = world.path().join("layer");
    let layer = Layer::new()
        .symlink("a", &path_of(&target))
        .file("a", b"mine")
        .symlink("d", &path_of(world.path()))
        .dir("d")
        .file("d/f", b"mine");
    unpack(
        &layer.tar()[..],
        &into,
        layer.diff_id(),
        &Limits::default(),
        &go_on,
    )
    .unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"untouched");
    assert!(fs::symlink_metadata(into.join("a")).unwrap().is_file());
    assert_eq!(fs::read(into.join("d/f")).unwrap(), b"mine");
    assert_eq!(names(world.path()), ["layer", "target"]);
}

#[test]
fn hard_links_to_what_is_not_in_the_layer() {
    for target in [
        "/etc/passwd",
        "../../sentinel/file",
        "..",
        "missing",
        ".",
        "folder",
    ] {
        let error = refused(&Layer::new().dir("folder").hard_link("mine", target));
        assert!(
            matches!(
                error,
                UnpackError::LinkTarget { .. } | UnpackError::Absolute(_) | UnpackError::Outside(_)
            ),
            "{target}: {error}"
        );
    }
    // A hard link to a symlink is a link to the symlink, and no way out.
    let layer = Layer::new()
        .symlink("s", "../../sentinel/file")
        .hard_link("h", "s")
        .file("h/evil", b"x");
    assert!(matches!(refused(&layer), UnpackError::ThroughSymlink(_)));
}

#[test]
fn whiteouts_that_lead_out_or_hide_behind_links() {
    for name in [".wh.", "a/.wh..", "a/.wh...", ".wh.../x", ".wh.a/b"] {
        let error = refused(&Layer::new().file(name, b""));
        assert!(matches!(error, UnpackError::Whiteout(_)), "{name}: {error}");
    }
    let layer = Layer::new().file(".wh.gone", b"").hard_link("back", "gone");
    assert!(matches!(refused(&layer), UnpackError::LinkTarget { .. }));
    let layer = Layer::new()
        .file(".wh.gone", b"")
        .hard_link("back", ".wh.gone");
    assert!(matches!(refused(&layer), UnpackError::LinkTarget { .. }));
}

#[test]
fn attributes_of_the_overlay_itself() {
    for key in [
        "trusted.overlay.redirect",
        "trusted.overlay.opaque",
        "user.overlay.redirect",
    ] {
        let key = format!("SCHILY.xattr.{key}");
        let error = refused(&Layer::new().entry(&Entry {
            pax: &[(&key, b"/etc")],
            ..Entry::default()
        }));
        assert!(
            matches!(error, UnpackError::OverlayAttribute { .. }),
            "{error}"
        );
    }
}

#[test]
fn directories_beneath_files_and_odd_kinds() {
    let layer = Layer::new().file("a", b"x").file("a/b", b"x");
    assert!(matches!(refused(&layer), UnpackError::NotADirectory(_)));
    let layer = Layer::new().link(b'!', "a", "");
    assert!(matches!(refused(&layer), UnpackError::Tar(_)));
    let layer = Layer::new().symlink("a", "");
    assert!(matches!(refused(&layer), UnpackError::EmptyLink(_)));
    let layer = Layer::new().file(".", b"");
    assert!(matches!(refused(&layer), UnpackError::Name(_)));
}

#[test]
fn names_and_numbers_beyond_the_limits() {
    let long = "d/".repeat(300) + "f";
    let error = refused(&Layer::new().file(&long, b""));
    assert!(
        matches!(error, UnpackError::PathTooLong { length: 601, .. }),
        "{error}"
    );
    let error = refused(&Layer::new().file(&"n".repeat(256), b""));
    assert!(
        matches!(error, UnpackError::PathTooLong { limit: 255, .. }),
        "{error}"
    );
    let mut many = Layer::new();
    for n in 0..101 {
        many = many.file(&format!("f{n}"), b"");
    }
    assert!(matches!(refused(&many), UnpackError::TooManyEntries(100)));
    let large = Layer::new().file("large", &vec![7; 5 << 20]);
    assert!(matches!(refused(&large), UnpackError::TooLarge(_)));
    // A hole costs no space here, but may cost it anywhere else.
    let hole = Layer::new().entry(&Entry {
        pax: &[
            ("GNU.sparse.major", b"0"),
            ("GNU.sparse.map", b"0,1"),
            ("GNU.sparse.size", b"1000000000000"),
        ],
        data: b"x",
        ..Entry::default()
    });
    assert!(matches!(refused(&hole), UnpackError::TooLarge(_)));
}

#[test]
fn bombs() {
    let world = tempfile::tempdir().unwrap();
    let into = world.path().join("layer");
    let tar = Layer::new().file("zeroes", &vec![0; 3 << 20]).tar();
    for bomb in [
        gzip(&tar),
        crate::support::layer::zstd(&tar),
        gzip(&gzip(&tar)),
    ] {
        let done = unpack(&bomb[..], &into, Digest::of(&tar), &small_limits(), &go_on);
        assert!(
            matches!(done, Err(UnpackError::Bomb(50) | UnpackError::Tar(_))),
            "{done:?}"
        );
        assert!(!into.exists());
    }
}

#[test]
fn damage_and_lies() {
    let world = tempfile::tempdir().unwrap();
    let into = world.path().join("layer");
    let try_it = |bytes: &[u8], diff_id| {
        let done = unpack(bytes, &into, diff_id, &Limits::default(), &go_on);
        assert!(!into.exists());
        done.unwrap_err()
    };
    let layer = Layer::new().file("a", b"data").file("b", &[1; 100_000]);
    let (tar, diff_id) = (layer.tar(), layer.diff_id());
    let lie = try_it(&tar, Digest::of(b"other"));
    assert!(matches!(lie, UnpackError::DiffId { .. }));
    let packed = gzip(&tar);
    for length in [1, 5, 11, packed.len() / 2, packed.len() - 1] {
        try_it(&packed[..length], diff_id);
    }
    for length in [1, 511, 513, 1030, 2000, 50_000] {
        try_it(&tar[..length], diff_id);
    }
    assert!(matches!(
        try_it(b"BZh91AY", diff_id),
        UnpackError::UnknownPacking("bzip2")
    ));
    let stopped = unpack(&tar[..], &into, diff_id, &Limits::default(), &|_| {
        ControlFlow::Break(())
    });
    assert!(
        matches!(stopped, Err(UnpackError::Cancelled)),
        "{stopped:?}"
    );
    assert!(!into.exists());
}
