//! The floor: what the kernel alone needs for the same processes.

use std::ffi::CString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::stats::Times;

/// The namespaces of a cell.
const CELL: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;

/// clone3 with the namespaces of a cell, exec, wait.
pub(crate) fn cell(program: &str, times: usize) -> Result<Times> {
    repeat(times, || clone_exec_wait(program, CELL))
}

/// The same with a network namespace.
pub(crate) fn cell_with_network(program: &str, times: usize) -> Result<Times> {
    repeat(times, || {
        clone_exec_wait(program, CELL | libc::CLONE_NEWNET)
    })
}

/// The same without any namespace.
pub(crate) fn process(program: &str, times: usize) -> Result<Times> {
    repeat(times, || clone_exec_wait(program, 0))
}

/// fork and exec as the standard library does it, until exec is done.
pub(crate) fn spawn(program: &str, times: usize) -> Result<Times> {
    repeat(times, || {
        let begin = Instant::now();
        let mut child = Command::new(program)
            .arg("true")
            .stdout(Stdio::null())
            .spawn()?;
        let taken = begin.elapsed();
        child.wait()?;
        Ok(taken)
    })
}

fn repeat(times: usize, mut once: impl FnMut() -> Result<Duration>) -> Result<Times> {
    (0..times)
        .map(|_| once())
        .collect::<Result<_>>()
        .map(Times::new)
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs([u64; 11]);

#[allow(unsafe_code)]
fn clone_exec_wait(program: &str, namespaces: i32) -> Result<Duration> {
    let path = CString::new(program)?;
    let word = CString::new("true")?;
    let argv = [path.as_ptr(), word.as_ptr(), std::ptr::null()];
    let mut args = CloneArgs::default();
    args.0[0] = namespaces.cast_unsigned().into();
    args.0[4] = libc::SIGCHLD as u64;
    let begin = Instant::now();
    // SAFETY: the child calls nothing but exec and exit, which are safe after
    // a fork of a threaded process; all it reads was made before.
    let status = unsafe {
        match libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) {
            0 => {
                libc::execv(path.as_ptr(), argv.as_ptr());
                libc::_exit(127)
            }
            -1 => return Err(std::io::Error::last_os_error().into()),
            pid => {
                let mut status = 0;
                libc::waitpid(pid as i32, &raw mut status, 0);
                status
            }
        }
    };
    let taken = begin.elapsed();
    if status != 0 {
        return Err(format!("the floor's process ended with {status}").into());
    }
    Ok(taken)
}
