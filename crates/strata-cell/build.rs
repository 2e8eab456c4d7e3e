//! Builds the cell init with the same compiler, apart from the workspace: it
//! has no standard library and no C library, so that an idle cell costs some
//! tens of kilobytes and its exec takes no dynamic linking. The result is
//! embedded, so the product stays one file.

use std::path::Path;
use std::process::Command;
use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=init");
    println!("cargo::rerun-if-changed=src/wire.rs");
    let out = Path::new(&env::var("OUT_DIR")?).join("strata-init");
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
        .args(["--edition", "2024", "--crate-name", "strata_init"])
        .args(["--target", &env::var("TARGET")?])
        .args(options.iter().flat_map(|option| ["-C", option]))
        .arg("-o")
        .arg(&out)
        .arg("init/main.rs")
        .status()?;
    if !status.success() {
        return Err("the cell init does not build".into());
    }
    println!("cargo::rustc-env=STRATA_INIT={}", out.display());
    Ok(())
}
