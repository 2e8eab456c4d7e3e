//! Compiles `proto/` in pure Rust: no protoc on the machine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message as _;

/// Every file of the contract. A new file is named here and nowhere else.
const FILES: [&str; 19] = [
    "cnct/kaas/api/api.proto",
    "controller/controller.proto",
    "observe/observe.proto",
    "operations/v1/operations.proto",
    "runtime/runtime.proto",
    "schedule/schedule.proto",
    "scheduler/scheduler.proto",
    "strata/v1/assignments.proto",
    "strata/v1/cells.proto",
    "strata/v1/identity.proto",
    "strata/v1/images.proto",
    "strata/v1/instances.proto",
    "strata/v1/logs.proto",
    "strata/v1/node.proto",
    "strata/v1/pods.proto",
    "strata/v1/server_images.proto",
    "strata/v1/spawn.proto",
    "strata/v1/vms.proto",
    "strata/v1/volumes.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());

    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".strata.v1.Chunk.data")
        .bytes(".strata.v1.LogLine.line")
        .bytes(".strata.v1.ExecInput")
        .bytes(".strata.v1.ExecOutput")
        .bytes(".strata.v1.AttachInput")
        .bytes(".strata.v1.ConsoleInput")
        .bytes(".strata.v1.ConsoleOutput")
        // Written by hand, without the secret.
        .skip_debug([
            ".cnct.kaas.api.ClusterDetailItem",
            ".strata.v1.ImageCredentials",
            ".strata.v1.ExecutableOptions",
        ])
        .extern_path(".observe.LogItem", "crate::log_item::LogItem")
        .compile_fds(descriptors)?;
    Ok(())
}
