//! Compiles the part of etcd's interface in `proto/etcd` in pure Rust.

use std::env;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto/etcd");
    println!("cargo::rerun-if-changed={}", root.display());
    let descriptors = protox::compile(["kv.proto", "rpc.proto"], [&root])?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".mvccpb.KeyValue.value")
        .bytes(".etcdserverpb.PutRequest.value")
        .bytes(".etcdserverpb.SnapshotResponse.blob")
        .compile_fds(descriptors)?;
    Ok(())
}
