//! Compiles `proto/` in pure Rust: no protoc on the machine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message as _;

/// Every file of the contract. A new file is named here and nowhere else.
const FILES: [&str; 11] = [
    "cnct/kaas/api/api.proto",
    "controller/controller.proto",
    "observe/observe.proto",
    "operations/v1/operations.proto",
    "runtime/runtime.proto",
    "schedule/schedule.proto",
    "scheduler/scheduler.proto",
    "strata/v1/cells.proto",
    "strata/v1/identity.proto",
    "strata/v1/logs.proto",
    "strata/v1/node.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());

    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".strata.v1.LogLine.line")
        .extern_path(".observe.LogItem", "crate::log_item::LogItem")
        .compile_fds(descriptors)?;
    Ok(())
}
