# The agent in a virtual machine: runs the scripts that it is told by a serial port, one line each: NUMBER SECONDS.
# A script, and what it prints, are files of the share. What it leaves running in the background stays.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

# Where udev runs, /dev/net/tun is there before its module is; here it comes with it.
modprobe tun

port=$(grep -lx agent /sys/class/virtio-ports/*/name)
port=${port%/name}
exec 3<>"/dev/${port##*/}"
echo "ready" >&3
while read -r job seconds <&3; do
  cd "/run/machine/$job"
  timeout --kill-after=2 "$seconds" bash ./script </dev/null >out 2>err 3>&-
  echo "$job $?" >&3
done
poweroff -f
