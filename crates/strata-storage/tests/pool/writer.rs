//! Threads that write files of which every page is known, and read them over.
//!
//! A page holds noise, and its owner: a page that is old, of another file or at
//! another place is found out. Content is compared byte for byte, which in a
//! test that is not optimised is much faster than a checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rand::{Rng, RngCore, SeedableRng};

use crate::world::wait_for;

const FILES_PER_THREAD: u64 = 24;
const LARGEST: usize = 2 << 20;
const PAGE: usize = 4096;

/// What a file should hold.
#[derive(Clone, Copy)]
struct Content {
    seed: u64,
    bytes: usize,
}

impl Content {
    fn make(self) -> Vec<u8> {
        static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
        let noise = NOISE.get_or_init(|| {
            let mut noise = vec![0; LARGEST];
            rand::rngs::StdRng::seed_from_u64(7).fill_bytes(&mut noise);
            noise
        });
        let mut content = noise[..self.bytes].to_vec();
        for (number, page) in content.chunks_mut(PAGE).enumerate() {
            let stamp = [self.seed.to_ne_bytes(), (number as u64).to_ne_bytes()].concat();
            let room = page.len().min(stamp.len());
            page[..room].copy_from_slice(&stamp[..room]);
        }
        content
    }
}

/// What should be in the files.
#[derive(Clone, Default)]
pub(crate) struct Written(BTreeMap<PathBuf, Content>);

impl Written {
    pub(crate) fn verify(&self) {
        assert!(!self.0.is_empty());
        for (path, expected) in &self.0 {
            let found = fs::read(path).unwrap();
            assert!(
                found == expected.make(),
                "{} is not as written",
                path.display()
            );
        }
    }
}

/// Writes until it is stopped.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Written>>,
}

impl Writer {
    pub(crate) fn start(dir: &Path, threads: u64) -> Self {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let threads = (0..threads)
            .map(|number| {
                let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
                let dir = dir.join(format!("t{number}"));
                std::thread::spawn(move || write(&dir, number, &stop, &count))
            })
            .collect();
        Self {
            stop,
            count,
            threads,
        }
    }

    /// Waits for so many more files.
    pub(crate) fn wait_for_files(&self, more: u64) {
        let goal = self.count.load(Ordering::Relaxed) + more;
        wait_for("files to be written", || {
            self.count.load(Ordering::Relaxed) >= goal
                || self.threads.iter().any(JoinHandle::is_finished)
        });
    }

    pub(crate) fn stop(self) -> Written {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Written::default();
        for thread in self.threads {
            all.0.extend(thread.join().unwrap().0);
        }
        all
    }
}

/// New files, and old ones written over; now and then synced.
fn write(dir: &Path, seed: u64, stop: &AtomicBool, count: &AtomicU64) -> Written {
    fs::create_dir_all(dir).unwrap();
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let mut written = Written::default();
    while !stop.load(Ordering::Relaxed) {
        let path = dir.join(format!("f{}", random.random_range(0..FILES_PER_THREAD)));
        let content = Content {
            seed: random.next_u64(),
            bytes: random.random_range(1..LARGEST),
        };
        let mut file = File::create(&path).unwrap();
        file.write_all(&content.make()).unwrap();
        if random.random_ratio(1, 4) {
            file.sync_all().unwrap();
        }
        written.0.insert(path, content);
        count.fetch_add(1, Ordering::Relaxed);
    }
    written
}

/// So many files of a mebibyte; what they should hold.
pub(crate) fn fill(dir: &Path, files: u64) -> Written {
    fs::create_dir_all(dir).unwrap();
    let mut written = Written::default();
    for number in 0..files {
        let content = Content {
            seed: number,
            bytes: 1 << 20,
        };
        let path = dir.join(format!("fill{number}"));
        fs::write(&path, content.make()).unwrap();
        written.0.insert(path, content);
    }
    written
}
