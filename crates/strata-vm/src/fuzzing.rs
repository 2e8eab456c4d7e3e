//! What a QEMU that its guest has taken over sends, disks that are given to us,
//! and what a guest receives at its first boot: fuzzed by `fuzz/`.

use crate::Seed;
use crate::disk::qcow2::Header;
use crate::qmp::event::Event;
use crate::qmp::message::Incoming;

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("qmp", qmp), ("qcow2", qcow2), ("seed", seed)];

fn qmp(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(Incoming::Happened { name, data }) = Incoming::read(line) {
            let _ = Event::read(name, &data);
        }
    }
}

fn qcow2(data: &[u8]) {
    if let Ok(Some(header)) = Header::read(data) {
        assert!(header.size <= 64 << 40);
    }
}

/// Fields are parted by zeros.
fn seed(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut fields = text.split('\0').map(str::to_owned);
    let mut field = || fields.next().unwrap_or_default();
    let Ok(hostname) = field().parse() else {
        return;
    };
    let seed = Seed {
        hostname,
        instance_id: field(),
        ssh_keys: vec![field()],
        user_data: field(),
        network_config: Some(field()),
    };
    if seed.check().is_ok() {
        let image = seed.image();
        assert_eq!(image.len() % 2048, 0);
        assert_eq!(image.get(32769..32774), Some(&b"CD001"[..]));
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}
