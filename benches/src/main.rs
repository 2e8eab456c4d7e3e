//! What the product is measured by, beside its peers, in one run on one
//! machine: every figure that counts is a ratio.
//!
//! `strata-bench [--quick] PATH-OF-STRATA`

mod daemon;
mod floor;
mod logs;
mod memory;
mod peers;
mod starts;
mod stats;

use std::path::PathBuf;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How often things are repeated.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) starts: usize,
    pub(crate) log_bytes: u64,
    pub(crate) idle_cells: usize,
}

#[allow(clippy::print_stdout)]
fn main() -> Result {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == peers::INSIDE)
    {
        return peers::inside(&arguments[1..]);
    }
    let quick = arguments.iter().position(|argument| argument == "--quick");
    let effort = match quick {
        Some(i) => {
            arguments.remove(i);
            Effort {
                starts: 40,
                log_bytes: 100 << 20,
                idle_cells: 50,
            }
        }
        None => Effort {
            starts: 300,
            log_bytes: 1 << 30,
            idle_cells: 200,
        },
    };
    let binary = PathBuf::from(
        arguments
            .first()
            .ok_or("usage: strata-bench [--quick] STRATA")?,
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        println!("# Starting\n");
        starts::run(&binary, effort).await?;
        println!("\n# Logs\n");
        logs::run(&binary, effort).await?;
        println!("\n# Memory\n");
        memory::run(&binary, effort).await
    })
}
