//! The jail (`jail/`): a tiny program that takes over open files, restricts
//! itself by Landlock and becomes an emulator. Its place is between a cell's
//! init, which gives every run the same three files, and a program that is
//! not trusted with more than it is handed.

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

/// The program itself, an executable without libraries.
pub const JAIL: &[u8] = include_bytes!(env!("STRATA_JAIL"));
/// Where the program finds a copy of its standard output.
pub const JAIL_LOG_FD: u32 = 3;
/// The number of the first file that is handed over; the others follow.
pub const JAIL_FIRST_FD: u32 = 4;
/// The most files that can be handed over.
pub const JAIL_MAX_FDS: usize = 64;

/// What the jail is given as its standard input: a socket with one message,
/// which carries these files.
pub fn hand_over(files: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    if files.is_empty() || files.len() > JAIL_MAX_FDS {
        let why = format!(
            "{} files cannot be handed over: 1 to {JAIL_MAX_FDS} can",
            files.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut space =
        [const { std::mem::MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(JAIL_MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("the files do not fit a message"));
    }
    sendmsg(
        &ours,
        &[IoSlice::new(b"f")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(theirs)
}

/// The words that run a command through the jail, which is found at `path`:
/// of all programs, these alone can be executed.
pub fn jailed(path: &str, programs: &[&str], command: &[String]) -> Vec<String> {
    let mut words = vec![path.to_owned()];
    for program in programs {
        words.extend(["-x".to_owned(), (*program).to_owned()]);
    }
    words.push("--".to_owned());
    words.extend_from_slice(command);
    words
}

/// Which version of Landlock this kernel has; none without it.
#[allow(unsafe_code)]
pub fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_long = 1;
    let none = std::ptr::null::<u8>();
    // SAFETY: queries a number; no memory is passed.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
    u32::try_from(answer).ok().filter(|version| *version > 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Runs a shell through the jail; what it wrote and whether it succeeded.
    fn run(files: &[BorrowedFd<'_>], programs: &[&str], script: &str) -> (String, bool) {
        let stdin = hand_over(files).unwrap();
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        let words = jailed(env!("STRATA_JAIL"), programs, &command);
        let output = Command::new(&words[0])
            .args(&words[1..])
            .stdin(stdin)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.success())
    }

    /// The shell and its loader, wherever links lead.
    fn shell() -> Vec<String> {
        let found = [
            "/bin/sh",
            "/lib64/ld-linux-x86-64.so.2",
            "/lib/ld-linux-aarch64.so.1",
        ];
        let real = found
            .iter()
            .filter_map(|path| std::fs::canonicalize(path).ok());
        real.map(|path| path.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn files_arrive_under_their_numbers_and_the_log_is_a_copy_of_the_output() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"handed over\n").unwrap();
        let other = File::open("/dev/null").unwrap();
        let shell = shell();
        let programs: Vec<&str> = shell.iter().map(String::as_str).collect();
        let script = "read -r line <&0; echo \"stdin $?\"; echo log >&3; echo more >&5";
        let more = tempfile::NamedTempFile::new().unwrap();
        let append = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(more.path())
            .unwrap();
        let (said, success) = run(&[other.as_fd(), append.as_fd()], &programs, script);
        assert!(success);
        assert_eq!(said, "stdin 1\nlog\n");
        let mut text = String::new();
        File::open(more.path())
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "more\n");
    }

    #[test]
    fn jailed_process_cannot_write_or_execute_other_files_under_landlock() {
        if landlock_version().is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let null = File::open("/dev/null").unwrap();
        let shell = shell();
        let programs: Vec<&str> = shell.iter().map(String::as_str).collect();
        let target = dir.path().join("made");
        let script = format!(
            "(echo x >{}) 2>/dev/null || echo refused; /bin/ls / 2>/dev/null || echo no-ls",
            target.display()
        );
        let (said, _) = run(&[null.as_fd()], &programs, &script);
        assert_eq!(said, "refused\nno-ls\n");
        assert!(!target.exists());
        let (said, success) = run(&[null.as_fd()], &[], "echo ran");
        assert!(!success && said.is_empty(), "{said}");
    }

    #[test]
    fn a_message_has_one_file_at_least_and_a_bounded_number() {
        assert!(hand_over(&[]).is_err());
        let null = File::open("/dev/null").unwrap();
        assert!(hand_over(&[null.as_fd(); JAIL_MAX_FDS]).is_ok());
        assert!(hand_over(&[null.as_fd(); JAIL_MAX_FDS + 1]).is_err());
    }
}
