//! The lease as the init of a cell holds it, for when neither the daemon nor the
//! shim is there to end the cell. Its end is in a file in memory that all inits
//! share: a heartbeat is one write of the daemon, however many cells there are.
//! The file is read when the end that is known has come, and every now and then
//! before that, for a lease can be given an end, or an earlier one.
//!
//! The init of a cell is PID 1 of its namespace, so its own end is the end of
//! every process in it.

use crate::WATCHED_LEASE;
use crate::sys::{self, NONE};

/// How often the file is read at least. A lease that is given an end has more
/// time than that: leases are of three seconds or more.
const INTERVAL_NS: u64 = 2_000_000_000;

/// A lease that is watched.
pub struct WatchedLease {
    timer: i32,
    file: i32,
    /// As it was last read; 0 while there is none.
    deadline: u64,
}

impl WatchedLease {
    pub const NONE: Self = Self { timer: NONE, file: NONE, deadline: 0 };

    /// Watches the lease of the first of these files, or none any more.
    pub fn watch(&mut self, epoll: i32, fds: &[i32]) -> sys::Result<()> {
        let Some(file) = fds.first() else {
            sys::close(self.file);
            (self.file, self.deadline) = (NONE, 0);
            return match self.timer {
                NONE => Ok(()),
                timer => sys::set_timer(timer, 0),
            };
        };
        let file = sys::dup_above(*file)?;
        if self.timer == NONE {
            let timer = sys::timer();
            let added = timer.and_then(|timer| sys::epoll_add(epoll, timer, WATCHED_LEASE));
            if let Err(errno) = added {
                sys::close(file);
                timer.map_or((), sys::close);
                return Err(errno);
            }
            self.timer = timer?;
        }
        sys::close(self.file);
        self.file = file;
        self.look();
        Ok(())
    }

    pub fn on_timer(&mut self) {
        let mut count = [0u8; 8];
        let _ = sys::read(self.timer, &mut count);
        if self.file != NONE {
            self.look();
        }
    }

    /// Ends this process where the lease has ended; looks again otherwise.
    fn look(&mut self) {
        let mut end = [0u8; 8];
        if sys::pread(self.file, &mut end, 0) == Ok(end.len()) {
            let end = u64::from_ne_bytes(end);
            if end != 0 {
                self.deadline = end;
            }
        }
        let now = sys::boot_time();
        if self.deadline != 0 && now >= self.deadline {
            sys::exit(0);
        }
        let next = now + INTERVAL_NS;
        let next = if self.deadline == 0 { next } else { next.min(self.deadline) };
        let _ = sys::set_timer(self.timer, next);
    }
}
