#!/bin/sh
# The first program of a virtual machine, run by busybox: makes a root of the host's, over which the guest may write into
# its memory, and starts the agent there.
set -e

fail() { echo "machine: $1" >/dev/console; exec poweroff -f; }

# The others are found by /proc.
/bin/busybox mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules.list); do
  insmod "/modules/$module" || fail "the module $module cannot be loaded"
done

tagged() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" || fail "no share '$1'"; }
tagged host /host cache=loose,ro
mount -t tmpfs -o size=75% above /above
mkdir /above/upper /above/work
mount -t overlay -o lowerdir=/host,upperdir=/above/upper,workdir=/above/work root /root || fail "no overlay"

mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts pts /root/dev/pts
for folder in dev/shm run tmp; do mount -t tmpfs tmpfs "/root/$folder"; done
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
mount -t bpf bpf /root/sys/fs/bpf
mount -t debugfs debugfs /root/sys/kernel/debug
mount -t tracefs tracefs /root/sys/kernel/tracing

mkdir -p /root/run/machine /root/run/lock
tagged share /root/run/machine cache=none
mkdir -p /root/usr/lib/modules
ln -sfn "$(cat /modules.folder)" "/root/usr/lib/modules/$(uname -r)"
hostname machine
ip link set lo up
if grep -q machine.systemd /proc/cmdline; then
  units=/root/etc/systemd/system
  printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=agent.service\n' >$units/machine.target
  printf '[Unit]\nAfter=basic.target\n[Service]\nExecStart=/bin/bash /run/machine/agent\nKillMode=process\n' >$units/agent.service
  # The host's disks are not here.
  : >/root/etc/fstab
  exec switch_root /root /lib/systemd/systemd --unit=machine.target
fi
exec switch_root /root /bin/bash /run/machine/agent
