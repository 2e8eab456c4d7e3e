#!/bin/sh
# Runs "$@" with a libvirt of its own: mounts, processes and libvirtd's network
# are private, and all of it ends with the last process. $WORLD is its folder.
set -e
mount --make-rprivate /
own=$WORLD/libvirt
for place in run lib log cache etc; do mkdir -p "$own/$place"; done
mount --bind "$own/run" /run
for place in lib log cache; do mount --bind "$own/$place" "/var/$place/libvirt"; done
mount --bind "$own/etc" /etc/libvirt
mkdir -p /var/lib/libvirt/qemu "$WORLD/pool"
printf 'auth_unix_ro = "none"\nauth_unix_rw = "none"\n' > /etc/libvirt/libvirtd.conf
# No users, groups, cgroups or labels of others are touched.
cat > /etc/libvirt/qemu.conf <<X
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
X
unshare -n libvirtd > "$WORLD/libvirtd.log" 2>&1 &
tries=0
until virsh -q -c qemu:///system list > /dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -lt 300 ] || { cat "$WORLD/libvirtd.log"; exit 1; }
  sleep 0.1
done
virsh -q -c qemu:///system pool-create-as default dir --target "$WORLD/pool"
virsh -q -c qemu:///system define "$WORLD/machine.xml"
exec "$@"
