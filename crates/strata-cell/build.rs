//! Builds the cell init and the jail of emulators with the same compiler,
//! apart from the workspace: they have no standard library and no C library,
//! so that an idle cell costs some tens of kilobytes and an exec takes no
//! dynamic linking. The results are embedded, so the product stays one file.

use std::path::Path;
use std::process::Command;
use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=init");
    println!("cargo::rerun-if-changed=jail");
    println!("cargo::rerun-if-changed=src/wire.rs");
    build("strata-init", "init/main.rs", "STRATA_INIT")?;
    build("strata-jail", "jail/main.rs", "STRATA_JAIL")
}

/// Builds one program; the library finds its path in `variable`.
fn build(name: &str, source: &str, variable: &str) -> Result<(), Box<dyn Error>> {
    let out = Path::new(&env::var("OUT_DIR")?).join(name);
    // Nothing to link against, so the compiler's own linker is enough.
    let options = [
        "opt-level=s",
        "panic=abort",
        "strip=symbols",
        "codegen-units=1",
        "overflow-checks=off",
        "relocation-model=static",
        "target-feature=+crt-static",
        "linker=rust-lld",
        "linker-flavor=ld.lld",
        "link-arg=-nostdlib",
        "link-arg=--build-id=none",
    ];
    let status = Command::new(env::var("RUSTC")?)
        .args(["--edition", "2024", "--crate-name"])
        .arg(name.replace('-', "_"))
        .args(["--target", &env::var("TARGET")?])
        .args(options.iter().flat_map(|option| ["-C", option]))
        .arg("-o")
        .arg(&out)
        .arg(source)
        .status()?;
    if !status.success() {
        return Err(format!("{name} does not build").into());
    }
    println!("cargo::rustc-env={variable}={}", out.display());
    Ok(())
}
