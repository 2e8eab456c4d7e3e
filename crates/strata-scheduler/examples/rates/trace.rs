//! Requests with the shape of published cluster traces.
//!
//! - Sizes are heavy-tailed. In the Google traces of 2019 (Tirmazi and others,
//!   "Borg: the Next Generation", EuroSys 2020) resource use per job is close
//!   to a Pareto distribution, most tasks request a few hundredths of a machine
//!   and few a large part of it. Here cpu is a bounded Pareto (shape 1.1) from
//!   a fifth of a core to 16 cores, which makes about 60 instances on a node of
//!   64 cores.
//! - Memory follows cpu loosely. In the Azure traces (Cortez and others,
//!   "Resource Central", SOSP 2017) VMs come in fixed ratios of memory to cores
//!   (1.75, 3.5, 7 GiB per core and so on). Here the ratio is drawn from
//!   1, 2, 4 and 8 GiB per core, blurred by a factor of 0.7 to 1.3.
//! - People request round numbers: cpu is rounded to 10 thousandths, memory to
//!   16 MiB.

use strata_scheduler::{MIB, Resources};

/// SplitMix64: small, and the same everywhere.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }
}

/// The size of the next instance.
pub(crate) fn size(random: &mut Random) -> Resources {
    const SHAPE: f64 = 1.1;
    const LEAST: f64 = 200.0;
    const MOST: f64 = 16_000.0;
    let tail = 1.0 - (LEAST / MOST).powf(SHAPE);
    let cpu = LEAST / (1.0 - random.unit() * tail).powf(1.0 / SHAPE);
    let per_core = [1024.0, 2048.0, 4096.0, 8192.0][random.below(4)];
    let memory = cpu / 1000.0 * per_core * (0.7 + 0.6 * random.unit());
    let cpu = (cpu / 10.0).ceil() as u64 * 10;
    let memory = (memory / 16.0).ceil().max(1.0) as u64 * 16 * MIB;
    Resources::new(cpu, memory, 0)
}
