//! The bytes of a file. Long runs of zeros are not written: the file is made
//! with its size, and what was never written is zero and takes no space.

use std::os::fd::OwnedFd;

use rustic_core::{DataId, IndexedFull, Repository};
use rustix::io::Errno;

use super::attributes;
use super::batch::File;
use super::beneath::Beneath;
use crate::blobs;
use crate::error::{BackupError, Result};
use crate::session::Session;

/// Runs of zeros are looked for in steps of this; it is what file systems
/// give out.
const STEP: usize = 4096;
/// Shorter runs are written: a hole costs more than they do.
const HOLE: usize = 64 << 10;

/// Writes some pieces of a file from an offset. The call that writes the last
/// of the file gives it its owner, mode and times, and returns how many
/// extended attributes it would not take.
pub(super) fn write<S: IndexedFull>(
    session: &Session,
    repository: &Repository<S>,
    root: &Beneath,
    file: &File,
    offset: u64,
    pieces: &[DataId],
) -> Result<u64> {
    let failed = |error: Errno| BackupError::restore(&file.path, error);
    let open = if file.wants_to_be_made_first() {
        root.open_file(&file.path)?
    } else {
        root.new_file(&file.path)?
    };
    let mut at = offset;
    let mut holes = false;
    for id in pieces {
        let bytes = blobs::read(session, repository, id)?;
        holes |= put(&open, &bytes, at).map_err(failed)?;
        at += bytes.len() as u64;
        session.reporter.bytes(bytes.len() as u64);
    }
    if holes {
        // A hole at the end is there only if the size includes it.
        let size = rustix::fs::fstat(&open).map_err(failed)?.st_size;
        if size < i64::try_from(at).unwrap_or(i64::MAX) {
            rustix::fs::ftruncate(&open, at).map_err(failed)?;
        }
    }
    if file.is_whole_now() {
        return attributes::apply(&open, &file.meta).map_err(failed);
    }
    Ok(0)
}

/// Writes bytes, except for long runs of zeros. Returns whether it left any
/// out.
fn put(file: &OwnedFd, bytes: &[u8], at: u64) -> rustix::io::Result<bool> {
    let mut holes = false;
    for (start, end, is_hole) in runs(bytes) {
        if is_hole {
            holes = true;
            continue;
        }
        let mut rest = &bytes[start..end];
        let mut at = at + start as u64;
        while !rest.is_empty() {
            match rustix::io::pwrite(file, rest, at) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(written) => {
                    rest = &rest[written..];
                    at += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(holes)
}

/// Cuts bytes into what is written and what is left out.
fn runs(bytes: &[u8]) -> Vec<(usize, usize, bool)> {
    if bytes.len() < HOLE {
        return vec![(0, bytes.len(), false)];
    }
    let mut found: Vec<(usize, usize, bool)> = Vec::new();
    for (number, step) in bytes.chunks(STEP).enumerate() {
        let start = number * STEP;
        let (end, zero) = (start + step.len(), step.iter().all(|byte| *byte == 0));
        match found.last_mut() {
            Some(last) if last.2 == zero => last.1 = end,
            _ => found.push((start, end, zero)),
        }
    }
    for run in &mut found {
        run.2 &= run.1 - run.0 >= HOLE;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_runs_of_zeros_are_left_out() {
        let mut bytes = vec![1; STEP];
        bytes.extend(vec![0; STEP]);
        bytes.extend(vec![1; STEP]);
        bytes.extend(vec![0; HOLE]);
        let holes: Vec<_> = runs(&bytes).into_iter().filter(|run| run.2).collect();
        assert_eq!(holes, [(3 * STEP, 3 * STEP + HOLE, true)]);
        assert_eq!(runs(&[0; 10]), [(0, 10, false)]);
    }

    #[test]
    fn runs_cover_everything_once() {
        let bytes: Vec<u8> = (0..300_000).map(|n| u8::from(n % 100_000 < 5)).collect();
        let mut at = 0;
        for (start, end, _) in runs(&bytes) {
            assert_eq!(start, at);
            at = end;
        }
        assert_eq!(at, bytes.len());
    }
}
