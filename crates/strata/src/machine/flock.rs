//! `flock`, which scripts on a machine take locks with and Debian's busybox
//! does not have: a machine's image has this program by that name too.
//!
//! Of all that the known one can, it is what takes or leaves the lock of its
//! own standard input: `flock 0 <&9` locks what the shell has opened as 9.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::FlockOperation;

use super::say;

const NAME: &str = "flock";

/// The arguments, when this process was called by that name.
pub(crate) fn asked_for() -> Option<Vec<OsString>> {
    let mut words = std::env::args_os();
    let program = words.next()?;
    let asked = Path::new(&program).file_name()? == NAME;
    asked.then(|| words.collect())
}

/// Succeeds when it was done.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let Some(operation) = operation(words) else {
        say("flock: usage: flock [-n|-u] 0 <&FILE");
        return ExitCode::from(64);
    };
    loop {
        return match rustix::fs::flock(std::io::stdin(), operation) {
            Ok(()) => ExitCode::SUCCESS,
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::WOULDBLOCK) => ExitCode::FAILURE,
            Err(error) => {
                say(&format!("flock: {error}"));
                ExitCode::from(65)
            }
        };
    }
}

fn operation(words: &[OsString]) -> Option<FlockOperation> {
    let words: Vec<_> = words.iter().map(|word| word.to_str()).collect();
    match words[..] {
        [Some("0")] => Some(FlockOperation::LockExclusive),
        [Some("-n"), Some("0")] => Some(FlockOperation::NonBlockingLockExclusive),
        [Some("-u"), Some("0")] => Some(FlockOperation::Unlock),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_calls_are_rejected() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            operation(&words)
        };
        assert_eq!(of(&["0"]), Some(FlockOperation::LockExclusive));
        let once = Some(FlockOperation::NonBlockingLockExclusive);
        assert_eq!(of(&["-n", "0"]), once);
        assert_eq!(of(&["-u", "0"]), Some(FlockOperation::Unlock));
        for other in [&["9"][..], &[], &["-s", "0"], &["0", "true"]] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
