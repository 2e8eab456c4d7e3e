//! The last step before an emulator: a program that runs as the emulator's
//! user, inside its cell and its system call filter, and replaces itself by
//! the emulator. It does what only that process can do for itself:
//!
//! 1. Takes over open files. The one message in the socket that is its
//!    standard input carries them; they become descriptors 4, 5, … in the
//!    order of the message. Descriptor 3 is a copy of standard output, so
//!    that a log needs no `/proc/self/fd/1`. Standard input becomes
//!    `/dev/null`.
//! 2. Restricts itself by Landlock, where the kernel has it: files can be
//!    read, only devices written, only the programs named with `-x` executed;
//!    no TCP, no abstract sockets and no signals to others. Files that were
//!    handed over are not affected.
//!
//! Usage: `jail [-x PATH]… -- PROGRAM [ARGUMENT]…`
//!
//! Built apart from the workspace like the init, without any library.
#![no_std]
#![no_main]

mod landlock;
#[path = "../init/start.rs"]
mod start;
mod sys;

use core::ffi::{CStr, c_char};

/// The copy of standard output.
const LOG: i32 = 3;
/// The first descriptor that is handed over.
const FIRST: i32 = 4;
/// The most descriptors of one message.
const MAX_FDS: usize = 64;
/// The most programs that can be named.
const MAX_PROGRAMS: usize = 8;
/// What a shell answers when it cannot execute a program.
const CANNOT_EXECUTE: i32 = 126;

/// What failed, and with which errno.
type Failure = (&'static str, i32);

fn main(argc: usize, argv: *const usize) -> ! {
    // SAFETY: the kernel lays out argc pointers, a null, the environment.
    let words = unsafe { core::slice::from_raw_parts(argv, argc) };
    // SAFETY: as above.
    let environment = unsafe { argv.add(argc + 1) };
    let (what, errno) = run(words, environment);
    let mut digits = [0u8; 12];
    for part in [b"jail: cannot ", what.as_bytes(), b": errno ", decimal(errno, &mut digits), b"\n"] {
        let _ = sys::write(2, part);
    }
    sys::exit(CANNOT_EXECUTE)
}

/// Becomes the program; comes back only with a failure.
fn run(words: &[usize], environment: *const usize) -> Failure {
    let mut programs: [&CStr; MAX_PROGRAMS] = [c""; MAX_PROGRAMS];
    let mut named = 0;
    let mut at = 1;
    let command = loop {
        match words.get(at).map(|word| text(*word).to_bytes()) {
            Some(b"--") => break &words[at + 1..],
            Some(b"-x") if named < MAX_PROGRAMS && at + 1 < words.len() => {
                programs[named] = text(words[at + 1]);
                (named, at) = (named + 1, at + 2);
            }
            _ => return ("read its arguments", sys::EINVAL),
        }
    };
    let [program, ..] = command else {
        return ("find a program to execute", sys::EINVAL);
    };
    if let Err(failure) = take_files().and_then(|()| landlock::restrict(&programs[..named])) {
        return failure;
    }
    // The list ends with the null pointer that ends the arguments.
    let errno = sys::execve(text(*program), command.as_ptr(), environment);
    ("execute the program", errno)
}

fn text(word: usize) -> &'static CStr {
    // SAFETY: the kernel ends every argument with a NUL, and none moves.
    unsafe { CStr::from_ptr(word as *const c_char) }
}

/// Puts the files that were handed over in their places.
fn take_files() -> Result<(), Failure> {
    let failed = |what: &'static str| move |errno| (what, errno);
    sys::close_from(LOG);
    sys::dup_to(1, LOG).map_err(failed("copy standard output"))?;
    let mut fds = [0i32; MAX_FDS];
    let count = sys::receive(0, &mut fds).map_err(failed("receive its files"))?;
    // The kernel takes the lowest numbers that are free, in order.
    let expected = |(i, fd): (usize, &i32)| *fd == FIRST + i as i32;
    if !fds[..count].iter().enumerate().all(expected) {
        return Err(("number its files", sys::EINVAL));
    }
    let null = sys::open(c"/dev/null", sys::O_RDWR).map_err(failed("open /dev/null"))?;
    sys::dup_to(null, 0).map_err(failed("close its socket"))?;
    sys::close(null);
    Ok(())
}

fn decimal(number: i32, digits: &mut [u8; 12]) -> &[u8] {
    let (mut rest, mut at) = (number.unsigned_abs(), digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &digits[at..];
        }
    }
}
