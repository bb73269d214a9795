# The agent in a virtual machine: runs the scripts that it is told by a serial port, one line each: NUMBER SECONDS.
# A script, and what it prints, are files of the share. What it leaves running in the background stays.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

# There is no udev but with systemd: the drivers of network cards are loaded here, and /dev/net/tun comes with its
# module. The cards are named by their slots.
[ ! -d /run/udev ] || udevadm settle
nic=0
for device in /sys/bus/pci/devices/*; do
  case $(<"$device/class") in
    0x02*)
      for alias in "$device"/{,virtio*/}modalias; do [ ! -e "$alias" ] || modprobe "$(<"$alias")"; done
      for interface in "$device"/{,virtio*/}net/*; do
        [ ! -e "$interface" ] || ip link set "${interface##*/}" name "nic$nic"
      done
      nic=$((nic + 1)) ;;
  esac
done
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
