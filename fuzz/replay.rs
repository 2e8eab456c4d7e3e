//! Runs the checked-in corpora, and every prefix of each seed, as an ordinary
//! test of the crate whose parser they are for. Included by path.

use std::fs;
use std::path::Path;

/// Prefixes of longer seeds are tried in larger steps.
const PREFIXES: usize = 64;

type Target = fn(&[u8]);

/// Runs every target on its seeds.
pub(crate) fn replay(targets: &[(&str, Target)]) {
    let corpora = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    for (name, target) in targets {
        let seeds = fs::read_dir(corpora.join(name));
        let seeds = seeds.unwrap_or_else(|error| panic!("no corpus of {name}: {error}"));
        let mut count = 0;
        for seed in seeds {
            let path = seed.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            for end in (0..bytes.len()).step_by(bytes.len() / PREFIXES + 1) {
                target(&bytes[..end]);
            }
            target(&bytes);
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
    }
}
