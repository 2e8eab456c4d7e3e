//! The calls to the kernel that no safe library offers: attributes of mounts,
//! project quotas, loop devices, btrfs. The only unsafe code of this crate.
//!
//! The structures and numbers are those of the kernel's user API, equal on
//! all 64-bit machines we build for.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::thread::UnshareFlags;

type Result<T> = std::result::Result<T, Errno>;

/// Gives the calling thread a mount namespace and a working directory of its
/// own.
pub(crate) fn unshare_mounts() -> Result<()> {
    // SAFETY: neither flag touches the table of file descriptors, the only
    // thing whose unsharing is unsafe; memory stays as it is.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
}

/// Gives the calling thread a root and a working directory of its own.
pub(crate) fn unshare_directory() -> Result<()> {
    // SAFETY: as above.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
}

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct MountAttr {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) propagation: u64,
    pub(crate) userns_fd: u64,
}

pub(crate) const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
pub(crate) const MS_PRIVATE: u64 = 1 << 18;

/// Changes the mount (with `recursive`, all mounts) that this descriptor holds.
pub(crate) fn mount_setattr(
    mount: impl AsFd,
    recursive: bool,
    attributes: &MountAttr,
) -> Result<()> {
    const SYS_MOUNT_SETATTR: libc::c_long = 442;
    let mut flags = libc::AT_EMPTY_PATH;
    if recursive {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: the path is a C string, and the structure lives through the call
    // with the size that is passed; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            SYS_MOUNT_SETATTR,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<MountAttr>(),
        )
    };
    check(result)
}

fn check(result: libc::c_long) -> Result<()> {
    if result == -1 {
        return Err(last());
    }
    Ok(())
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// SAFETY of callers: `T` must be what the kernel reads or writes for
/// `request`.
unsafe fn ioctl<T>(fd: BorrowedFd<'_>, request: u64, argument: &mut T) -> Result<i32> {
    // SAFETY: the argument lives through the call and, as the caller
    // guarantees, has the layout and size that the request works on.
    let result = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            request,
            std::ptr::from_mut(argument).cast::<c_void>(),
        )
    };
    if result == -1 {
        return Err(last());
    }
    Ok(result)
}

/// `struct if_dqblk`. Limits count in blocks of 1024 bytes, usage in bytes.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Quota {
    pub(crate) hard_blocks: u64,
    pub(crate) soft_blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) hard_inodes: u64,
    pub(crate) soft_inodes: u64,
    pub(crate) inodes: u64,
    block_time: u64,
    inode_time: u64,
    pub(crate) valid: u32,
}

/// SAFETY of callers: `argument` must be what the kernel reads or writes for
/// `command`.
unsafe fn quotactl<T>(file: BorrowedFd<'_>, command: u32, id: u32, argument: &mut T) -> Result<()> {
    const SYS_QUOTACTL_FD: libc::c_long = 443;
    const PROJECT: u32 = 2;
    // SAFETY: as for `ioctl`.
    let result = unsafe {
        libc::syscall(
            SYS_QUOTACTL_FD,
            file.as_raw_fd(),
            (command << 8) | PROJECT,
            id,
            std::ptr::from_mut(argument).cast::<c_void>(),
        )
    };
    check(result)
}

/// Whether project quotas are enforced on the file system of this file.
pub(crate) fn project_quota_enforced(file: impl AsFd) -> Result<bool> {
    const Q_XGETQSTATV: u32 = 0x5808;
    const PROJECT_ENFORCED: u16 = 1 << 5;
    /// `struct fs_quota_statv`, of which we read the beginning.
    #[repr(C)]
    struct Statv {
        version: i8,
        pad: u8,
        flags: u16,
        rest: [u32; 63],
    }
    let mut state = Statv {
        version: 1,
        pad: 0,
        flags: 0,
        rest: [0; 63],
    };
    // SAFETY: the buffer is larger than the structure of this version.
    unsafe { quotactl(file.as_fd(), Q_XGETQSTATV, 0, &mut state)? };
    Ok(state.flags & PROJECT_ENFORCED != 0)
}

/// Limit and usage of a project.
pub(crate) fn project_quota(file: impl AsFd, id: u32) -> Result<Quota> {
    const Q_GETQUOTA: u32 = 0x0080_0007;
    let mut quota = Quota::default();
    // SAFETY: `Quota` is the structure of this command.
    unsafe { quotactl(file.as_fd(), Q_GETQUOTA, id, &mut quota)? };
    Ok(quota)
}

/// Limits a project; zeros take the limit away.
pub(crate) fn set_project_quota(file: impl AsFd, id: u32, blocks: u64, inodes: u64) -> Result<()> {
    const Q_SETQUOTA: u32 = 0x0080_0008;
    const BLOCK_AND_INODE_LIMITS: u32 = 1 | 4;
    let mut quota = Quota {
        hard_blocks: blocks,
        soft_blocks: blocks,
        hard_inodes: inodes,
        soft_inodes: inodes,
        valid: BLOCK_AND_INODE_LIMITS,
        ..Quota::default()
    };
    // SAFETY: `Quota` is the structure of this command.
    unsafe { quotactl(file.as_fd(), Q_SETQUOTA, id, &mut quota) }
}

/// Puts a directory into a project; `inherit` hands it down to what is made in it.
pub(crate) fn set_project(dir: impl AsFd, id: u32, inherit: bool) -> Result<()> {
    const FS_IOC_FSGETXATTR: u64 = 0x801c_581f;
    const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
    const PROJECT_INHERIT: u32 = 0x200;
    /// `struct fsxattr`.
    #[repr(C)]
    #[derive(Default)]
    struct FsXattr {
        flags: u32,
        extent_size: u32,
        extents: u32,
        project: u32,
        cow_extent_size: u32,
        pad: [u8; 8],
    }
    let mut attributes = FsXattr::default();
    // SAFETY: `FsXattr` is the structure of both requests.
    unsafe { ioctl(dir.as_fd(), FS_IOC_FSGETXATTR, &mut attributes)? };
    attributes.project = id;
    if inherit {
        attributes.flags |= PROJECT_INHERIT;
    } else {
        attributes.flags &= !PROJECT_INHERIT;
    }
    // SAFETY: as above.
    unsafe { ioctl(dir.as_fd(), FS_IOC_FSSETXATTR, &mut attributes)? };
    Ok(())
}

/// Discards the free blocks of the file system of this directory.
pub(crate) fn trim(dir: impl AsFd) -> Result<()> {
    const FITRIM: u64 = 0xC018_5879;
    /// `struct fstrim_range`.
    #[repr(C)]
    struct Range {
        start: u64,
        length: u64,
        least: u64,
    }
    let mut all = Range {
        start: 0,
        length: u64::MAX,
        least: 0,
    };
    // SAFETY: `Range` is the structure of the request.
    unsafe { ioctl(dir.as_fd(), FITRIM, &mut all) }.map(drop)
}

/// The number of a loop device that is unused at the moment.
pub(crate) fn free_loop_device(control: impl AsFd) -> Result<i32> {
    const LOOP_CTL_GET_FREE: u64 = 0x4C82;
    let mut nothing = [0_u8; 0];
    // SAFETY: the request takes no argument.
    unsafe { ioctl(control.as_fd(), LOOP_CTL_GET_FREE, &mut nothing) }
}

/// Attaches a file to a loop device, which releases it by itself when its last
/// user is gone.
pub(crate) fn configure_loop(device: impl AsFd, file: impl AsFd) -> Result<()> {
    const LOOP_CONFIGURE: u64 = 0x4C0A;
    const AUTOCLEAR: u32 = 4;
    /// `struct loop_config` with `struct loop_info64` in it.
    #[repr(C)]
    struct LoopConfig {
        file: u32,
        block_size: u32,
        numbers: [u64; 5],
        more_numbers: [u32; 3],
        flags: u32,
        names: [u8; 160],
        init: [u64; 2],
        reserved: [u64; 8],
    }
    let mut config = LoopConfig {
        file: u32::try_from(file.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?,
        block_size: 4096,
        numbers: [0; 5],
        more_numbers: [0; 3],
        flags: AUTOCLEAR,
        names: [0; 160],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: `LoopConfig` is the structure of this request.
    unsafe { ioctl(device.as_fd(), LOOP_CONFIGURE, &mut config)? };
    Ok(())
}

/// The device and the number of the file that a loop device has.
pub(crate) fn loop_file(device: impl AsFd) -> Result<(u64, u64)> {
    const LOOP_GET_STATUS64: u64 = 0x4C05;
    /// `struct loop_info64`, of which the beginning matters here.
    #[repr(C)]
    struct LoopInfo {
        device: u64,
        inode: u64,
        rest: [u64; 27],
    }
    let mut info = LoopInfo {
        device: 0,
        inode: 0,
        rest: [0; 27],
    };
    // SAFETY: `LoopInfo` is as large as the structure of this request.
    unsafe { ioctl(device.as_fd(), LOOP_GET_STATUS64, &mut info)? };
    Ok((info.device, info.inode))
}

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArguments {
    fd: i64,
    name: [u8; 4088],
}

fn volume_arguments(name: &str) -> Result<VolumeArguments> {
    let mut arguments = VolumeArguments {
        fd: 0,
        name: [0; 4088],
    };
    if name.len() > 255 {
        return Err(Errno::NAMETOOLONG);
    }
    arguments.name[..name.len()].copy_from_slice(name.as_bytes());
    Ok(arguments)
}

/// Makes a subvolume with this name in a directory of a btrfs.
pub(crate) fn create_subvolume(dir: impl AsFd, name: &str) -> Result<()> {
    const BTRFS_IOC_SUBVOL_CREATE: u64 = 0x5000_940e;
    let mut arguments = volume_arguments(name)?;
    // SAFETY: `VolumeArguments` is the structure of this request.
    unsafe { ioctl(dir.as_fd(), BTRFS_IOC_SUBVOL_CREATE, &mut arguments)? };
    Ok(())
}

/// Takes a subvolume away with everything in it.
pub(crate) fn destroy_subvolume(dir: impl AsFd, name: &str) -> Result<()> {
    const BTRFS_IOC_SNAP_DESTROY: u64 = 0x5000_940f;
    let mut arguments = volume_arguments(name)?;
    // SAFETY: `VolumeArguments` is the structure of this request.
    unsafe { ioctl(dir.as_fd(), BTRFS_IOC_SNAP_DESTROY, &mut arguments)? };
    Ok(())
}

/// The number of the subvolume that this directory is in.
pub(crate) fn subvolume_id(dir: impl AsFd) -> Result<u64> {
    const BTRFS_IOC_INO_LOOKUP: u64 = 0xd000_9412;
    const FIRST_FREE_OBJECT: u64 = 256;
    #[repr(C)]
    struct Lookup {
        tree: u64,
        object: u64,
        name: [u8; 4080],
    }
    let mut lookup = Lookup {
        tree: 0,
        object: FIRST_FREE_OBJECT,
        name: [0; 4080],
    };
    // SAFETY: `Lookup` is the structure of this request.
    unsafe { ioctl(dir.as_fd(), BTRFS_IOC_INO_LOOKUP, &mut lookup)? };
    Ok(lookup.tree)
}

/// Limits the subvolume that this directory is in.
pub(crate) fn limit_subvolume(dir: impl AsFd, bytes: u64) -> Result<()> {
    const BTRFS_IOC_QGROUP_LIMIT: u64 = 0x8030_942b;
    const MAX_REFERENCED: u64 = 1;
    // The group (0: the one of this subvolume), then flags and limits.
    let mut limit: [u64; 6] = [0, MAX_REFERENCED, bytes, 0, 0, 0];
    // SAFETY: six 64-bit numbers are the structure of this request.
    unsafe { ioctl(dir.as_fd(), BTRFS_IOC_QGROUP_LIMIT, &mut limit)? };
    Ok(())
}

/// Takes the quota group of a subvolume away.
pub(crate) fn destroy_qgroup(dir: impl AsFd, id: u64) -> Result<()> {
    const BTRFS_IOC_QGROUP_CREATE: u64 = 0x4010_942a;
    let mut arguments: [u64; 2] = [0, id];
    // SAFETY: two 64-bit numbers are the structure of this request.
    unsafe { ioctl(dir.as_fd(), BTRFS_IOC_QGROUP_CREATE, &mut arguments)? };
    Ok(())
}

/// The id of a btrfs, by which `/sys/fs/btrfs` knows it.
pub(crate) fn btrfs_id(dir: impl AsFd) -> Result<[u8; 16]> {
    const BTRFS_IOC_FS_INFO: u64 = 0x8400_941f;
    #[repr(C)]
    struct Info {
        numbers: [u64; 2],
        id: [u8; 16],
        rest: [u64; 124],
    }
    let mut info = Info {
        numbers: [0; 2],
        id: [0; 16],
        rest: [0; 124],
    };
    // SAFETY: `Info` is as large as the structure of this request: 1024 bytes.
    unsafe { ioctl(dir.as_fd(), BTRFS_IOC_FS_INFO, &mut info)? };
    Ok(info.id)
}
