//! Every target in one program, so that there is one link: `FUZZ_TARGET` says
//! which, and `FUZZ_TARGET=list` prints their names. The rest of the command
//! line is libFuzzer's. The targets themselves are in the crates, beside what
//! they try, because the crates run the corpora as ordinary tests too.
#![no_main]

mod pure;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn all() -> impl Iterator<Item = (&'static str, Target)> {
    let crates: [&[(&str, Target)]; 11] = [
        strata_api::fuzzing::TARGETS,
        strata_audit::fuzzing::TARGETS,
        strata_cell::fuzzing::TARGETS,
        strata_clusters::kubeadm::fuzzing::TARGETS,
        strata_identity::fuzzing::TARGETS,
        strata_image::fuzzing::TARGETS,
        strata_network::fuzzing::TARGETS,
        strata_store::fuzzing::TARGETS,
        strata_types::fuzzing::TARGETS,
        strata_vm::fuzzing::TARGETS,
        pure::TARGETS,
    ];
    crates.into_iter().flatten().copied()
}

fn choose() {
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    match all().find(|(name, _)| *name == wanted) {
        Some((_, target)) => {
            CHOSEN.get_or_init(|| target);
        }
        None => {
            for (name, _) in all() {
                println!("{name}");
            }
            std::process::exit(if wanted == "list" { 0 } else { 2 });
        }
    }
}

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = CHOSEN.get() {
        target(data);
    }
});
