//! Threads that write files of random content and remember their checksums.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rand::{Rng, RngCore, SeedableRng};
use sha2::{Digest, Sha256};

use crate::world::wait_for;

const FILES_PER_THREAD: u64 = 24;
const LARGEST: usize = 2 << 20;

/// What should be in the files.
#[derive(Clone, Default)]
pub(crate) struct Written(BTreeMap<PathBuf, [u8; 32]>);

impl Written {
    /// Reads everything over.
    pub(crate) fn verify(&self) {
        assert!(!self.0.is_empty());
        for (path, expected) in &self.0 {
            let content = fs::read(path).unwrap();
            let found: [u8; 32] = Sha256::digest(&content).into();
            assert!(found == *expected, "{} is not as written", path.display());
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.0.keys().map(|path| fs::metadata(path).unwrap().len());
        sizes.sum()
    }
}

/// Writes until it is stopped.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Written>>,
}

impl Writer {
    pub(crate) fn start(folder: &Path, threads: u64) -> Self {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let threads = (0..threads)
            .map(|number| {
                let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
                let folder = folder.join(format!("t{number}"));
                std::thread::spawn(move || write(&folder, number, &stop, &count))
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

/// New files, and old ones written over: as a whole, and now and then synced.
fn write(folder: &Path, seed: u64, stop: &AtomicBool, count: &AtomicU64) -> Written {
    fs::create_dir_all(folder).unwrap();
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let mut written = Written::default();
    let mut content = vec![0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        let path = folder.join(format!("f{}", random.random_range(0..FILES_PER_THREAD)));
        let size = random.random_range(1..LARGEST);
        random.fill_bytes(&mut content[..size]);
        let mut file = File::create(&path).unwrap();
        file.write_all(&content[..size]).unwrap();
        if random.random_ratio(1, 4) {
            file.sync_all().unwrap();
        }
        written
            .0
            .insert(path, Sha256::digest(&content[..size]).into());
        count.fetch_add(1, Ordering::Relaxed);
    }
    written
}

/// Random content, so that nothing can be saved on it; what it should be.
pub(crate) fn fill(folder: &Path, files: u64, bytes: u64) -> Written {
    fs::create_dir_all(folder).unwrap();
    let mut random = rand::rngs::StdRng::seed_from_u64(files);
    let mut written = Written::default();
    let mut content = vec![0; usize::try_from(bytes).unwrap()];
    for number in 0..files {
        random.fill_bytes(&mut content);
        let path = folder.join(format!("fill{number}"));
        fs::write(&path, &content).unwrap();
        written.0.insert(path, Sha256::digest(&content).into());
    }
    written
}
