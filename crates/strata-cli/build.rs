//! Tells the crate what it is built from. Works without git and without a
//! checkout; then it says `unknown`.
//!
//! A development build looks at the commit alone, so that an edit elsewhere
//! in the workspace does not rebuild this crate. A release build looks at
//! every source file, since it says whether the tree was clean.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let release = variable("PROFILE") == "release";

    let commit = commit(&root);
    let tree = match &commit {
        Some(_) if release => tree_state(&root),
        _ => "unknown",
    };
    if commit.is_some() && release {
        for watched in ["crates", "proto", "Cargo.toml", "Cargo.lock"] {
            println!("cargo::rerun-if-changed={}", root.join(watched).display());
        }
    }
    let epoch = env::var("SOURCE_DATE_EPOCH").ok().or_else(now);
    tell("COMMIT", commit.as_deref().unwrap_or("unknown"));
    tell("TREE", tree);
    tell("EPOCH", &epoch.unwrap_or_default());
    tell("RUSTC", &rustc().unwrap_or_else(|| "unknown".to_owned()));
    tell("TARGET", &variable("TARGET"));
}

fn tell(name: &str, value: &str) {
    println!("cargo::rustc-env=STRATA_BUILD_{name}={value}");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The commit of the checkout that `root` is the top of; a checkout around
/// it is somebody else's.
fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    for name in ["HEAD", "packed-refs"] {
        watch_git(root, name);
    }
    if let Some(branch) = git(root, &["symbolic-ref", "-q", "HEAD"]) {
        watch_git(root, &branch);
    }
    git(root, &["rev-parse", "HEAD"])
}

/// A path that is not there would make cargo run this every time.
fn watch_git(root: &Path, name: &str) {
    if let Some(path) = git(root, &["rev-parse", "--git-path", name]) {
        let path = root.join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

fn tree_state(root: &Path) -> &'static str {
    match git(root, &["--no-optional-locks", "status", "--porcelain"]) {
        None => "unknown",
        Some(changes) if changes.is_empty() => "clean",
        Some(_) => "dirty",
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    output(Command::new("git").arg("-C").arg(root).args(arguments))
}

fn rustc() -> Option<String> {
    output(Command::new(env::var_os("RUSTC")?).arg("--version"))
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn now() -> Option<String> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(since_epoch.as_secs().to_string())
}
