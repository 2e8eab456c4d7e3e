//! A guest without our binary: busybox as its init, drivers, and a script.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use strata_machines::image::{Archive, add_files};

use super::image::with_busybox;
use super::kernel_dir;

/// Mounts what every program expects, loads the drivers, and takes the address
/// that the kernel's command line holds.
const INIT: &str = "\
#!/bin/sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
cd /lib/modules
while read -r module; do insmod \"$module\"; done <order
cd /
ip link set lo up
for word in $(cat /proc/cmdline); do
  case $word in ip=*) address=${word#ip=}; rest=${address#*::}; gateway=${rest%%:*}; address=${address%%:*} ;; esac
done
if [ -n \"$address\" ]; then
  ip link set eth0 up
  ip addr add $address/24 dev eth0
  ip route add default via $gateway
fi
";

/// The kernel that guests of tests boot.
pub fn kernel() -> PathBuf {
    kernel_dir().join("vmlinuz")
}

/// Writes an initramfs that runs a shell script once the guest is up. The
/// script must not end.
///
/// # Errors
/// When the file cannot be written.
pub fn small_initramfs(to: &Path, script: &str) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(to)?));
    for dir in ["bin", "lib", "lib/modules", "etc"] {
        archive.directory(dir, 0o755)?;
    }
    with_busybox(&mut archive)?;
    add_files(&mut archive, &kernel_dir().join("modules"), "lib/modules")?;
    archive.file("init", 0o755, format!("{INIT}{script}\n").as_bytes())?;
    archive.finish().map(drop)
}
