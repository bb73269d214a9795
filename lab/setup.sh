#!/bin/bash
# Installs the Debian packages that are missing, and does nothing (in milliseconds) when none is.
#   lab/setup.sh build   what compiling needs
#   lab/setup.sh lint    what checking the style needs
#   lab/setup.sh package  what packages are made with
#   lab/setup.sh lab     what the demo and the system tests need: routing daemons and measuring tools
#   lab/setup.sh machines  what tests in virtual machines need: QEMU, and Debian's kernels (lab/machines.sh)
set -eu

declare -A packages=(
  [build]="gcc libc6-dev clang llvm libbpf-dev linux-libc-dev"
  [lint]="clang-format"
  [package]="binutils dpkg-dev rpm"
  [lab]="iproute2 ethtool iputils-ping traceroute iperf3 nfdump nfdump-sflow tcpdump tshark python3-scapy bird2 frr nftables procps python3-pyftpdlib curl dpdk-dev keepalived ndisc6 kea-dhcp4-server kea-dhcp6-server unbound chrony rsyslog busybox bind9-dnsutils openssh-server lldpd dhcpcd-base"
  [machines]="qemu-system-x86 kmod"
)

wanted=""
for kind in "$@"; do wanted+=" ${packages[$kind]}"; done

missing=""
for package in $wanted; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=" $package"
done
case " $* " in *" machines "*) fetch_kernels=$(dirname "$0")/machines.sh ;; *) fetch_kernels=true ;; esac
[ -n "$missing" ] || exec "$fetch_kernels"

echo "Installing what is missing:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "Neither root nor sudo here. As root: apt-get install$missing" >&2; exit 1; }
  as_root="sudo"
fi
$as_root apt-get -o DPkg::Lock::Timeout=300 update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -q -y --no-install-recommends $missing

# The lab starts its own routing daemons inside namespaces. Debian starts the packages' daemons on the machine
# itself, where nobody asked for them: those that came with this installation are stopped again.
# chrony and rsyslog go on: the machine's own clock and log are theirs from then on.
for service in lldpd:lldpd openssh-server:ssh bird2:bird frr:frr kea-dhcp4-server:kea-dhcp4-server kea-dhcp6-server:kea-dhcp6-server unbound:unbound; do
  case " $missing " in
    *" ${service%%:*} "*) [ ! -d /run/systemd/system ] || $as_root systemctl disable --now --quiet "${service##*:}" ;;
  esac
done

"$fetch_kernels"
