//! Randomness and clocks of the thread that simulates. Hash maps, identifiers
//! and `tokio::select!` take their randomness from the C library, and records
//! their times: here both are functions of the seed and of virtual time. So the
//! simulated code is that of the product, without a seam for each of them.
//!
//! The symbols of this module replace those of the C library in programs that
//! link this crate, which only the simulation does. All threads but the one
//! that called [`begin`] get what the kernel has.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::time::Duration;

use crate::chance::step;

/// The simulation begins at this time: 2030-01-01.
const BEGIN: Duration = Duration::from_secs(1_893_456_000);

thread_local! {
    static RANDOM: Cell<Option<u64>> = const { Cell::new(None) };
    /// Since the beginning, and what the wall clock of the current process is
    /// ahead by, in nanoseconds.
    static TIME: Cell<Option<(u64, i64)>> = const { Cell::new(None) };
}

/// From now on this thread has the randomness of this seed, and virtual time.
pub(crate) fn begin(seed: u64) {
    RANDOM.set(Some(seed ^ 0x5eed_5eed_5eed_5eed));
    TIME.set(Some((0, 0)));
}

/// The time since the beginning, and by how much the wall clock is ahead.
pub(crate) fn set_time(elapsed: Duration, ahead_ns: i64) {
    let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    TIME.set(Some((elapsed, ahead_ns)));
}

/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(
    buffer: *mut c_void,
    length: usize,
    flags: c_uint,
) -> isize {
    let Some(mut state) = RANDOM.try_with(Cell::get).ok().flatten() else {
        // SAFETY: the arguments are those of the caller.
        let got = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return isize::try_from(got).unwrap_or(-1);
    };
    for at in 0..length {
        let byte = step(&mut state).to_le_bytes()[0];
        // SAFETY: the caller's buffer has this length.
        unsafe { buffer.cast::<u8>().add(at).write(byte) };
    }
    RANDOM.set(Some(state));
    isize::try_from(length).unwrap_or(-1)
}

/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    to: *mut libc::timespec,
) -> c_int {
    let time = TIME.try_with(Cell::get).ok().flatten();
    let virtual_time = time.and_then(|(elapsed, ahead)| match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let wall = i128::from(elapsed) + i128::from(ahead);
            Some(wall + i128::try_from(BEGIN.as_nanos()).unwrap_or(0))
        }
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
            Some(i128::from(elapsed) + 1_000_000_000_000_000)
        }
        _ => None,
    });
    let Some(ns) = virtual_time else {
        // SAFETY: the arguments are those of the caller.
        let done = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) };
        return c_int::try_from(done).unwrap_or(-1);
    };
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(0),
        tv_nsec: libc::c_long::try_from(ns % 1_000_000_000).unwrap_or(0),
    };
    // SAFETY: the caller's pointer is to such a structure.
    unsafe { to.write(time) };
    0
}

/// The way in which some libraries look for `getrandom`. In a static program
/// that finds nothing else either.
///
/// # Safety
/// As of the C library.
#[cfg(target_feature = "crt-static")]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlsym(_library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: a name is a string.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"getrandom" => getrandom as *mut c_void,
        _ => std::ptr::null_mut(),
    }
}
