#!/bin/bash
# make package: a .deb and, where rpmbuild is, an .rpm, of what `make install` installs, in target/package. The program is stripped; its debug
# symbols lie beside the packages, and gdb and perf find them by the program's build id.
#   lab/package.sh [PROGRAM]
set -eu
program=${1:-target/release/bifrost}
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=target/package
tree=$out/tree
rm -rf "$out"
mkdir -p "$out"

lab/install.sh "$PWD/$tree" /usr "$program" >/dev/null
objcopy --only-keep-debug "$tree/usr/sbin/bifrost" "$out/bifrost-$version.debug"
objcopy --strip-all --add-gnu-debuglink="$out/bifrost-$version.debug" "$tree/usr/sbin/bifrost"
gzip -9n "$tree"/usr/share/man/man*/*
mkdir -p "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: bifrost
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: Bifrost <root@localhost>
Section: net
Priority: optional
Depends: libc6, libgcc-s1
Recommends: iproute2, nftables, tcpdump
Installed-Size: $(du -sk "$tree" | cut -f1)
Description: router for Linux: Linux is the control plane, Bifrost forwards
 Takes the ports that you name and forwards what passes through, along
 Linux's routes, by XDP. When it ends, Linux forwards in its stead.
CONTROL
# An operator's own file outlives upgrades, and goes with `dpkg --purge` alone.
echo /etc/bifrost/router.toml >"$tree/DEBIAN/conffiles"
# Only a machine that runs systemd has services; a service that runs goes on with the old program until it is restarted.
cat >"$tree/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
[ -z "${DPKG_ROOT:-}" ] || exit 0
[ ! -d /run/systemd/system ] || systemctl daemon-reload
SCRIPT
cat >"$tree/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
[ -z "${DPKG_ROOT:-}" ] || exit 0
[ "$1" != remove ] || [ ! -d /run/systemd/system ] || { systemctl disable --now bifrost bifrost-bfd; systemctl stop bifrost-dhcp; }
SCRIPT
cp "$tree/DEBIAN/postinst" "$tree/DEBIAN/postrm"
chmod 0755 "$tree"/DEBIAN/{postinst,prerm,postrm}
dpkg-deb --root-owner-group --build "$tree" "$out" >/dev/null
rm -rf "$tree/DEBIAN"

if command -v rpmbuild >/dev/null; then
  # Where the distributions of .rpm have their libraries.
  mkdir -p "$tree/usr/lib64"
  mv "$tree"/usr/lib/*/wireshark "$tree/usr/lib64/"
  cat >"$out/bifrost.spec" <<SPEC
Name: bifrost
Version: $version
Release: 1
Summary: Router for Linux: Linux is the control plane, Bifrost forwards
License: MIT OR Apache-2.0
# Stripped already.
%define __strip /bin/true
%define debug_package %{nil}
%define _build_id_links none
%description
Takes the ports that you name and forwards what passes through, along
Linux's routes, by XDP. When it ends, Linux forwards in its stead.
%install
cp -a $PWD/$tree/. %{buildroot}/
%post
[ ! -d /run/systemd/system ] || systemctl daemon-reload
%preun
[ "\$1" != 0 ] || [ ! -d /run/systemd/system ] || { systemctl disable --now bifrost bifrost-bfd; systemctl stop bifrost-dhcp; }
%postun
[ ! -d /run/systemd/system ] || systemctl daemon-reload
%files
%config(noreplace) /etc/bifrost/router.toml
$(cd "$tree" && find . -type f ! -path ./etc/bifrost/router.toml -printf '/%P\n')
SPEC
  rpmbuild -bb --quiet --define "_topdir $PWD/$out/rpm" --define "_rpmdir $PWD/$out" "$out/bifrost.spec"
  rm -rf "$out/rpm" "$out/bifrost.spec"
fi
rm -rf "$tree"
find "$out" -type f -printf '%s %p\n'
