#!/bin/bash
# Fetches what the lab's virtual machines run, and does nothing (in milliseconds) when it is there.
#
# That is three of Debian's own kernels with their modules, and a static busybox for the first moments of a boot. The
# packages are not installed: they are unpacked below /var/cache/bifrost-lab/machines, each kernel in a folder by the name
# that tests give it. They come from this machine's own Debian mirror (or DEBIAN_MIRROR), but from releases that its apt need
# not know: apt is asked with sources and lists of their own, so that the machine's stay as they are.
#
#   /var/cache/bifrost-lab/machines/busybox
#   /var/cache/bifrost-lab/machines/6.12/{release,vmlinuz,modules}    release: what uname -r says there
#
# A kernel that is there is kept. Remove its folder to get a newer one.
set -eu

cache=/var/cache/bifrost-lab/machines
kernels="6.1=bookworm 6.12=trixie newest=trixie-backports"

missing=""
for kernel in $kernels; do [ -e "$cache/${kernel%%=*}/release" ] || missing+=" $kernel"; done
[ -n "$missing" ] || [ ! -x "$cache/busybox" ] || exit 0

fail() { echo "The lab's virtual machines are not ready: $1" >&2; exit 1; }

[ "$(id -u)" = 0 ] || { command -v sudo >/dev/null || fail "run lab/setup.sh machines as root"; exec sudo -E "$0"; }
[ "$(dpkg --print-architecture)" = amd64 ] || fail "they are x86-64 ones, which would crawl on this machine"

# One run at a time; another that waited finds everything there.
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock -w 900 9 || fail "another run of lab/machines.sh has held $cache/.lock for 15 minutes"

mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)}
[ -n "$mirror" ] || fail "apt knows no Debian mirror here: name one in DEBIAN_MIRROR"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || fail "$keys is missing: apt-get install debian-archive-keyring"

work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Makes $work/SUITE, where apt knows that suite and nothing else.
knows() {
  [ ! -d "$work/$1" ] || return 0
  mkdir -p "$work/$1/lists/partial" "$work/$1/cache/archives/partial"
  echo "deb [arch=amd64 signed-by=$keys] $mirror $1 main" >"$work/$1/sources"
  apt_of "$1" get -qq update || fail "the packages of $1 cannot be listed from $mirror"
}

apt_of() {
  local tool=apt-$2 own=$work/$1
  shift 2
  "$tool" -o Dir::Etc::sourcelist="$own/sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$own/lists" \
    -o Dir::Cache="$own/cache" -o Acquire::Languages=none -o Acquire::Retries=3 -o Acquire::http::Timeout=60 \
    -o APT::Sandbox::User=root "$@"
}

# unpacked SUITE FOLDER PACKAGE...
unpacked() {
  local suite=$1 folder=$2
  shift 2
  mkdir -p "$folder"
  (cd "$folder" && apt_of "$suite" get -qq download "$@") || fail "$* cannot be fetched from $mirror"
  for package in "$folder"/*.deb; do dpkg-deb -x "$package" "$folder"; done
}

if [ ! -x "$cache/busybox" ]; then
  knows bookworm
  unpacked bookworm "$work/busybox" busybox-static
  mv "$work/busybox/bin/busybox" "$cache/busybox"
fi

for kernel in $kernels; do
  name=${kernel%%=*} suite=${kernel##*=}
  [ ! -e "$cache/$name/release" ] || continue
  echo "Fetching Debian's kernel for the lab's virtual machines: $name, of $suite"
  knows "$suite"
  # The package of the suite's kernel depends on those that hold it; which ones has changed over the years.
  packages=$(apt_of "$suite" cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces linux-image-amd64 | grep -oE '^linux-(image|binary|modules|base)-[0-9][^ ]*-amd64$' | sort -u)
  [ -n "$packages" ] || fail "$suite has no linux-image-amd64"
  unpacked "$suite" "$work/$name" $packages
  modules=$(find "$work/$name" -path '*/lib/modules/*/kernel' -prune -printf '%h\n')
  [ -d "$modules" ] || fail "there are no modules in $packages"
  image=$(find "$work/$name" -type f -name 'vmlinuz*')
  [ -f "$image" ] || fail "there is no kernel in $packages"
  release=${modules##*/}
  made=$work/made-$name
  mkdir "$made"
  mv "$image" "$made/vmlinuz"
  # depmod wants the tree it knows from a root: lib/modules/RELEASE.
  mkdir -p "$work/root-$name/lib/modules"
  mv "$modules" "$work/root-$name/lib/modules/$release"
  depmod -b "$work/root-$name" "$release"
  mv "$work/root-$name/lib/modules/$release" "$made/modules"
  echo "$release" >"$made/release"
  rm -rf "${cache:?}/$name"
  mv "$made" "$cache/$name"
done
