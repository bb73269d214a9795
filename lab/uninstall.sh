#!/bin/bash
# make uninstall: removes what `make install` put in place. An operator's own configuration stays, and so do flow logs.
#   lab/uninstall.sh DESTDIR PREFIX [PROGRAM]
set -eu
destination=$1 prefix=$2
# What an installation consists of is what one makes.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lab/install.sh "$scratch" "${@:2}" >/dev/null

if [ -z "$destination" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now --quiet bifrost bifrost-bfd bifrost-dhcp || true
fi
(cd "$scratch" && find . -type f ! -path './etc/*' -printf '%P\0') | (cd "$destination/" && xargs -0 rm -f)
rm -rf "$destination$prefix/share/doc/bifrost"
if [ -z "$destination" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
echo "Removed. $destination/etc/bifrost is yours and stays."
